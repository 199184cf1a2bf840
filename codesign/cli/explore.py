"""`vdla explore`: machines of a space, searched for those that no other one beats."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from vdla.util.errors import UserError
from vdla.util.printable import printable

from .options import JsonOption
from .output import end_failed, note, print_json, steps, text_console
from .rtl import rtl_extra

if TYPE_CHECKING:
    from ..explore.report.data import Verified
    from ..explore.study import Design, Exploration

PAGE_SECONDS = 60.0
"""Between two pages that are written while the search goes on."""
LayersOption = Annotated[
    int,
    typer.Option(
        min=0, metavar="N", help="Designs of the front whose layers the report has; 0: those it had before."
    ),
]
VerifyOption = Annotated[
    int,
    typer.Option(
        "--verify-front",
        min=0,
        metavar="N",
        help="Co-simulate N designs of the front on their RTL, which front/ then has, with their programs.",
    ),
]
PicturesOption = Annotated[
    bool, typer.Option("--pictures/--no-pictures", help="Also draw the page's pictures as PNG files.")
]


def explore(
    space: Annotated[
        Path, typer.Argument(metavar="SPACE.toml", help="The space: a base and what its fields may be.")
    ],
    network: Annotated[
        list[str],
        typer.Option(
            metavar="MODEL.onnx[*WEIGHT]",
            help="A quantized network; *2 counts it twice. May be repeated.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Records, report, tables and machines.")
    ],
    objective: Annotated[
        str, typer.Option(metavar="NAME,...", help="latency, energy, area, edp, cycles, dram, utilization.")
    ] = "latency,energy,area",
    constraint: Annotated[
        list[str] | None,
        typer.Option(metavar="LIMIT", help='As in "area<2mm2" or "utilization>0.9". May be repeated.'),
    ] = None,
    budget: Annotated[int, typer.Option(min=1, help="Designs, those found in records included.")] = 100,
    strategy: Annotated[
        str, typer.Option(metavar="NAME", help="model (ours), nsga2, tpe (Optuna's), random or exhaustive.")
    ] = "model",
    seed: Annotated[int, typer.Option(min=0, help="Of the search.")] = 0,
    batch: Annotated[int, typer.Option(min=1, help="Designs that the search names at a time.")] = 20,
    workers: Annotated[int, typer.Option(min=1, help="Processes that evaluate.")] = 1,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="tcp://HOST:PORT", help="Evaluate on the workers of this dask scheduler instead."
        ),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(min=1.0, max=86_400.0, help="Seconds that one design may take in another process."),
    ] = 600.0,
    components: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A table of areas and energies, also for area and clock; 45nm-published is the shipped one.",
        ),
    ] = None,
    records: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Records of other studies, to be used again. May be repeated."),
    ] = None,
    layers: LayersOption = 24,
    pictures: PicturesOption = True,
    verify_front: VerifyOption = 0,
    json: JsonOption = False,
) -> None:
    """Searches a space of machines: exact cycles, and area, clock and energy by models of syntheses and of switching.

    Every design is a record; a study that was interrupted goes on where it ended when the command is given again.
    """
    from ..api.exploration import explore as search
    from ..explore.report.write import write_page

    if verify_front:
        check_rtl()  # Before the search: hours may pass until the RTL is needed.
    shown_at = time.monotonic()
    with steps() as progress:
        progress.begin("exploring")

        def told(found: Exploration) -> None:
            nonlocal shown_at
            progress.reach(len(found.designs), found.study.budget)
            progress.rename(f"exploring: {len(found.designs):,} designs, {len(found.front):,} on the front")
            if time.monotonic() - shown_at > PAGE_SECONDS:
                write_page(found, output)
                shown_at = time.monotonic()

        explored = search(
            space,
            [_network(text) for text in network],
            objective.split(","),
            constraints=constraint or (),
            budget=budget,
            strategy=strategy,
            seed=seed,
            batch=batch,
            workers=workers,
            scheduler=scheduler,
            timeout=timeout,
            components=components,
            folder=output,
            records=records or (),
            told=told,
            notify=note,
        )
    found = explored.exploration
    _check_any(found)
    written = write_files(
        found, output, layers=layers, pictures=pictures, verify=0 if found.interrupted else verify_front
    )
    if json:
        print_json(explored.document)
    else:
        print_exploration(found)
    if found.interrupted:
        note("interrupted; the same command goes on from the records")
        raise typer.Exit(130)
    end_written(written)


def check_rtl() -> None:
    """UserError, which says what to install, where the RTL cannot be built."""
    with rtl_extra():
        from vdla.hw.harness.toolchain import verilator

        from ..explore import verify_front  # noqa: F401  It brings what it needs.
    verilator(user="--verify-front")


def _network(text: str) -> tuple[Path, float]:
    path, star, weight = text.rpartition("*")
    if not star:
        return Path(text), 1.0
    try:
        return Path(path), float(weight)
    except ValueError:
        raise UserError(f'--network "{text}": {weight} is no weight; write MODEL.onnx*2') from None


def _check_any(found: Exploration) -> None:
    """UserError where the search ended and not one design has figures: there is nothing to report."""
    if not found.interrupted and all(design.objectives is None for design in found.designs):
        first = found.designs[0].figures.failed if found.designs else "it has none"
        raise UserError(
            f"none of {len(found.designs):,} designs runs all networks; the first does not since {first}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What became of a report: a line for each design that differs from its RTL, and what Ctrl-C ended, in words."""

    wrong: Sequence[str]
    interrupted: str = ""


def write_files(found: Exploration, folder: Path, *, layers: int, pictures: bool, verify: int) -> Written:
    """Writes the report into the study's folder, and tells where it is; then co-simulates `verify` designs of the front
    and writes it again."""
    from ..explore.report.details import spread
    from ..explore.report.verified import known_verified
    from ..explore.report.write import parquet_missing, write_page, write_report

    verified = known_verified(found.study, found.front, folder)
    left, interrupted = 0, ""
    with steps() as progress:
        progress.begin("writing the report")

        def told(done: int, count: int) -> None:
            nonlocal left
            left = count - done
            progress.reach(done, count)

        paths = write_report(found, folder, verified=verified, layers=layers, drawn=pictures, told=told)
    note(f"wrote {', '.join(map(str, paths))} and {folder / 'front'}")
    if (missing := parquet_missing()) is not None:
        note(missing)
    if left:
        interrupted = f"the layers of {left} designs are not in the report"
    elif verify:
        designs = spread(found, verify)
        done = _verify(found, designs, folder)
        verified |= done
        write_page(found, folder, verified)
        if len(done) < len(designs):
            interrupted = f"{len(designs) - len(done)} of {len(designs)} designs were not co-simulated"
    wrong = [
        f"design {number}: {item.mismatches} mismatches; {item.first}"
        for number, item in verified.items()
        if item.mismatches
    ]
    return Written(wrong=wrong, interrupted=interrupted)


def _verify(found: Exploration, designs: Sequence[Design], folder: Path) -> dict[int, Verified]:
    places = {design.number: place for place, design in enumerate(designs, 1)}
    with rtl_extra(), steps(always=True) as progress:
        from ..explore.verify_front import verify_designs

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


def end_written(written: Written) -> None:
    """Ends the command with 1 where a co-simulation found a difference, with 130 where Ctrl-C ended the report."""
    if wrong := written.wrong:
        end_failed(
            f"RTL and simulator differ: {wrong[0]}"
            + (f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else "")
        )
    if written.interrupted:
        note(f"interrupted: {written.interrupted}; the same command goes on")
        raise typer.Exit(130)


def print_exploration(found: Exploration) -> None:
    """The front as a table, and what the figures stand on."""
    from ..explore.metrics import METRICS, rungs_of
    from ..explore.space import shown as text_of
    from ..technology.area import described

    study = found.study
    failed = [design for design in found.designs if design.objectives is None]
    table = Table(title=f"{len(found.front)} designs that no other one beats", title_justify="left")
    table.add_column("design", justify="right")
    names = [*(axis.name for axis in study.space.axes), *study.space.derived]
    for name in names:
        table.add_column(name, justify="right")
    shown = list(study.objectives)
    if "utilization" not in {metric.name for metric in shown}:
        shown.append(METRICS["utilization"])
    for metric in shown:
        table.add_column(metric.heading, justify="right")
    for design in found.front:
        values = [study.value(metric, design.machine, design.figures) for metric in shown]
        fields = [text_of(design.fields[name]) for name in names]
        table.add_row(
            str(design.number),
            *(f"{field:,}" if isinstance(field, int) else field for field in fields),
            *(f"{value:,.4g}" for value in values if value is not None),
        )
    console = text_console()
    console.print(table)
    console.print(
        f"{len(found.designs):,} of {study.space.size:,} designs, {found.evaluated:,} evaluated now, "
        f"{len(failed):,} failed, {sum(d.feasible for d in found.designs):,} feasible",
        soft_wrap=True,
    )
    if not found.front and (ran := [design for design in found.designs if design.objectives is not None]):
        near = min(ran, key=lambda design: design.excess)
        limits = ", ".join(
            f"{limit.metric.heading} is {study.value(limit.metric, near.machine, near.figures):,.4g}"
            for limit in study.constraints
        )
        console.print(
            f"no design keeps {', '.join(c.text for c in study.constraints)}; of the nearest, {near.number}, {limits}",
            soft_wrap=True,
        )
    if failed:
        console.print(printable(f"the first that failed: {failed[0].figures.failed}"), soft_wrap=True)
    rungs = rungs_of(shown, (design.figures for design in found.designs))
    console.print("; ".join(f"{name}: {rung}" for name, rung in rungs.items()), soft_wrap=True)
    for line in described(study.components):
        console.print(line, soft_wrap=True)
