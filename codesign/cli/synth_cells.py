"""`vdla synth --for cells`: area of each unit and the longest path in the standard cells of a Liberty file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from vdla.isa.config import Config
from vdla.util.user_files import whole_directory

from ..report.hardware import warning_lines
from .output import json_bytes, note, print_json, text_console

if TYPE_CHECKING:
    from vdla.hw.synthesis.tools import Report

NAME = "cells"
"""The value of `--for` that means standard cells."""


def synthesize_cells(
    machine: Config, liberty: str | None, paths: int, output: Path | None, report: Report
) -> dict[str, Any]:
    """Maps the machine to standard cells of the library `liberty` (None: the default), and computes the `paths` longest
    paths (at least one) if the timing tool is installed. Writes files to the folder `output`, if given; returns the
    results as a JSON object.

    Raises ToolError, NetlistError, LibertyError and WriteError.
    """
    from vdla.hw.synthesis.cells.design import map_design
    from vdla.hw.synthesis.cells.libraries import find_library
    from vdla.hw.synthesis.cells.netlist import netlist
    from vdla.hw.synthesis.cells.report import document
    from vdla.hw.synthesis.cells.timing import longest_paths, timing_tool

    library = find_library(liberty)
    design = map_design(machine, library, report=report)
    found = None
    if timing_tool() is None:
        note("the longest path is left out: it needs OpenSTA (apt-get install opensta)")
    else:
        found = longest_paths(design, count=max(1, paths), report=report)
    result = document(machine, design, found)
    if output is not None:
        with whole_directory(output) as place:
            assert place is not None
            (place / "netlist.v").write_text(netlist(design), encoding="utf-8")
            (place / "synth.json").write_bytes(json_bytes(result))
    return result


def print_cells(document: dict[str, Any]) -> None:
    """Prints the results of `synthesize_cells` as tables."""
    console = text_console()
    library = document["library"]
    title = (
        f"{document['config']} in {library['name']} ({library['node']}, {library['voltage']:g} V, "
        f"{library['temperature']:g} °C), mm2"
    )
    table = Table(title=title, title_justify="left")
    table.add_column("unit")
    for name in ("area", "cells", "memories", "number of cells", "flip-flops", "memory bits"):
        table.add_column(name, justify="right")

    def row(name: str, own: dict[str, float]) -> None:
        areas = (own["area_um2"], own["logic_um2"], own["memory_um2"])
        counts = (own["cells"], own["flip_flops"], own["memory_bits"])
        table.add_row(name, *(f"{area / 1e6:.4f}" for area in areas), *(f"{count:,}" for count in counts))

    for unit, own in document["units"].items():
        row(unit, own)
    table.add_section()
    row("total", document["total"])
    console.print(table)
    console.print(f"memories are macros: {document['memory_source']}, scaled to the library", soft_wrap=True)
    console.print(f"left out: {document['left_out']}", soft_wrap=True)
    for line in warning_lines(document["warnings"]):
        console.print(line, soft_wrap=True)
    if document["longest_paths"] is None:
        console.print("clock: not measured")
        return
    for path in document["longest_paths"]:
        units = ", ".join(f"{unit} {ns:.2f} ns" for unit, ns in path["units"])
        console.print(
            f"{path['ns']:.3f} ns in {path['stages']} cells, {path['start']} to {path['end']}: {units}",
            soft_wrap=True,
        )
    console.print(f"clock: {document['mhz']} MHz, without wires")


def show_cells(document: dict[str, Any], json: bool) -> None:
    """Prints the results of `synthesize_cells` as JSON if `json`, else as tables."""
    if json:
        print_json(document)
    else:
        print_cells(document)
