"""Reads and writes study.json, the file with the settings of an exploration. With it and the exploration's records the
report can be rewritten.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vdla.isa.config import parse_config
from vdla.isa.config_text import toml_text
from vdla.util.errors import UserError
from vdla.util.files import read_file, write_whole
from vdla.util.user_files import read_whole

from ...technology.components import (
    MODELS,
    load_components,
    shipped_components,
)
from ..evaluate import Figures
from ..metrics import parse_constraint, parse_objectives
from ..networks import load_networks
from ..records import Known, read_records
from ..schedules.choose import Effort
from ..search import STRATEGIES
from ..space import Point, Space, space_of
from ..study import RECORDS, Design, Exploration, Study, with_tuned_front
from ..syntheses import read_syntheses, with_syntheses

FILE = "study.json"
FORMAT = 1
AGAIN = "give the `vdla explore` command again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Paths of the input files of an exploration, besides the files of the space of machines and of the networks."""

    technology: Path | None = None
    records: tuple[Path, ...] = ()


def save_study(folder: Path, study: Study, sources: Sources, exploration: Exploration | None = None) -> Path:
    """Writes study.json into `folder` and returns the path of the file. Before the search, the file has the settings of
    the exploration. After the search (with `exploration`), it also has the evaluated points of the space, in their
    order.
    """
    value: dict[str, Any] = {
        "format": FORMAT,
        "study": study.key,
        "space": {
            # Extensions that follow from the shape are derived for each design anew.
            "base": toml_text(study.space.base, as_given=True),
            "fields": {
                axis.name: [list(v) if isinstance(v, tuple) else v for v in axis.values]
                for axis in study.space.axes
            }
            | {name: expression.text for name, expression in study.space.derived.items()},
            "conditions": [condition.text for condition in study.space.conditions],
        },
        "networks": [
            {"file": str(Path(n.file).absolute()) if n.file else "", "weight": n.weight, "digest": n.digest}
            for n in study.networks
        ],
        "objectives": [metric.name for metric in study.objectives],
        "constraints": [constraint.text for constraint in study.constraints],
        "components": None if sources.technology is None else place_of_components(sources.technology),
        "records": [str(path.absolute()) for path in sources.records],
        "strategy": study.strategy,
        "seed": study.seed,
        "budget": study.budget,
        "trials": study.effort.trials,
        "front_trials": study.front_effort.trials,
    }
    if exploration is not None:
        value["interrupted"] = exploration.interrupted
        value["points"] = [list(_point(study.space, design)) for design in exploration.designs]
    write_whole(folder / FILE, (json.dumps(value) + "\n").encode())
    return folder / FILE


def load_exploration(folder: Path, notify: Callable[[str], None] = lambda text: None) -> Exploration:
    """The exploration recorded in a folder, from study.json, the records and the syntheses; nothing is evaluated.

    If its search was killed, only valid machines are known, in the order of their records. `notify` is called with a
    line of text about designs whose records are missing. Raises UserError, which names the file.
    """
    path = folder / FILE
    if not path.exists():
        raise UserError(f"{folder}: has no {FILE}; name the folder that `vdla explore -o` wrote")
    try:
        value: Mapping[str, Any] = json.loads(read_whole(path, "study"))
        if value["format"] != FORMAT:
            raise ValueError(f"its format is {value['format']!r}, not {FORMAT}")
        study = _study(value)
        points = [_checked(study.space, point) for point in value.get("points", ())]
        others = [Path(item) for item in value["records"]]
        key = str(value["study"])
    except UserError:
        raise
    except KeyError as error:
        raise UserError(f"{path}: is not a study (it has no {error.args[0]}); {AGAIN}") from None
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise UserError(f"{path}: is not a study ({error}); {AGAIN}") from None
    if key != study.key:
        raise UserError(
            f"{path}: networks, table of components or compiler have changed since the study; to evaluate anew, {AGAIN}"
        )
    records: Known = {}
    for place in (*others, folder / RECORDS):
        records = read_records(place) | records
    designs = _designs(study, key, records, points or _recorded_points(folder / RECORDS, study, key))
    if not any(design.machine is not None for design in designs):
        raise UserError(f"{folder / RECORDS}: has no design of the study; {AGAIN}")
    if len(designs) < len(points):
        notify(
            f"{len(points) - len(designs):,} of {len(points):,} designs have no record; to evaluate them, {AGAIN}"
        )
    interrupted = bool(value.get("interrupted", not points))
    found = with_tuned_front(Exploration(study=study, designs=designs, interrupted=interrupted), records)
    return with_syntheses(found, read_syntheses(folder))


def _study(value: Mapping[str, Any]) -> Study:
    table = value["space"]
    space = space_of(
        {
            "base": parse_config(table["base"], f"the base in {FILE}"),
            "fields": table["fields"],
            "conditions": table["conditions"],
        }
    )
    for item in value["networks"]:
        if not item["file"]:
            raise UserError(f"{FILE}: names no file from which network {item['name']} can be loaded; {AGAIN}")
    if value["strategy"] not in STRATEGIES:
        raise ValueError(f"there is no strategy {value['strategy']!r}")
    return Study(
        space=space,
        networks=load_networks([(item["file"], float(item["weight"])) for item in value["networks"]]),
        components=load_components(value["components"]),
        objectives=parse_objectives(value["objectives"]),
        constraints=tuple(parse_constraint(text) for text in value["constraints"]),
        strategy=value["strategy"],
        seed=int(value["seed"]),
        budget=int(value["budget"]),
        effort=Effort(trials=int(value.get("trials", 0))),
        front_effort=Effort(trials=int(value.get("front_trials", 0))),
    )


def place_of_components(path: Path) -> str:
    """The table of components as study.json stores it: its absolute path, or the name of a shipped table."""
    return str(path) if str(path) in (MODELS, shipped_components().name) else str(path.absolute())


def _checked(space: Space, point: Sequence[Any]) -> Point:
    found = tuple(map(int, point))
    sizes = [len(axis.values) for axis in space.axes]
    if len(found) != len(sizes) or not all(0 <= i < size for i, size in zip(found, sizes, strict=True)):
        raise ValueError(f"{list(point)} is not a point of its space")
    return found


def _point(space: Space, design: Design) -> Point:
    return tuple(axis.values.index(design.fields[axis.name]) for axis in space.axes)


def _designs(study: Study, key: str, records: Known, points: Sequence[Point]) -> tuple[Design, ...]:
    found: list[Design] = []
    names = {network.name: None for network in study.networks}.keys()
    for point in points:
        try:
            machine = study.space.machine(point)
        except UserError as error:
            found.append(study.design(len(found), point, None, Figures(failed=str(error))))
            continue
        figures = records.get((key, machine.digest))
        if figures is not None:
            if figures.failed is None and figures.networks.keys() != names:
                raise UserError(
                    f"{RECORDS}: the record of {machine.digest} has the networks {', '.join(figures.networks)}, "
                    f"but the study has {', '.join(names)}; {AGAIN}"
                )
            found.append(study.design(len(found), point, machine, figures))
    return tuple(found)


def _recorded_points(path: Path, study: Study, key: str) -> list[Point]:
    """The evaluated points of an exploration that was killed: all points of the space whose designs have a record under
    `key` in the file of records, in the order of the records.
    """
    found: dict[Point, None] = {}
    for line in read_file(path).splitlines() if path.exists() else ():
        try:
            value: Any = json.loads(line)
            if value["study"] != key:
                continue
            fields = {n: tuple(v) if isinstance(v, list) else v for n, v in value["fields"].items()}
            found[tuple(axis.values.index(fields[axis.name]) for axis in study.space.axes)] = None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            # An incomplete last line; `read_records` has refused any other damage.
            continue
    return list(found)
