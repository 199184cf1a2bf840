"""Syntheses of an exploration's machines: stored in a file beside the exploration's records. Measured areas and clocks
replace the model's predictions. A machine with a DRAM keeps its clock, because that clock is not predicted.

The result of a synthesis depends only on machine, RTL and library, so that a line of `syntheses.jsonl` is valid for any
exploration.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vdla.compiler.records.package_identity import sources_digest
from vdla.hw.synthesis.cells.nodes import node_text
from vdla.isa.config import Config
from vdla.isa.dram_memory import DRAM
from vdla.util.files import read_file
from vdla.util.line_file import LineFile

from ..technology.rungs import EXACT
from .evaluate import Figures
from .study import Design, Exploration

FILE = "syntheses.jsonl"
FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Synthesis:
    """The result of mapping a machine onto the cells of a `library` (`sha256`: hash of the library's file). `area`: in
    square millimetres by unit; `clock_mhz`: the fastest clock (None without a timing tool); `seconds`: duration of the
    synthesis.
    """

    library: str
    sha256: str
    node_nm: int
    area: Mapping[str, float]
    clock_mhz: float | None
    seconds: float

    @property
    def node(self) -> str:
        """The technology node of the library as text, such as "180 nm"."""
        return node_text(self.library, self.node_nm)


Syntheses = Mapping[str, Synthesis]
"""Results of synthesis by digest of the machine."""


def read_syntheses(folder: Path) -> dict[str, Synthesis]:
    """Reads the syntheses that an exploration's folder stores, by digest of the machine. Syntheses of another version
    of the RTL are left out. Damaged lines are skipped.
    """
    try:
        lines = read_file(folder / FILE).splitlines()
    except OSError:
        return {}
    found: dict[str, Synthesis] = {}
    for line in lines:
        try:
            value: Any = json.loads(line)
            if (value["format"], value["rtl"]) == (FORMAT, rtl_version()):
                found[str(value["machine"])] = _synthesis(value)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
    return found


def _synthesis(value: Mapping[str, Any]) -> Synthesis:
    area = {str(unit): float(size) for unit, size in value["area_mm2"].items()}
    clock = None if value["clock_mhz"] is None else float(value["clock_mhz"])
    if not area or (clock is not None and clock <= 0):
        raise ValueError
    return Synthesis(
        library=str(value["library"]),
        sha256=str(value["sha256"]),
        node_nm=int(value["node_nm"]),
        area=area,
        clock_mhz=clock,
        seconds=float(value["seconds"]),
    )


def append_synthesis(folder: Path, machine: str, synthesis: Synthesis) -> None:
    """Appends the synthesis of the machine with digest `machine` to the file of syntheses in `folder`. Raises
    RecordError.
    """
    value = {
        "format": FORMAT,
        "machine": machine,
        "rtl": rtl_version(),
        "library": synthesis.library,
        "sha256": synthesis.sha256,
        "node_nm": synthesis.node_nm,
        "area_mm2": dict(synthesis.area),
        "clock_mhz": synthesis.clock_mhz,
        "seconds": round(synthesis.seconds, 1),
    }
    with LineFile(folder / FILE, cut=True) as file:
        file.append_line(json.dumps(value, separators=(",", ":"), allow_nan=False).encode() + b"\n")


def rtl_version() -> str:
    """A hash of the sources that generate the RTL and synthesize it."""
    return sources_digest("vdla.hw")


def with_syntheses(exploration: Exploration, known: Syntheses) -> Exploration:
    """The exploration with measured areas and clocks of synthesized machines, and with all figures that depend on
    these: latencies, constraints, the front. Figures from a table of components are not replaced, since the table
    describes another technology.
    """
    study = exploration.study
    if not known or not study.components.modelled:
        return exploration
    return replace(
        exploration, designs=tuple(_measured(exploration, item, known) for item in exploration.designs)
    )


def _measured(exploration: Exploration, design: Design, known: Syntheses) -> Design:
    if design.machine is None or design.figures.failed is not None:
        return design
    if (found := known.get(design.machine.digest)) is None:
        return design
    figures = measured_figures(design.machine, design.figures, found)
    return exploration.study.judged(design.number, design.fields, design.machine, figures)


def measured_figures(machine: Config, figures: Figures, synthesis: Synthesis) -> Figures:
    """The figures of a machine with the results of its synthesis in place of predictions. The clock of a machine with a
    DRAM is not replaced: the DRAM's timing in cycles holds for the configuration's own clock only.
    """
    intervals, rungs = {**figures.intervals}, {**figures.rungs}
    intervals.pop("area", None)
    rungs["area"] = f"synthesis ({synthesis.node})"
    if synthesis.clock_mhz is None or machine.memory.kind == DRAM:
        return replace(figures, area=synthesis.area, intervals=intervals, rungs=rungs)
    intervals.pop("latency", None)
    rungs["clock"] = f"synthesis ({synthesis.node})"
    rungs["latency"] = f"{EXACT}, clock by synthesis"
    return replace(
        figures,
        area=synthesis.area,
        clock_mhz=synthesis.clock_mhz,
        # Leakage is proportional to the program's duration.
        networks={
            name: replace(
                run,
                energy=_leaking(run.energy, (figures.clock_mhz or synthesis.clock_mhz) / synthesis.clock_mhz),
            )
            for name, run in figures.networks.items()
        },
        intervals=intervals,
        rungs=rungs,
    )


def _leaking(energy: Mapping[str, float], longer: float) -> dict[str, float]:
    """A copy of `energy` (microjoules of a launch, by unit) for a launch that lasts longer by the factor `longer`: the
    leakage is multiplied by this factor, all other entries stay the same.
    """
    return {unit: value * longer if unit == "leakage" else value for unit, value in energy.items()}
