"""Counts exactly how often each statement of a program is executed. If extents of inner loops depend on a loop's
variable, the iterations of these loops are enumerated, because their counts are not plain products.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from ...codegen.vdla.columns import evaluate
from ...ir.bounds import Interval, interval
from ...ir.expr import Const, Expr
from ...ir.stmt import Copy, For, Program
from ...ir.visit import free_vars, walk


def tracked(program: Program) -> frozenset[str]:
    """The variables on which the extents of loops and of copied regions depend."""
    names: set[str] = set()
    for node in walk(program):
        if isinstance(node, For) and not isinstance(node.extent, Const):
            names |= free_vars(node.extent)
        elif isinstance(node, Copy):
            for extent in node.destination.extents:
                if not isinstance(extent, Const):
                    names |= free_vars(extent)
    return frozenset(names)


@dataclass(frozen=True, slots=True)
class _Group:
    """A list of the iterations of several nested loops, whose extents depend on each other.

    `values`: for each loop variable, its value in every listed iteration. `weights`: for each listed iteration, the
    number of executions for which it stands.
    """

    values: Mapping[str, np.ndarray]
    weights: np.ndarray

    @property
    def total(self) -> int:
        return int(self.weights.sum())


@dataclass(frozen=True, slots=True)
class Iterations:
    """How often a statement or loop of the program is executed, as a product. `factor` is the product of the extents of
    the independent loops around the statement. Each of `groups` is a list of loops whose extents depend on each other;
    its number of iterations is one more factor.
    """

    factor: int = 1
    groups: tuple[_Group, ...] = ()

    @property
    def total(self) -> int:
        """How often the statement or loop is executed in the whole program."""
        return self.factor * prod(group.total for group in self.groups)

    def times(self, extent: Expr, name: str | None) -> Iterations:
        """The number of executions of a loop's body. `extent`: number of iterations of the loop; the loop itself is
        executed as often as this object says. `name`: the loop's variable if extents of inner loops depend on it, else
        None.
        """
        if isinstance(extent, Const):
            length = max(0, int(extent.value))
            if name is None:
                return Iterations(self.factor * length, self.groups)
            new = _Group({name: np.arange(length)}, np.ones(length, np.int64))
            return Iterations(self.factor, (*self.groups, new))
        used = free_vars(extent)
        known = [g for g in self.groups if used & g.values.keys()]
        rest = tuple([g for g in self.groups if not used & g.values.keys()])
        values: dict[str, np.ndarray] = {}
        weights = np.ones(1, np.int64)
        for g in known:
            n, m = len(weights), len(g.weights)
            values = {v: np.repeat(a, m) for v, a in values.items()}
            values |= {v: np.tile(a, n) for v, a in g.values.items()}
            weights = np.repeat(weights, m) * np.tile(g.weights, n)
        lengths = np.maximum(0, np.broadcast_to(evaluate(extent, values), weights.shape))
        if name is None:
            return Iterations(self.factor, (*rest, _Group(values, weights * lengths)))
        first = np.cumsum(lengths) - lengths
        values = {v: np.repeat(a, lengths) for v, a in values.items()}
        weights = np.repeat(weights, lengths)
        values[name] = np.arange(len(weights)) - np.repeat(first, lengths)
        return Iterations(self.factor, (*rest, _Group(values, weights)))

    def longest(self, extent: Expr) -> int:
        """The largest number of iterations of a loop of this `extent`, which is inside the loops counted here. An upper
        bound if `extent` depends on several groups.
        """
        if isinstance(extent, Const):
            return max(0, int(extent.value))
        used = free_vars(extent)
        known = [g for g in self.groups if used & g.values.keys()]
        if any(not len(g.weights) for g in known):
            return 0
        if len(known) == 1:
            lengths = evaluate(extent, known[0].values)
            return max(0, int(np.max(lengths, initial=0)))
        values = {v: (int(a.min()), int(a.max())) for g in known for v, a in g.values.items()}
        ranges = {v: Interval(low, high) for v, (low, high) in values.items()}
        high = interval(extent, ranges).high
        assert high is not None
        return max(0, high)
