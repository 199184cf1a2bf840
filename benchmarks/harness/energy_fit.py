"""Fits the coefficients of the energy model to replayed programs by non-negative least squares, and computes the errors
of the model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import nnls
from scipy.stats import t

from vdla.codesign.technology.cell_model import CellModel
from vdla.codesign.technology.event_energy import Spread
from vdla.codesign.technology.event_features import FEATURES, features_of
from vdla.codesign.technology.events import Events
from vdla.codesign.technology.memories import memories_of
from vdla.codesign.technology.memory_energy import accesses, macro_energy, memory_picojoules
from vdla.hw.activity.liberty import Library
from vdla.hw.activity.power import CLOCK_SLEW
from vdla.hw.synthesis.cells.sram import Scale
from vdla.isa.config import Config

from .energy_rows import is_reserved

Row = Mapping[str, Any]
Costs = Mapping[str, Mapping[str, float]]
COVERAGE = 0.9
_DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Energy of a program in picojoules, in three parts: changing data, clock pins, memories."""

    data: float
    clock: float
    memories: float

    @property
    def whole(self) -> float:
        """Energy of the program in picojoules: the sum of the three parts."""
        return self.data + self.clock + self.memories


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Energy of a program, once from the replay on its machine's netlist and once predicted. `machine`: name of the
    machine; `seed`: seed of the program.
    """

    machine: str
    seed: int
    replayed: Parts
    predicted: Parts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rest:
    """Inputs of an energy prediction in addition to the fitted coefficients of events: the area model (`cells`), which
    predicts numbers of flip-flops; the picojoules of one clock pin in a cycle (`clock`); and the technology scale of
    the memory macros' figures (`scale`).
    """

    cells: CellModel
    clock: float
    scale: Scale


def row_features(row: Row, machines: Mapping[str, Config]) -> dict[str, float]:
    """The energy model's features, by name, of the replayed program `row`, from its events and its numbers of changing
    operand bits. `machines`: the configurations by name.
    """
    return features_of(machines[row["machine"]], Events(**row["events"]), row["changes"])


def measured(row: Row) -> dict[str, float]:
    """Energy of data switching (without clock pins) in a replayed program, in picojoules by part of the machine."""
    return {name: values[0] for name, values in row["picojoules"].items()}


def measured_clock(row: Row) -> float:
    """Replayed energy of clock pins in picojoules, summed over all parts of the machine."""
    return sum(values[1] for values in row["picojoules"].values())


def measured_memories(row: Row, scale: Scale) -> float:
    """Energy of all memory macros in picojoules, from the reads and writes counted in the replay. `scale`: technology
    scale of the macros' energies.
    """
    total = 0.0
    for name, (reads, writes) in row["memories"].items():
        words, width = map(int, name.rpartition(" ")[2].split("x"))
        figures = macro_energy(words, width, scale)
        total += reads * figures.read_pj + writes * figures.write_pj
    return total


def fit_events(rows: Sequence[Row], machines: Mapping[str, Config]) -> dict[str, dict[str, float]]:
    """Fits the energy of switching data to the programs `rows`. The energy of a part of the machine is a weighted sum
    of features (numbers of events). Returns the weights, in picojoules per event, by part and feature; weights of 0 are
    left out. The fit minimizes errors relative to a program's whole energy of switching data, so that long programs do
    not dominate. `machines`: the configurations by name.

    Raises ValueError for a row reserved for evaluation.
    """
    if any(is_reserved(row) for row in rows):
        raise ValueError("no model may be fitted to machines and programs that are reserved for evaluation")
    features = [row_features(row, machines) for row in rows]
    totals = np.array([sum(measured(row).values()) for row in rows])
    found: dict[str, dict[str, float]] = {}
    for part, names in FEATURES.items():
        table = np.array([[one[name] for name in names] for one in features]) / totals[:, None]
        target = np.array([measured(row)[part] for row in rows]) / totals
        found[part] = _solved(names, table, target)
    return found


def _solved(names: Sequence[str], table: Any, target: Any) -> dict[str, float]:
    # Columns are scaled to equal size; the solver would treat small ones as zero.
    scale = np.maximum(np.abs(table).max(axis=0), 1e-30)
    costs, _ = nnls(table / scale, target)
    return {name: float(f"{c:.{_DIGITS}g}") for name, c in zip(names, costs / scale, strict=True) if c > 0}


def clock_of(library: Library) -> float:
    """Picojoules in one cycle of the clock pin of the smallest flip-flop: the pin's capacitance times the supply
    voltage squared, plus the internal energies of a rise and a fall in its Liberty tables.
    """
    cell = min((c for c in library.cells.values() if c.register and c.refused is None), key=lambda c: c.area)
    assert cell.register is not None
    pin = cell.register.clock
    powers = [power for power in cell.powers if power.pin == pin]
    slew, load = np.full(1, CLOCK_SLEW), np.zeros(1)
    inside = sum(float(power.rise(slew, load)[0] + power.fall(slew, load)[0]) for power in powers)
    return max(cell.capacitances[pin]) * library.volts**2 + inside / max(1, len(powers))


def predicted(row: Row, costs: Costs, machines: Mapping[str, Config]) -> dict[str, float]:
    """Energy of switching data (without clock pins) that the model `costs` predicts for the program `row`, in
    picojoules by part of the machine. `machines`: the configurations by name.
    """
    features = row_features(row, machines)
    return {part: sum(c * features[name] for name, c in own.items()) for part, own in costs.items()}


def judge(row: Row, costs: Costs, machines: Mapping[str, Config], rest: Rest) -> Judged:
    """Compares two energies of the replayed program of `row`: the energy that the replay measured, and the predicted
    one. Both are given by parts: data, clock and memories. The prediction uses the fitted `costs` of events for the
    data, and the models in `rest` for clock and memories. `machines`: the configurations by name.
    """
    config, events = machines[row["machine"]], Events(**row["events"])
    flip_flops = sum(rest.cells.flip_flops_by_module(config, memories_of(config)).values())
    return Judged(
        machine=row["machine"],
        seed=row["seed"],
        replayed=Parts(
            data=sum(measured(row).values()),
            clock=measured_clock(row),
            memories=measured_memories(row, rest.scale),
        ),
        predicted=Parts(
            data=sum(predicted(row, costs, machines).values()),
            clock=flip_flops * rest.clock * events.cycles,
            memories=sum(memory_picojoules(config, accesses(config, events), rest.scale).values()),
        ),
    )


def left_out(rows: Sequence[Row], machines: Mapping[str, Config], rest: Rest) -> list[Judged]:
    """Replayed and predicted energy of every program of `rows` whose memory accesses were counted; each machine is
    predicted by a model fitted to the other machines. `machines`: the configurations by name; `rest`: the models that
    predict the energy of clock and memories.
    """
    found: list[Judged] = []
    for name in dict.fromkeys(row["machine"] for row in rows):
        costs = fit_events([row for row in rows if row["machine"] != name], machines)
        own = [row for row in rows if row["machine"] == name and "memories" in row]
        found += [judge(row, costs, machines, rest) for row in own]
    return found


def spread_of(judged: Sequence[Judged]) -> Spread:
    """The spread of the errors: root mean square of the relative errors of each part, and the half-width of the
    interval that covers the share `COVERAGE`, as a multiple of `Spread.deviation`.

    Every machine has the same weight, however many programs it has. Programs of a machine have similar errors, so
    machines are the samples: the half-width follows Student's t distribution; its degrees of freedom are the number of
    machines - 1.
    """
    machines = dict.fromkeys(one.machine for one in judged)
    own = {name: sum(one.machine == name for one in judged) for name in machines}

    def root_mean_square(values: Iterable[float]) -> float:
        pairs = zip(judged, values, strict=True)
        return math.sqrt(sum(value**2 / own[one.machine] for one, value in pairs) / len(own))

    def off(name: str) -> float:
        shares = (getattr(one.replayed, name) / getattr(one.predicted, name) - 1 for one in judged)
        return round(root_mean_square(shares), 5)

    alone = Spread(data=off("data"), clock=off("clock"), memories=off("memories"), reach=0.0)
    whole = root_mean_square(
        (one.replayed.whole - one.predicted.whole)
        / alone.deviation(one.predicted.data, one.predicted.clock, one.predicted.memories)
        for one in judged
    )
    ends = float(t.ppf((1 + COVERAGE) / 2, len(own) - 1)) * math.sqrt(1 + 1 / len(own))
    return replace(alone, reach=round(whole * ends, 4))


def ends_of(one: Judged, spread: Spread) -> tuple[float, float]:
    """The lower and the upper end, in picojoules, of the interval that `spread` gives around the predicted total energy
    of the program `one`.
    """
    ours = one.predicted
    off = spread.reach * spread.deviation(ours.data, ours.clock, ours.memories)
    return ours.whole - off, ours.whole + off
