"""Programs that are evaluated one loop nest at a time with numpy give the interpreter's results."""

from __future__ import annotations

import numpy as np
import pytest
from every_operator import SAME, STRIDED, arrays_of, expected, programs

from vdla.compiler.ir import iteration_axes, sums_of_products
from vdla.compiler.ir.array_values import EvaluateError
from vdla.compiler.ir.evaluate import evaluate
from vdla.compiler.ir.expr import Buffer, Const, Var, equal, index, minimum
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.stmt import Alloc, Assign, Copy, Program, Reduce, nest, region, seq
from vdla.compiler.ir.types import DType
from vdla.compiler.te.functions import FUNCTIONS
from vdla.compiler.te.ops.convolution import Convolution
from vdla.compiler.te.ops.direct_conv2d import direct_conv2d
from vdla.compiler.te.ops.gemm_convolution import gemm_convolution
from vdla.compiler.te.ops.product import Matrices, product, round_factors
from vdla.compiler.te.ops.winograd import winograd_conv2d

FLOAT = [
    name for name, program in programs().items() if all(p.dtype is DType.FLOAT32 for p in program.parameters)
]


@pytest.mark.parametrize("piece", [1 << 23, 7])
@pytest.mark.parametrize("name", FLOAT)
def test_operators(name, piece, monkeypatch):
    monkeypatch.setattr(iteration_axes, "MOST_ELEMENTS", piece)
    monkeypatch.setattr(sums_of_products, "MOST_FACTOR", piece)
    program = programs()[name]
    found = evaluate(program, arrays_of(program), functions=FUNCTIONS)
    for output, array in expected(name).items():
        np.testing.assert_allclose(found[output], array, rtol=1e-6, atol=1e-7)


X, Y = (Buffer(name=name, shape=(12,), dtype=DType.FLOAT32) for name in "XY")
OUTER, INNER = Var("i"), Var("j")
ZERO = Const(0.0, DType.FLOAT32)


def store(buffer: Buffer, at, value, name: str = "store") -> Assign:
    return Assign(name=name, buffer=buffer, indices=tuple([index(i) for i in at]), value=value)


ONE = Buffer(name="one", shape=(1,), dtype=DType.FLOAT32)
BODIES = {
    # Each iteration reads what the one before wrote.
    "a recurrence": nest([(OUTER, 11)], store(Y, [OUTER + 1], Y[OUTER] + X[OUTER])),
    "a recurrence of two statements": nest(
        [(OUTER, 11)],
        seq(store(Y, [OUTER], X[OUTER] * 2.0, "first"), store(X, [OUTER + 1], Y[OUTER], "second")),
    ),
    # Iterations add to the same elements.
    "overlapping sums": nest(
        [(OUTER, 6), (INNER, 7)],
        Reduce(name="sum", op="add", buffer=Y, indices=(OUTER + INNER,), value=X[OUTER] * X[INNER]),
    ),
    "a prefix of each row": nest(
        [(OUTER, 3)],
        nest([(INNER, minimum(4, OUTER * 2 + 1))], store(Y, [OUTER * 4 + INNER], X[OUTER * 4 + INNER] + 1.0)),
    ),
    "a sum inside a loop": nest(
        [(OUTER, 12)],
        Alloc(
            buffer=ONE,
            body=seq(
                nest(
                    [(INNER, 12)],
                    Reduce(
                        name="sum",
                        op="add",
                        buffer=ONE,
                        indices=(Const(0),),
                        value=X[INNER] * X[OUTER],
                        first=equal(INNER, 0),
                    ),
                ),
                store(Y, [OUTER], ONE[0]),
            ),
        ),
    ),
    "what is allocated outside": Alloc(
        buffer=ONE,
        body=nest(
            [(OUTER, 12)], seq(store(ONE, [0], X[OUTER] * 3.0, "first"), store(Y, [OUTER], ONE[0], "second"))
        ),
    ),
    "copies in a loop": nest(
        [(OUTER, 3)],
        Copy(
            name="copy",
            destination=region(Y, (OUTER * 4, 4)),
            source=region(X, (OUTER * 4 - 1, 4)),
            pad=Const(7.0, DType.FLOAT32),
        ),
    ),
    "copies of what was copied before": nest(
        [(OUTER, 11)],
        Copy(name="copy", destination=region(Y, (OUTER + 1, 1)), source=region(Y, (OUTER, 1))),
    ),
    "copies on top of each other": nest(
        [(OUTER, 5), (INNER, 2)],
        Copy(name="copy", destination=region(Y, (OUTER * 2, 4)), source=region(X, (OUTER // 2 + INNER, 4))),
    ),
    "boxes that others read": nest(
        [(OUTER, 3)],
        seq(
            Copy(name="copy", destination=region(Y, (OUTER * 4, 4)), source=region(X, (OUTER * 4 % 5, 4))),
            nest([(INNER, 4)], store(X, [OUTER * 4 + INNER], Y[OUTER * 4 + INNER] * 2.0)),
        ),
    ),
    "no iteration": seq(store(Y, [3], ZERO + 2.0), nest([(OUTER, 0)], store(Y, [3], ZERO))),
}


@pytest.mark.parametrize("name", BODIES)
def test_orders_that_matter_are_kept(name):
    program = Program(name="program", parameters=(X, Y), body=BODIES[name])
    arrays = {n: np.arange(12, dtype=np.float32) + k for k, n in enumerate("XY")}
    found, wanted = evaluate(program, arrays), interpret(program, arrays)
    for buffer in "XY":
        np.testing.assert_array_equal(found[buffer], wanted[buffer])


@pytest.mark.parametrize("name", ["dense_int8", "vdla patches"])
def test_what_only_the_interpreter_runs_is_refused(name):
    with pytest.raises(EvaluateError, match="not a float of 16 or 32 bits"):
        evaluate(programs()[name], arrays_of(programs()[name]), functions=FUNCTIONS)


def test_convolutions_of_gpus():
    """Evaluation with numpy equals the interpreter for the programs of GPU convolutions, which gather boxes of the
    input, including positions outside of the input.
    """
    sizes = {"batch": 2, "channels": 4, "height": 5, "width": 6, "filters": 3, "window": SAME}
    for program in (
        gemm_convolution(Convolution(**sizes), block=4),
        direct_conv2d(Convolution(**sizes)),
        winograd_conv2d(Convolution(**sizes), 2),
        gemm_convolution(Convolution(**sizes | {"window": STRIDED, "transposed": True}), block=4),
    ):
        arrays = arrays_of(program)
        found, wanted = evaluate(program, arrays), interpret(program, arrays)
        for parameter in program.parameters:
            np.testing.assert_allclose(found[parameter.name], wanted[parameter.name], rtol=1e-5, atol=1e-5)


def test_sums_that_begin_in_the_middle_are_refused():
    late = Reduce(name="sum", op="add", buffer=Y, indices=(Const(0),), value=X[OUTER], first=equal(OUTER, 3))
    with pytest.raises(EvaluateError, match="does not start at zero"):
        evaluate(Program(name="late", parameters=(X, Y), body=nest([(OUTER, 12)], late)), {})


def test_long_sums_are_exact():
    x = Buffer(name="X", shape=(1 << 20,), dtype=DType.FLOAT32)
    body = Reduce(name="sum", op="add", buffer=Y, indices=(Const(0),), value=x[OUTER], first=equal(OUTER, 0))
    program = Program(name="long", parameters=(x, Y), body=nest([(OUTER, 1 << 20)], body))
    array = np.full(1 << 20, 0.1, np.float32)
    assert evaluate(program, {"X": array})["Y"][0] == np.float32(np.float64(array[0]) * (1 << 20))


def test_sums_of_rounded_factors_are_products_of_matrices():
    """The program multiplies two large matrices whose elements are rounded to tf32 first. It must be evaluated as a
    matrix product by numpy: an array of all products of elements would not fit into memory.
    """
    program = round_factors(product(Matrices(rows=5000, depth=256, columns=5000), staged="by depth"))
    arrays = arrays_of(program)
    rounded = {name: FUNCTIONS["round_tf32"](arrays[name]).astype(np.float64) for name in ("X", "W")}
    found = evaluate(program, arrays, functions=FUNCTIONS)["Y"]
    np.testing.assert_array_equal(found[::1000], (rounded["X"][::1000] @ rounded["W"]).astype(np.float32))
