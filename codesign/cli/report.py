"""`vdla report`: the report of a study written again from its records; nothing is evaluated."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .explore import (
    LayersOption,
    PicturesOption,
    VerifyOption,
    check_rtl,
    end_written,
    print_exploration,
    write_files,
)
from .options import JsonOption
from .output import note, print_json, steps


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="What `vdla explore -o` wrote.")],
    layers: LayersOption = 24,
    pictures: PicturesOption = True,
    verify_front: VerifyOption = 0,
    json: JsonOption = False,
) -> None:
    """Writes report.html, tables and pictures of a study again, also of one that was killed."""
    from ..api.exploration import load_study

    if verify_front:
        check_rtl()
    with steps() as progress:
        progress.begin("reading the records")
        explored = load_study(folder, note)
    written = write_files(explored.exploration, folder, layers=layers, pictures=pictures, verify=verify_front)
    if json:
        print_json(explored.document)
    else:
        print_exploration(explored.exploration)
    end_written(written)
