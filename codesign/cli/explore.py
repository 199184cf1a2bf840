"""`vdla explore`: searches a space of machines (accelerator configurations) for the designs that no other design
dominates.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vdla.util.errors import UserError

from ..explore.schedules import FRONT_TRIALS
from .explore_files import check_cells, check_rtl, end_written, print_written, write_files
from .options import JsonOption, TechnologyOption
from .output import note, steps

if TYPE_CHECKING:
    from ..explore.study import Exploration

PAGE_SECONDS = 60.0
"""Least number of seconds between two reports that are written during the search."""
LayersOption = Annotated[
    int,
    typer.Option(
        min=0,
        metavar="N",
        help="Designs of the front that the report shows layer by layer; 0: only designs computed before.",
    ),
]
VerifyOption = Annotated[
    int,
    typer.Option(
        "--verify-front",
        min=0,
        metavar="N",
        help="Co-simulate N designs of the front on their RTL; their Verilog and programs go to front/.",
    ),
]
SynthesizeOption = Annotated[
    int,
    typer.Option(
        "--synthesize",
        min=0,
        metavar="N",
        help="Map N designs of the front onto standard cells: area and clock measured, not predicted.",
    ),
]
PicturesOption = Annotated[
    bool, typer.Option("--pictures/--no-pictures", help="Also draw the page's pictures as PNG files.")
]


def explore(
    space: Annotated[
        Path,
        typer.Argument(
            metavar="SPACE.toml", help="The search space: a base configuration, and values for its fields."
        ),
    ],
    network: Annotated[
        list[str],
        typer.Option(
            metavar="MODEL.onnx[*WEIGHT]",
            help="A quantized network; *2 counts it twice. May be repeated.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Directory for records, report, tables and machines."
        ),
    ],
    objective: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="Figures to optimize: latency, energy, area, edp, cycles, dram, utilization.",
        ),
    ] = "latency,energy,area",
    constraint: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LIMIT", help='A constraint, as in "area<2mm2" or "utilization>0.9". May be repeated.'
        ),
    ] = None,
    budget: Annotated[
        int, typer.Option(min=1, help="Designs to evaluate; designs found in records count.")
    ] = 100,
    strategy: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Search strategy: model (our own), nsga2 or tpe (both Optuna's), random, exhaustive.",
        ),
    ] = "model",
    seed: Annotated[int, typer.Option(help="Seed of the search.")] = 0,
    batch: Annotated[int, typer.Option(min=1, help="Designs that the search proposes at a time.")] = 20,
    trials: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Schedules to try for each layer on every machine; 0: only the template's own.",
        ),
    ] = 0,
    tune_front: Annotated[
        int, typer.Option(min=0, metavar="N", help="Like --trials, for the designs of the final front.")
    ] = FRONT_TRIALS,
    workers: Annotated[int, typer.Option(min=1, help="Processes that evaluate designs.")] = 1,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="tcp://HOST:PORT", help="Evaluate on the workers of this dask scheduler instead."
        ),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(help="Seconds that one design may take in another process."),
    ] = 600.0,
    technology: TechnologyOption = "models",
    records: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Records of other studies whose evaluations are used again. May be repeated."
        ),
    ] = None,
    from_advice: Annotated[
        bool,
        typer.Option(
            "--from-advice",
            help="Start from the base with the extensions, memories and bus that `vdla advise` finds for the networks.",
        ),
    ] = False,
    layers: LayersOption = 24,
    pictures: PicturesOption = True,
    synthesize: SynthesizeOption = 0,
    verify_front: VerifyOption = 0,
    json: JsonOption = False,
) -> None:
    """Searches a space of machines. Cycles are exact; by default, area, clock and energy come from models fitted to
    syntheses.

    Every design is recorded. To continue an interrupted study, give the command again.
    """
    from ..api.exploration import explore as search
    from ..explore.report.write import write_page
    from ..explore.space import load_space, without_machine
    from ..technology.components import load_components

    # Before the search: hours may pass until the tools are needed.
    if verify_front:
        check_rtl()
    if synthesize:
        check_cells(load_components(technology))
    if (missing := without_machine(load_space(space))) is not None:
        note(missing)
    shown_at = time.monotonic()
    with steps() as progress:
        progress.begin("exploring")

        def told(exploration: Exploration) -> None:
            nonlocal shown_at
            progress.reach(len(exploration.designs), exploration.study.budget)
            progress.rename(
                f"exploring: {len(exploration.designs):,} designs, {len(exploration.front):,} on the front"
            )
            if time.monotonic() - shown_at > PAGE_SECONDS:
                write_page(exploration, output)
                shown_at = time.monotonic()

        def tuning(done: int, count: int) -> None:
            if done == 1:
                progress.begin("trying schedules of the front")
            progress.reach(done, count)

        explored = search(
            space,
            [_network(text) for text in network],
            objective,
            constraints=constraint or (),
            budget=budget,
            strategy=strategy,
            seed=seed,
            batch=batch,
            trials=trials,
            tune_front=tune_front,
            workers=workers,
            scheduler=scheduler,
            timeout=timeout,
            technology=technology,
            folder=output,
            records=records or (),
            from_advice=from_advice,
            told=told,
            tuning=tuning,
            notify=note,
        )
    found = explored.exploration
    _check_any(found)
    after = (0, 0) if found.interrupted else (synthesize, verify_front)
    written = write_files(
        found, output, layers=layers, pictures=pictures, synthesize=after[0], verify=after[1]
    )
    print_written(written, json)
    if found.interrupted:
        note("interrupted; run the same command again to continue from the records")
        raise typer.Exit(130)
    end_written(written)


def _network(text: str) -> tuple[Path, float]:
    path, star, weight = text.rpartition("*")
    if not star:
        return Path(text), 1.0
    try:
        return Path(path), float(weight)
    except ValueError:
        raise UserError(
            f'--network "{text}": {weight} is not a weight; write a number, such as MODEL.onnx*2'
        ) from None


def _check_any(found: Exploration) -> None:
    """Raises UserError if the search ended and every design failed, so that there are no latencies, energies or areas
    to report.
    """
    if not found.interrupted and all(design.objectives is None for design in found.designs):
        first = found.designs[0].figures.failed if found.designs else "it has none"
        raise UserError(
            f"none of {len(found.designs):,} designs runs all networks; the first failed: {first}"
        )
