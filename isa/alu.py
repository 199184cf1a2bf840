"""The table of the operations of the ALU instruction: codes, arithmetic, issue cycles and needed hardware.

    dst[j] = operation(dst[j], src[j])          int32 lanes; the low 32 bits of the result are kept

Encoding, assembler, reference, checker, timing, simulator, RTL, random programs, coverage and documents use the table.
An operation also has an implementation in the simulator (`sim/alu.py`) and in the RTL (`hw/compute/lane.py`).
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
    """Codes of ALU operations: the values of field alu_opcode of the instruction ALU."""

    MIN = 0
    MAX = 1
    ADD = 2
    SHR = 3
    MUL = 4
    SUB = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class AluOperation:
    """One ALU operation. `compute(left, right)`: its arithmetic on int32 values in int64 arrays; the result is the low
    32 bits.

    `extra_cycles`: issue cycles in addition to the one that every operation has. `extension`: the optional hardware
    (`Config.extensions`) that the operation needs, None if every machine has it.
    """

    compute: Callable[[Lanes, Lanes], Lanes]
    extra_cycles: int = 0
    extension: str | None = None


def _shift_right(left: Lanes, right: Lanes) -> Lanes:
    """left >> right for right >= 0 (at most 31), left << -right for right < 0 (at most 32, which still fits int64)."""
    return np.where(right >= 0, left >> np.clip(right, 0, 31), left << np.clip(-right, 0, 32))


ALU_OPERATIONS: dict[AluOpcode, AluOperation] = {
    AluOpcode.MIN: AluOperation(compute=np.minimum),
    AluOpcode.MAX: AluOperation(compute=np.maximum),
    AluOpcode.ADD: AluOperation(compute=np.add),
    # The two parts of a shift, by multiples of four places and by the rest, take a cycle each.
    AluOpcode.SHR: AluOperation(compute=_shift_right, extra_cycles=2),
    # The lane's one multiplier of 16 bits computes three products.
    AluOpcode.MUL: AluOperation(compute=np.multiply, extra_cycles=4),
    # The lane's adder adds the complement of the right operand and a carry.
    AluOpcode.SUB: AluOperation(compute=np.subtract, extension="subtract"),
}


def alu_opcodes(config: Config) -> tuple[AluOpcode, ...]:
    """The ALU operations that the machine has, in the order of their codes."""
    extensions = {code: item.extension for code, item in ALU_OPERATIONS.items()}
    return tuple(code for code, name in extensions.items() if name is None or config.has(name))


def alu_extension(opcode: int) -> str | None:
    """The extension that ALU operation `opcode` needs; None if it needs none or if no operation has this code."""
    return ALU_OPERATIONS[AluOpcode(opcode)].extension if opcode in ALU_OPERATIONS else None
