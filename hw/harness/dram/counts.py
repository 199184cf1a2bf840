"""Counts of a DRAM's commands and cycles in a run, as the library of the DRAM writes them (port.h)."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from vdla.isa.dram_memory import RESET_CYCLES

_COMMANDS = (
    "activates", "precharges", "reads", "writes", "auto_precharges", "all_precharges", "refreshes", "calibrations",
)  # fmt: skip
_WAITS = ("words", "refresh", "precharge", "activate", "turnaround", "bank", "latency", "idle", "turnarounds")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandCounts:
    """Commands that a DRAM's controller sent to the part in a run, up to the run's last cycle.

    `activates`, `reads`, `writes`, `refreshes`, `calibrations`: numbers of these commands. `precharges`: precharges of
    a single bank; `all_precharges`: precharges of all banks at once, with which a refresh begins. `auto_precharges`:
    reads and writes that close their row. `digest`: a hash of all commands with cycle, bank and row; equal for equal
    sequences.

    `turnarounds`: changes of the controller from reads to writes. `waits`: numbers of cycles in which the controller
    sends no read or write, by cause ("idle" ...; hw/dram.md, section 8); its item "words" is the number of cycles in
    which the controller sends one. `turnarounds` and `waits` are None for LiteDRAM's RTL, which has no output for them,
    and for several channels.
    """

    activates: int
    precharges: int
    reads: int
    writes: int
    auto_precharges: int
    all_precharges: int
    refreshes: int
    calibrations: int
    digest: int
    turnarounds: int | None = None
    waits: dict[str, int] | None = None


class DramCounts(ctypes.Structure):
    """A DRAM's counts of a run, as C++ code fills them in: the structure DramCounts of port.h."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in _COMMANDS),
        ("digest", ctypes.c_uint64),
        *((name, ctypes.c_int64) for name in _WAITS),
    ]

    def result(self) -> CommandCounts:
        """The counts of a run that has ended, without the idle cycles before the run's cycle 1."""
        commands = {name: getattr(self, name) for name in (*_COMMANDS, "digest")}
        waits = {name: getattr(self, name) for name in _WAITS}
        turnarounds = waits.pop("turnarounds")
        if turnarounds < 0:
            return CommandCounts(**commands)
        # The cycles before the run's cycle 1 are idle: those of the reset, and cycle 0.
        waits["idle"] -= RESET_CYCLES + 1
        return CommandCounts(**commands, turnarounds=turnarounds, waits=waits)
