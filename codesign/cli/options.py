"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

PROCESSOR = "On processors"
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object, alone, on standard output.")]
ConfigOption = Annotated[
    str,
    typer.Option("--config", help="A preset (vta, osdi18, edge8, tiny) or a TOML file.", metavar="NAME|FILE"),
]
TechnologyOption = Annotated[
    str,
    typer.Option(
        "--technology",
        metavar="NAME|FILE",
        help="The source of clock, area and energy: models (fitted to syntheses and switching), 45nm-published, or "
        "the file of a table of areas and energies; with a table the clock is the configuration's.",
    ),
]
DimOption = Annotated[
    list[str] | None,
    typer.Option(
        "--dim",
        metavar="NAME=SIZE",
        help="The size of a symbolic dimension of the model's inputs, as in --dim sequence=128. May be repeated.",
    ),
]
LengthOption = Annotated[
    str | None,
    typer.Option(
        "--length",
        metavar="NAME=LEAST:MOST",
        help="A range for a symbolic dimension of the model's inputs, as in --length sequence=1:512: FILE.tar then "
        "runs arrays of any size in this range.",
    ),
]
PadOption = Annotated[
    list[str] | None,
    typer.Option(
        "--pad",
        metavar="NAME=VALUE",
        help="With --length: the value that fills an input behind its real tokens, as in --pad mask=-1e9 "
        "(default: 0). May be repeated.",
    ),
]
ToleranceOption = Annotated[
    float | None,
    typer.Option(
        "--tolerance",
        min=0,
        help=(
            "With --length: the largest slowdown of any length against a program for that length alone, as a "
            "fraction (default: 0.03 on the accelerator, 0.025 on processors)."
        ),
    ),
]
ConstantOption = Annotated[
    list[str] | None,
    typer.Option(
        "--constant",
        metavar="NAME=VALUE,...",
        help="The values of an input that decides shapes, as in --constant axes=0,1; the input becomes a "
        "constant. May be repeated.",
    ),
]
NoCacheOption = Annotated[
    bool,
    typer.Option(
        "--no-cache", help="Compile again, and keep nothing in the cache.", rich_help_panel=PROCESSOR
    ),
]


def was_given(context: typer.Context, name: str) -> bool:
    """Whether the command line sets the parameter `name` of the command; otherwise the parameter has its default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
