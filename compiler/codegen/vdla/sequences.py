"""Parses and checks the sequence of ALU instructions by which a user implements an intrinsic."""

from __future__ import annotations

from dataclasses import dataclass

from vdla.isa.alu import alu_codes
from vdla.isa.config import Config
from vdla.util.errors import UserError

from ...ir.printer import format_buffer
from ...ir.stmt import IntrinsicDeclaration
from ...ir.types import DType

LANGUAGE = "vdla"
"""Key of the code for the accelerator, a sequence of ALU instructions, in a user's declaration of an intrinsic."""


@dataclass(frozen=True, slots=True)
class VectorOperation:
    """One ALU instruction on accumulator vectors: target = operation(target, right), where the target is the first
    operand of the intrinsic.

    `right` is the integer `immediate` or, if that is None, the operand with index `source`.
    """

    opcode: int
    source: int = 0
    immediate: int | None = None


def parse_sequence(declaration: IntrinsicDeclaration, config: Config) -> tuple[VectorOperation, ...]:
    """The instructions of an intrinsic on the machine `config`: a line for each, "OPERATION TARGET, RIGHT".

    OPERATION is the name of an ALU operation of the machine, TARGET the name of the intrinsic's first operand, RIGHT
    the name of an operand or an integer that the operation accepts as an immediate. Raises UserError if an operand is
    not an accumulator vector, if the intrinsic has no sequence, and for the first line that does not have this form.
    """
    where, target = f"intrinsic {declaration.name}", declaration.parameters[0].name
    vector = (config.batch, config.block_out)
    for buffer in declaration.parameters:
        if (buffer.shape, buffer.dtype, buffer.scope) != (vector, DType.INT32, "acc"):
            raise UserError(
                f"{where}: the ALU of {config.name} computes on vectors int32[{vector[0]}, {vector[1]}] @ acc, not on "
                f"{format_buffer(buffer)}; change shape, dtype, scope or the machine"
            )
    lines = [line.strip() for line in dict(declaration.code).get(LANGUAGE, "").splitlines()]
    operations = [_operation(where, line, declaration, config) for line in lines if line]
    if not operations:
        raise UserError(
            f"{where}: it is declared without instructions for the accelerator; declare it with code for "
            f'{LANGUAGE!r}, such as "MAX {target}, 0"'
        )
    return tuple(operations)


def _operation(where: str, line: str, declaration: IntrinsicDeclaration, config: Config) -> VectorOperation:
    names = [buffer.name for buffer in declaration.parameters]
    name, _, rest = line.partition(" ")
    target, comma, right = (part.strip() for part in rest.partition(","))
    code = next((item for item in alu_codes(config) if item.name == name), None)
    if code is None:
        known = ", ".join(item.name for item in alu_codes(config))
        raise UserError(
            f'{where}: "{line}": {config.name} has no ALU operation {name!r}; its operations are {known}'
        )
    if target != names[0] or not comma:
        raise UserError(
            f'{where}: "{line}": an ALU instruction must have {names[0]}, which it overwrites, as its first operand; '
            f'write "{name} {names[0]}, RIGHT"'
        )
    if right in names:
        return VectorOperation(code.value, source=names.index(right))
    try:
        immediate = int(right, 0)
    except ValueError:
        raise UserError(
            f'{where}: "{line}": {right!r} is neither an operand ({", ".join(names)}) nor an integer'
        ) from None
    low, high = code.operation.immediates
    if not low <= immediate <= high:
        raise UserError(f'{where}: "{line}": the immediate {immediate} is outside of {low} .. {high}')
    return VectorOperation(code.value, immediate=immediate)
