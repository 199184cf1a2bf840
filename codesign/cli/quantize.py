"""`vdla quantize`: a float32 model and calibration data to a quantized model, with what that costs."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from vdla.util.errors import UserError
from vdla.util.user_files import check_destination
from vdla.util.whole_files import write_whole

from .options import DimOption, JsonOption
from .output import note, print_json, steps, text_console


class Activations(StrEnum):
    """Types of quantized activations."""

    u8 = "u8"
    s8 = "s8"


class CalibrationMethod(StrEnum):
    """How ranges follow from calibration data."""

    mse = "mse"
    minmax = "minmax"
    percentile = "percentile"


def quantize(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL.onnx", help="A float32 ONNX model, opset 13 or later.")
    ],
    calibration: Annotated[
        Path,
        typer.Option(metavar="DATA.npz", help="Arrays by input name; the first dimension are samples."),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="Q.onnx", help="Where to write the quantized model.")
    ],
    activations: Annotated[
        Activations, typer.Option(help="u8: uint8 with a zero point; s8: symmetric int8.")
    ] = Activations.u8,
    method: Annotated[
        CalibrationMethod,
        typer.Option(
            help="mse: the range of least square error; minmax: all values; percentile: most of them."
        ),
    ] = CalibrationMethod.mse,
    percentile: Annotated[
        float | None,
        typer.Option(
            min=50.0,
            max=100.0,
            help="Percent of values inside the range, for that method; 99.99 if not given.",
        ),
    ] = None,
    per_tensor: Annotated[
        bool, typer.Option("--per-tensor", help="One scale for all weights of a layer, not one a channel.")
    ] = False,
    layer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=CHOICE,...",
            help="A layer of its own: float, or u8 or s8 and per-channel or per-tensor. May be repeated.",
        ),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="What a dynamic first dimension becomes.")] = 1,
    dim: DimOption = None,
    json: JsonOption = False,
) -> None:
    """Quantizes a float32 ONNX model to int8 from calibration data (QDQ form) and says what each layer loses."""
    check_destination(output, inputs=(model, calibration))
    if percentile is not None and method is not CalibrationMethod.percentile:
        raise UserError(
            f"--percentile is for --method percentile, not {method.value}; leave it out or change the method"
        )
    from vdla.compiler.graph.quantize.quantize import Recipe, quantize_model, read_model, runs_needed

    from ..quantize_run import describe, load_calibration, parse_choices, prepare_here

    recipe = Recipe(
        activations="uint8" if activations is Activations.u8 else "int8",
        method=method.value,
        percentile=99.99 if percentile is None else percentile,
        per_channel=not per_tensor,
    )
    choices = parse_choices(layer or ())
    remarks: list[str] = []
    started = time.perf_counter()
    from ..dimensions import sized_model

    with steps() as progress, sized_model(model, dim or ()) as model:
        progress.begin(f"reading {model.name}")
        network = read_model(model, batch=batch)
        samples = load_calibration(network, calibration)
        progress.begin(f"quantizing {model.name}", total=runs_needed(recipe, len(samples)))
        quantized = quantize_model(
            network,
            samples,
            lambda proto: prepare_here(proto, remarks.append),
            recipe,
            choices=choices,
            advance=progress.advance,
        )
    for remark in dict.fromkeys(remarks):
        note(remark)
    data = quantized.proto.SerializeToString(deterministic=True)
    write_whole(output, data)
    seconds = time.perf_counter() - started
    if json:
        account = describe(quantized, recipe, samples)
        print_json(
            {"model": model.stem, "file": str(output), "bytes": len(data), "seconds": seconds, **account}
        )
        return
    from ..report.quantize_table import error_table, output_lines

    console = text_console()
    console.print(error_table(model.stem, quantized))
    for line in output_lines(quantized):
        console.print(line)
    note(f"wrote {output}: {len(data):,} bytes, from {len(samples)} calibration runs, in {seconds:.1f} s")
