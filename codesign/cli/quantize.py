"""`vdla quantize`: a quantized model from a float32 model and calibration data, with the errors of its outputs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from vdla.util.errors import UserError
from vdla.util.files import write_whole
from vdla.util.user_files import check_destination

from .options import DimOption, JsonOption
from .output import note, print_json, steps, text_console


class Activations(StrEnum):
    """Types of quantized activations."""

    u8 = "u8"
    s8 = "s8"


class CalibrationMethod(StrEnum):
    """Methods that compute ranges from calibration data."""

    mse = "mse"
    minmax = "minmax"
    percentile = "percentile"


def quantize(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL.onnx", help="A float32 ONNX model, opset 13 or later, or TFLite model."
        ),
    ],
    calibration: Annotated[
        Path,
        typer.Option(
            metavar="DATA.npz",
            help="Samples for calibration: arrays by input name, whose first dimension counts samples.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            metavar="Q.onnx|DIR",
            help="The quantized model. With --budget, DIR gets its records, tables and figure as well.",
        ),
    ],
    activations: Annotated[
        Activations | None, typer.Option(help="u8: uint8 with a zero point (default); s8: symmetric int8.")
    ] = None,
    method: Annotated[
        CalibrationMethod,
        typer.Option(
            help="Range of a tensor. mse: of least square error; minmax: of all values; percentile: of most values."
        ),
    ] = CalibrationMethod.mse,
    percentile: Annotated[
        float | None,
        typer.Option(
            min=50.0,
            max=100.0,
            help="For --method percentile: percent of the values inside the range (default: 99.99).",
        ),
    ] = None,
    per_tensor: Annotated[
        bool,
        typer.Option(
            "--per-tensor", help="One scale for all weights of a layer, instead of one for each channel."
        ),
    ] = False,
    whole: Annotated[
        bool,
        typer.Option(
            "--whole",
            help="Also quantize functions, softmax, normalizations and products of activations: for machines with the "
            "extensions table, rows, broadcast and zero_points.",
        ),
    ] = False,
    layer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=CHOICE,...",
            help="Quantize one layer differently: float, or u8 or s8 and per-channel or per-tensor; with "
            "--budget also quantized (not float). May be repeated.",
        ),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(
            min=1, help="Search for decisions by layer: this many evaluations of error, latency and energy."
        ),
    ] = None,
    held_out: Annotated[
        Path | None,
        typer.Option(
            metavar="DATA.npz",
            help="Samples that measure the error and never calibrate (default: the last quarter of --calibration).",
        ),
    ] = None,
    config: Annotated[
        str | None, typer.Option(metavar="NAME|FILE", help="The machine that runs the model (default: vta).")
    ] = None,
    processor: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|GFLOPS,GB/S,WATTS",
            help="The processor that runs float layers: cortex-a9 (default), measured (this machine), or its speeds.",
        ),
    ] = None,
    cost: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The cost that the search weighs against the error: latency or energy."
        ),
    ] = None,
    technology: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE", help="The source of clock and energy: models, 45nm-published or a table."
        ),
    ] = None,
    sqnr: Annotated[
        float | None, typer.Option(metavar="DB", help="Choose the cheapest decisions that reach this SQNR.")
    ] = None,
    latency: Annotated[
        float | None,
        typer.Option(metavar="MS", help="Choose the decisions of least error within this latency."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the search.")] = 0,
    batch: Annotated[int, typer.Option(help="Size of a dynamic first dimension.")] = 1,
    dim: DimOption = None,
    json: JsonOption = False,
) -> None:
    """Quantizes a float32 ONNX model to int8 from calibration data (QDQ form) and reports the quantization error of
    each layer.

    With --budget, decides for each layer whether it stays float, whether its tensors are symmetric, and whether its
    weights have one scale: a search weighs the error on held-out samples against latency or energy on a machine. To
    continue an interrupted search, give the command again with the same DIR.
    """
    from ..dimensions import sized_model
    from ..quantize_run import parse_choices

    if percentile is not None and method is not CalibrationMethod.percentile:
        raise UserError(
            f"--percentile is for --method percentile, not {method.value}; leave it out or change the method"
        )
    choices = parse_choices(layer or ())
    names = (("--held-out", held_out), ("--config", config), ("--processor", processor), ("--cost", cost))
    goals = (("--technology", technology), ("--sqnr", sqnr), ("--latency", latency))
    searched = [name for name, value in (*names, *goals) if value is not None]
    if budget is None:
        if searched:
            raise UserError(f"{searched[0]} is for a search; add --budget N, or leave {searched[0]} out")
        check_destination(output, inputs=(model, calibration))
        with sized_model(model, dim or ()) as path:
            _quantize_all(
                path,
                calibration,
                output,
                choices,
                activations=(activations or Activations.u8).value,
                method=method.value,
                percentile=99.99 if percentile is None else percentile,
                per_channel=not per_tensor,
                whole=whole,
                batch=batch,
                json=json,
            )
        return
    if activations is not None or per_tensor:
        option = "--per-tensor" if per_tensor else "--activations"
        raise UserError(
            f"{option} sets all layers, but with --budget a search chooses for each layer; leave {option} out, or "
            "set single layers with --layer NAME=CHOICE"
        )
    from .quantize_search import quantize_by_search

    with sized_model(model, dim or ()) as path:
        quantize_by_search(
            path,
            calibration,
            output,
            json=json,
            budget=budget,
            held_out=held_out,
            layers=choices,
            config=config or "vta",
            method=method.value,
            percentile=99.99 if percentile is None else percentile,
            whole=whole,
            batch=batch,
            processor=processor or "cortex-a9",
            technology=technology,
            cost=cost or "latency",
            sqnr=sqnr,
            latency=latency,
            seed=seed,
        )


def _quantize_all(
    model: Path,
    calibration: Path,
    output: Path,
    choices: Mapping[str, Sequence[str]],
    *,
    activations: str,
    method: Literal["mse", "minmax", "percentile"],
    percentile: float,
    per_channel: bool,
    whole: bool,
    batch: int,
    json: bool,
) -> None:
    """Quantizes all layers in the same way, except the layers that `choices` names; writes the model to `output` and
    prints a report, as JSON with `json`. The other arguments are the options of `vdla quantize` with the same names.
    """
    from vdla.compiler.quantize.quantize import Recipe, quantize_model, read_model, runs_needed

    from ..quantize_run import describe, load_calibration, prepare_here

    recipe = Recipe(
        activations="uint8" if activations == "u8" else "int8",
        method=method,
        percentile=percentile,
        per_channel=per_channel,
        whole=whole,
    )
    remarks: list[str] = []
    started = time.perf_counter()
    with steps() as progress:
        progress.begin(f"reading {model.name}")
        network = read_model(model, batch=batch, whole=whole)
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
