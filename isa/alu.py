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
    from .custom import AluInstruction

Lanes = NDArray[np.int64]

ALU_OPCODE_BITS = 3
"""Width of the field alu_opcode of the instruction ALU, as in VTA."""

ALU_CODES = 1 << ALU_OPCODE_BITS
"""Number of ALU opcodes that can be encoded; opcodes that AluOpcode does not use are for custom instructions
(`custom.py`).
"""

IMMEDIATE_LIMITS = (-(1 << 15), (1 << 15) - 1)
"""The least and the greatest value of the field imm of the instruction ALU."""


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
    (`Config.extensions`) that the operation needs, None if every machine has it. `immediates`: the least and the
    greatest legal immediate.
    """

    compute: Callable[[Lanes, Lanes], Lanes]
    extra_cycles: int = 0
    extension: str | None = None
    immediates: tuple[int, int] = IMMEDIATE_LIMITS


def _shift_right(left: Lanes, right: Lanes) -> Lanes:
    """left >> min(right, 31) for right >= 0, left << min(-right, 32) for right < 0; a left shift by 32 still fits
    int64.
    """
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


@dataclass(frozen=True, slots=True)
class AluCode:
    """An ALU operation of a machine: name and opcode (`value`) in instructions, and the operation's properties."""

    name: str
    value: int
    operation: AluOperation


def custom_codes(config: Config) -> dict[int, AluInstruction]:
    """The machine's custom instructions by ALU opcode. Their opcodes follow the last one of AluOpcode, in the order of
    `Config.instructions`.
    """
    return dict(enumerate(config.instructions, len(AluOpcode)))


def alu_codes(config: Config) -> tuple[AluCode, ...]:
    """The ALU operations that the machine has, in the order of their opcodes; custom instructions come last."""
    built_in = [
        AluCode(code.name, int(code), item)
        for code, item in ALU_OPERATIONS.items()
        if item.extension is None or config.has(item.extension)
    ]
    custom = [AluCode(item.name, code, item.operation) for code, item in custom_codes(config).items()]
    return (*built_in, *custom)


def alu_code(config: Config, opcode: int) -> AluCode | None:
    """The ALU operation with this opcode, which may need an extension that the machine lacks; None if no operation has
    the opcode.
    """
    if opcode in ALU_OPERATIONS:
        return AluCode(AluOpcode(opcode).name, opcode, ALU_OPERATIONS[AluOpcode(opcode)])
    return next((item for item in alu_codes(config) if item.value == opcode), None)


def alu_names(config: Config) -> dict[str, int]:
    """ALU opcodes by name: all operations of AluOpcode, even if `config` lacks the extension that an operation needs,
    and the custom instructions of `config`.
    """
    return {
        **{code.name: int(code) for code in AluOpcode},
        **{item.name: item.value for item in alu_codes(config)},
    }


def alu_extension(opcode: int) -> str | None:
    """The extension that ALU operation `opcode` needs; None if it needs none or if no operation has this code."""
    return ALU_OPERATIONS[AluOpcode(opcode)].extension if opcode in ALU_OPERATIONS else None
