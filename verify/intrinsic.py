"""Checks an intrinsic that a user declares: its LLVM code and its semantics must give equal results here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.cpu.errors import LoweringError
from vdla.compiler.codegen.cpu.intrinsics import LANGUAGE
from vdla.compiler.codegen.cpu.kernel import build
from vdla.compiler.ir.expr import Buffer, Const, Expr, Var
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.stmt import (
    Alloc,
    Assign,
    Intrinsic,
    IntrinsicDeclaration,
    Program,
    Stmt,
    nest,
    seq,
    whole,
)
from vdla.compiler.te.functions import FUNCTIONS
from vdla.util.errors import UserError

DRAWS = 20
TOLERANCE = 1e-5
"""Largest difference of float results, relative to the largest value: code may add in another order."""


def check_intrinsic(declaration: IntrinsicDeclaration) -> None:
    """Runs the LLVM code of a declaration on random operands, and its semantics in the interpreter. An intrinsic that
    adds is used twice, on zeros. Does nothing for a declaration without LLVM code.

    Raises UserError if LLVM rejects the code, and for the first operands on which both differ; integers must be equal.
    Code with an instruction that this processor lacks can end the process.
    """
    if LANGUAGE not in dict(declaration.code):
        return
    program = _program(declaration)
    try:
        kernel = build(program)
        kernel.code  # noqa: B018 compiles here, where errors are the user's
    except (RuntimeError, LoweringError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise UserError(
            f"intrinsic {declaration.name}: LLVM rejects its code: {'; '.join(lines[:3])}"
        ) from None
    rng = np.random.default_rng(5)
    result = declaration.parameters[0].name
    for _ in range(DRAWS):
        arrays = {buffer.name: _draw(buffer, rng) for buffer in program.parameters}
        expected = interpret(program, dict(arrays), functions=FUNCTIONS)[result]
        kernel(**arrays)
        _compare(declaration.name, arrays[result], expected)


def _program(declaration: IntrinsicDeclaration) -> Program:
    """A program that copies its parameters to buffers in the memories of the operands, clears the result, uses the
    intrinsic twice, and copies the result back.
    """
    result, *inputs = declaration.parameters
    given = {buffer.name: replace(buffer, scope="dram") for buffer in declaration.parameters}
    held = {buffer.name: replace(buffer, name=f"{buffer.name}.held") for buffer in declaration.parameters}
    zero = Const(0.0 if result.dtype.is_float else 0, result.dtype)
    operands = tuple([whole(held[buffer.name]) for buffer in declaration.parameters])
    uses = [Intrinsic(name=name, declaration=declaration, operands=operands) for name in ("use", "again")]
    loads = [
        _assigned(
            f"load_{buffer.name}", held[buffer.name], lambda places, name=buffer.name: given[name][places]
        )
        for buffer in inputs
    ]
    clear = _assigned("clear", held[result.name], lambda places: zero)
    store = _assigned("store", given[result.name], lambda places: held[result.name][places])
    body: Stmt = seq(*loads, clear, *uses, store)
    for buffer in held.values():
        body = Alloc(buffer=buffer, body=body)
    return Program(name="check", parameters=tuple(given.values()), body=body)


def _assigned(name: str, target: Buffer, value: Callable[[tuple[Var, ...]], Expr]) -> Stmt:
    """The loops that assign each element of `target`; `value`: a function of the element's indices."""
    places = tuple([Var(f"{name}.{d}") for d in range(len(target.shape))])
    return nest(
        list(zip(places, target.shape, strict=True)),
        Assign(name=name, buffer=target, indices=places, value=value(places)),
    )


def _draw(buffer: Buffer, rng: np.random.Generator) -> NDArray[Any]:
    """Random elements of a buffer: normally distributed floats, or integers of the whole range of the type."""
    if buffer.dtype.is_float:
        return rng.standard_normal(buffer.shape).astype(buffer.dtype.numpy)
    low, high = buffer.dtype.limits
    return rng.integers(low, high, buffer.shape, dtype=buffer.dtype.numpy, endpoint=True)


def _compare(name: str, got: NDArray[Any], expected: NDArray[Any]) -> None:
    if expected.dtype.kind in "iub":
        wrong = got != expected
    else:
        wrong = ~np.isclose(got, expected, rtol=0, atol=TOLERANCE * max(1.0, float(np.abs(expected).max())))
    if wrong.any():
        k = tuple(int(place) for place in np.argwhere(wrong)[0])
        raise UserError(
            f"intrinsic {name}: on random operands its code gives {got[k]} at {list(k)}, its semantics {expected[k]}; "
            f"make them equal ({int(wrong.sum())} of {wrong.size} elements differ)"
        )
