"""Results of co-simulating the designs of a Pareto front, stored in files beside their Verilog:
front/NUMBER/cosim.json.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vdla.util.files import read_file, write_whole

from ..study import Design, Study
from .data import Verified

FILE = "cosim.json"
FORMAT = 1


def known_verified(study: Study, designs: Sequence[Design], folder: Path) -> dict[int, Verified]:
    """Results of the co-simulations stored in `folder` that belong to `designs`, by number of the design."""
    found = {}
    for design in designs:
        known = read_verified(folder / "front" / str(design.number), study, design)
        if known is not None:
            found[design.number] = known[0]
    return found


def read_verified(place: Path, study: Study, design: Design) -> tuple[Verified, str] | None:
    """Reads the result of a co-simulation and the digest of the simulated Verilog from the folder `place`; None if the
    file is missing or damaged, or belongs to another design.
    """
    try:
        value: Any = json.loads(read_file(place / FILE))
        if (value["format"], value["study"]) != (FORMAT, _key(study, design)):
            return None
        if design.machine is None or value["machine"] != design.machine.digest:
            return None
        verified = Verified(
            networks=tuple(value["networks"]),
            cycles=int(value["cycles"]),
            mismatches=int(value["mismatches"]),
            seconds=float(value["seconds"]),
            first=str(value["first"]),
        )
        return verified, str(value["verilog"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _key(study: Study, design: Design) -> str:
    """The key under which the study records a design's figures: `Study.front_key` for a design with other schedules
    than its templates' own, else `Study.key`.
    """
    tuned = any(run.schedules for run in design.figures.networks.values())
    return study.front_key if tuned else study.key


def write_verified(place: Path, study: Study, design: Design, verified: Verified, verilog: str) -> None:
    """Writes cosim.json into the folder `place` of a design: the result `verified`, and `verilog`, the digest of the
    simulated Verilog. Raises WriteError.
    """
    value = {
        "format": FORMAT,
        "study": _key(study, design),
        "machine": None if design.machine is None else design.machine.digest,
        "verilog": verilog,
        "networks": list(verified.networks),
        "cycles": verified.cycles,
        "mismatches": verified.mismatches,
        "first": verified.first,
        "seconds": round(verified.seconds, 1),
    }
    write_whole(place / FILE, (json.dumps(value, indent=2) + "\n").encode())
