"""`vdla isa` and `vdla config`: descriptions of a configuration, made from the tables that the whole toolkit uses."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.table import Table

from vdla.isa.config import load_config
from vdla.util.errors import UserError

from .options import ConfigOption, JsonOption, TechnologyOption
from .output import print_json, text_console


def isa(
    config: ConfigOption = "vta",
    header: Annotated[bool, typer.Option("--header", help="Print a C header with every field.")] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the instruction reference as Markdown.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Prints the instruction set of a configuration as a C header or Markdown, made from the encoder's tables."""
    if header and markdown:
        raise UserError("--header and --markdown exclude each other; ask for one at a time")
    machine = load_config(config)
    from vdla.isa.describe import c_header
    from vdla.isa.describe import markdown as reference

    kind, text = ("header", c_header(machine)) if header else ("markdown", reference(machine))
    if json:
        print_json({"config": machine.name, "kind": kind, "text": text})
    else:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")


def config(
    name: Annotated[str, typer.Argument(metavar="NAME|FILE", help="A preset or a TOML file.")] = "vta",
    fields: Annotated[
        bool, typer.Option("--fields", help="Print every field: default, legal values, meaning.")
    ] = False,
    technology: TechnologyOption = "models",
    json: JsonOption = False,
) -> None:
    """Checks a configuration and prints its derived properties: memory depths, field widths, storage, data path."""
    if fields:
        from vdla.isa.describe import field_table

        text = field_table()
        print_json({"text": text}) if json else sys.stdout.write(text)
        return
    from ..report.hardware import hardware
    from ..technology.components import load_components

    machine = load_config(name)
    document = hardware(machine, load_components(technology))
    if json:
        print_json({"config": machine.name, **document})
        return
    console = text_console()
    given = dict(document["fields"])
    memory = given.pop("memory")
    values = given | {f"memory.{key}": value for key, value in memory.items()}
    console.print(_pairs(f"configuration {machine.name}", values))
    console.print(_pairs("derived", document["derived"]))
    storage = {f"{key} scratchpad": size for key, size in document["scratchpads"].items()}
    console.print(_pairs("scratchpads, bytes", storage))
    extra = document["extra_storage"] | {"total": document["extra_storage_total"]}
    console.print(_pairs("storage beyond them, bytes", extra))
    table = Table(title="data path", title_justify="left")
    table.add_column("part")
    for heading in ("lanes", "multipliers"):
        table.add_column(heading, justify="right")
    table.add_column("multiplier")
    table.add_column("ports")
    table.add_column("storage, bytes", justify="right")
    for block in document["blocks"]:
        table.add_row(*(str(value) for value in block.values()))
    console.print(table)
    from ..report.hardware import warning_lines

    for line in warning_lines(document["warnings"]):
        console.print(line, soft_wrap=True)


def _pairs(title: str, values: dict[str, object]) -> Table:
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column("name")
    table.add_column("value", justify="right")
    for key, value in values.items():
        table.add_row(key, ", ".join(map(str, value)) if isinstance(value, list) else str(value))
    return table
