"""Synthesizes the designs of a Pareto front: their Verilog is mapped onto the library to which the model of area and
clock is fitted.

Modules that were mapped before, for any machine, come from the synthesis cache. A design is not mapped again if the
folder's file of syntheses has a result of the design for the same library. It is mapped again if this result lacks a
clock that can be computed now.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from vdla.hw.axi_router import ROUTER, router_of
from vdla.hw.synthesis.cells.area import area_by_unit
from vdla.hw.synthesis.cells.design import map_design, map_verilog
from vdla.hw.synthesis.cells.liberty import Liberty
from vdla.hw.synthesis.cells.libraries import find_library
from vdla.hw.synthesis.cells.sram import scale_of
from vdla.hw.synthesis.cells.timing import longest_paths, timing_tool
from vdla.hw.synthesis.tools import Report, tool_version
from vdla.hw.synthesis.yosys import PACKAGE
from vdla.hw.verilog import component_verilog
from vdla.isa.config import Config
from vdla.util.errors import UserError

from ..technology.cell_model import shipped_cell_model
from ..technology.components import Components
from ..technology.dram import phy_area
from .report.details import spread
from .study import Design, Exploration
from .syntheses import Syntheses, Synthesis, append_synthesis

Progress = Callable[[int, str], None]


def check_synthesis(components: Components) -> str | None:
    """A sentence that says which results will be missing because a tool is missing; None if all tools exist. Raises
    UserError if no design can be synthesized.
    """
    if not components.modelled:
        raise UserError(
            f"--synthesize measures area in cells of {shipped_cell_model().library}, but the table "
            f"{components.name} is of another technology; leave out --technology"
        )
    tool_version(PACKAGE)
    if (library := find_library()).name != shipped_cell_model().library:
        raise UserError(
            f"--synthesize needs the library of the area model, {shipped_cell_model().library}; found {library.name}"
        )
    if timing_tool() is None:
        return "clocks stay predicted: timing needs OpenSTA (apt-get install opensta)"
    return None


def designs_to_synthesize(exploration: Exploration, most: int, known: Syntheses) -> tuple[Design, ...]:
    """Chooses up to `most` designs of the Pareto front for synthesis; returns them sorted by number. Designs whose
    results are already in `known` are chosen first, since they cost nothing. Half of the remaining places go to the
    best design for each objective and to designs spread evenly over the front, the other half to the designs with the
    widest interval of area.
    """
    front = exploration.front
    there = [design for design in front if design.machine is not None and design.machine.digest in known]
    chosen = {design.number: design for design in there[:most]}
    half = -(-(most - len(chosen)) // 2)
    for design in (*spread(exploration, half), *sorted(front, key=_certainty)):
        if len(chosen) >= most:
            break
        chosen.setdefault(design.number, design)
    return tuple(chosen[number] for number in sorted(chosen))


def _certainty(design: Design) -> tuple[float, int]:
    low, high = design.figures.intervals.get("area", (1.0, 1.0))
    return (low - high, design.number)


def synthesize_designs(
    designs: Sequence[Design], folder: Path, known: Syntheses, told: Progress
) -> dict[str, Synthesis]:
    """Synthesizes designs, except machines with a complete result of the same library in `known`; returns results by
    digest of the machine. Each new result is added to the folder's file of syntheses at once. `told` is called with the
    number of a design and the name of a step.

    KeyboardInterrupt ends the work and returns the results so far. Raises ToolError, NetlistError, LibertyError and
    RecordError.
    """
    library, found = find_library(), dict[str, Synthesis]()
    try:
        for design in designs:
            machine = design.machine
            assert machine is not None
            there = known.get(machine.digest)
            if (
                there is not None
                and there.sha256 == library.digest
                and (there.clock_mhz or timing_tool() is None)
            ):
                found[machine.digest] = there
                continue
            found[machine.digest] = _synthesize(machine, library, lambda step, n=design.number: told(n, step))
            append_synthesis(folder, machine.digest, found[machine.digest])
    except KeyboardInterrupt:
        pass
    return found


def _synthesize(machine: Config, library: Liberty, report: Report) -> Synthesis:
    began = time.monotonic()
    design = map_design(machine, library, report=report)
    paths = longest_paths(design, report=report) if timing_tool() is not None else []
    area = {unit: own.area / 1e6 for unit, own in area_by_unit(design).items()} | phy_area(machine)
    if machine.memory.channels > 1:
        router = map_verilog(
            component_verilog(router_of(machine.memory), ROUTER), library, top=ROUTER, report=report
        )
        area["DRAM router"] = sum(own.area for own in area_by_unit(router).values()) / 1e6
    return Synthesis(
        library=library.name,
        sha256=library.digest,
        node_nm=round(scale_of(library).node_nm),
        area=area,
        clock_mhz=1e3 / paths[0].ns if paths else None,
        seconds=time.monotonic() - began,
    )
