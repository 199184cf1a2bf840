"""How a search progresses as designs are evaluated: the hypervolume of the Pareto front, and the best value of each
objective.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..front import hypervolume, pareto
from ..study import Exploration

MOST_POINTS = 120
MOST_OBJECTIVES = 3
"""Largest number of objectives in the hypervolume: its computation takes too long in more dimensions. If a search has
more objectives, only the first `MOST_OBJECTIVES` are used.
"""
REFERENCE = 1.1
HOW = (
    "each objective is scaled so that 0 is its best and 1 its worst value on the front; the hypervolume lies between "
    "the front so far and a corner at 1.1, and is shown as a share of the final one"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """History of a search. `designs`: numbers of evaluated designs; the following values are those after each of these
    numbers. `volume`: the hypervolume of the Pareto front, as a share of its final value. `best`: for each objective of
    the search, a tuple of the best values (None before the first design that meets the constraints). `objectives`:
    names of the objectives that the hypervolume includes.
    """

    objectives: tuple[str, ...]
    designs: tuple[int, ...]
    volume: tuple[float, ...]
    best: tuple[tuple[float | None, ...], ...]


def history_of(exploration: Exploration) -> History:
    """The history of a search (hypervolume and best objectives after each number of designs); empty without a design
    that meets the constraints.
    """
    study = exploration.study
    names = tuple(metric.name for metric in study.objectives[:MOST_OBJECTIVES])
    feasible = [design for design in exploration.designs if design.feasible]
    if not feasible:
        return History(objectives=names, designs=(), volume=(), best=())
    values = np.array([study.minimized(design) for design in feasible])
    places = np.array([number for number, d in enumerate(exploration.designs, 1) if d.feasible])
    chosen = values[:, :MOST_OBJECTIVES]
    last = chosen[pareto(chosen)]
    low, high = last.min(axis=0), last.max(axis=0)
    scaled = (chosen - low) / np.where(high > low, high - low, 1.0)
    corner = [REFERENCE] * scaled.shape[1]
    count = len(exploration.designs)
    moments = np.unique(np.linspace(1, count, min(count, MOST_POINTS)).round().astype(int))
    found: list[float] = []
    front, seen, volume = scaled[:0], 0, 0.0
    for moment in moments:
        until = int(np.searchsorted(places, moment, side="right"))
        if until > seen:
            both = np.vstack([front, scaled[seen:until]])
            kept = pareto(both)
            if kept[len(front) :].any():
                volume = hypervolume(both[kept], corner)
            front, seen = both[kept], until
        found.append(volume)
    signs = [metric.sign for metric in study.objectives]
    best = np.minimum.accumulate(values, axis=0)
    rows = [int(np.searchsorted(places, moment, side="right")) - 1 for moment in moments]
    return History(
        objectives=names,
        designs=tuple(int(moment) for moment in moments),
        volume=tuple(value / volume if volume else 0.0 for value in found),
        best=tuple(
            tuple(None if row < 0 else sign * float(best[row, place]) for row in rows)
            for place, sign in enumerate(signs)
        ),
    )
