"""Scalar functions in generated code are accurate, compared with float64 over their whole ranges."""

from __future__ import annotations

import numpy as np
import pytest

from vdla.compiler.codegen.cpu.errors import LoweringError
from vdla.compiler.codegen.cpu.kernel import build
from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.codegen.cpu.module import lower
from vdla.compiler.ir.expr import Buffer, Call, Const, Var
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.stmt import Assign, Program, nest
from vdla.compiler.ir.types import DType
from vdla.compiler.schedule import Schedule
from vdla.compiler.te.functions import FUNCTIONS

F32 = DType.FLOAT32
SIZE = 4096
# Largest error in units of the last place of the exact result; below the least normal number, of that number.
ULPS = {"exp": 2, "log": 2, "sqrt": 0, "tanh": 3, "sigmoid": 3, "erf": 3}


def elementwise(function, size):
    x, y = Buffer(name="X", shape=(size,), dtype=F32), Buffer(name="Y", shape=(size,), dtype=F32)
    i = Var("i")
    assign = Assign(name="apply", buffer=y, indices=(i,), value=Call(function, (x[i],), F32))
    return Program(name=function, parameters=(x, y), body=nest([(i, size)], assign))


def vectorized(program, lanes):
    s = Schedule(program)
    _, inner = s.split("i", lanes)
    s.vectorize(inner)
    return s.program


def points(function):
    rng = np.random.default_rng(0)
    spread = {"exp": 110, "tanh": 12, "sigmoid": 100, "erf": 6, "log": 50, "sqrt": 50}[function]
    plain = rng.uniform(-spread, spread, SIZE // 2)
    tiny = rng.choice([-1, 1], SIZE // 2) * 2.0 ** rng.uniform(-149, 4, SIZE // 2)
    values = np.concatenate([plain, tiny]).astype(np.float32)
    if function == "log":
        values = np.abs(values)
        values[: SIZE // 4] = 2.0 ** rng.uniform(-149, 127, SIZE // 4).astype(np.float32)
    if function == "sqrt":
        values = np.abs(values)
    return values


def exact(function, values):
    wide = values.astype(np.float64)
    if function == "sigmoid":
        return 1 / (1 + np.exp(-wide))
    if function == "erf":
        from math import erf

        return np.array([erf(v) for v in wide])
    return getattr(np, function)(wide)


@pytest.mark.parametrize("function", sorted(ULPS))
@pytest.mark.parametrize("lanes", [1, 16])
def test_accuracy(function, lanes):
    program = elementwise(function, SIZE)
    kernel = build(program if lanes == 1 else vectorized(program, lanes))
    x = points(function)
    y = np.empty_like(x)
    kernel(X=x, Y=y)
    with np.errstate(over="ignore"):
        expected = exact(function, x)
        limit = np.spacing(np.maximum(np.abs(expected).astype(np.float32), np.finfo(np.float32).tiny))
    # Rounding the exact value already costs half a unit.
    finite = np.isfinite(expected.astype(np.float64)) & (np.abs(expected) < 3.4e38)
    error = np.abs(y[finite].astype(np.float64) - expected[finite]) / limit[finite]
    worst = int(error.argmax())
    assert error[worst] <= ULPS[function] + 0.5, (x[finite][worst], y[finite][worst], expected[finite][worst])


@pytest.mark.parametrize(
    ("function", "values"),
    [
        ("exp", {-np.inf: 0.0, np.inf: np.inf, 0.0: 1.0, 89.5: np.inf, -110.0: 0.0}),
        ("log", {0.0: -np.inf, np.inf: np.inf, 1.0: 0.0, -1.0: np.nan, -np.inf: np.nan}),
        ("tanh", {-np.inf: -1.0, np.inf: 1.0, 0.0: 0.0, 50.0: 1.0}),
        ("sigmoid", {-np.inf: 0.0, np.inf: 1.0, 0.0: 0.5}),
        ("erf", {-np.inf: -1.0, np.inf: 1.0, 0.0: 0.0}),
        ("sqrt", {np.inf: np.inf, 0.0: 0.0, -1.0: np.nan}),
    ],
)
def test_special_values(function, values):
    x = np.array([*values, np.nan], np.float32)
    y = np.empty_like(x)
    build(elementwise(function, x.size))(X=x, Y=y)
    np.testing.assert_array_equal(y, np.array([*values.values(), np.nan], np.float32))
    meaning = interpret(elementwise(function, x.size), {"X": x}, functions=FUNCTIONS)["Y"]
    np.testing.assert_array_equal(y, meaning)


def test_unknown_function_has_no_code():
    with pytest.raises(LoweringError, match="function gamma is not supported"):
        build(elementwise("gamma", 4))


def test_erf_of_a_quotient_divides_nothing():
    """erf(x / constant), which GELU contains, is compiled without a division: it would take as long as the rest of the
    function.
    """
    x, y = Buffer(name="X", shape=(SIZE,), dtype=F32), Buffer(name="Y", shape=(SIZE,), dtype=F32)
    i, root = Var("i"), np.float32(np.sqrt(2))
    value = Call("erf", (Call("divide", (x[i], Const(float(root), F32)), F32),), F32)
    program = Program(
        name="erf",
        parameters=(x, y),
        body=nest([(i, SIZE)], Assign(name="put", buffer=y, indices=(i,), value=value)),
    )
    given = points("erf")
    result = np.empty_like(given)
    built = vectorized(program, 16)
    assert "fdiv" not in lower(built, host_target()).text
    build(built)(X=given, Y=result)
    expected = exact("erf", given.astype(np.float64) / float(root))
    # A unit of the argument is at most a unit of the result.
    error = np.abs(result - expected) / np.spacing(np.abs(expected).astype(np.float32))
    assert error.max() <= ULPS["erf"] + 1.5
