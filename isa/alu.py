"""The operations of the ALU instruction: codes, arithmetic, issue cycles and the hardware that they need, in one table.

    dst[j] = operation(dst[j], src[j])          int32 lanes; the low 32 bits of the result are kept

Encoding, assembler, reference, checker, timing, simulator, RTL, random programs, coverage and documents read the table.
An operation also has one handler in the simulator (`sim/alu.py`) and one in the RTL (`hw/compute/lane.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .config import Config

Lanes = NDArray[np.int64]


class AluOpcode(IntEnum):
    """Bits 108..110 of ALU."""

    MIN = 0
    MAX = 1
    ADD = 2
    SHR = 3
    MUL = 4
    SUB = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class AluOperation:
    """Arithmetic of one ALU operation: `compute(left, right)` takes int32 operands held as int64; the low 32 bits of
    its result count.

    `extra_cycles`: cycles that the arithmetic adds to the operation's one issue cycle. `extension`: the optional
    hardware (`Config.extensions`) that the operation needs, None if every machine has it.
    """

    compute: Callable[[Lanes, Lanes], Lanes]
    extra_cycles: int = 0
    extension: str | None = None


def _shift_right(left: Lanes, right: Lanes) -> Lanes:
    """left >> right for right of 0 to 31; left << -right for right of -32 to -1, whose result still fits int64."""
    return np.where(right >= 0, left >> np.clip(right, 0, 31), left << np.clip(-right, 0, 32))


ALU_OPERATIONS: dict[AluOpcode, AluOperation] = {
    AluOpcode.MIN: AluOperation(compute=np.minimum),
    AluOpcode.MAX: AluOperation(compute=np.maximum),
    AluOpcode.ADD: AluOperation(compute=np.add),
    # The coarse and the fine part of a shift take a cycle each.
    AluOpcode.SHR: AluOperation(compute=_shift_right, extra_cycles=2),
    # Three products on the lane's one 16-bit multiplier.
    AluOpcode.MUL: AluOperation(compute=np.multiply, extra_cycles=4),
    # A subtraction on the lane's adder: the right operand's complement, and a carry.
    AluOpcode.SUB: AluOperation(compute=np.subtract, extension="subtract"),
}


def alu_opcodes(config: Config) -> tuple[AluOpcode, ...]:
    """The ALU operations of `config`, in the order of their codes."""
    extensions = {code: item.extension for code, item in ALU_OPERATIONS.items()}
    return tuple(code for code, name in extensions.items() if name is None or config.has(name))


def alu_extension(opcode: int) -> str | None:
    """The extension that the ALU operation `opcode` needs; None if none does, or if no operation has this code."""
    return ALU_OPERATIONS[AluOpcode(opcode)].extension if opcode in ALU_OPERATIONS else None
