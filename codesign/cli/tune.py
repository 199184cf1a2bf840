"""`vdla tune`: searches for faster schedules by trials and stores all trials as records."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vdla.util.errors import UserError
from vdla.util.user_files import check_destination

from .options import ConfigOption, DimOption, JsonOption
from .output import note, print_error, print_json, text_console
from .tune_progress import tune_progress
from .tune_targets import tunable_of

if TYPE_CHECKING:
    from vdla.compiler.records.record import Record


class FeatureChoice(StrEnum):
    """Features that the cost model learns from."""

    account = "account"
    program = "program"


class StrategyChoice(StrEnum):
    """Strategies that propose the next trials."""

    model = "model"
    evolution = "evolution"
    thompson = "thompson"
    genetic = "genetic"
    random = "random"
    grid = "grid"


def tune(
    context: typer.Context,
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            metavar="RECORDS.jsonl",
            help="The file in which every trial is recorded as it ends.",
        ),
    ],
    model: Annotated[
        Path | None, typer.Argument(metavar="[MODEL.onnx]", help="The network whose layers are tuned.")
    ] = None,
    workload: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Instead of a model: conv2d:C2, depthwise:D1, conv2d:SIZE,CHANNELS,FILTERS,KERNEL,STRIDE, "
            "depthwise:SIZE,CHANNELS,KERNEL,STRIDE, dense:ROWS,DEPTH,COLUMNS or elementwise:OPERATION,SHAPE,... as in "
            "elementwise:add,64x56x56,64x1x1; on llvm and cuda also matmul:BATCH,ROWS,DEPTH,COLUMNS, "
            "softmax:ROWS,SIZE, normalization:ROWS,SIZE, reduction:OUTER,SIZE,INNER or "
            "conv_transpose:SIZE,CHANNELS,FILTERS,KERNEL,STRIDE. May be repeated.",
        ),
    ] = None,
    target: Annotated[
        str,
        typer.Option(
            metavar="TARGET", help="vdla, or llvm, cuda, opencl or wgsl with the options of `vdla compile`."
        ),
    ] = "vdla",
    device: Annotated[
        str | None,
        typer.Option(
            metavar="DEVICE",
            help="The GPU to measure on, with --target cuda, opencl or wgsl; default: its number 0, as in cuda:0.",
        ),
    ] = None,
    config: ConfigOption = "vta",
    trials: Annotated[
        int,
        typer.Option(help="Trials in all, shared between layers by expected gain."),
    ] = 512,
    in_place: Annotated[
        int | None,
        typer.Option(
            help="For networks on vdla: further trials of layers inside the whole network; default: half of "
            "--trials.",
        ),
    ] = None,
    strategy: Annotated[
        StrategyChoice, typer.Option(help="The strategy that proposes the next trials.")
    ] = StrategyChoice.evolution,
    batch: Annotated[int, typer.Option(help="Trials between two trainings of the model.")] = 16,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal searches.")] = 0,
    features: Annotated[
        FeatureChoice | None,
        typer.Option(
            help="Features of a candidate for the cost model. account: quantities computed for thousands of points "
            "without lowering them. program: also the loops of a short list of lowered candidates, twice as many as "
            "are measured. Default: program where there is no template, otherwise account."
        ),
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(help="A layer is done after this many trials without improvement."),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on with the search of the same seed and strategy in RECORDS.jsonl."
        ),
    ] = False,
    transfer: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Records of other workloads for the model to learn from. May be repeated."
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Processes that measure, 1 by default; 0: this process, without time-outs. With --target cuda, "
            "processes that compile, by default one per core.",
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="tcp://HOST:PORT", help="Measure on the workers of this dask scheduler instead."
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(help="Seconds that one candidate may take (default: 30)."),
    ] = None,
    dim: DimOption = None,
    json: JsonOption = False,
) -> None:
    """Searches for faster schedules of a network's layers, or of single workloads, and records every trial.

    On processors and GPUs candidates are timed one after the other, and their results are checked.

    `vdla run --records RECORDS.jsonl` and `vdla compile --records RECORDS.jsonl` apply the best records. An interrupted
    run loses nothing: go on with --resume.
    """
    if (model is None) == (not workload):
        raise UserError("name what to tune: either MODEL.onnx or --workload NAME")
    check_destination(output, inputs=(model, *(transfer or ())))
    if dim and model is None:
        raise UserError("--dim is for models; a --workload has its sizes in its name")
    from vdla.compiler.records.files import RecordWriter, read_records
    from vdla.compiler.tune.search.cost_model import load_xgboost
    from vdla.compiler.tune.search.strategies import LEARNING

    from ..tuning.options import Options, Watchers, check_numbers
    from ..tuning.session import tune as run_tuner
    from ..tuning.target import Run

    check_numbers(trials=trials, in_place=in_place, batch=batch, seed=seed, patience=patience)
    check_numbers(workers=workers, timeout=timeout)
    tunable = tunable_of(context, target, device, config, workers, scheduler)
    options = Options(
        trials=trials,
        in_place=(trials // 2 if in_place is None else in_place)
        if model is not None and tunable.in_place
        else 0,
        batch=batch,
        seed=seed,
        strategy=strategy.value,
        patience=patience,
        features=None if features is None else features.value,
    )
    if options.strategy in LEARNING:
        load_xgboost()  # Checked before anything is measured: a missing extra should cost no trial.
    elif transfer or features:
        told = "--transfer" if transfer else "--features"
        raise UserError(
            f"--strategy {options.strategy} has no cost model to train; leave out {told}, or use the strategy "
            "evolution"
        )
    learned: list[Record] = []
    for file in transfer or ():
        learned += _noting_skipped(read_records(file))
    if not resume and output.exists() and output.stat().st_size > 0:
        raise UserError(
            f"{output} contains records already; add --resume to continue the search, or name another file"
        )
    started = time.perf_counter()
    from ..dimensions import sized_model

    with (
        contextlib.nullcontext() if model is None else sized_model(model, dim or ()) as model,
        RecordWriter(output) as writer,
        _interruptible(output),
    ):
        known = _noting_skipped(read_records(output)) if resume else []
        with (
            tune_progress(total=options.trials + options.in_place) as progress,
            tunable.workers(count=workers, scheduler=scheduler, timeout=timeout, notify=note) as backend,
        ):
            watchers = Watchers(
                write=writer.append,
                trial=progress.trial,
                move=progress.move,
                remark=note,
                resumed=progress.resumed,
            )
            run = Run(options=options, backend=backend, known=known, transfer=learned, watchers=watchers)
            document = run_tuner(tunable, model, workload or [], run)
    seconds = time.perf_counter() - started
    wrong = [task["name"] for task in document["tasks"] if task["outputs_equal"] is False]
    if not document.get("network", {}).get("outputs_equal", True):
        wrong.append(document["name"])
    document |= {"records": str(output), "strategy": strategy.value, "seed": seed, "seconds": seconds}
    if json:
        print_json(document)
    else:
        _print(document)
    if wrong:
        print_error(f"the best schedule of {wrong[0]} computes wrong results: a defect of the compiler")
        raise typer.Exit(1)


@contextlib.contextmanager
def _interruptible(output: Path) -> Iterator[None]:
    """A context that, after Ctrl-C, prints how to continue the search and ends the command with exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        note(
            f"interrupted; {output} has every finished trial; run the same command with --resume to continue"
        )
        raise typer.Exit(130) from None


def _print(document: Mapping[str, Any]) -> None:
    from ..report.tune_table import tune_lines, tune_table

    console = text_console()
    console.print(tune_table(document))
    for line in tune_lines(document):
        console.print(line, soft_wrap=True)


def _noting_skipped(read: tuple[list[Record], Any]) -> list[Record]:
    """Returns the records of `read`, a pair (records, description of the lines that were skipped), and prints a warning
    if lines were skipped.
    """
    records, skipped = read
    if skipped.warning is not None:
        note(f"warning: {skipped.warning}")
    return records
