"""Checks an intrinsic that a user declares. The user gives the semantics as a tensor expression, and an implementation
as LLVM code or as a sequence of ALU instructions. The check runs both on random operands and compares the results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.cpu.errors import LoweringError
from vdla.compiler.codegen.cpu.intrinsics import LANGUAGE
from vdla.compiler.codegen.cpu.kernel import build
from vdla.compiler.codegen.vdla.sequences import parse_sequence
from vdla.compiler.ir.expr import Buffer, Expr, Var
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.replace_buffers import replace_buffers
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
from vdla.isa.alu import alu_codes
from vdla.isa.arithmetic import wrap_int32
from vdla.isa.config import Config
from vdla.util.errors import UserError

DRAWS = 20
TOLERANCE = 1e-5
"""Largest difference of float results, relative to the largest value if that exceeds 1: LLVM code may sum in another
order than the semantics.
"""


def check_intrinsic(declaration: IntrinsicDeclaration) -> None:
    """Checks the LLVM code of a declaration. The code is run twice in succession on random operands, and the
    declaration's semantics are run in the interpreter. Does nothing for a declaration without LLVM code.

    Raises UserError if LLVM rejects the code. Raises UserError with the first element for which code and semantics give
    different results (different floats are allowed a small error). Code with an instruction that this processor lacks
    can end the process.
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


def check_sequence(declaration: IntrinsicDeclaration, config: Config) -> None:
    """Checks the ALU instructions of a declaration. They are executed by their reference semantics, and the
    declaration's semantics are executed in the interpreter, both on random operands of all sizes.

    Raises UserError for lines that are no ALU instruction of the machine `config`. Raises UserError with the first
    element for which the two results differ.
    """
    operations = parse_sequence(declaration, config)
    codes = {code.value: code.operation for code in alu_codes(config)}
    result = declaration.parameters[0]
    held = {buffer.name: replace(buffer, scope="dram") for buffer in declaration.parameters}
    program = Program(
        name="check", parameters=tuple(held.values()), body=replace_buffers(declaration.body, held)
    )
    rng = np.random.default_rng(5)
    for _ in range(DRAWS):
        arrays = {
            name: _draw(buffer, rng) >> rng.integers(0, 32, buffer.shape, np.int32)
            for name, buffer in held.items()
        }
        expected = interpret(program, dict(arrays), functions=FUNCTIONS)[result.name]
        values = [array.astype(np.int64) for array in arrays.values()]
        for operation in operations:
            immediate = operation.immediate
            right = values[operation.source] if immediate is None else np.full(result.shape, immediate)
            values[0] = wrap_int32(codes[operation.opcode].compute(values[0], right)).astype(np.int64)
        _compare(declaration.name, values[0], expected)


def _program(declaration: IntrinsicDeclaration) -> Program:
    """A program that copies its parameters to buffers in the memories of the operands, uses the intrinsic twice, and
    copies the result back.
    """
    result = declaration.parameters[0]
    given = {buffer.name: replace(buffer, scope="dram") for buffer in declaration.parameters}
    held = {buffer.name: replace(buffer, name=f"{buffer.name}.held") for buffer in declaration.parameters}
    operands = tuple([whole(held[buffer.name]) for buffer in declaration.parameters])
    uses = [Intrinsic(name=name, declaration=declaration, operands=operands) for name in ("use", "again")]
    loads = [
        _assigned(
            f"load_{buffer.name}", held[buffer.name], lambda places, name=buffer.name: given[name][places]
        )
        for buffer in declaration.parameters
    ]
    store = _assigned("store", given[result.name], lambda places: held[result.name][places])
    body: Stmt = seq(*loads, *uses, store)
    for buffer in held.values():
        body = Alloc(buffer=buffer, body=body)
    return Program(name="check", parameters=tuple(given.values()), body=body)


def _assigned(name: str, target: Buffer, value: Callable[[tuple[Var, ...]], Expr]) -> Stmt:
    """Loops that assign each element of `target`. `name`: name of the assignment, from which the names of the loops are
    made. `value`: returns the value of an element, given the element's indices.
    """
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
