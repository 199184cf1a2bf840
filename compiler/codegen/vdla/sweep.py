"""Emission of depthwise products in sweeps. In a sweep, TAPS micro-ops (products with several taps at once) go down the
rows of the input, one row after the other. Each micro-op reads one new row. The array still holds the preceding
rows, and multiplies all held rows by a group of rows of weights. Weights are therefore addressed by rows, not by tiles.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import vdla.isa.layout as layout
from vdla.isa.array_modes import SWEEP_MODE
from vdla.isa.config import Config

from ...ir.stmt import Region
from ...ir.visit import free_vars
from .columns import (
    Access,
    Column,
    Environment,
    Evaluator,
    Iterations,
    Rows,
    evaluator,
    pick,
)
from .machine import Span

if TYPE_CHECKING:
    from .emit import LayerEmitter

PAD = -1
"""Number that stands for every input row of padding in lists of input rows: all pad rows are equal."""


class PartedRows:
    """Addresses of depthwise weights for sweeps (TAPS operations that also multiply input rows read before), counted in
    rows of weights. Each operation multiplies one group of rows, and its address is the sum of two numbers: the number
    of the group's first row, and the number of the part of an input vector that the operation reads.

    A vector has several parts if it has more than block_out lanes. `rows`: the access to the weights, with addresses
    that count rows. `data`: the input region, whose last index gives the first lane.
    """

    def __init__(self, rows: Access, data: Region, config: Config) -> None:
        self._rows, self._group, self._narrow = rows, SWEEP_MODE.group(config), config.block_out
        lane = data.starts[-1]
        self._lane, self._lanes_of = evaluator(lane), free_vars(lane)

    def base(self, environment: Environment) -> Column:
        """The first weight tile of the buffer copy (double buffering) that each iteration uses."""
        return self._rows.base(environment)

    def offset(self, environment: Environment) -> Column:
        """For each iteration, the address in the buffer's copy: first row of the group + number of the part."""
        row = self._rows.offset(environment)
        return row - row % self._group + self._lane(environment) // self._narrow

    def slope(self, loop: str) -> int | None:
        """Number of rows by which the access moves in each iteration of `loop`. None if the loop changes the lane, or
        if it does not move the access by a constant number of whole groups.
        """
        slope = self._rows.slope(loop)
        return None if slope is None or slope % self._group or loop in self._lanes_of else slope


def rows_loops(data: Region, names: Sequence[str], reducing: AbstractSet[str]) -> frozenset[str]:
    """The loops among `names` that move the region `data` down its rows. `reducing`: the loops over which sums run; the
    result contains none of them.

    The dimension of the rows is the first dimension of `data` along which a loop in `reducing` moves the region.
    """
    for start in data.starts:
        variables = free_vars(start)
        if variables & reducing:
            return frozenset(variables & set(names)) - reducing
    return frozenset()


@dataclass(frozen=True, slots=True)
class PaddedRows:
    """Rows of padding above and below an input plane, for sweeps over the plane's whole height. `above`, `below`:
    numbers of pad rows. `rows`: number of rows of the plane, padding included.

    `row`: computes the number of the row that an operation reads. All pad rows have equal values, so the pad row that a
    sweep reads last also serves as the first row of the next sweep.
    """

    row: Evaluator
    above: int
    below: int
    rows: int

    @staticmethod
    def of(
        attributes: Mapping[str, int | float | str],
        data: Region,
        unrolled: AbstractSet[str],
        down: AbstractSet[str],
    ) -> PaddedRows | None:
        """The rows of padding given by the attributes "above", "below" and "rows" of a sweep (TAPS operations that also
        multiply input rows read before).

        Returns None if the sweep has no such attributes. Also returns None if the number of the row that an operation
        reads depends on a loop that is not among the loops `unrolled` into the micro-op sequence. `down`: the loops
        that move down the rows.
        """
        if "rows" not in attributes:
            return None
        start = next(start for start in data.starts if free_vars(start) & down)
        if not free_vars(start) <= unrolled:
            return None
        above, below, rows = (int(attributes[name]) for name in ("above", "below", "rows"))
        return PaddedRows(evaluator(start), above, below, rows)

    def pads(self, environment: Environment, count: int) -> np.ndarray:
        """Whether each of `count` operations reads a row of pads: bool, (count,)."""
        row = np.broadcast_to(np.asarray(self.row(environment)), (count,))
        return (row < self.above) | (row >= self.rows - self.below)


def sweep_order(
    config: Config, indices: Sequence[Rows], starting: np.ndarray, pads: np.ndarray | None = None
) -> tuple[list[Rows], np.ndarray]:
    """Converts TAPS micro-ops, each of which multiplies one row of a window, into sweeps with the same results. In a
    sweep, one operation multiplies the input row that it reads, and also the rows that the array still holds from
    preceding operations. Returns the new micro-ops, and for each of them whether it starts a sum.

    `indices`: the given micro-ops as three arrays (accumulator, input row, group of rows of weights); the result has
    the same form. `starting`: whether each given micro-op starts a sum. If it does, all new micro-ops with the same
    group of weights start a sum.

    The operation that reads a window's last input row computes the sum, while the array holds the window's other rows.
    If the array does not hold them, additional operations, which compute no sum, read them first.

    `pads`: whether each given micro-op reads a row of padding; all pad rows are equal. If `pads` is given, the array
    holds a row of padding before and after each sweep. A sweep that ends with another row (possible with dilations)
    gets an additional operation that reads a row of padding.
    """
    alike = set() if pads is None else set(np.asarray(indices[1])[pads].tolist())
    windows: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for dst, src, wgt in zip(*(item.tolist() for item in indices), strict=True):
        windows[wgt][dst].append(src)
    starts = set(np.asarray(indices[2])[starting].tolist())
    holds = SWEEP_MODE.group(config) // 2
    found: list[tuple[int, int, int]] = []
    begins: list[bool] = []
    for wgt, sums in windows.items():
        held = [] if pads is None else [PAD]
        for dst, sources in _chained(sums, alike, held):
            found += [(dst, src, wgt + holds) for src in sources[:-1]]
            found.append((dst, sources[-1], wgt))
            begins += [wgt in starts] * len(sources)
        if pads is not None and held[-1] != PAD:
            found.append((found[-1][0], min(alike), wgt + holds))
            begins.append(wgt in starts)
    return list(np.array(found, dtype=np.int64).T), np.array(begins)


def _chained(
    sums: dict[int, list[int]], alike: AbstractSet[int], held: list[int]
) -> Iterator[tuple[int, list[int]]]:
    """Orders sums so that a sum begins with rows that the array still holds. Yields (accumulator, input rows) for each
    sum. The input rows are those that operations must read: all rows of the sum, without the first rows if the array
    still holds them.

    `sums`: input rows of each sum, by accumulator. `alike`: the rows that are padding, all of which count as one row,
    PAD. `held`: the rows that were read last; updated in place.
    """
    names = {dst: [PAD if source in alike else source for source in sources] for dst, sources in sums.items()}
    by_head: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for dst, sources in reversed(names.items()):
        for length in range(1, len(sources)):
            by_head[tuple(sources[:length])].append(dst)
    left = dict(names)
    while left:
        dst, known = next(iter(left)), 0
        for length in range(min(len(left[dst]) - 1, len(held)), 0, -1):
            waiting = by_head.get(tuple(held[-length:]), [])
            while waiting and waiting[-1] not in left:
                waiting.pop()
            if waiting:
                dst, known = waiting[-1], length
                break
        held[:] = left.pop(dst)
        yield dst, sums[dst][known:]


def hold_pads(
    emitter: LayerEmitter, inner: Iterations, common: dict[str, Column], spans: Sequence[Span]
) -> None:
    """Emits, before all sums, a TAPS operation that reads a row of padding. The array then holds this row, so that the
    first operation of a sweep can multiply it as a row read before. `inner`: the iterations of the repeated loops.
    `common`: fields of the instructions that compute sums; only the fields' names are used. `spans`: the accumulators,
    inputs and weights that these instructions access.
    """
    one = np.zeros(1, dtype=np.int64)
    words = layout.encode_uops(emitter.config, one, one, one + SWEEP_MODE.group(emitter.config) // 2)
    acc, inp, wgt = (Span(s.space, pick(s.low, one), pick(s.high, one)) for s in spans)
    emitter.add(
        "TAPS",
        inner.position[:1],
        {**dict.fromkeys(common, 0), "iter_out": 1, "iter_in": 1, "uop_bgn": 0, "uop_end": 1, "overwrite": 0},
        reads=(inp, wgt),
        writes=(acc,),
        sequence=np.array([emitter.sequence(words)]),
    )
