"""The ALU's operations on int32 lanes, compiled by numba; `isa.alu` defines the operations."""

from __future__ import annotations

import numpy as np

from vdla.isa.alu import AluOpcode
from vdla.util.machine_code import compiled

from .custom import call_at

_MIN, _MAX, _ADD = int(AluOpcode.MIN), int(AluOpcode.MAX), int(AluOpcode.ADD)
_SHR, _SUB, _MUL = int(AluOpcode.SHR), int(AluOpcode.SUB), int(AluOpcode.MUL)
_BUILT_IN = len(AluOpcode)


@compiled()
def shift_right(value, amount):  # type: ignore[no-untyped-def]
    """`value` shifted right arithmetically by `amount`, or left by -`amount` if that is negative (SHR of
    isa/README.md), for int32 values in int64 variables. The caller takes the low 32 bits.
    """
    if amount >= 0:
        return value >> min(amount, 31)
    return value << min(-amount, 32)


@compiled()
def is_operation(opcode, custom):  # type: ignore[no-untyped-def]
    """Whether ALU operation `opcode` exists; `custom` are the addresses of custom instructions by opcode."""
    return opcode < _BUILT_IN or custom[opcode] != 0


@compiled()
def operate(opcode, left, right, custom):  # type: ignore[no-untyped-def]
    """The result of ALU operation `opcode` on int32 values in int64 variables; the caller takes the low 32 bits.
    `custom`: addresses of custom instructions by opcode (`custom.custom_addresses`).
    """
    if opcode == _MIN:
        return min(left, right)
    if opcode == _MAX:
        return max(left, right)
    if opcode == _ADD:
        return left + right
    if opcode == _SHR:
        return shift_right(left, right)
    if opcode == _SUB:
        return left - right
    if opcode == _MUL:
        return left * right
    return call_at(custom[opcode], left, right)  # pyright: ignore[reportCallIssue]


@compiled()
def operate_on_lanes(opcode, target, source, use_imm, imm, custom):  # type: ignore[no-untyped-def]
    """Applies ALU operation `opcode` to each lane and overwrites `target`, int32 (n,), the first operand. The second
    operand is `source`, int32 (n,), or the number `imm` if `use_imm`. `custom`: addresses of custom instructions by
    opcode.
    """
    for j in range(len(target)):
        right = imm if use_imm else np.int64(source[j])
        target[j] = np.int32(operate(opcode, np.int64(target[j]), right, custom))
