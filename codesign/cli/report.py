"""`vdla report`: rewrites the report of an exploration (`vdla explore`) from its records, without evaluating
anything.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .explore import LayersOption, PicturesOption, SynthesizeOption, VerifyOption
from .explore_files import check_cells, check_rtl, end_written, print_written, write_files
from .options import JsonOption
from .output import note, steps


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder that `vdla explore -o` wrote.")],
    layers: LayersOption = 24,
    pictures: PicturesOption = True,
    synthesize: SynthesizeOption = 0,
    verify_front: VerifyOption = 0,
    json: JsonOption = False,
) -> None:
    """Writes report.html, tables and pictures of a study again, also of a study whose search was killed."""
    from ..api.exploration import load_study

    if verify_front:
        check_rtl()
    with steps() as progress:
        progress.begin("reading the records")
        explored = load_study(folder, note)
    if synthesize:
        check_cells(explored.exploration.study.components)
    written = write_files(
        explored.exploration,
        folder,
        layers=layers,
        pictures=pictures,
        synthesize=synthesize,
        verify=verify_front,
    )
    print_written(written, json)
    end_written(written)
