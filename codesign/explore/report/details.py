"""Data that only the report needs, besides the results of the search: the layers of the Pareto front's designs, and the
figures of the base configuration. They are computed once, and stored in a file beside the records.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vdla.compiler.records.network import Settings
from vdla.isa.config import Config
from vdla.util.errors import UserError
from vdla.util.files import read_file
from vdla.util.line_file import LineFile, RecordError

from ...technology.energy import energy_by_unit
from ..evaluate import Figures, evaluate, from_json, to_json
from ..study import Design, Exploration, Study
from ..syntheses import read_syntheses
from .data import Details, Layers, Verified
from .layers import columns, figures_by_layer

FILE = "layers.jsonl"
MOST_DESIGNS = 24
"""Default number of designs of the Pareto front whose layers are computed for the report."""
FORMAT = 1


def spread(exploration: Exploration, most: int) -> tuple[Design, ...]:
    """At most `most` designs of the Pareto front: the best one for each objective, and others spread evenly between
    them.
    """
    front = exploration.front
    if len(front) <= most:
        return front
    values = np.array([exploration.study.minimized(design) for design in front])
    best = [int(place) for place in values.argmin(axis=0)]
    between = [int(place) for place in np.linspace(0, len(front) - 1, most).round()]
    chosen = list(dict.fromkeys([*best, *between]))[:most]
    return tuple(front[place] for place in sorted(chosen))


def details_of(
    exploration: Exploration,
    folder: Path | None = None,
    *,
    most: int = MOST_DESIGNS,
    verified: Mapping[int, Verified] | None = None,
    told: Callable[[int, int], object] = lambda done, count: None,
) -> Details:
    """Data that only the report needs, besides the results of the search: the layers of up to `most` designs and the
    figures of the base configuration (`Details`). They are read from the file in `folder` if an earlier call stored
    them there; otherwise they are computed. With `most` = 0, nothing is computed.

    `verified`: results of co-simulation, which become a part of the data. `told` is called with (machines done,
    machines to do). KeyboardInterrupt ends the computation, and the data computed so far are returned.
    """
    study = exploration.study
    known = {} if folder is None else _read(folder / FILE, study.key)
    machines = {study.space.base.digest: study.space.base} | {
        design.machine.digest: design.machine
        for design in spread(exploration, most)
        if design.machine is not None
    }
    # Stored layers are out of date if the design's schedules were tuned after they were stored.
    of_design = {d.machine.digest: d.figures for d in exploration.designs if d.machine is not None}
    for digest in machines.keys() & of_design.keys() & known.keys():
        if _schedules(known[digest][0]) != _schedules(of_design[digest]):
            del known[digest]
    missing = [machine for digest, machine in machines.items() if digest not in known]
    try:
        for place, machine in enumerate(missing if most else []):
            told(place, len(missing))
            figures = of_design.get(machine.digest) or _base_figures(study)
            layers = {} if figures.failed is not None else _layers(study, machine, figures)
            known[machine.digest] = (figures, layers)
            if folder is not None:
                _append(folder / FILE, study.key, machine.digest, figures, layers)
        told(len(missing), len(missing))
    except KeyboardInterrupt:
        pass
    base = known.get(study.space.base.digest)
    return Details(
        base=None if base is None else base[0],
        layers={digest: layers for digest, (_, layers) in known.items()},
        verified=verified or {},
        syntheses={} if folder is None else read_syntheses(folder),
    )


def _schedules(figures: Figures) -> dict[str, Settings]:
    return {name: run.schedules for name, run in figures.networks.items()}


def _base_figures(study: Study) -> Figures:
    """Figures (cycles, energy, area) of the base configuration, with the same number of schedule trials as the designs
    of the Pareto front.
    """
    effort = max(study.effort, study.front_effort, key=lambda effort: effort.trials)
    return evaluate(study.space.base, study.networks, study.components, effort)


def _layers(study: Study, machine: Config, figures: Figures) -> Layers:
    try:
        return {
            network.name: columns(
                figures_by_layer(
                    machine,
                    network,
                    lambda config, events: energy_by_unit(config, events, study.components),
                    figures.networks[network.name].schedules,
                )
            )
            for network in study.networks
        }
    except UserError:
        return {}


Kept = dict[str, tuple[Figures, Layers]]


def _read(path: Path, key: str) -> Kept:
    """Figures and layers stored under the key of an exploration in the file at `path`, by digest of the machine.
    Damaged lines are skipped: their contents can be computed again.
    """
    try:
        lines = read_file(path).splitlines()
    except OSError:
        return {}
    found: Kept = {}
    for line in lines:
        try:
            value: Any = json.loads(line)
            if value["format"] == FORMAT and value["study"] == key:
                found[value["machine"]] = (from_json(value["figures"]), dict(value["layers"]))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
    return found


def _append(path: Path, key: str, digest: str, figures: Figures, layers: Layers) -> None:
    value = {
        "format": FORMAT,
        "study": key,
        "machine": digest,
        "figures": to_json(figures),
        "layers": layers,
    }
    try:
        with LineFile(path, cut=True) as file:
            file.append_line(json.dumps(value, separators=(",", ":"), allow_nan=False).encode() + b"\n")
    except RecordError:
        # The file only saves time: the report has the layers already.
        return
