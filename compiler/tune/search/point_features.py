"""Features of points of a space for a cost model, and numbers that identify the programs of points.

The functions are independent of templates. The features are logarithms of knob values and of quantities, so that a
model sees ratios. Each quantity is also given relative to the space's floor, a lower bound on the cost of all points,
so that features of different workloads of a template are comparable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...templates.columns import ESTIMATE
from ...templates.space import CostEstimates, Space

GUESS = 0
"""Index of the feature column with the guess of a point's cost before any measurement. The guess is the template's
estimate or, without an estimate, the lower bound of the cost.
"""
FIRST_AXIS = 2
"""Index of the feature column for the first axis; the columns of the other axes follow."""
SMALLEST = 2.0**-40
"""Least value of a quantity before its logarithm is taken: smaller quantities, which may be zero, are replaced by it.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidates:
    """n points [n, axes] (int64) with legality, program numbers and features. All come from one evaluation of the space
    (`Space.cost`).

    `legal`: bool [n]. `programs`: uint64 [n], equal for points with equal programs. `features`: float64 [n, names]
    (`point_features`); column GUESS has the template's estimate of the cost if `estimated`, else the lower bound.
    """

    points: np.ndarray
    legal: np.ndarray
    programs: np.ndarray
    features: np.ndarray
    estimated: bool

    def __len__(self) -> int:
        return len(self.points)

    @property
    def places(self) -> np.ndarray:
        """Logarithms of the axes' values, float64 [n, axes]: points with near values have similar programs."""
        return self.features[:, FIRST_AXIS : FIRST_AXIS + self.points.shape[1]]

    def take(self, chosen: np.ndarray | slice) -> Candidates:
        """The candidates at `chosen`: indices, a mask or a slice."""
        return Candidates(
            points=self.points[chosen],
            legal=self.legal[chosen],
            programs=self.programs[chosen],
            features=self.features[chosen],
            estimated=self.estimated,
        )

    def legal_ones(self) -> Candidates:
        """The legal candidates."""
        return self.take(self.legal)


def examine(space: Space, points: np.ndarray) -> Candidates:
    """The Candidates of `points` int64 [n, axes], legal or not, from one evaluation of the space (`Space.cost`)."""
    estimates = space.cost(space.columns(points))
    return Candidates(
        points=points,
        legal=space.allowed(estimates),
        programs=program_numbers(space, estimates),
        features=_features(space, estimates)[1],
        estimated=ESTIMATE in estimates.quantities,
    )


def join(parts: Sequence[Candidates]) -> Candidates:
    """All candidates of `parts`, in order; there must be at least one part."""
    return Candidates(
        points=np.concatenate([part.points for part in parts]),
        legal=np.concatenate([part.legal for part in parts]),
        programs=np.concatenate([part.programs for part in parts]),
        features=np.concatenate([part.features for part in parts]),
        estimated=parts[0].estimated,
    )


def choose(mask: np.ndarray, first: Candidates, second: Candidates) -> Candidates:
    """Elementwise choice between two sets of n candidates: `first` where `mask` bool [n], else `second`."""
    return Candidates(
        points=np.where(mask[:, None], first.points, second.points),
        legal=np.where(mask, first.legal, second.legal),
        programs=np.where(mask, first.programs, second.programs),
        features=np.where(mask[:, None], first.features, second.features),
        estimated=first.estimated,
    )


def point_features(space: Space, points: np.ndarray) -> tuple[tuple[str, ...], np.ndarray]:
    """Names of the features, and their values for `points` int64 [n, axes]: float64 [n, names].

    All features are base-2 logarithms. The first are the guessed cost (column GUESS) and the lower bound of the cost,
    both relative to the space's floor. The values of the axes follow from column FIRST_AXIS on; an axis without effect
    at a point has its first value. The last features are the space's quantities, each absolute and relative to the
    floor.
    """
    return _features(space, space.cost(space.columns(points)))


def _features(space: Space, estimates: CostEstimates) -> tuple[tuple[str, ...], np.ndarray]:
    floor = max(space.floor, SMALLEST)
    guess = estimates.quantities.get(ESTIMATE, estimates.bound)
    names = ["guess/floor", "bound/floor"]
    columns = [guess / floor, estimates.bound / floor]
    for axis in space.axes:
        names.append(axis.name)
        columns.append(_from_one(estimates.effective[axis.name], axis.values))
    for name, quantity in estimates.quantities.items():
        names += [name, f"{name}/floor"]
        columns.append(quantity)
    # One feature for each row, so that all logarithms are computed at once.
    values = np.empty((len(columns), len(estimates.bound)))
    for row, column in enumerate(columns):
        values[row] = column
    logarithms = np.log2(np.maximum(values, SMALLEST))
    first = FIRST_AXIS + len(space.axes)
    absolute = logarithms[first:]
    features = np.empty((len(estimates.bound), len(names)))
    features[:, :first] = logarithms[:first].T
    features[:, first::2] = absolute.T
    features[:, first + 1 :: 2] = (absolute - np.log2(floor)).T
    return tuple(names), features


def _from_one(values: np.ndarray, possible: tuple[int, ...]) -> np.ndarray:
    """`values` of an axis, shifted so that the least of `possible`, the values that the axis may have, is at least 1.
    (Axes that are switches or permutation numbers contain 0, which has no logarithm.)
    """
    return values + max(0, 1 - min(possible))


def program_numbers(space: Space, estimates: CostEstimates) -> np.ndarray:
    """A number for each point, uint64 [n], equal for points with equal programs. Its digits in a mixed-radix system are
    the effective values of the axes.

    Exact for spaces of up to 2**64 points. For larger spaces it is a hash: the number modulo 2**64.
    """
    numbers = np.zeros(len(estimates.bound), dtype=np.uint64)
    hashed = space.size > 1 << 64
    for axis in space.axes:
        values = np.asarray(axis.values, dtype=np.int64)
        order = np.argsort(values)
        digits = order[np.searchsorted(values[order], estimates.effective[axis.name])]
        numbers = numbers * np.uint64(len(values) | 1 if hashed else len(values))
        numbers = numbers + digits.astype(np.uint64)
    return numbers
