"""`vdla demo`: compiles, simulates and checks one shipped network, and writes a report."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from vdla.isa.config import load_config
from vdla.util.user_files import check_directory

from .options import ConfigOption, JsonOption
from .output import print_error, print_json, steps, text_console


def demo(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Directory for the results.")
    ] = Path("build/demo"),
    config: ConfigOption = "vta",
    model: Annotated[str, typer.Option(metavar="NAME", help="The shipped model to show.")] = "resnet18",
    json: JsonOption = False,
) -> None:
    """Compiles and simulates ResNet-18 or another shipped network, checks its outputs on 8 images, and writes a report
    with pictures.
    """
    from ..demo import Demo, run_demo
    from .simulate import exit_on_deadlock

    machine = load_config(config)
    check_directory(output, parents=True)
    started = time.monotonic()
    with steps(always=True) as progress, exit_on_deadlock():
        result: Demo = run_demo(model, machine, output, progress.begin)
    if json:
        print_json(result.document)
    else:
        from ..report.table import comparison_table, layer_table, summary

        console = text_console()
        console.print(layer_table(result.account, console.width))
        for line in summary(result.account):
            console.print(line, soft_wrap=True)
        console.print(comparison_table(result.account, result.variants))
        for path in result.files:
            console.print(f"wrote {path}")
        console.print(f"{time.monotonic() - started:.1f} s in all")
    if not result.passed:
        print_error("the outputs do not agree with the reference")
        raise typer.Exit(1)
