"""Functions that are computed in float64: results are the nearest float32 or its neighbour; special values are as IEEE
754 defines.
"""

from __future__ import annotations

import numpy as np
import pytest

from vdla.compiler.codegen.cpu.kernel import build
from vdla.compiler.ir.expr import Buffer, Call, Var
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.stmt import Assign, Program, nest
from vdla.compiler.ir.types import DType
from vdla.compiler.schedule import Schedule
from vdla.compiler.te.functions import FUNCTIONS
from vdla.compiler.te.scalars import DOUBLES

F32 = DType.FLOAT32
EXACT = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
}
INSIDE = {
    "asin": 1.0,
    "acos": 1.0,
    "atanh": 1.0,
    "sinh": 89.0,
    "cosh": 89.0,
    "sin": 1e9,
    "cos": 1e9,
    "tan": 1e6,
}


def program(function: str, *arrays: np.ndarray) -> Program:
    inputs = [Buffer(name=f"X{k}", shape=a.shape, dtype=F32) for k, a in enumerate(arrays)]
    y = Buffer(name="Y", shape=arrays[0].shape, dtype=F32)
    i = Var("i")
    value = Call(function, tuple([x[i] for x in inputs]), F32)
    assign = Assign(name="apply", buffer=y, indices=(i,), value=value)
    plain = Program(name=function, parameters=(*inputs, y), body=nest([(i, arrays[0].size)], assign))
    s = Schedule(plain)
    _, inner = s.split("i", 8)
    s.vectorize(inner)
    return s.program


def computed(function: str, *arrays: np.ndarray) -> np.ndarray:
    y = np.empty_like(arrays[0])
    build(program(function, *arrays))(**{f"X{k}": a for k, a in enumerate(arrays)}, Y=y)
    return y


@pytest.mark.parametrize("function", DOUBLES)
def test_accuracy(function: str) -> None:
    rng = np.random.default_rng(0)
    most = INSIDE.get(function, 1e30)
    values = rng.choice([-1, 1], 2048) * most * 2.0 ** rng.uniform(-60, 0, 2048)
    x = (np.abs(values) + 1 if function == "acosh" else values).astype(np.float32)
    expected = getattr(np, EXACT.get(function, function))(x.astype(np.float64))
    spacing = np.spacing(np.maximum(np.abs(expected), np.finfo(np.float32).tiny).astype(np.float32))
    got = computed(function, x)
    worst = int((np.abs(got - expected) / spacing).argmax())
    assert abs(got[worst] - expected[worst]) <= 0.51 * spacing[worst], (x[worst], got[worst], expected[worst])
    np.testing.assert_array_equal(computed(function, np.full(8, np.nan, np.float32)), np.nan)


def test_powers() -> None:
    rng = np.random.default_rng(0)
    x = (2.0 ** rng.uniform(-60, 60, 2048)).astype(np.float32)
    y = rng.uniform(-2, 2, 2048).astype(np.float32)
    expected = np.power(x.astype(np.float64), y.astype(np.float64))
    assert (np.abs(computed("power", x, y) / expected - 1) <= 2.0**-23.9).all()
    ends = np.array([-np.inf, -2.5, -1, -0.0, 0, 0.5, 1, 2, 3, np.inf, np.nan], np.float32)
    x, y = (np.ascontiguousarray(a.reshape(-1)) for a in np.meshgrid(ends, ends))
    with np.errstate(all="ignore"):
        wanted = np.power(x, y)
    np.testing.assert_allclose(computed("power", x, y), wanted, rtol=2e-7)
    # 0 to an odd power keeps its sign.
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(computed("power", x, y))[numbers], np.signbit(wanted)[numbers])
    meaning = interpret(program("power", x, y), {"X0": x, "X1": y}, functions=FUNCTIONS)["Y"]
    np.testing.assert_allclose(meaning, wanted, rtol=2e-7)
