"""`vdla quantize --budget`: decides each layer's quantization by a search over error and latency or energy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.box import SIMPLE
from rich.table import Table

from vdla.util.printable import printable
from vdla.util.user_files import check_destination, check_directory

from ..report.console import PlainConsole
from ..report.numbers import figure
from .output import note, print_json, steps, text_console

if TYPE_CHECKING:
    from ..quantization.run import Outcome
    from ..quantization.study import Found, Member


def quantize_by_search(
    model: Path, calibration: Path, output: Path, *, json: bool, budget: int, **options: Any
) -> None:
    """Runs the search for quantization decisions and prints a report. If `output` is a file with the suffix .onnx,
    writes the model with the chosen set of decisions (member of the front) to this file. Otherwise writes all results
    to the folder `output`.

    `options` are passed to `api.quantization.quantize`.
    """
    from ..api.quantization import quantize
    from ..quantization.tables import write_outcome

    inputs = (model, calibration, options["held_out"])
    alone = output.suffix == ".onnx"
    if alone:
        check_destination(output, inputs=inputs)
    else:
        check_directory(output, parents=True)
    remarks: list[str] = []
    with steps() as progress:
        progress.begin(f"calibrating {model.name}")

        def told(result: Found) -> None:
            if len(result.members) == 1:
                progress.begin("deciding layer by layer", total=budget)
            progress.advance()

        made = quantize(
            model,
            calibration,
            budget=budget,
            folder=None if alone else output,
            told=told,
            remark=remarks.append,
            **options,
        )
    assert made.outcome is not None
    outcome = made.outcome
    for remark in dict.fromkeys(remarks):
        note(remark)
    if alone:
        made.save(output)
        paths = (output,)
    else:
        paths = write_outcome(outcome, output)
    if json:
        print_json({"model": model.stem, "files": [str(path) for path in paths], **made.account})
    else:
        _print(text_console(), model.stem, outcome)
        note(f"wrote {', '.join(map(str, paths))}")
    if outcome.found.interrupted:
        note("interrupted; run the same command again to continue from the records")
        raise typer.Exit(130)


def _print(console: PlainConsole, model: str, outcome: Outcome) -> None:
    from ..quantization.tables import rungs

    found, chosen = outcome.found, outcome.chosen
    console.print(_front_table(model, found, chosen))
    console.print(_layer_table(found, chosen))
    processor = found.study.evaluator.target.processor
    console.print(
        f"taken: member {chosen.number}, {outcome.reason}; the file itself, simulated with its integers on "
        f"{outcome.held_out} held-out runs: {outcome.exact_sqnr:.2f} dB",
        soft_wrap=True,
    )
    failed = [member for member in found.members if member.figures.failed is not None]
    console.print(
        f"{len(found.members):,} decisions, {found.evaluated:,} evaluated now, {len(failed):,} failed, "
        f"{len(found.front):,} on the front; calibrated on {outcome.runs} other runs",
        soft_wrap=True,
    )
    if failed:
        console.print(
            printable(f"the first decisions that failed: {failed[0].figures.failed}"), soft_wrap=True
        )
    console.print("; ".join(f"{name}: {rung}" for name, rung in rungs(found).items()), soft_wrap=True)
    console.print(
        printable(f"float layers run on {processor.name}: {processor.source}"),
        soft_wrap=True,
    )


def _front_table(model: str, found: Found, chosen: Member) -> Table:
    """A table of the Pareto front of error and cost. Sets of decisions that treat all layers alike, but are not on the
    front, are listed below the front.
    """
    machine, cost = found.study.evaluator.target.config.name, found.study.settings.cost
    table = Table(
        title=f"{printable(model)} on {printable(machine)}: error against {cost}",
        title_justify="left",
        box=SIMPLE,
        padding=(0, 1),
        collapse_padding=True,
    )
    headings = ("member", "SQNR dB", "latency ms", "cycles", "border ms", "processor ms", "energy uJ")
    for heading in (*headings, "float", "s8", "per tensor"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    front = set(found.front)
    for member in (*found.front, *(m for m in found.members if m.label and m not in front)):
        figures, decisions = member.figures, member.decisions
        marks = [member.label] if member.label else []
        marks += ["taken"] if member is chosen else []
        marks += [] if member in front else ["not on the front" if figures.failed is None else "failed"]
        table.add_row(
            str(member.number),
            f"{figures.sqnr:.2f}",
            figure(figures.milliseconds),
            f"{figures.cycles:,}",
            figure(1e3 * figures.border_seconds, 3),
            figure(1e3 * figures.processor_seconds, 3),
            figure(figures.microjoules),
            str(len(decisions.floats)),
            str(len(decisions.symmetric)),
            str(len(decisions.per_tensor)),
            ", ".join(marks),
        )
    return table


def _layer_table(found: Found, chosen: Member) -> Table:
    """A table with a row for each layer: its quantization in the chosen set of decisions."""
    from ..quantization.tables import layer_choices

    table = Table(
        title=f"layers of member {chosen.number}",
        title_justify="left",
        box=SIMPLE,
        padding=(0, 1),
        collapse_padding=True,
    )
    for heading in ("layer", "operator", "choice"):
        table.add_column(heading, no_wrap=True)
    for row in layer_choices(found, chosen):
        table.add_row(
            printable(row["layer"])[-48:], row["operator"] or "tensor", row["choice"].replace(",", ", ")
        )
    return table
