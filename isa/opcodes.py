"""Numbers in the encoding of instructions: opcodes, memory types and units. Codes of ALU operations are in alu.py."""

from __future__ import annotations

from enum import IntEnum


class Opcode(IntEnum):
    """Opcodes, bits 0..2 of every instruction. CONFIG, DEPTHWISE and TAPS are not in VTA."""

    LOAD = 0
    STORE = 1
    GEMM = 2
    FINISH = 3
    ALU = 4
    CONFIG = 5
    DEPTHWISE = 6
    TAPS = 7


class MemoryType(IntEnum):
    """Memory types, bits 7..9 of LOAD and STORE. Types that VTA does not have: 6 is PAR in a LOAD and POST in a STORE,
    7 is PATCH, 4 is TABLE in a LOAD, 3 is ROWS in a STORE.
    """

    UOP = 0
    WGT = 1
    INP = 2
    ACC = 3
    OUT = 4
    ACC8 = 5
    PAR = 6
    PATCH = 7


POST = 6
"""Memory type of STORE.POST; in a LOAD the same bits are PAR."""

TABLE = 4
"""Memory type of LOAD.TABLE; in a STORE the same bits are OUT."""

ROWS = 3
"""Memory type of ROWS, an instruction with opcode STORE; in a LOAD the same bits are ACC."""


class Unit(IntEnum):
    """The units that execute instructions; arrays of results by unit have this order."""

    LOAD = 0
    COMPUTE = 1
    STORE = 2
