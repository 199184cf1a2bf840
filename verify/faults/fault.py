"""A one-line fault in RTL or simulator, and the machine on which co-simulation finds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A change of one line: in `file` of package `package` (hw or sim), `faulty` replaces the only line that equals
    `line` (indentation is ignored).

    `breaks`: description of the wrong behaviour. `machine`: name of the machine of `vdla cosim` on which co-simulation
    finds the fault.
    """

    name: str
    package: str
    file: str
    line: str
    faulty: str
    breaks: str
    machine: str


TINY: Final = "tiny"
SHORT: Final = "4x4 without extensions, smallest queues"
ZEROS: Final = "4x8, 256-bit bus, patch"
CHAIN: Final = "4x4, batch 2, chain memory"
TABLES: Final = "4x4, batch 2, look-up tables"
ROWS: Final = "4x4, rows in two passes"
SWEEPS: Final = "16x16, small buffers"
WIDE: Final = "8x8, 256-bit bus, depthwise"
FOLDS: Final = "8x8, 2 folds, odd depths, zero points"
CHANNELS: Final = "tiny, 100 MHz, MT41K256M8, channels 2"
QUARTERS: Final = "16x16, batch 2, 4 folds, taps and sweeps"


def rtl_fault(name: str, file: str, line: str, faulty: str, breaks: str, machine: str = TINY) -> Fault:
    """A `Fault` in `file` of the RTL (package hw). The arguments are the fields of `Fault`."""
    return Fault(name=name, package="hw", file=file, line=line, faulty=faulty, breaks=breaks, machine=machine)


def simulator_fault(name: str, file: str, line: str, faulty: str, breaks: str, machine: str = TINY) -> Fault:
    """A `Fault` in `file` of the simulator (package sim). The arguments are the fields of `Fault`."""
    return Fault(
        name=name, package="sim", file=file, line=line, faulty=faulty, breaks=breaks, machine=machine
    )
