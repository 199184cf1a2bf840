"""GPU targets as users name them, and the known properties of each architecture."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vdla.compiler.codegen.cuda.architectures import ARCHITECTURES, STATIC_SHARED_BYTES
from vdla.compiler.codegen.cuda.errors import CudaTargetError
from vdla.compiler.codegen.cuda.machine import architecture, architecture_for, cuda_target
from vdla.compiler.codegen.cuda.module import lower
from vdla.compiler.codegen.cuda.nvrtc import compile_cubin
from vdla.compiler.codegen.cuda.options import parse_target
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.ir.stmt import Program
from vdla.compiler.ir.types import DType
from vdla.compiler.te.ops.product import Matrices, tensor_product
from vdla.compiler.templates.gpu import gemm


def test_targets():
    assert parse_target("cuda") == cuda_target("sm_90")
    assert parse_target("cuda -arch=sm_80") == cuda_target("sm_80")
    assert parse_target("cuda -tf32 -arch=sm_90a") == cuda_target("sm_90a", tensor_float=True)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", 'does not begin with "cuda"'),
        ("llvm", 'does not begin with "cuda"'),
        (
            "cuda -arch=sm_77",
            "unknown GPU architecture 'sm_77'; there are sm_80, sm_86, sm_89, sm_90, sm_90a",
        ),
        ("cuda -arch", "-arch needs a value: -arch=sm_90"),
        ("cuda -arch=", "-arch needs a value"),
        ("cuda -mcpu=h100", "unknown target option -mcpu; there are -arch=NAME and -tf32"),
        ("cuda -tf32=1", "-tf32 takes no value"),
        ("cuda -tf32 -tf32", "-tf32 is given twice"),
    ],
)
def test_what_is_wrong_is_named(text: str, says: str):
    with pytest.raises(CudaTargetError) as caught:
        parse_target(text)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_digests_tell_targets_apart():
    h100 = cuda_target("sm_90")
    others = [
        cuda_target("sm_80"),
        cuda_target("sm_90a"),
        replace(h100, tensor_float=True),
        replace(h100, multiprocessors=114),
        replace(h100, memory_bandwidth=2e12),
    ]
    assert len({target.digest for target in (h100, *others)}) == 1 + len(others)
    assert h100.digest == cuda_target("sm_90").digest


def test_peaks_are_those_of_the_data_sheets():
    """Peak rates equal the data sheets': 19.5 (float32) and 156 TFLOP/s (tf32) for A100, 82.6 for RTX 4090, 66.9 for
    H100 SXM, whose data sheet gives the rate of tensor cores at a lower clock.
    """
    assert cuda_target("sm_80").peak() == pytest.approx(19.5e12, rel=0.01)
    assert cuda_target("sm_80").peak("tf32") == pytest.approx(156e12, rel=0.01)
    assert cuda_target("sm_80").peak("float16") == pytest.approx(312e12, rel=0.01)
    assert cuda_target("sm_80").peak("int8") == pytest.approx(624e12, rel=0.01)
    assert cuda_target("sm_89").peak() == pytest.approx(82.6e12, rel=0.01)
    assert cuda_target("sm_90").peak() == pytest.approx(66.9e12, rel=0.01)
    assert replace(cuda_target("sm_90"), clock=1.83e9).peak("float16") == pytest.approx(989.4e12, rel=0.01)


def test_code_for_a_device_is_that_of_the_newest_architecture_that_it_runs():
    assert architecture_for((8, 0)).name == "sm_80"
    assert architecture_for((8, 7)).name == "sm_86"
    assert architecture_for((9, 0)).name == "sm_90a"
    assert architecture_for((10, 3)).name == "sm_100"
    assert architecture_for((12, 1)).name == "sm_120"
    with pytest.raises(CudaTargetError, match=r"compute capability 7\.5"):
        architecture_for((7, 5))


def test_code_runs_on_its_own_generation_only():
    assert architecture("sm_80").runs_on((8, 9))
    assert not architecture("sm_86").runs_on((8, 0))
    assert not architecture("sm_80").runs_on((9, 0))
    assert architecture("sm_90a").runs_on((9, 0))
    assert not architecture("sm_90a").runs_on((9, 1))
    # Kernels with products of warpgroups are compiled for sm_90a.
    assert architecture("sm_90").runs_on((9, 0)) and not architecture("sm_90").runs_on((9, 1))


def test_products_of_warpgroups_are_compiled_for_their_own_architecture():
    def of(arch: str, product: Program) -> tuple[bool, str]:
        target = cuda_target(arch)
        source = lower(prepare(gemm.schedule(target, product).program, target), target).source
        assert compile_cubin(source, target.compiled_for(source)).startswith(b"\x7fELF")
        return "wgmma" in source, target.compiled_for(source)

    large, line = (
        tensor_product(Matrices(rows=rows, depth=64, columns=64), DType.FLOAT16) for rows in (64, 1)
    )
    assert of("sm_90", large) == of("sm_90a", large) == (True, "sm_90a")
    assert of("sm_90", line) == (False, "sm_90")
    assert of("sm_80", large) == (False, "sm_80")


def test_limits_are_consistent():
    for row in ARCHITECTURES:
        assert STATIC_SHARED_BYTES < row.shared_bytes_per_block < row.shared_bytes
        assert row.threads % row.blocks == 0
        assert architecture_for(row.capability).capability == row.capability
