"""Coefficients of the energy model, by non-negative least squares on replayed programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import nnls
from vdla.codesign.technology.event_energy import (
    FEATURES,
    GROUPS,
    STRUCTURE,
    EventEnergy,
    features_of,
    parse_event_energy,
    structure_of,
)
from vdla.codesign.technology.events import Events
from vdla.hw.activity.liberty import Library
from vdla.hw.activity.power import CLOCK_SLEW
from vdla.isa.config import Config

Row = Mapping[str, Any]
_FOLDS = 5
_DIGITS = 6


def row_features(row: Row, machines: Mapping[str, Config]) -> dict[str, float]:
    """The features of a replayed program, over all the cycles that were replayed."""
    events = Events(**{**row["events"], "cycles": row["cycles_replayed"]})
    return features_of(machines[row["machine"]], events, row["changes"])


def measured(row: Row) -> dict[str, float]:
    """Picojoules of data by unit of the model."""
    units = row["picojoules"]
    return {
        group: sum(units[unit][0] + units[unit][1] for unit in names if unit in units)
        for group, names in GROUPS.items()
    }


def measured_clock(row: Row) -> float:
    """Picojoules of clock pins of all units."""
    return sum(values[2] for values in row["picojoules"].values())


def fit_events(rows: Sequence[Row], machines: Mapping[str, Config]) -> dict[str, dict[str, float]]:
    """Picojoules by unit and feature. A program counts by its relative error, however long it is."""
    features = [row_features(row, machines) for row in rows]
    totals = np.array([sum(measured(row).values()) for row in rows])
    found: dict[str, dict[str, float]] = {}
    for unit, names in FEATURES.items():
        table = np.array([[one[name] for name in names] for one in features]) / totals[:, None]
        target = np.array([measured(row)[unit] for row in rows]) / totals
        # Columns of equal size, or the solver takes small ones for nothing.
        scale = np.maximum(np.abs(table).max(axis=0), 1e-30)
        costs, _ = nnls(table / scale, target)
        found[unit] = {
            name: float(f"{c:.{_DIGITS}g}") for name, c in zip(names, costs / scale, strict=True) if c > 0
        }
    return found


def fit_structure(
    facts: Mapping[str, Any], machines: Mapping[str, Config], key: str
) -> dict[str, dict[str, float]]:
    """Flip-flops or leakage by unit and structure."""
    found: dict[str, dict[str, float]] = {}
    for unit, names in GROUPS.items():
        table = np.array([[structure_of(machines[name])[part] for part in STRUCTURE] for name in facts])
        target = np.array([
            sum(own["units"][inner][key] for inner in names if inner in own["units"]) for own in facts.values()
        ], float)  # fmt: skip
        costs, _ = nnls(table, target)
        found[unit] = {
            part: float(f"{c:.{_DIGITS}g}") for part, c in zip(STRUCTURE, costs, strict=True) if c > 0
        }
    return found


def clock_of(library: Library, register: str) -> float:
    """Picojoules that the clock pin of a flip-flop costs in a cycle: its load twice, and its tables."""
    cell = library.cells[register]
    assert cell.register is not None
    pin = cell.register.clock
    powers = [power for power in cell.powers if power.pin == pin]
    slew, load = np.full(1, CLOCK_SLEW), np.zeros(1)
    inside = sum(float(power.rise(slew, load)[0] + power.fall(slew, load)[0]) for power in powers)
    return max(cell.capacitances[pin]) * library.volts**2 + inside / max(1, len(powers))


def interval_of(rows: Sequence[Row], machines: Mapping[str, Config]) -> tuple[float, float]:
    """5% and 95% of measured over predicted data energy, each program predicted from the others' folds."""
    ratios: list[float] = []
    for fold in range(_FOLDS):
        costs = fit_events([row for i, row in enumerate(rows) if i % _FOLDS != fold], machines)
        ratios += [ratio(row, costs, machines) for i, row in enumerate(rows) if i % _FOLDS == fold]
    low, high = np.quantile(ratios, [0.05, 0.95])
    return float(low), float(high)


def predicted(
    row: Row, costs: Mapping[str, Mapping[str, float]], machines: Mapping[str, Config]
) -> dict[str, float]:
    """Picojoules of data by unit."""
    features = row_features(row, machines)
    return {unit: sum(c * features[name] for name, c in own.items()) for unit, own in costs.items()}


def ratio(row: Row, costs: Mapping[str, Mapping[str, float]], machines: Mapping[str, Config]) -> float:
    """Measured over predicted data energy of a program."""
    return sum(measured(row).values()) / sum(predicted(row, costs, machines).values())


def model_of(document: Mapping[str, Any]) -> EventEnergy:
    """The model in what the benchmark wrote."""
    return parse_event_energy(document)
