"""Tests bulk copies, which one thread issues for a whole block. They check the generated text, the tensor maps that are
passed at launch, and copies that must be refused.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cuda_on_host import HostRunError
from cuda_on_host.agreement import Case, agree
from cuda_on_host.modules import run_modules
from gpu_kernels import allocate, assign, blocks, buffer, emulated, random_arrays, threads, windows

from vdla.compiler.codegen.cuda.bulk_copies import TensorMap, groups_needed
from vdla.compiler.codegen.cuda.errors import LoweringError
from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.codegen.cuda.module import ParameterArgument, TensorMapArgument, lower
from vdla.compiler.codegen.cuda.nvrtc import compile_cubin
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.codegen.cuda.races import RaceError
from vdla.compiler.ir.expr import Buffer, ExprLike, Var
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.kernels import kernels
from vdla.compiler.ir.stmt import Commit, Copy, Program, Wait, region, seq
from vdla.compiler.ir.types import DType
from vdla.compiler.runtime.archive_fields import Field
from vdla.compiler.runtime.cuda_device import TensorAt
from vdla.compiler.runtime.cuda_launches import (
    describe_kernel_launches,
    described_kernel_launches,
    kernel_calls,
)

TARGET = cuda_target("sm_90")


def cube() -> Program:
    """A program that copies a box out of the middle of the five-dimensional array X to Y, by one bulk copy to shared
    memory.
    """
    x, y = buffer("X", 2, 3, 4, 5, 32, dtype=DType.INT8), buffer("Y", 96, dtype=DType.INT8)
    s = buffer("S", 2, 3, 16, scope="shared", dtype=DType.INT8)
    source = region(x, (1, 1), (1, 2), (3, 1), (1, 3), (8, 16))
    bring = Copy(
        name="bring", destination=region(s, (0, 2), (0, 3), (0, 16)), source=source, asynchronous=True
    )
    use = threads("t", 96, lambda t: assign(y, t, s[t // 48, t // 16 % 3, t % 16]))
    body = allocate(seq(bring, Commit(), Wait(pending=0), use), s)
    return Program(name="cube", parameters=(x, y), body=blocks("b", 1, lambda _: body))


def both() -> Program:
    """A program of Y = X + Z, with the elements reversed in each block. One bulk copy fetches a block of X; each thread
    fetches one element of Z by an asynchronous copy. One commit and one wait cover both kinds of copies.
    """
    x, z, y = buffer("X", 64), buffer("Z", 64), buffer("Y", 64)
    s, t = buffer("S", 32, scope="shared"), buffer("T", 32, scope="shared")
    b = Var("b")

    def copy(name: str, to: Buffer, at: ExprLike, of: Buffer, first: ExprLike, size: int) -> Copy:
        return Copy(
            name=name,
            destination=region(to, (at, size)),
            source=region(of, (first, size)),
            asynchronous=True,
        )

    body = seq(
        copy("whole", s, 0, x, b * 32, 32),
        threads("u", 32, lambda u: copy("shared", t, u, z, b * 32 + u, 1)),
        Commit(),
        Wait(pending=0),
        threads("v", 32, lambda v: assign(y, b * 32 + v, s[31 - v] + t[31 - v])),
    )
    return Program(name="both", parameters=(x, z, y), body=blocks("b", 2, lambda _: allocate(body, s, t)))


def test_text_and_emulation_do_what_the_program_says():
    cases = [Case(name=p.name, program=p) for p in (windows(), cube(), both())]
    agree(cases, TARGET, orders=3)
    program = windows()
    arrays = random_arrays(program)
    wanted = interpret(program, arrays, poison=False)["Y"]
    np.testing.assert_array_equal(emulated(prepare(program, TARGET), arrays)["Y"], wanted)


def test_launches_hand_over_tensor_maps():
    module = lower(prepare(windows(), TARGET), TARGET)
    tensor = TensorMap(element_bytes=4, shape=(7, 20), box=(4, 8), swizzle=0)
    (launch,) = module.launches
    assert launch.arguments == (
        ParameterArgument(name="Y"),
        TensorMapArgument(array=ParameterArgument(name="X"), tensor=tensor),
    )
    described = json.loads(json.dumps(describe_kernel_launches(module.launches)))
    entry = Field(path=Path("net.tar"), name="launches", value=described)
    assert described_kernel_launches(entry, module.parameters, module.workspace_bytes) == module.launches
    (call,) = kernel_calls(module, {"X": 4096, "Y": 8192}, 0)
    assert call.arguments == (8192, TensorAt(address=4096, tensor=tensor))
    # The array has no other name in the kernel: it is read through its map alone.
    assert (
        "const __grid_constant__ TensorMap X_map" in module.source and "* __restrict__ X" not in module.source
    )
    assert compile_cubin(module.source, "sm_90")[:4] == b"\x7fELF"


def test_mbarriers_are_as_many_as_groups_that_threads_may_not_all_have_waited_for():
    for ahead in (1, 2, 3):
        (kernel,) = kernels(prepare(windows(ahead=ahead), TARGET))
        assert groups_needed(kernel) == ahead
    # All of them where no barrier says that others have waited.
    (kernel,) = kernels(windows())
    assert groups_needed(kernel) == 5 + 2


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("    wait_bulk<2, 1>(groups);\n", "", "wait for one another"),
        ("[%0], 1;", "[%0], 2;", "wait for one another"),
        ("& 3) * 32], &X_map", "& 3) * 32 + 4], &X_map", "is not a multiple of 128"),
        ("    wait_bulk<3, 0>(groups);\n", "", "a bulk copy is not waited for"),
    ],
    ids=["no wait", "an arrival too many", "not aligned", "no last wait"],
)
def test_wrong_text_is_found_out(right: str, wrong: str, message: str):
    program = windows(steps=1) if "<3" in right else windows()
    module = lower(prepare(program, TARGET), TARGET)
    assert right in module.source, module.source
    broken = replace(module, source=module.source.replace(right, wrong))
    with pytest.raises(HostRunError, match=message):
        run_modules([(broken, random_arrays(program))], orders=2)


def test_copies_that_hardware_has_not_are_refused():
    def refused(program: Program, *words: str, arch: str = "sm_90") -> None:
        with pytest.raises(LoweringError) as caught:
            lower(prepare(program, cuda_target(arch)), cuda_target(arch))
        assert all(word in str(caught.value) for word in words), caught.value

    refused(windows(), "sm_80 cannot copy for a whole block", "-arch=sm_90", arch="sm_80")
    refused(
        windows(columns=21),
        "rows and planes of X: float32[7, 21] @ dram must be multiples of 16 bytes, not 84 bytes",
    )
    refused(windows(pad=1.0), "a bulk copy pads with 0 and cannot pad with 1.0")
    with pytest.raises(RaceError, match="before the wait that covers the copy"):
        prepare(windows(pending=2), TARGET)
