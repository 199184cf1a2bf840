"""The map of the control registers, which software reads and writes over AXI4-Lite: names, addresses, bits.

`hw/control.py` implements them, `describe.c_header` declares them in C, `hw/rtl.md` describes their use by software.
"""

from __future__ import annotations

IDENTITY = 0x56444C41
"""Value of register ID: "VDLA" in ASCII."""
VERSION = 1
REGISTERS = {
    "ID": 0x000,
    "VERSION": 0x004,
    "CONTROL": 0x008,
    "STATUS": 0x00C,
    "PROGRAM": 0x010,
    "COUNT": 0x018,
    "BASE": 0x020,
    "CYCLES": 0x028,
    "DIGEST": 0x040,
}
"""Byte address of the first word of each register."""
COUNTERS_AT = 0x100
"""Byte address of the first performance counter; a counter has two words, the low word first."""

CONTROL_BITS = ("LAUNCH", "CLEAR", "STOP")
"""Names of the bits of CONTROL, from bit 0 on: start a run, clear the error bit, stop the run."""
STATUS_BITS = ("RUNNING", "DONE", "ERROR", "QUIET")
"""Names of the bits of STATUS, from bit 0 on: a run is in progress, a run has finished since the last launch, a memory
response was an error, no memory access is outstanding.
"""
