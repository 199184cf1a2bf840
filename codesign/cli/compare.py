"""`vdla compare`: two machines (accelerator configurations) compared on the same networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from vdla.util.files import write_whole
from vdla.util.printable import printable
from vdla.util.user_files import check_destination

from ..report.numbers import figure
from .options import JsonOption, TechnologyOption
from .output import note, print_json, steps, text_console

MOST_LAYERS = 10
"""Largest number of layers in the printed table. The table has the layers whose cycles differ most between the two
machines.
"""


def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="A preset or a TOML file.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another preset or TOML file.")],
    network: Annotated[
        list[Path], typer.Option(metavar="MODEL.onnx", help="A quantized network. May be repeated.")
    ],
    technology: TechnologyOption = "models",
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="FILE",
            help="Also write the comparison as one HTML page, which can be read offline.",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Compares two machines: exact cycles, area and energy by unit and layer, and the causes of the differences.

    By default, area, clock and energy are predicted by models, fitted to syntheses and to switching activity.
    """
    from ..api.exploration import compare as both
    from ..explore.metrics import METRICS, rungs_of
    from ..technology.area import described

    check_destination(html, inputs=(*network, Path(technology), *map(Path, (first, second))))
    with steps() as progress:
        progress.begin("comparing")
        found = both(first, second, network, technology=technology)
    if html is not None:
        write_whole(html, found.to_html().encode())
        note(f"wrote {html}")
    if json:
        print_json(found.document)
        return
    console = text_console()
    names = found.compared.labels
    console.print(_figures(names, found.rows))
    if found.compared.fields:
        console.print(_fields(names, found.compared.fields))
    if any(row["cycles first"] != row["cycles second"] for row in found.layers):
        console.print(_layers(names, found.layers))
    console.print(printable(f"{names[1]} against {names[0]}:"), soft_wrap=True)
    for line in found.explanation:
        console.print(printable(f"  {line}"), soft_wrap=True)
    rungs = rungs_of(METRICS.values(), found.compared.figures)
    console.print("; ".join(f"{name}: {rung}" for name, rung in rungs.items()), soft_wrap=True)
    for line in described(found.compared.components):
        console.print(line, soft_wrap=True)


def _figures(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title=printable(f"{names[0]} and {names[1]}"), title_justify="left")
    for heading in ("", "figure"):
        table.add_column(heading)
    for heading in (*names, "ratio"):
        table.add_column(printable(heading), justify="right")
    kind = None
    for row in rows:
        if kind not in (None, row["kind"]):
            table.add_section()
        unit = f" ({row['unit']})" if row["unit"] else ""
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
        label = "" if row["kind"] == kind else row["kind"]
        values = (figure(row["first"]), figure(row["second"]), ratio)
        table.add_row(printable(label), f"{row['name']}{unit}", *values)
        kind = row["kind"]
    return table


def _fields(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title="fields that differ", title_justify="left")
    table.add_column("field")
    for heading in names:
        table.add_column(printable(heading), justify="right")
    for row in rows:
        table.add_row(row["field"], *(_value(row[side]) for side in ("first", "second")))
    return table


def _value(value: Any) -> str:
    if value is None:
        return "left out"
    return "+".join(value) if isinstance(value, tuple) else f"{value:,}"


def _layers(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title="layers whose cycles differ most", title_justify="left")
    table.add_column("layer")
    for what in ("cycles", "energy (uJ)"):
        for name in names:
            table.add_column(printable(f"{what} {name}"), justify="right")
    far = sorted(rows, key=lambda row: -abs(row["cycles second"] - row["cycles first"]))
    several = len({row["network"] for row in rows}) > 1
    for row in far[:MOST_LAYERS]:
        name = f"{row['network']} {row['layer']}" if several else row["layer"]
        table.add_row(
            printable(name),
            *(f"{row[f'cycles {side}']:,}" for side in ("first", "second")),
            *(figure(row[f"energy {side}"]) for side in ("first", "second")),
        )
    return table
