"""The longest paths of a mapped design, by the static timing tool OpenSTA (Debian: `opensta`, program `sta`).

The clock is ideal, wires have no resistance and no capacitance of their own, and no path starts or ends at a port of
the accelerator. Of several equal instances in a module (rows and columns of the array, lanes), only the first is timed;
the others only load their drivers. Memory macros have the delay of `sram.py`; their setup time is a fifth of that
delay.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .. import cache
from ..netlist import plain_path
from ..tools import Report, ToolError, run_tool
from ..units import unit_of_path
from .design import CLOCK, CellDesign, MappedModule, macro_load
from .memories import OUTPUTS, PORTS, Macro
from .netlist import module_text, plain_name
from .sram import macro_figures, scale_of

PROGRAM: Final = "sta"
_SETUP_SHARE: Final = 0.2
_PERIOD_NS: Final = 1000.0
_SUFFIX: Final = "timing.txt"
_ALL_ENDS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingPath:
    """A path between two registers or memories. `ns`: its delay, with the setup time of its end. `start`, `end`: plain
    paths of instances. `stages`: number of cells. `units`: (unit, nanoseconds in it) along the path.
    """

    ns: float
    start: str
    end: str
    stages: int
    units: tuple[tuple[str, float], ...]


def timing_tool() -> str | None:
    """Path of the program OpenSTA; None if it is not installed."""
    return shutil.which(PROGRAM)


def longest_paths(design: CellDesign, *, count: int = 1, report: Report) -> list[TimingPath]:
    """The `count` longest paths, at most one for each end, the longest first; `report` is called with lines that tell
    the progress. Raises ToolError if OpenSTA is missing or fails.
    """
    netlist, stubs = _timed_netlist(design)
    macros = _macro_library(design, stubs)
    script = _script(design, count)
    key = cache.key("timing-1", netlist, macros, script, design.library.digest)
    kept = cache.load(key, _SUFFIX)
    if kept is None:
        kept = _run(design, netlist, macros, script, report).encode()
        cache.save(key, _SUFFIX, kept)
    return list(_paths(kept.decode(), design))


def longest_by_end(design: CellDesign, *, report: Report) -> dict[str, tuple[float, str]]:
    """Finds, for each module or memory macro, the longest timing path that ends in it. Returns (nanoseconds, start
    point) by end point.

    End and start points are plain paths of modules. Equal instances are named without their number
    ("store.pipeline.stage_b.stages"), a memory macro by its module and a colon ("wgt:"). Raises ToolError.
    """
    netlist, stubs = _timed_netlist(design)
    macros = _macro_library(design, stubs)
    script = _script(design, _ALL_ENDS, form="summary -digits 4")
    key = cache.key("timing-ends-2", netlist, macros, script, design.library.digest)
    kept = cache.load(key, _SUFFIX)
    if kept is None:
        found = _by_end(_run(design, netlist, macros, script, report), design)
        kept = json.dumps(found).encode()
        cache.save(key, _SUFFIX, kept)
    return {end: (ns, start) for end, (ns, start) in json.loads(kept).items()}


def _run(design: CellDesign, netlist: str, macros: str, script: str, report: Report) -> str:
    tool = timing_tool()
    if tool is None:
        raise ToolError("the longest path needs OpenSTA, which is not installed: apt-get install opensta")
    with tempfile.TemporaryDirectory(prefix="vdla-timing-") as directory:
        work = Path(directory)
        (work / "netlist.v").write_text(netlist, encoding="utf-8")
        (work / "macros.lib").write_text(macros, encoding="utf-8")
        (work / "cells.lib").symlink_to(design.library.path.resolve())
        (work / "timing.tcl").write_text(script, encoding="utf-8")
        try:
            run_tool(
                [tool, "-no_splash", "-exit", "timing.tcl"],
                directory=work,
                step=lambda line: "timing",
                report=report,
            )
            return (work / "paths.txt").read_text(encoding="utf-8")
        except FileNotFoundError:
            raise ToolError(
                f"{tool} ended before it wrote its report of timing paths; it may have run out of memory"
            ) from None


def _script(design: CellDesign, count: int, *, form: str = "full -digits 4") -> str:
    # The commands take times in the library's unit.
    period = _PERIOD_NS / design.library.time_ns
    lines = [
        "read_liberty cells.lib",
        "read_liberty macros.lib",
        "read_verilog netlist.v",
        f"link_design {plain_name(design.top)}",
        f"create_clock -name clk -period {period:g} [get_ports {CLOCK}]",
        f"report_checks -path_delay max -format {form} -group_count {count} -endpoint_count 1 > paths.txt",
        "exit",
    ]
    return "\n".join([*lines, ""])


def _timed_netlist(design: CellDesign) -> tuple[str, dict[str, MappedModule]]:
    """Writes the Verilog for the timing tool. Of several equal instances in a module only the first is written in full;
    the others become stubs, cells that have input capacitances and nothing else. Returns the Verilog, and the modules
    that have stubs, by name.
    """
    stubs: dict[str, MappedModule] = {}

    def stub(module: MappedModule) -> str:
        stubs[module.name] = module
        return _stub_name(module)

    texts = [module_text(module, design, stub=stub) for module in design.modules.values()]
    return "\n".join(texts), stubs


def _stub_name(module: MappedModule) -> str:
    return f"load_of_{plain_name(module.name)}"


def _macro_library(design: CellDesign, stubs: dict[str, MappedModule]) -> str:
    """The text of a Liberty file with the macros of `design` and with a stub cell for each of the modules `stubs`. A
    stub cell has only input capacitances: for each port, the largest of its bits.
    """
    library, scale = design.library, scale_of(design.library)
    buffer = library.resistance(library.buffer)
    cells: list[str] = []
    widths: set[int] = set()
    for macro in design.macros.values():
        access = macro_figures(macro, scale).access_ns / library.time_ns
        sizes = macro.port_widths()
        widths.update(sizes.values())
        pins = [
            _pin(pin, size, load=macro_load(library), body=_macro_body(macro, pin, access, buffer))
            for pin, size in sizes.items()
        ]
        cells.append(_cell(macro.name, pins))
    for module in stubs.values():
        pins: list[str] = []
        for port in module.ports:
            loads = module.loads.get(port)
            size = len(module.ports[port])
            widths.add(size)
            if loads is None:
                pins.append(_pin(plain_name(port), size, load=None, body=""))
            else:
                pins.append(_pin(plain_name(port), size, load=max(loads), body=""))
        cells.append(_cell(_stub_name(module), pins))
    types = [
        f"  type (bus{n}) {{ base_type : array; data_type : bit; bit_width : {n}; bit_from : {n - 1}; bit_to : 0; }}"
        for n in sorted(widths)
    ]
    unit = f"  capacitive_load_unit (1, {'pf' if library.capacitance_ff == 1000 else 'ff'});"
    head = [
        "library (macros) {",
        f'  time_unit : "{_time_unit(library.time_ns)}";',
        unit,
        '  voltage_unit : "1V";',
    ]
    head += ['  current_unit : "1mA";', "  delay_model : generic_cmos;"]
    return "\n".join([*head, *types, *cells, "}", ""])


def _time_unit(ns: float) -> str:
    return {1.0: "1ns", 0.001: "1ps", 0.01: "10ps", 0.1: "100ps"}.get(ns, f"{ns:g}ns")


def _cell(name: str, pins: list[str]) -> str:
    return "\n".join([f"  cell ({name}) {{", "    area : 0;", *pins, "  }"])


def _pin(name: str, size: int, *, load: float | None, body: str) -> str:
    group = f"bus ({name}) {{ bus_type : bus{size};" if size > 1 else f"pin ({name}) {{"
    way = "output" if load is None or name in OUTPUTS else "input"
    text = "" if way == "output" else f" capacitance : {load:.6g};"
    return f"    {group} direction : {way};{text} {body} }}"


def _macro_body(macro: Macro, pin: str, access: float, resistance: float) -> str:
    if pin == "RD_DATA":
        related = "RD_CLK" if macro.clocked else "RD_ADDR"
        kind = "timing_type : rising_edge;" if macro.clocked else "timing_sense : non_unate;"
        delay = (
            f"intrinsic_rise : {access:.6g}; intrinsic_fall : {access:.6g}; "
            f"rise_resistance : {resistance:.6g}; fall_resistance : {resistance:.6g};"
        )
        return f'timing () {{ related_pin : "{related}"; {kind} {delay} }}'
    if pin in ("RD_CLK", "WR_CLK"):
        return "clock : true;"
    clock = "RD_CLK" if pin.startswith("RD") else "WR_CLK"
    if clock == "RD_CLK" and not macro.clocked:
        return ""
    setup = _SETUP_SHARE * access
    return (
        f'timing () {{ related_pin : "{clock}"; timing_type : setup_rising; '
        f"intrinsic_rise : {setup:.6g}; intrinsic_fall : {setup:.6g}; }}"
    )


_POINT: Final = re.compile(r"^ *(-?[\d.]+) +(-?[\d.]+) +[v^] (\S+)/(\S+) \((\S+)\)$")


def _paths(text: str, design: CellDesign) -> Iterator[TimingPath]:
    """Parses the paths in `text`, OpenSTA's report for `design`; yields them in the report's order."""
    names = _instance_units(design)
    for part in text.split("Startpoint: ")[1:]:
        arrival = re.search(r"([\d.]+) +data arrival time", part)
        setup = re.search(r"(-?[\d.]+) +[\d.]+ +library setup time", part)
        points = [found.groups() for line in part.splitlines() if (found := _POINT.match(line))]
        if arrival is None or not points:
            continue
        spent: dict[str, float] = {}
        for delay, _, where, _, _ in points:
            unit = _unit(where, design.top, names)
            spent[unit] = spent.get(unit, 0.0) + float(delay) * design.library.time_ns
        total = float(arrival[1]) - (float(setup[1]) if setup else 0.0)
        yield TimingPath(
            ns=total * design.library.time_ns,
            start=points[0][2].replace("/", "."),
            end=points[-1][2].replace("/", "."),
            # The first point is the clock pin of a register, the last one the pin of another register.
            stages=len(points) - 2,
            units=tuple((unit, ns) for unit, ns in spent.items() if ns > 0),
        )


_ENDS: Final = re.compile(r"^(\S+)/(\w+)\S* \(\S+\) +(\S+)/(\w+)\S* \(\S+\) +(-?[\d.]+)$")


def _by_end(text: str, design: CellDesign) -> dict[str, tuple[float, str]]:
    """Parses `text`, OpenSTA's summary for `design`. Returns, for each module or memory macro in which a path ends, a
    pair: the delay of the longest such path in nanoseconds, and its start point, named as in `longest_by_end`.
    """
    names = _instance_units(design)
    found: dict[str, tuple[float, str]] = {}
    for line in text.splitlines():
        match = _ENDS.match(line)
        if match is None:
            continue
        start, start_pin, end, end_pin, slack = match.groups()
        ns = round(_PERIOD_NS - float(slack) * design.library.time_ns, 4)
        place = _place(end, end_pin, design, names)
        if place not in found or ns > found[place][0]:
            found[place] = (ns, _place(start, start_pin, design, names))
    return dict(sorted(found.items()))


def _place(where: str, pin: str, design: CellDesign, names: dict[tuple[str, str], str]) -> str:
    """The module that contains the instance at path `where` (parts separated by "/"), as a path of instances without
    their numbers; a colon at its end tells that the instance is a memory macro. `pin`: the instance's pin at which the
    timing path begins or ends. `names`: for (module, name of an instance in it), the instance's own module.
    """
    path = re.sub(r"_\d+(?=\.|$)", "", plain_path(_module_at(where, design.top, names).partition(".")[2]))
    return f"{path}:" if pin in PORTS else path


def _instance_units(design: CellDesign) -> dict[tuple[str, str], str]:
    """For each instance in `design`, the name of the instance's own module. The keys are (name of the module that
    contains the instance, name of the instance in the netlist).
    """
    return {
        (name, plain_name(box.name)): box.kind
        for name, module in design.modules.items()
        for box in module.boxes
        if box.kind in design.modules
    }


def _unit(where: str, top: str, names: dict[tuple[str, str], str]) -> str:
    """The unit (`unit_of_path`) of the cell at path `where` (parts separated by "/") in module `top`. `names`: for
    (module, name of an instance in it), the instance's own module.
    """
    return unit_of_path(plain_path(_module_at(where, top, names).partition(".")[2]))


def _module_at(where: str, top: str, names: dict[tuple[str, str], str]) -> str:
    """Name of the module that contains the instance at path `where` (parts separated by "/") in module `top`. `names`:
    for (module, name of an instance in it), the instance's own module.
    """
    current = top
    for part in where.split("/")[:-1]:
        inner = names.get((current, part))
        if inner is None:
            break
        current = inner
    return current
