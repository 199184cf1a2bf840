"""Coefficients of the energy model, by non-negative least squares on replayed programs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import nnls

from vdla.codesign.technology.event_energy import STRUCTURE, structure_of
from vdla.codesign.technology.event_features import FEATURES, GROUPS, features_of, part_of_path
from vdla.codesign.technology.events import Events
from vdla.hw.activity.liberty import Library
from vdla.hw.activity.power import CLOCK_SLEW
from vdla.isa.config import Config
from vdla.isa.program import config_from_dict

from .results import RESULTS

Row = Mapping[str, Any]
Costs = Mapping[str, Mapping[str, float]]
FOLDS = 10
COVERAGE = 0.9
_DIGITS = 6


def row_features(row: Row, machines: Mapping[str, Config]) -> dict[str, float]:
    """The features of a replayed program."""
    return features_of(machines[row["machine"]], Events(**row["events"]), row["changes"])


def measured(row: Row) -> dict[str, float]:
    """Picojoules of data by part."""
    return {name: values[0] for name, values in row["picojoules"].items()}


def measured_clock(row: Row) -> float:
    """Picojoules of clock pins of all parts."""
    return sum(values[1] for values in row["picojoules"].values())


def fit_events(rows: Sequence[Row], machines: Mapping[str, Config]) -> dict[str, dict[str, float]]:
    """Picojoules by part and feature. A program counts by its relative error, however long it is."""
    features = [row_features(row, machines) for row in rows]
    totals = np.array([sum(measured(row).values()) for row in rows])
    found: dict[str, dict[str, float]] = {}
    for part, names in FEATURES.items():
        table = np.array([[one[name] for name in names] for one in features]) / totals[:, None]
        target = np.array([measured(row)[part] for row in rows]) / totals
        found[part] = _solved(names, table, target)
    return found


def _solved(names: Sequence[str], table: Any, target: Any) -> dict[str, float]:
    # Columns of equal size, or the solver takes small ones for nothing.
    scale = np.maximum(np.abs(table).max(axis=0), 1e-30)
    costs, _ = nnls(table / scale, target)
    return {name: float(f"{c:.{_DIGITS}g}") for name, c in zip(names, costs / scale, strict=True) if c > 0}


def fit_structure(rows: Sequence[tuple[Config, Mapping[str, float]]]) -> dict[str, dict[str, float]]:
    """What machines have of something by part, from their structure; a machine counts by its relative error."""
    table = np.array([[structure_of(config)[name] for name in STRUCTURE] for config, _ in rows])
    found: dict[str, dict[str, float]] = {}
    for part in GROUPS:
        target = np.array([own.get(part, 0.0) for _, own in rows])
        weight = 1 / np.maximum(target, 1e-3 * max(target.max(), 1.0))
        found[part] = _solved(STRUCTURE, table * weight[:, None], target * weight)
    return found


def synthesized(key: str) -> list[tuple[Config, dict[str, float]]]:
    """Machines of benchmarks/results/cell_areas_osu018_stdcells.jsonl with a column of their modules by part."""
    lines = (RESULTS / "cell_areas_osu018_stdcells.jsonl").read_text(encoding="utf-8").splitlines()
    head, *rows = (json.loads(line) for line in lines)
    place = head["module_columns"].index(key)
    found = []
    for row in rows:
        parts = dict.fromkeys(GROUPS, 0.0)
        for path, own in row["modules"].items():
            parts[part_of_path(_as_instance(path))] += own[0] * own[place]
        found.append((config_from_dict(row["config"]), parts))
    return found


def _as_instance(path: str) -> str:
    """A module of many alike under the name of its first instance."""
    for module, instance in (
        ("accumulator_lane", "lane"),
        ("reduction_lane", "reduction"),
        ("requantize_lane", "requantize"),
    ):
        path = path.replace(f".{module}", f".{instance}")
    return path.replace(".stage_b_lane", ".stage_b")


def clock_of(library: Library) -> float:
    """Picojoules that the clock pin of the smallest flip-flop costs in a cycle: its load twice, and its tables."""
    cell = min((c for c in library.cells.values() if c.register and c.refused is None), key=lambda c: c.area)
    assert cell.register is not None
    pin = cell.register.clock
    powers = [power for power in cell.powers if power.pin == pin]
    slew, load = np.full(1, CLOCK_SLEW), np.zeros(1)
    inside = sum(float(power.rise(slew, load)[0] + power.fall(slew, load)[0]) for power in powers)
    return max(cell.capacitances[pin]) * library.volts**2 + inside / max(1, len(powers))


def fold_ratios(rows: Sequence[Row], machines: Mapping[str, Config]) -> list[float]:
    """Measured over predicted data energy, each program predicted from the other folds; a seed is in one fold."""
    found: list[float] = []
    for fold in range(FOLDS):
        costs = fit_events([row for row in rows if row["seed"] % FOLDS != fold], machines)
        found += [ratio(row, costs, machines) for row in rows if row["seed"] % FOLDS == fold]
    return found


def machine_ratios(rows: Sequence[Row], machines: Mapping[str, Config]) -> list[float]:
    """The same, each machine's programs predicted from those of the other machines."""
    found: list[float] = []
    for name in dict.fromkeys(row["machine"] for row in rows):
        costs = fit_events([row for row in rows if row["machine"] != name], machines)
        found += [ratio(row, costs, machines) for row in rows if row["machine"] == name]
    return found


def interval_of(ratios: Iterable[float]) -> tuple[float, float]:
    """The conformal interval of a ratio: of one more program, `COVERAGE` of the time, half of the rest on each side."""
    ordered = sorted(ratios)
    tail = (1 - COVERAGE) / 2
    low = math.floor(tail * (len(ordered) + 1) + 1e-9)
    return ordered[max(0, low - 1)], ordered[min(len(ordered) - 1, len(ordered) - low)]


def predicted(row: Row, costs: Costs, machines: Mapping[str, Config]) -> dict[str, float]:
    """Picojoules of data by part."""
    features = row_features(row, machines)
    return {part: sum(c * features[name] for name, c in own.items()) for part, own in costs.items()}


def ratio(row: Row, costs: Costs, machines: Mapping[str, Config]) -> float:
    """Measured over predicted data energy of a program."""
    return sum(measured(row).values()) / sum(predicted(row, costs, machines).values())
