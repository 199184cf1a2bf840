"""`vdla advise`: hardware that would help a network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vdla.util.files import write_whole
from vdla.util.printable import printable
from vdla.util.user_files import check_destination

from .options import ConfigOption, JsonOption, TechnologyOption
from .output import note, print_json, steps, text_console


def advise(
    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="A quantized network.")],
    config: ConfigOption = "vta",
    least: Annotated[
        float, typer.Option(min=0, max=100, help="Percent of the latency that a listed change must save.")
    ] = 3.0,
    technology: TechnologyOption = "models",
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE.toml", help="Write the machine with all advised changes."
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Names extensions, memories and bus widths that would make a network faster, with the area that each adds.

    The network is compiled and simulated on every changed machine, so the cycles are exact; milliseconds are at each
    machine's own clock.
    """
    from vdla.isa.config_text import toml_text

    from ..api.advice import advise as advised

    check_destination(output, inputs=(model, Path(technology), Path(config)))
    with steps() as progress:
        progress.begin("trying changes")
        found = advised(model, config, least=least / 100, technology=technology)
    if output is not None:
        write_whole(output, toml_text(found.advised).encode())
        note(f"wrote {output}")
    if json:
        print_json(found.document())
        return
    console = text_console()
    for line in str(found).splitlines():
        console.print(printable(line), soft_wrap=True)
