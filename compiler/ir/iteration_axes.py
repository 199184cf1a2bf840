"""Iteration spaces of loop nests as axes of numpy arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from .expr import Expr

MOST_ELEMENTS = 1 << 23
"""Largest number of elements of an intermediate array. A larger iteration space is evaluated in pieces, which are cut
along loops over the written indices; without such loops, arrays may be larger.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Iterations:
    """A set of loop iterations in which a statement is evaluated at once, with numpy arrays.

    `axes`: the loops that have an axis in the arrays, each as (first iteration, number of iterations). `values`: for
    every other loop, the value of the loop's variable. `guards`: (variable, extent) of each loop whose extent depends
    on other loops; an iteration is executed only if variable < extent.
    """

    axes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    values: Mapping[str, int] = field(default_factory=dict)
    guards: tuple[tuple[str, Expr], ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of iterations along each axis."""
        return tuple([count for _, count in self.axes.values()])

    def variable(self, name: str) -> Any:
        """The int64 values of the loop variable `name`: an array along the loop's axis (of size 1 along other axes), or
        a single number if the loop is no axis.
        """
        if name in self.values:
            return np.int64(self.values[name])
        position = list(self.axes).index(name)
        first, count = self.axes[name]
        shape = [1] * len(self.axes)
        shape[position] = count
        return np.arange(first, first + count, dtype=np.int64).reshape(shape)

    def pieces(self, names: list[str]) -> list[Iterations]:
        """The iterations split along the loops `names` into pieces whose arrays have at most `MOST_ELEMENTS` elements,
        if possible.
        """
        pieces: list[Iterations] = [self]
        for name in names:
            first, count = self.axes[name]
            size = prod(pieces[0].shape)
            if size <= MOST_ELEMENTS:
                break
            step = max(1, count * MOST_ELEMENTS // size)
            pieces = [
                replace(p, axes={**p.axes, name: (start, min(step, first + count - start))})
                for p in pieces
                for start in range(first, first + count, step)
            ]
        return pieces
