"""`vdla compare`: two machines on the same networks, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from vdla.util.printable import printable

from .options import JsonOption
from .output import print_json, text_console


def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="A preset or a TOML file.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    network: Annotated[
        list[Path], typer.Option(metavar="MODEL.onnx", help="A quantized network. May be repeated.")
    ],
    components: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A table of areas and energies in place of the shipped one."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Sets two machines side by side: exact cycles, and by a table of components area and energy of each unit."""
    from ..api.exploration import compare as both
    from ..explore.metrics import METRICS

    found = both(first, second, network, components=components)
    names = [machine.name for machine in found.machines]
    if json:
        print_json({"first": names[0], "second": names[1], "rows": [dict(row) for row in found.rows]})
        return
    table = Table(title=printable(f"{names[0]} and {names[1]}"), title_justify="left")
    for heading in ("", "figure"):
        table.add_column(heading)
    for heading in (*names, "ratio"):
        table.add_column(printable(heading), justify="right")
    kind = None
    for row in found.rows:
        if kind not in (None, row["kind"]):
            table.add_section()
        unit = f" ({row['unit']})" if row["unit"] else ""
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
        label = "" if row["kind"] == kind else row["kind"]
        values = (f"{row['first']:,.4g}", f"{row['second']:,.4g}", ratio)
        table.add_row(printable(label), f"{row['name']}{unit}", *values)
        kind = row["kind"]
    console = text_console()
    console.print(table)
    rungs = dict.fromkeys(f"{metric.name}: {metric.rung}" for metric in METRICS.values())
    console.print("; ".join(rungs), soft_wrap=True)
