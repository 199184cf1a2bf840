"""Intrinsics of a user's own: a declaration from a tensor expression and source text for targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..ir.expr import Buffer
from ..ir.replace_buffers import replace_buffers
from ..ir.stmt import Assign, For, IntrinsicDeclaration, Reduce, Stmt
from ..ir.verify import VerifyError, verify_declaration
from ..ir.visit import loads_in
from .compute import ExpressionError, Tensor, program_of


def declare_intrinsic(
    name: str,
    result: Tensor,
    code: Mapping[str, str],
    scopes: Mapping[str, str],
    *,
    adds: bool = False,
    updates: str | None = None,
) -> IntrinsicDeclaration:
    """The declaration of the intrinsic `name`, which computes the tensor `result` from placeholders (inputs).

    `code`: source text by language, for emission. `scopes`: memory of operands by tensor name ("dram" for other names).
    With `adds`, the intrinsic does not start its sum from zero: it adds to the old elements of the result's operand.
    `updates`: name of a placeholder that the result overwrites. The operands are `result`, or the placeholder `updates`
    in its place, and then the other placeholders in the order of their first use.

    Raises ExpressionError for an expression of several computed tensors, an unknown name in `scopes`, `adds` without a
    sum, and a placeholder `updates` that the result cannot overwrite.
    """
    if computed := [source.name for source in result.sources if source.body is not None]:
        raise ExpressionError(
            f"intrinsic {name}: {computed[0]} is not a placeholder; compute {result.name} from placeholders only"
        )
    program = program_of(result, name=name)
    *inputs, output = program.parameters
    body = _adding(name, program.body) if adds else program.body
    if updates is not None:
        body, inputs, output = _updating(name, body, inputs, output, updates)
    there = [buffer.name for buffer in (output, *inputs)]
    if unknown := sorted(set(scopes) - set(there)):
        raise ExpressionError(
            f"intrinsic {name}: there is no operand {unknown[0]!r}; there are {', '.join(there)}"
        )
    placed: dict[str, Buffer] = {
        buffer.name: replace(buffer, scope=scopes.get(buffer.name, "dram")) for buffer in (output, *inputs)
    }
    declaration = IntrinsicDeclaration(
        name=name,
        parameters=tuple(placed.values()),
        body=replace_buffers(body, placed),
        code=tuple(sorted(code.items())),
    )
    try:
        verify_declaration(declaration)
    except VerifyError as error:
        raise ExpressionError(str(error)) from None
    return declaration


def _updating(
    name: str, body: Stmt, inputs: list[Buffer], output: Buffer, updates: str
) -> tuple[Stmt, list[Buffer], Buffer]:
    """Makes the loops overwrite the placeholder `updates` instead of `output`. Returns the new loops, the other
    placeholders, and the placeholder `updates`.
    """
    found = next((buffer for buffer in inputs if buffer.name == updates), None)
    if found is None:
        names = ", ".join(buffer.name for buffer in inputs)
        raise ExpressionError(
            f"intrinsic {name}: `updates` names {updates!r}, which is not a placeholder; the placeholders are {names}"
        )
    assignment = body
    while isinstance(assignment, For):
        assignment = assignment.body
    same = (found.shape, found.dtype) == (output.shape, output.dtype)
    if not (same and isinstance(assignment, Assign)) or any(
        load.buffer == found and load.indices != assignment.indices for load in loads_in(assignment.value)
    ):
        raise ExpressionError(
            f"intrinsic {name}: {output.name} cannot overwrite {updates}; give both the same shape and dtype, and let "
            f"each element of {output.name} read only the element of {updates} at the same indices"
        )
    return replace_buffers(body, {output.name: found}), [b for b in inputs if b is not found], found


def _adding(name: str, statement: Stmt) -> Stmt:
    """The loops of a sum or maximum without the condition `first`, so that all terms are combined with the target's old
    elements. Raises ExpressionError, which names the intrinsic `name`, for any other statement.
    """
    match statement:
        case For(var=var, extent=extent, body=body, kind=kind):
            return For(var=var, extent=extent, body=_adding(name, body), kind=kind)
        case Reduce():
            return replace(statement, first=None)
    raise ExpressionError(
        f"intrinsic {name}: `adds` needs an expression that is a single reduce_sum or reduce_max"
    )
