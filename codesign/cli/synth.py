"""`vdla synth`: resources or area of every unit, and the clock, from synthesis of the RTL that is also co-simulated."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from vdla.isa.config import load_config
from vdla.util.errors import UserError
from vdla.util.printable import printable
from vdla.util.user_files import check_directory, whole_directory

from ..report.console import PlainConsole
from ..report.hardware import warning_lines
from ..report.numbers import figure
from .options import ConfigOption, JsonOption
from .output import json_bytes, never_silent, note, print_json, talk, text_console
from .rtl import rtl_extra
from .synth_cells import NAME as CELLS
from .synth_cells import show_cells, synthesize_cells

if TYPE_CHECKING:
    from vdla.hw.synthesis.flow import MappedDesign
    from vdla.hw.synthesis.tools import Report

_QUIET_SECONDS = 5.0


def synth(
    family: Annotated[
        str, typer.Option("--for", metavar="xc7|ecp5|cells", help="The FPGA family, or standard cells.")
    ],
    config: ConfigOption = "vta",
    seeds: Annotated[
        int,
        typer.Option("--seeds", help="ECP5: place and route with seeds 1 to N; the clock is their median."),
    ] = 3,
    jobs: Annotated[int, typer.Option("--jobs", help="Seeds to place at a time.")] = 1,
    paths: Annotated[
        int,
        typer.Option(
            "--paths",
            metavar="N",
            help="ECP5: instead of placing, estimate the N longest paths after mapping. Cells: list the N "
            "longest paths.",
        ),
    ] = 0,
    liberty: Annotated[
        str | None,
        typer.Option(
            "--liberty",
            metavar="FILE|NAME",
            help="Cells: a Liberty file, or osu018 (the default), osu035 or osu050 of Debian's qflow-tech packages.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            help="Also write sources, script, netlist and report to this directory.",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Measures resources by unit (Yosys) and the clock (nextpnr, ECP5 only); exits 1 if the design does not fit.

    With `--for cells`, measures the area by unit in standard cells, with memories as macros, and the longest path
    (OpenSTA) without wires. Each Verilog module is mapped once; results of earlier runs come from the cache.

    All counts are of the flattened design: registers, multipliers and memories count for the unit that contains them, a
    lookup table for the unit of the first register, multiplier or carry chain that it drives. The clock is measured
    from register to register: every port of the accelerator ends in a register of a module around it, which is not
    counted. For xc7 there are counts only. `--paths` shows within minutes which paths limit the clock; its delays in
    nanoseconds are rough estimates.
    """
    machine = load_config(config)
    if seeds < 1:
        raise UserError(f"--seeds {seeds}: at least 1 seed is needed for a clock")
    if jobs < 1:
        raise UserError(f"--jobs {jobs}: must be at least 1")
    if liberty is not None and family != CELLS:
        raise UserError(f"--liberty is for --for {CELLS}; {family} has cells of its own")
    if paths < 0:
        raise UserError(f"--paths {paths}: give the number of timing paths to list, 0 or more")
    if paths and family == "xc7":
        raise UserError(
            f"--paths {paths}: --for xc7 computes no timing; leave --paths out, or take --for ecp5 or {CELLS}"
        )
    if output is not None:
        check_directory(output)
    if family == CELLS:
        with rtl_extra(), _reporter() as report:
            cells = synthesize_cells(machine, liberty, paths, output, report)
        show_cells(cells, json)
        return
    with rtl_extra():
        from vdla.hw.synthesis.estimate import longest_paths
        from vdla.hw.synthesis.families import FAMILIES
        from vdla.hw.synthesis.flow import document as describe
        from vdla.hw.synthesis.flow import synthesize

        if family not in FAMILIES:
            raise UserError(
                f"--for {family}: there is no such family; choose {', '.join(FAMILIES)} or {CELLS}"
            )
        with _reporter() as report:
            result = synthesize(
                machine,
                FAMILIES[family],
                seeds=() if paths else range(1, seeds + 1),
                jobs=jobs,
                report=report,
            )
        document = describe(result)
        if paths:
            found = longest_paths(result.design.top, result.design.paths, count=paths)
            document["estimated_paths"] = [asdict(path) for path in found]
    if output is not None:
        _write(output, result.design, document)
    if json:
        print_json(document)
    else:
        _print(document)
    if result.fits is False:
        for name, one in result.shortages.items():
            note(
                f"{machine.name} does not fit {document['device']}: it needs {one.needed} {name}, "
                f"{one.missing} more than its {one.available}"
            )
        for placement in result.placements:
            if placement.problem is not None:
                note(f"seed {placement.seed} could not be placed: {placement.problem}")
        raise typer.Exit(1)


def _write(directory: Path, design: MappedDesign, document: dict[str, Any]) -> None:
    with whole_directory(directory) as place:
        assert place is not None
        (place / "vdla.v").write_text(design.verilog, encoding="utf-8")
        (place / "pins.v").write_text(design.pins, encoding="utf-8")
        (place / "synth.ys").write_text(design.script, encoding="utf-8")
        (place / "netlist.json").write_bytes(design.netlist)
        (place / "synth.json").write_bytes(json_bytes(document))


@contextlib.contextmanager
def _reporter() -> Iterator[Report]:
    """A context with a function that shows the tools' progress: one changing line on a terminal, elsewhere a line every
    few seconds.
    """
    console = PlainConsole(stderr=True)
    if console.is_terminal and not talk.quiet:
        with console.status("starting") as status:
            yield lambda text: status.update(Text(printable(text)))
        return
    lock, shown, doing = threading.Lock(), [0.0], ["starting"]

    def line(text: str) -> None:
        with lock:
            doing[0] = text
            now = time.monotonic()
            if now - shown[0] >= _QUIET_SECONDS:
                shown[0] = now
                note(text)

    with never_silent(lambda: doing[0]):
        yield line


def _print(document: dict[str, Any]) -> None:
    console = text_console()
    title = f"{document['config']} on {document['device'] or document['family']}"
    table = Table(title=title, title_justify="left")
    table.add_column("unit")
    names = list(document["total"])
    for name in names:
        table.add_column(name, justify="right")
    for unit, own in document["units"].items():
        table.add_row(unit, *(figure(own[name], 6) for name in names))
    table.add_section()
    table.add_row("total", *(figure(document["total"][name], 6) for name in names))
    if document["capacity"]:
        table.add_row("device", *(str(document["capacity"][name]) for name in names))
    console.print(table)
    multipliers = document["multipliers"]
    console.print(
        f"multipliers: {multipliers['array']} in the array, {multipliers['beyond_array']} more, "
        f"{multipliers['beyond_array_per_lane']:g} for each of {multipliers['lanes']} lanes"
    )
    for path, count in multipliers["by_instance"].items():
        console.print(f"  {count:4} {path or 'top'}")
    loose = [name for name, kind in document["memories"].items() if kind == "flip-flops"]
    console.print(f"memories in flip-flops: {', '.join(loose) or 'none'}")
    storage = document["extra_storage"]
    console.print(
        f"storage beyond the scratchpads: {sum(storage.values()):,} bytes ("
        + ", ".join(f"{name} {size:,}" for name, size in storage.items())
        + ")"
    )
    for line in warning_lines(document["warnings"]):
        console.print(line, soft_wrap=True)
    if document["device"] is None:
        console.print("clock: not measured, counts only on this family")
    for one in document["seeds"]:
        if one["mhz"] is None:
            continue
        path = one["critical_path"]
        where = " > ".join(f"{s['path'] or 'top'} {s['ns']:.2f} ns" for s in path["segments"])
        console.print(
            f"seed {one['seed']}: {one['mhz']} MHz; {path['logic_ns']:.2f} ns logic, "
            f"{path['routing_ns']:.2f} ns wires: {where}"
        )
    for one in document.get("estimated_paths", ()):
        console.print(
            f"about {one['ns']:.1f} ns: {one['start']} to {one['end']} ({one['pin']}) in {one['path'] or 'top'}, "
            f"{one['endpoints']} ends; wires drive {', '.join(str(pins) for pins in one['loads'])} pins"
        )
    if document["mhz"] is not None:
        console.print(f"clock: {document['mhz']} MHz (median of {len(document['seeds'])} seeds)")
