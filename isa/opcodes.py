"""Numbers in instructions' encodings: opcodes, memory types and units. The codes of ALU operations are in alu.py."""

from __future__ import annotations

from enum import IntEnum


class Opcode(IntEnum):
    """Bits 0..2 of every instruction. CONFIG, DEPTHWISE and TAPS extend VTA's opcodes."""

    LOAD = 0
    STORE = 1
    GEMM = 2
    FINISH = 3
    ALU = 4
    CONFIG = 5
    DEPTHWISE = 6
    TAPS = 7


class MemoryType(IntEnum):
    """Bits 7..9 of LOAD and STORE. 6 and 7 extend VTA's types: a LOAD of 6 is PAR, a STORE to 6 is POST; a LOAD of 4 is
    TABLE; a STORE of 3 is ROWS.
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
"""Memory type of the post-processing STORE (the same bits as PAR, which only a LOAD can name)."""

TABLE = 4
"""Memory type of the LOAD of look-up tables (the same bits as OUT, which only a STORE can name)."""

ROWS = 3
"""Memory type of ROWS, an instruction of the store unit (the same bits as ACC, which only a LOAD can name)."""


class Unit(IntEnum):
    """The units that execute instructions, in the order used by every array of per-unit results."""

    LOAD = 0
    COMPUTE = 1
    STORE = 2
