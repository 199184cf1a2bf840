"""The search space of a template: every setting of its knobs for one shape, as data; legality is computed in numpy.

A point is a vector of indices, one for each axis; many points are an int64 array [points, axes]. A `CostEstimates`
describes many points at once, without lowering any of them: legality limits, a lower bound on the cost, and quantities
from which a learned cost model can predict the cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from .columns import Columns, Values, one_point

AT_ONCE = 1 << 12
"""Number of a sample's points (settings of the knobs) for which the cost model is computed at once: few enough for the
columns to stay in the processor's cache.
"""
MOST_TRIES = 1 << 22
"""Largest number of points drawn for one sample. If none of them is legal, the space counts as empty."""
MOST_LISTED = 1 << 16
"""Largest number of points of a space that is enumerated if the first draws of a sample are all illegal."""


class EmptySpaceError(Exception):
    """Raised if a search finds no legal point (setting of the knobs) of the space of `template`. `limit`: the limit
    that excluded the last points tried. `found`: true if the search tried only a sample of the points, so that there
    may be legal points.
    """

    def __init__(self, template: str, limit: str, *, found: bool = False) -> None:
        super().__init__(
            f"{template}: no {'tried ' if found else ''}setting of the knobs respects the limit of {limit}"
        )
        self.template = template
        self.limit = limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A knob and its possible values, in an order in which adjacent values are similar."""

    name: str
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CostEstimates:
    """The cost model's results for n points (settings of the knobs); every array has length n.

    `limits`: bool by name, true for points within the limit. `bound`: lower bound on the cost of any program of the
    point, in the unit of measurements (cycles, seconds). `quantities`: positive float64 features for a learned model:
    counts, bytes, cycles, and under ESTIMATE the template's own estimate, if it has one. `effective`: int64 values of
    the axes, in which an axis without effect has a fixed value: points with equal effective values have the same
    program. `search_limits`: like `limits`, but excluding legal points that are not worth a trial.
    """

    limits: Mapping[str, np.ndarray]
    bound: np.ndarray
    quantities: Mapping[str, np.ndarray]
    effective: Columns
    search_limits: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Space:
    """All settings of a template's knobs for one shape.

    `cost`: the template's cost model. `floor`: lower bound on the cost of any program for this shape; points whose
    bound exceeds `slack * floor` count as illegal. `capacities`: names of the limits on memory. The point of all first
    values needs the least memory; if it violates one of these limits, every point does. `candidates`: groups of points
    among which a default is chosen (`template.cheapest`): values by axis; a missing axis stands for all its values.
    `open_grids`: whether `cost` also accepts columns that broadcast against each other (`numpy.ix_`). Such a call is
    faster, and only limits and estimate of its result are used.
    """

    template: str
    axes: tuple[Axis, ...]
    cost: Callable[[Columns], CostEstimates]
    floor: float
    slack: float
    capacities: frozenset[str] = frozenset()
    candidates: tuple[Mapping[str, Sequence[int]], ...] = ()
    open_grids: bool = False

    @property
    def size(self) -> int:
        """Number of points (settings of the knobs), legal or not."""
        return prod(len(axis.values) for axis in self.axes)

    def columns(self, points: np.ndarray) -> Columns:
        """The values of int64 `points` [n, axes] (settings of the knobs, as indices of values), by axis name."""
        return {
            axis.name: np.asarray(axis.values, dtype=np.int64)[points[:, k]]
            for k, axis in enumerate(self.axes)
        }

    def values(self, point: np.ndarray) -> dict[str, int]:
        """The values of the knobs at one `point`, by name. A point has, for each axis, the index of a value of this
        axis.
        """
        return {axis.name: axis.values[int(i)] for axis, i in zip(self.axes, point, strict=True)}

    def point(self, values: Values) -> np.ndarray:
        """The point [axes], as indices, with the given `values`. Raises ValueError for an axis or a value that the
        space does not have.
        """
        names = {axis.name for axis in self.axes}
        if unknown := sorted(values.keys() - names):
            raise ValueError(f"{self.template} has no knob {unknown[0]}")
        if missing := sorted(names - values.keys()):
            raise ValueError(f"{self.template}: no value was given for the knob {missing[0]}")
        indices = []
        for axis in self.axes:
            if values[axis.name] not in axis.values:
                raise ValueError(
                    f"{self.template}: {axis.name} = {values[axis.name]!r} is not one of this knob's values"
                )
            indices.append(axis.values.index(values[axis.name]))
        return np.array(indices, dtype=np.int64)

    def limits(self, estimates: CostEstimates) -> Mapping[str, np.ndarray]:
        """For each limit, by name: bool [points], whether each point (setting of the knobs) of `estimates` satisfies
        it.

        The limits are the template's legality and search limits, and one more: a lower bound on the point's cost must
        not exceed `self.slack` times `self.floor` (the least cost of any program for this shape).
        """
        return {
            **estimates.limits,
            **estimates.search_limits,
            "the bound on its cost": estimates.bound <= self.slack * self.floor,
        }

    def permits(self, values: Values) -> bool:
        """Whether the point with these `values` satisfies the template's limits; search limits do not apply."""
        return all(kept.all() for kept in self.cost(one_point(values)).limits.values())

    def legal(self, points: np.ndarray) -> np.ndarray:
        """For each of `points` [n, axes] (settings of the knobs, as indices), whether it satisfies all limits: bool
        [n].
        """
        return self.allowed(self.cost(self.columns(points)))

    def allowed(self, estimates: CostEstimates) -> np.ndarray:
        """For each point (setting of the knobs) of `estimates`, whether it satisfies all limits: bool [n]."""
        return np.logical_and.reduce(list(self.limits(estimates).values()))

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws `count` points (settings of the knobs) uniformly, legal or not: int64 [count, axes]."""
        sizes = np.array([len(axis.values) for axis in self.axes], dtype=np.int64)
        return rng.integers(0, sizes, size=(count, len(sizes)), dtype=np.int64)

    def sample(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws `count` legal points (settings of the knobs), uniformly and with repetitions: int64 [count, axes]. If
        `MOST_TRIES` draws find fewer legal points, those found are repeated.

        Raises EmptySpaceError if no legal point is found; immediately if it can be proven that there is none.
        """
        found: list[np.ndarray] = []
        missing, tries, chunk = count, 0, max(256, 4 * count)
        while missing > 0:
            points = self.draw(rng, chunk)
            kept = self._first_legal(points, missing)
            if not len(kept) and tries == 0:
                self._refute()
            found.append(kept)
            missing -= len(kept)
            tries += chunk
            if missing > 0 and tries >= MOST_TRIES:
                if missing == count:
                    raise EmptySpaceError(self.template, self.obstacle(points), found=True)
                # So few points are legal that the ones found represent all of them.
                return np.resize(np.concatenate(found), (count, len(self.axes)))
            chunk = min(2 * chunk, 1 << 16)
        return np.concatenate(found)

    def _first_legal(self, points: np.ndarray, most: int) -> np.ndarray:
        """The first `most` legal points among `points` [n, axes] (settings of the knobs, as indices), or all; evaluates
        no more than needed.
        """
        found = [points[:0]]
        for begin in range(0, len(points), AT_ONCE):
            part = points[begin : begin + AT_ONCE]
            found.append(part[self.legal(part)][:most])
            most -= len(found[-1])
            if most == 0:
                break
        return np.concatenate(found)

    def _refute(self) -> None:
        """Raises EmptySpaceError if it is provable that no point is legal: a memory is too small for all points, or the
        space is small enough to be enumerated.
        """
        broken = self.violated_capacities()
        if not broken and self.size <= MOST_LISTED:
            points = self.numbered(np.arange(self.size))
            if not self.legal(points).any():
                broken = [self.obstacle(points)]
        if broken:
            raise EmptySpaceError(self.template, broken[0])

    def violated_capacities(self) -> list[str]:
        """Names of the `capacities` (memory limits) that no point satisfies. A point (setting of the knobs) needs least
        memory if each knob has its first value, so only this point is tested.
        """
        least = self.cost(self.columns(np.zeros((1, len(self.axes)), np.int64)))
        return [name for name, kept in least.limits.items() if name in self.capacities and not kept[0]]

    def numbered(self, numbers: np.ndarray) -> np.ndarray:
        """The points (settings of the knobs), int64 [n, axes], with the given `numbers`, int64 [n] from 0 to `size` -
        1. Numbers count all points, the last axis fastest.
        """
        return np.stack(np.unravel_index(numbers, [len(axis.values) for axis in self.axes]), axis=1)

    def obstacle(self, points: np.ndarray) -> str:
        """The name of the limit that excludes the last of `points` (settings of the knobs), none of which is legal."""
        estimates = self.cost(self.columns(points))
        allowed = np.ones(len(points), dtype=bool)
        for reason, mask in self.limits(estimates).items():
            allowed &= mask
            if not allowed.any():
                return reason
        raise ValueError(f"{self.template}: some of the points are legal, so no limit excludes all of them")


def knobs_obstacle(space: Space, values: Values) -> str | None:
    """The reason why `values` are no legal point of a space; None if they are legal, or if `values` is empty."""
    if not values:
        return None
    try:
        point = space.point(values)
    except ValueError as error:
        return str(error)
    estimates = space.cost(space.columns(point[None]))
    broken = [name for name, kept in space.limits(estimates).items() if not kept[0]]
    return f"{space.template}: the knobs exceed the limit of {broken[0]}" if broken else None


def space_of_axes(
    template: str,
    axes: tuple[Axis, ...],
    cost: Callable[[Columns], CostEstimates],
    slack: float,
    floor_values: Mapping[str, int],
) -> Space:
    """The space of `axes`. Its floor is the least bound over the points whose axes in `floor_values` have the given
    values; the caller chooses values with which the bound is smallest.

    Raises ValueError if none of these points is legal.
    """
    free = [axis for axis in axes if axis.name not in floor_values]
    grid = combined(*[[(value,) for value in axis.values] for axis in free])
    columns = {axis.name: values for axis, values in zip(free, grid, strict=True)}
    columns |= {name: np.full(grid.shape[1], value, np.int64) for name, value in floor_values.items()}
    found = cost(columns)
    legal = np.logical_and.reduce(list(found.limits.values()))
    if not legal.any():
        raise ValueError(f"{template}: no setting of the knobs respects all limits")
    return Space(template=template, axes=axes, cost=cost, floor=float(found.bound[legal].min()), slack=slack)


def combined(*tables: Sequence[Sequence[int]]) -> np.ndarray:
    """All combinations of one row from each table, as an int64 array with a column for each combination. A column holds
    the entries of its rows one below the other, in the order of the tables. The last table's row varies fastest.
    """
    parts = [np.array(table, dtype=np.int64).T for table in tables]
    chosen = np.unravel_index(
        np.arange(prod(len(table) for table in tables)), [len(table) for table in tables]
    )
    return np.concatenate([part[:, rows] for part, rows in zip(parts, chosen, strict=True)])
