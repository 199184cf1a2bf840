"""`vdla explore`: machines of a space, searched for those that no other one beats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from vdla.util.errors import UserError
from vdla.util.printable import printable

from .options import JsonOption
from .output import note, print_json, steps, text_console


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
        Path, typer.Option("--output", "-o", metavar="DIR", help="Records, tables, figure and machines.")
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
        str, typer.Option(metavar="NAME", help="nsga2, tpe (Optuna's), random or exhaustive.")
    ] = "nsga2",
    seed: Annotated[int, typer.Option(min=0, help="Of the search.")] = 0,
    batch: Annotated[int, typer.Option(min=1, help="Designs that the search names at a time.")] = 20,
    workers: Annotated[int, typer.Option(min=1, help="Processes that evaluate.")] = 1,
    components: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A table of areas and energies in place of the shipped one."),
    ] = None,
    records: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Records of other studies, to be used again. May be repeated."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Searches a space of machines with exact cycles and, by a table of components, area and energy.

    Every design is a record; a study that was interrupted goes on where it ended when the command is given again.
    """
    from ..explore.evaluate import load_networks
    from ..explore.metrics import parse_constraint, parse_objectives
    from ..explore.records import read_records
    from ..explore.space import load_space
    from ..explore.study import Exploration, Study
    from ..explore.study import explore as search
    from ..explore.tables import document, write_exploration
    from ..technology.components import load_components, shipped_components

    searched = load_space(space)
    study = Study(
        space=searched,
        networks=load_networks([_network(text) for text in network]),
        components=shipped_components() if components is None else load_components(components),
        objectives=parse_objectives(objective.split(",")),
        constraints=tuple(parse_constraint(text) for text in constraint or ()),
        strategy=strategy,
        budget=min(budget, searched.size),
        seed=seed,
        batch=batch,
        workers=workers,
    )
    known = {}
    for path in records or ():
        if not path.exists():
            raise UserError(f"{path}: no such file; name the records.jsonl of a study")
        known |= read_records(path)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{output}: {error.strerror}; name a folder") from None
    with steps() as progress:
        progress.begin(f"exploring {searched.size:,} machines")

        def told(found: Exploration) -> None:
            progress.reach(len(found.designs), study.budget)

        found = search(study, folder=output, known=known, told=told)
    paths = write_exploration(found, output)
    if json:
        print_json(document(found))
    else:
        _print(found)
        note(f"wrote {', '.join(map(str, paths))} and {output / 'front'}")
    if found.interrupted:
        note("interrupted; the same command goes on from the records")
        raise typer.Exit(130)


def _network(text: str) -> tuple[Path, float]:
    path, star, weight = text.rpartition("*")
    if not star:
        return Path(text), 1.0
    try:
        return Path(path), float(weight)
    except ValueError:
        raise UserError(f'--network "{text}": {weight} is no weight; write MODEL.onnx*2') from None


def _print(found: Any) -> None:
    from ..explore.metrics import METRICS

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
        table.add_column(f"{metric.name} ({metric.unit})" if metric.unit else metric.name, justify="right")
    for design in found.front:
        values = [metric.value(design.machine, design.figures, study.weights) for metric in shown]
        table.add_row(
            str(design.number),
            *("+".join(v) if isinstance(v := design.fields[n], tuple) else f"{v:,}" for n in names),
            *(f"{value:,.4g}" for value in values),
        )
    console = text_console()
    console.print(table)
    console.print(
        f"{len(found.designs):,} of {study.space.size:,} designs, {found.evaluated:,} evaluated now, "
        f"{len(failed):,} failed, {sum(d.feasible for d in found.designs):,} feasible",
        soft_wrap=True,
    )
    if failed:
        console.print(printable(f"the first that failed: {failed[0].figures.failed}"), soft_wrap=True)
    rungs = dict.fromkeys(f"{metric.name}: {metric.rung}" for metric in shown)
    table_of = study.components
    console.print(
        f"{'; '.join(rungs)} {table_of.name} ({table_of.node}), without {table_of.left_out}", soft_wrap=True
    )
