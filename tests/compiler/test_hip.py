"""HIP C++: the text compiles for wavefronts of 32 and of 64 lanes, and computes the right numbers as C++ on this
processor. No device runs it.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from cuda_networks import gpu_graph
from cuda_on_host.modules import run_modules
from cuda_on_host.networks import run_network
from float_networks import FloatNetwork, inferred_shape, relative, runtime

import vdla as package
from vdla.compiler.codegen.cuda.dialect import Dialect
from vdla.compiler.codegen.cuda.module import lower
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.codegen.hip.dialect import DEFINITIONS, HIP
from vdla.compiler.codegen.hip.machine import HipTarget, parse_target
from vdla.compiler.ir.types import DType
from vdla.compiler.templates.gpu import generic
from vdla.compiler.templates.gpu.flat import flattened

HEADER = Path(__file__).parents[1] / "helpers" / "hip_header"
"""Folder of `hip/hip_runtime.h`, declarations in place of AMD's header."""
TARGET = parse_target("hip")


@dataclass(frozen=True, slots=True, kw_only=True)
class OnHost(HipTarget):
    """HIP kernels without HIP's header and without guards, so that each text may be in a namespace of its own."""

    @property
    def dialect(self) -> Dialect:
        return replace(HIP, functions=DEFINITIONS, prelude="")


ON_HOST = OnHost(**asdict(TARGET))


def compile_text(text: str, architecture: str) -> None:
    """Compiles HIP source text to assembly for an AMD GPU of this architecture, by the clang in the package ziglang.
    Raises CalledProcessError if clang reports an error or a warning.
    """
    subprocess.run(
        [
            *(sys.executable, "-m", "ziglang", "clang", "-x", "hip", "-S", "-o", "-", "-"),
            *("-nogpuinc", "-nogpulib", "--offload-device-only", f"--offload-arch={architecture}"),
            *("-O0", "-Werror", "-Wall", "-Wno-unused-const-variable", "-isystem", HEADER),
        ],
        input=text,
        text=True,
        check=True,
        stdout=subprocess.DEVNULL,
    )


def network() -> FloatNetwork:
    """A network of convolutions of three kinds, pools, sums, functions, products, and softmax and normalization of
    rows.
    """
    net = FloatNetwork(1, 5, 14, 13)
    net.convolution(12, (3, 3), pads=[1] * 4)
    first = net.add("Relu")
    net.convolution(12, (3, 3), pads=[1] * 4, group=12)
    net.add("Add", first)
    net.add("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    net.shape = inferred_shape(net)
    net.convolution(17, (1, 1))
    net.add("Sigmoid")
    net.add("GlobalAveragePool")
    net.add("Flatten")
    net.add("Gemm", net.weights(17, 31), net.weights(31))
    net.add("Erf")
    net.add("LayerNormalization", net.weights(31), net.weights(31))
    net.add("Softmax", axis=-1)
    net.shape = inferred_shape(net)
    return net


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The member kernels.hip of a network's file."""
    from vdla.codesign.cli.main import main

    folder = tmp_path_factory.mktemp("hip")
    (folder / "net.onnx").write_bytes(network().model())
    arguments = ["compile", str(folder / "net.onnx"), "--target", "hip", "-o", str(folder / "net.tar")]
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr(sys, "argv", ["vdla", *arguments])
        main()
    assert not ended.value.code
    with tarfile.open(folder / "net.tar") as archive:
        member = archive.extractfile("kernels.hip")
        assert member is not None
        return member.read().decode()


# Wavefronts of 64 and of 32 lanes.
@pytest.mark.parametrize("architecture", ["gfx90a", "gfx1100"])
def test_the_text_of_a_network_compiles(kernels: str, architecture: str) -> None:
    assert kernels.count("__global__") > 5 and "asm" not in kernels and "warp" not in kernels
    compile_text(kernels, architecture)


def test_kernels_compute_what_onnxruntime_computes() -> None:
    net = network()
    model, x = net.model(), np.random.default_rng(2).standard_normal(net.input_shape, np.float32)
    (result,) = run_network(gpu_graph(model), {"x": x}, ON_HOST, orders=2).values()
    assert relative(result, runtime(model, {"x": x})[net.last]) < 1e-5


def on_host(expression: package.Tensor, **arrays: np.ndarray) -> np.ndarray:
    """The result of an expression's HIP kernels, as C++ on this processor."""
    program = flattened(package.program_of(expression))
    module = lower(prepare(generic.schedule(ON_HOST, program).program, ON_HOST), ON_HOST)
    ((found,),) = [made.values() for made in run_modules([(module, arrays)], orders=1)]
    return found


def test_a_nan_stays_in_both_operands() -> None:
    a, b = (package.placeholder(name, (9,)) for name in "AB")
    y = package.compute("Y", (9,), lambda i: package.maximum(a[i], 0.5) + package.minimum(0.5, b[i]))
    numbers = np.array([np.nan, -np.inf, 2], np.float32)
    given = {"A": np.repeat(numbers, 3), "B": np.tile(numbers, 3)}
    np.testing.assert_array_equal(
        on_host(y, **given), np.maximum(given["A"], np.float32(0.5)) + np.minimum(given["B"], np.float32(0.5))
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_floats_of_16_bits(dtype: str) -> None:
    x = package.placeholder("X", (65536,), "float32")
    rounded = package.compute("R", (65536,), lambda i: package.cast(x[i], dtype))
    y = package.compute("Y", (65536,), lambda i: package.cast(rounded[i], "float32"))
    program = flattened(package.program_of(y))
    compile_text(lower(prepare(generic.schedule(TARGET, program).program, TARGET), TARGET).source, "gfx90a")
    if dtype == "bfloat16":  # g++ 12 has no _Float16.
        values = np.arange(65536, dtype=np.uint32) << 16
        # Between two numbers of 16 bits, at the middle, and beside it.
        values += np.random.default_rng(0).choice(np.array([0, 1, 0x7FFF, 0x8000, 0x8001], np.uint32), 65536)
        given = values.view(np.float32)
        with np.errstate(invalid="ignore", over="ignore"):
            expected = given.astype(ml_dtypes.bfloat16).astype(np.float32)
        np.testing.assert_array_equal(on_host(y, X=given), expected)


def test_running_and_tuning_hip_kernels_is_refused(tmp_path: Path, vdla: Callable[..., object]) -> None:
    (tmp_path / "net.onnx").write_bytes(network().model())
    for arguments in (
        ("run", tmp_path / "net.onnx", "--target", "hip"),
        ("tune", "--workload", "gemm:8x8x8", "--target", "hip", "-o", tmp_path / "r.jsonl"),
    ):
        made = vdla(*arguments)
        assert made.code == 2 and "--target hip -o FILE.tar`, and compile its kernels.hip" in made.err
    with pytest.raises(package.UserError, match="HIP kernels can be written but not run"):
        package.compile(network().model(), "hip")
    with pytest.raises(package.UserError, match="unknown target option -arch"):
        parse_target("hip -arch=gfx90a")
    assert DType.FLOAT16 in HIP.types
