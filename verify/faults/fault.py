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


def rtl_fault(name: str, file: str, line: str, faulty: str, breaks: str, machine: str = TINY) -> Fault:
    """A `Fault` in `file` of the RTL (package hw). The arguments are the fields of `Fault`."""
    return Fault(name=name, package="hw", file=file, line=line, faulty=faulty, breaks=breaks, machine=machine)


def simulator_fault(name: str, file: str, line: str, faulty: str, breaks: str, machine: str = TINY) -> Fault:
    """A `Fault` in `file` of the simulator (package sim). The arguments are the fields of `Fault`."""
    return Fault(
        name=name, package="sim", file=file, line=line, faulty=faulty, breaks=breaks, machine=machine
    )
