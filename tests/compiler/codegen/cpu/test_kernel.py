"""Calling compiled kernels: checks of arguments, targets, and the dot-product instruction against its declaration."""

from __future__ import annotations

import numpy as np
import pytest

from vdla.compiler.codegen.cpu import intrinsics
from vdla.compiler.codegen.cpu.errors import KernelArgumentError, LoweringError, TargetError
from vdla.compiler.codegen.cpu.kernel import build
from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.codegen.cpu.module import lower
from vdla.compiler.codegen.cpu.x86_levels import host_target_at
from vdla.compiler.ir.expr import Buffer, Const, Var
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.stmt import Alloc, Assign, Intrinsic, Program, nest, region, seq
from vdla.compiler.ir.types import DType
from vdla.util.errors import UserError

ROW = Var("i")


@pytest.fixture(scope="module")
def double():
    x, y = (
        Buffer(name="X", shape=(4, 2), dtype=DType.FLOAT32),
        Buffer(name="Y", shape=(4, 2), dtype=DType.FLOAT32),
    )
    put = Assign(name="put", buffer=y, indices=(ROW, Var("j")), value=x[ROW, Var("j")] * 2.0)
    return build(Program(name="double", parameters=(x, y), body=nest([(ROW, 4), (Var("j"), 2)], put)))


def array(**changes):
    base = np.arange(8, dtype=changes.get("dtype", np.float32))
    return base.reshape(changes.get("shape", (4, 2)))


def read_only():
    y = np.zeros((4, 2), np.float32)
    y.flags.writeable = False
    return y


def misaligned():
    return np.zeros(33, np.uint8)[1:].view(np.float32).reshape(4, 2)


def shared():
    y = np.zeros((5, 2), np.float32)
    return {"X": y[1:], "Y": y[:4]}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": array()}, "double: no array was given for Y"),
        ({"X": array(), "Y": array(), "Z": array()}, "double has no parameter Z; it has X, Y"),
        ({"X": [[1.0]], "Y": array()}, "double: X must be a numpy array, not list"),
        (
            {"X": array(dtype=np.float64), "Y": array()},
            "X must be float32, not float64; convert it with .astype",
        ),
        ({"X": array(dtype=">f4"), "Y": array()}, "X must be float32, not >f4"),
        ({"X": array(shape=(2, 4)), "Y": array()}, "X must have shape (4, 2), not (2, 4)"),
        ({"X": array(shape=(2, 4)).T, "Y": array()}, "X must be contiguous and aligned"),
        ({"X": misaligned(), "Y": array()}, "X must be contiguous and aligned"),
        ({"X": array(), "Y": read_only()}, "Y is read-only, but the kernel writes it"),
        (shared(), "Y, which the kernel writes, shares memory with X"),
    ],
)
def test_unfit_arrays(double, arrays, message):
    with pytest.raises(KernelArgumentError) as caught:
        double(**arrays)
    assert message in str(caught.value)
    assert isinstance(caught.value, UserError)


def test_bound_kernels_keep_their_arrays(double):
    bound = double.bind({"X": array(), "Y": (y := np.zeros((4, 2), np.float32))})
    bound()
    np.testing.assert_array_equal(y, array() * 2)
    assert double.outputs == {"Y"}


def test_unknown_levels():
    with pytest.raises(TargetError, match="unknown CPU level 'mmx'; there are avx512, avx2, sse, generic"):
        host_target_at("mmx")


def test_vectors_follow_the_level():
    assert host_target_at("generic").lanes(DType.FLOAT32) == 4
    assert not host_target_at("generic").fused_multiply_add
    assert host_target().vector_bits in (128, 256, 512)


def dots(lanes, scope="register"):
    """A program that uses the dot-product instruction of `lanes` sums twice, accumulating in a buffer in the memory
    `scope` that starts at 2**31 - 5, and then stores the sums.
    """
    declaration = intrinsics.dot_u8s8(lanes)
    x = Buffer(name="X", shape=(2, 4), dtype=DType.UINT8)
    w = Buffer(name="W", shape=(2, lanes, 4), dtype=DType.INT8)
    t = Buffer(name="T", shape=(lanes,), dtype=DType.INT32, scope=scope)
    y = Buffer(name="Y", shape=(lanes,), dtype=DType.INT32)
    use = Intrinsic(
        name="dot",
        declaration=declaration,
        operands=(
            region(t, (0, lanes)),
            region(x, (ROW, 1), (0, 4)),
            region(w, (ROW, 1), (0, lanes), (0, 4)),
        ),
    )
    j, k = Var("j"), Var("k")
    clear = Assign(name="clear", buffer=t, indices=(j,), value=Const(2**31 - 5, DType.INT32))
    out = Assign(name="out", buffer=y, indices=(k,), value=t[k,])
    body = seq(nest([(j, lanes)], clear), nest([(ROW, 2)], use), nest([(k, lanes)], out))
    return Program(name="dots", parameters=(x, w, y), body=Alloc(buffer=t, body=body))


@pytest.mark.parametrize("lanes", [1, 7, 16])
def test_the_instruction_equals_its_meaning(lanes):
    if not host_target().dot_product:
        with pytest.raises(LoweringError, match="this CPU has no such instruction"):
            build(dots(lanes))
        return
    rng = np.random.default_rng(lanes)
    arrays = {
        "X": rng.choice([0, 1, 255], (2, 4)).astype(np.uint8),
        "W": rng.choice([-128, -1, 127], (2, lanes, 4)).astype(np.int8),
        "Y": np.zeros(lanes, np.int32),
    }
    expected = interpret(dots(lanes), arrays)["Y"]
    build(dots(lanes))(**arrays)
    np.testing.assert_array_equal(arrays["Y"], expected)


def test_the_instruction_needs_its_cpu():
    with pytest.raises(LoweringError, match="this CPU has no such instruction; leave it as loops"):
        lower(dots(16), host_target_at("generic"))


def test_instructions_are_known_by_name():
    for name, declaration in intrinsics.intrinsics().items():
        assert declaration.name == name
        intrinsics.emission_of(declaration)
