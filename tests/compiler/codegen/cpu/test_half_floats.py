"""float16 and bfloat16 on processors, and rounding to tf32: every pattern of 16 bits, and values near rounding
boundaries.
"""

from __future__ import annotations

import numpy as np
import pytest

from vdla.compiler.codegen.cpu.kernel import build
from vdla.compiler.ir.expr import Buffer, Call, Var, cast, maximum, select
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.stmt import Assign, Program, Reduce, nest
from vdla.compiler.ir.types import DType
from vdla.compiler.schedule import Schedule
from vdla.compiler.te.functions import FUNCTIONS

F32 = DType.FLOAT32
HALVES = (DType.FLOAT16, DType.BFLOAT16)


def elementwise(size, source, result, value):
    x, y = Buffer(name="X", shape=(size,), dtype=source), Buffer(name="Y", shape=(size,), dtype=result)
    i = Var("i")
    body = nest([(i, size)], Assign(name="convert", buffer=y, indices=(i,), value=value(x[i])))
    return Program(name="convert", parameters=(x, y), body=body)


def run(program, x, lanes):
    if lanes > 1:
        s = Schedule(program)
        _, inner = s.split("i", lanes)
        s.vectorize(inner)
        program = s.program
    y = np.zeros(program.parameters[1].shape, program.parameters[1].dtype.numpy)
    build(program)(X=x, Y=y)
    return y


def same(a, b):
    """Whether two arrays have equal bits where they are not NaN; asserts that their NaNs are in the same places."""
    nan = np.isnan(a.astype(np.float32))
    assert np.array_equal(nan, np.isnan(b.astype(np.float32)))
    view = {2: np.int16, 4: np.int32}[a.dtype.itemsize]
    return np.array_equal(a.view(view)[~nan], b.view(view)[~nan])


def every(dtype):
    return np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)


def around(dtype):
    """float32 values for tests of rounding to a 16-bit float type: all finite values of the type, the midpoints between
    neighbours, the float32 numbers next to each midpoint, special values, and zeros up to a multiple of 16 values.
    """
    wide = np.sort(every(dtype).astype(np.float32))
    wide = wide[np.isfinite(wide)]
    middle = ((wide[1:].astype(np.float64) + wide[:-1]) / 2).astype(np.float32)
    more = np.float32([np.inf, -np.inf, np.nan, 65519.996, 65520, 65536, 3e38, 1e-45, -0.0])
    values = np.concatenate([wide, middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf), more])
    return np.pad(values, (0, -len(values) % 16))


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("dtype", HALVES)
def test_conversions(dtype, lanes):
    bits = every(dtype)
    program = elementwise(len(bits), dtype, F32, lambda v: cast(v, F32))
    assert same(run(program, bits, lanes), bits.astype(np.float32))
    values = around(dtype)
    program = elementwise(len(values), F32, dtype, lambda v: cast(v, dtype))
    with np.errstate(all="ignore"):
        assert same(run(program, values, lanes), values.astype(dtype.numpy))


@pytest.mark.parametrize("dtype", HALVES)
def test_arithmetic_rounds_after_each_operation(dtype):
    values = np.random.default_rng(1).standard_normal(512).astype(dtype.numpy)
    program = elementwise(512, dtype, dtype, lambda v: maximum(v * v - 0.25, select(v < 0.5, v + 1.5, v)))
    wanted = interpret(program, {"X": values})["Y"]
    assert same(run(program, values, 1), wanted)
    assert same(run(program, values, 8), wanted)


@pytest.mark.parametrize("op", ["add", "max"])
def test_reduction(op):
    x, y = (Buffer(name=n, shape=s, dtype=DType.FLOAT16) for n, s in (("X", (8, 32)), ("Y", (8,))))
    i, k = Var("i"), Var("k")
    reduce = Reduce(name="r", op=op, buffer=y, indices=(i,), value=x[i, k])
    program = Program(name="reduce", parameters=(x, y), body=nest([(i, 8), (k, 32)], reduce))
    values = np.random.default_rng(2).standard_normal((8, 32)).astype(np.float16)
    out = np.full(8, -4, np.float16)
    wanted = interpret(program, {"X": values, "Y": out})["Y"]
    build(program)(X=values, Y=out)
    assert same(out, wanted)


def test_round_tf32():
    rng = np.random.default_rng(3)
    values = rng.integers(0, 1 << 32, 4096, dtype=np.uint32).view(np.float32)
    ties = (rng.integers(0, 1 << 19, 4096, dtype=np.uint32) << np.uint32(13) | np.uint32(0x1000)).view(
        np.float32
    )
    more = np.float32([np.inf, -np.inf, np.nan, 3.4e38, -3.4e38, 0.0, -0.0, 1.0])
    values = np.concatenate([values, ties, more])
    program = elementwise(len(values), F32, F32, lambda v: Call("round_tf32", (v,), F32))
    assert same(run(program, values, 8), FUNCTIONS["round_tf32"](values))
