"""The ALU's operations on int32 lanes, compiled by numba; `isa.alu` defines the operations."""

from __future__ import annotations

import numpy as np

from vdla.isa.alu import AluOpcode
from vdla.util.machine_code import compiled

_MIN, _MAX, _ADD = int(AluOpcode.MIN), int(AluOpcode.MAX), int(AluOpcode.ADD)
_SHR, _SUB = int(AluOpcode.SHR), int(AluOpcode.SUB)
CODES = len(AluOpcode)
"""Number of ALU opcodes; they are 0 .. CODES - 1."""


@compiled()
def shift_right(value, amount):  # type: ignore[no-untyped-def]
    """`value` shifted right arithmetically by `amount`, or left by -`amount` if that is negative (SHR of
    isa/README.md), for int32 values in int64 variables. The caller takes the low 32 bits.
    """
    if amount >= 0:
        return value >> min(amount, 31)
    return value << min(-amount, 32)


@compiled()
def operate(opcode, left, right):  # type: ignore[no-untyped-def]
    """The result of ALU operation `opcode` on int32 values in int64 variables; the caller takes the low 32 bits."""
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
    return left * right


@compiled()
def operate_on_lanes(opcode, target, source, use_imm, imm):  # type: ignore[no-untyped-def]
    """Applies ALU operation `opcode` to each lane: `target` int32 (n,) and `source` int32 (n,), or the immediate `imm`
    if `use_imm`; overwrites `target`.
    """
    for j in range(len(target)):
        right = imm if use_imm else np.int64(source[j])
        target[j] = np.int32(operate(opcode, np.int64(target[j]), right))
