"""Moves of search algorithms (mutation, crossover, neighbours) on arrays of points. The resulting points may be
illegal.
"""

from __future__ import annotations

import numpy as np

from ...templates.space import Space


def mutate(space: Space, points: np.ndarray, generator: np.random.Generator, near: float = 0.5) -> np.ndarray:
    """Copies of `points`, int64 [n, axes]: each gets a new value on one random axis that has more than one value.

    With probability `near` the new value is a neighbour of the old one in the axis's order of values. Otherwise it is
    any value other than the old one.
    """
    sizes = np.array([len(axis.values) for axis in space.axes], dtype=np.int64)
    movable = np.flatnonzero(sizes > 1)
    if not len(movable):
        return points.copy()
    rows = np.arange(len(points))
    axes = movable[generator.integers(0, len(movable), len(points))]
    old, size = points[rows, axes], sizes[axes]
    far = (old + 1 + generator.integers(0, size - 1)) % size
    step = np.where(generator.random(len(points)) < 0.5, -1, 1)
    step = np.where((old + step < 0) | (old + step >= size), -step, step)
    moved = points.copy()
    moved[rows, axes] = np.where(generator.random(len(points)) < near, old + step, far)
    return moved


def cross(first: np.ndarray, second: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Children [n, axes] of the parents `first`[i] and `second`[i]: each axis of a child has the value of one of the
    parents, with equal probability.
    """
    return np.where(generator.random(first.shape) < 0.5, first, second)


def neighbours(space: Space, points: np.ndarray) -> np.ndarray:
    """All points [m, axes] that differ from one of `points` [n, axes] on exactly one axis, where they have any other
    value of the axis. A point may occur several times.
    """
    found = []
    for k, axis in enumerate(space.axes):
        values = np.arange(len(axis.values))
        moved = np.repeat(points, len(values), axis=0)
        moved[:, k] = np.tile(values, len(points))
        found.append(moved[moved[:, k] != np.repeat(points[:, k], len(values))])
    return np.concatenate(found)
