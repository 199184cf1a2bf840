"""Steps of `vdla explore` and `vdla report`: write an exploration's files, synthesize and co-simulate the designs of
the Pareto front, print the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.table import Table

from vdla.util.printable import printable

from ..report.numbers import figure
from .dram_oracle import oracle_for
from .output import end_failed, note, print_json, steps, text_console
from .rtl import rtl_extra

if TYPE_CHECKING:
    from ..explore.report.data import Verified
    from ..explore.study import Design, Exploration
    from ..technology.components import Components


def check_rtl() -> None:
    """Raises UserError, which names the packages to install, if the RTL cannot be built."""
    with rtl_extra():
        from vdla.hw.harness.toolchain import verilator

        from ..explore import verify_front  # noqa: F401  It brings what it needs.
    verilator(user="--verify-front")


def check_cells(table: Components) -> None:
    """Raises UserError if designs cannot be synthesized: a package is missing (the message names it), or area comes
    from the numbers in `table` and not from the shipped models. Prints a note if only the tool for clocks is missing.
    """
    with rtl_extra():
        from ..explore.synthesize_front import check_synthesis
    if (missing := check_synthesis(table)) is not None:
        note(missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The result of writing an exploration's report. `exploration`: the exploration with its latest measurements;
    `wrong`: a line for each design whose RTL differs from the simulator; `interrupted`: a text about the work that
    Ctrl-C left undone ("" if none).
    """

    exploration: Exploration
    wrong: Sequence[str]
    interrupted: str = ""


def write_files(
    exploration: Exploration, folder: Path, *, layers: int, pictures: bool, synthesize: int, verify: int
) -> Written:
    """Writes the report into the exploration's folder and prints the paths of the report's files. `layers`: the report
    shows layer by layer the figures of this many designs of the Pareto front; `pictures`: whether plots are drawn.

    Then synthesizes up to `synthesize` designs of the Pareto front and writes the report again; then co-simulates up to
    `verify` designs and writes the page again. Ctrl-C during one of these steps skips the following ones.
    """
    from ..explore.report.details import spread
    from ..explore.report.verified import known_verified
    from ..explore.report.write import write_page

    left, paths = _write(exploration, folder, layers, pictures)
    note(f"wrote {', '.join(map(str, paths))} and {folder / 'front'}")
    interrupted = f"the report lacks the layers of {left} designs" if left else ""
    if synthesize and not interrupted:
        exploration, interrupted = _synthesize(exploration, folder, synthesize)
        left, _ = _write(exploration, folder, layers, pictures)
    verified = known_verified(exploration.study, exploration.front, folder)
    if verify and not interrupted:
        designs = spread(exploration, verify)
        done = _verify(exploration, designs, folder)
        verified |= done
        write_page(exploration, folder, verified)
        if len(done) < len(designs):
            interrupted = f"{len(designs) - len(done)} of {len(designs)} designs were not co-simulated"
    wrong = [
        f"design {number}: {item.mismatches} mismatches; {item.first}"
        for number, item in verified.items()
        if item.mismatches
    ]
    return Written(exploration=exploration, wrong=wrong, interrupted=interrupted)


def _write(found: Exploration, folder: Path, layers: int, pictures: bool) -> tuple[int, Sequence[Path]]:
    """Writes all files of an exploration's report. `layers`: the report shows layer by layer the figures of this many
    designs of the Pareto front; `pictures`: whether plots are drawn. Returns the number of designs whose layers are
    missing because of Ctrl-C, and the paths of the files.
    """
    from ..explore.report.verified import known_verified
    from ..explore.report.write import parquet_missing, write_report

    verified, left = known_verified(found.study, found.front, folder), 0
    with steps() as progress:
        progress.begin("writing the report")

        def told(done: int, count: int) -> None:
            nonlocal left
            left = count - done
            progress.reach(done, count)

        paths = write_report(found, folder, verified=verified, layers=layers, drawn=pictures, told=told)
    if (missing := parquet_missing()) is not None:
        note(missing)
    return left, paths


def _synthesize(found: Exploration, folder: Path, most: int) -> tuple[Exploration, str]:
    """Synthesizes up to `most` designs of the Pareto front; returns the exploration with the results, and a text about
    the designs that Ctrl-C left unsynthesized ("" if none).
    """
    from ..explore.syntheses import read_syntheses, with_syntheses
    from ..explore.synthesize_front import designs_to_synthesize, synthesize_designs
    from ..technology.clock import predicted

    known = read_syntheses(folder)
    designs = designs_to_synthesize(found, most, known)
    places = {design.number: place for place, design in enumerate(designs, 1)}
    with steps(always=True) as progress:
        shown = set[int]()

        def told(number: int, step: str) -> None:
            text = f"design {number} ({places[number]} of {len(designs)}) in standard cells"
            if number not in shown:
                progress.begin(text)
                shown.add(number)
            progress.rename(f"{text}: {step}")

        made = synthesize_designs(designs, folder, known, told)
    now = [
        (design.figures.square_millimetres, predicted(design.machine).clock_mhz, made[design.machine.digest])
        for design in designs
        if design.machine is not None
        and made.get(design.machine.digest) is not known.get(design.machine.digest)
    ]
    text = f"{len(made)} of {len(found.front)} designs of the front synthesized, {len(now)} of them now"
    if now:
        errors = [sum(item.area.values()) / area - 1 for area, _, item in now]
        seconds = sum(item.seconds for *_, item in now)
        text += f", {seconds:,.0f} s; against the model: area {min(errors):+.1%} to {max(errors):+.1%}"
    clocks = [item.clock_mhz / clock - 1 for _, clock, item in now if item.clock_mhz]
    if clocks:
        text += f", clock {min(clocks):+.1%} to {max(clocks):+.1%}"
    note(text)
    left = len(designs) - len(made)
    interrupted = f"{left} of {len(designs)} designs were not synthesized" if left else ""
    return with_syntheses(found, known | made), interrupted


def _verify(found: Exploration, designs: Sequence[Design], folder: Path) -> dict[int, Verified]:
    places = {design.number: place for place, design in enumerate(designs, 1)}
    with rtl_extra(), steps(always=True) as progress:
        from ..explore.verify_front import verify_designs

        oracle_for([design.machine for design in designs if design.machine is not None], None)

        def told(number: int, step: str) -> None:
            progress.begin(f"design {number} ({places[number]} of {len(designs)}): {step}")

        verified = verify_designs(found.study, designs, folder, told)
    wrong = sum(item.mismatches for item in verified.values())
    cycles = sum(item.cycles for item in verified.values())
    seconds = sum(item.seconds for item in verified.values())
    note(
        f"{len(verified)} of {len(found.front)} designs of the front co-simulated: {wrong} mismatches in {cycles:,} "
        f"cycles, {seconds:,.0f} s"
    )
    return verified


def print_written(written: Written, json: bool) -> None:
    """Prints the exploration with its latest measurements, as a table or as JSON."""
    from ..explore.tables import document

    if json:
        print_json(document(written.exploration))
    else:
        print_exploration(written.exploration)


def end_written(written: Written) -> None:
    """Ends the command with exit code 1 if a co-simulation found a difference, with 130 if Ctrl-C ended the report."""
    if wrong := written.wrong:
        end_failed(
            f"RTL and simulator differ: {wrong[0]}"
            + (f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else "")
        )
    if written.interrupted:
        note(f"interrupted: {written.interrupted}; run the same command again to continue")
        raise typer.Exit(130)


def print_exploration(exploration: Exploration) -> None:
    """Prints the designs of the Pareto front as a table, and the sources of their figures."""
    from ..explore.metrics import METRICS, rungs_of
    from ..explore.space import shown as text_of
    from ..technology.area import described

    study = exploration.study
    failed = [design for design in exploration.designs if design.objectives is None]
    table = Table(title=f"{len(exploration.front)} designs that no other one beats", title_justify="left")
    table.add_column("design", justify="right")
    names = [*(axis.name for axis in study.space.axes), *study.space.derived]
    for name in names:
        table.add_column(name, justify="right")
    shown = list(study.objectives)
    if "utilization" not in {metric.name for metric in shown}:
        shown.append(METRICS["utilization"])
    for metric in shown:
        table.add_column(metric.heading, justify="right")
    for design in exploration.front:
        values = [study.value(metric, design.machine, design.figures) for metric in shown]
        fields = [text_of(design.fields[name]) for name in names]
        table.add_row(
            str(design.number),
            *(f"{field:,}" if isinstance(field, int) else field for field in fields),
            *(figure(value) for value in values if value is not None),
        )
    console = text_console()
    console.print(table)
    console.print(
        f"{len(exploration.designs):,} of {study.space.size:,} designs, {exploration.evaluated:,} evaluated now, "
        f"{len(failed):,} failed, {sum(d.feasible for d in exploration.designs):,} feasible",
        soft_wrap=True,
    )
    if not exploration.front and (
        ran := [design for design in exploration.designs if design.objectives is not None]
    ):
        near = min(ran, key=lambda design: design.excess)
        limits = ", ".join(
            f"{limit.metric.heading} is {figure(value)}"
            for limit in study.constraints
            if (value := study.value(limit.metric, near.machine, near.figures)) is not None
        )
        console.print(
            f"no design meets {', '.join(c.text for c in study.constraints)}; design {near.number} is nearest: "
            f"{limits}",
            soft_wrap=True,
        )
    if failed:
        console.print(printable(f"the first design that failed: {failed[0].figures.failed}"), soft_wrap=True)
    rungs = rungs_of(shown, (design.figures for design in exploration.designs))
    console.print("; ".join(f"{name}: {rung}" for name, rung in rungs.items()), soft_wrap=True)
    for line in described(study.components):
        console.print(line, soft_wrap=True)
