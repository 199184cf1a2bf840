"""An exploration as tables: every design as CSV and JSON, the machines of the front as TOML."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from vdla.isa.config import toml_text
from vdla.util.whole_files import write_whole

from ..technology.area import basis
from .metrics import METRICS, Metric, rungs_of
from .space import plain, shown
from .study import Design, Exploration


def rows(exploration: Exploration) -> list[dict[str, Any]]:
    """A dictionary a design: number, fields, every metric, whether it is feasible and on the front, why it failed."""
    front = {design.number for design in exploration.front}
    found = []
    for design in exploration.designs:
        row: dict[str, Any] = {"design": design.number}
        row |= {name: shown(value) for name, value in design.fields.items()}
        row |= {metric.heading: value for metric, value in _metrics(exploration, design).items()}
        row |= {
            "feasible": design.feasible,
            "front": design.number in front,
            "failed": design.figures.failed or "",
        }
        found.append(row)
    return found


def _metrics(exploration: Exploration, design: Design) -> dict[Metric, float | None]:
    """Every metric of a design."""
    study = exploration.study
    return {metric: study.value(metric, design.machine, design.figures) for metric in METRICS.values()}


def document(exploration: Exploration) -> dict[str, Any]:
    """The exploration as one JSON object: what was searched, the rung of each figure, and the designs of the front.

    Of these, `intervals` are factors of a figure's value, and `clock_mhz` is null where no model predicts it.
    """
    study = exploration.study
    return {
        "space": {
            "base": study.space.base.name,
            "points": study.space.size,
            "fields": {axis.name: list(axis.values) for axis in study.space.axes},
        },
        "networks": {network.name: network.weight for network in study.networks},
        "strategy": study.strategy,
        "seed": study.seed,
        "budget": study.budget,
        "designs": len(exploration.designs),
        "failed": sum(design.objectives is None for design in exploration.designs),
        "evaluated": exploration.evaluated,
        "interrupted": exploration.interrupted,
        "rungs": rungs_of(METRICS.values(), (design.figures for design in exploration.designs)),
        "components": basis(study.components),
        "constraints": [constraint.text for constraint in study.constraints],
        "front": [
            {
                "design": design.number,
                "fields": plain(design.fields),
                **{metric.name: value for metric, value in _metrics(exploration, design).items()},
                "area_mm2": dict(design.figures.area),
                "clock_mhz": design.figures.clock_mhz,
                "intervals": {name: list(ends) for name, ends in design.figures.intervals.items()},
                "rungs": dict(design.figures.rungs),
                "networks": {
                    name: {"cycles": item.cycles, "energy_uj": dict(item.energy)}
                    for name, item in design.figures.networks.items()
                },
            }
            for design in exploration.front
        ],
    }


def write_tables(exploration: Exploration, folder: Path) -> tuple[Path, ...]:
    """Writes designs.csv, exploration.json and front/NUMBER.toml into `folder`; the first two paths.

    Raises WriteError.
    """
    table = rows(exploration)
    text = io.StringIO()
    if table:
        writer = csv.DictWriter(text, list(table[0]))
        writer.writeheader()
        writer.writerows(table)
    paths = (folder / "designs.csv", folder / "exploration.json")
    write_whole(paths[0], text.getvalue().encode())
    write_whole(paths[1], (json.dumps(document(exploration), indent=2, allow_nan=False) + "\n").encode())
    machines = folder / "front"
    machines.mkdir(exist_ok=True)
    present = {f"{design.number}.toml" for design in exploration.front}
    for path in machines.glob("*.toml"):
        # A search that went on has another front.
        if path.stem.isdecimal() and path.name not in present:
            path.unlink()
    for design in exploration.front:
        assert design.machine is not None
        write_whole(machines / f"{design.number}.toml", toml_text(design.machine).encode())
    return paths
