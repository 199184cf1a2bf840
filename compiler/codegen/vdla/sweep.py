"""Sweeps: micro-ops of TAPS in an order in which an operation finds the rows before its own held."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from vdla.isa.config import Config

from ...ir.stmt import Region
from ...ir.visit import free_vars
from .columns import Access, Column, Environment, Evaluator, Rows, evaluator

PAD = -1
"""Stands for every source in a row of pads."""


class PartedRows:
    """Weight `rows` as operations of a sweep name them: the first one of their group, plus the part of an input vector
    that the lanes are, in which the region of `data` starts."""

    def __init__(self, rows: Access, data: Region, config: Config) -> None:
        self._rows, self._group, self._narrow = rows, config.sweep_rows, config.block_out
        lane = data.starts[-1]
        self._lane, self._lanes_of = evaluator(lane), free_vars(lane)

    def base(self, environment: Environment) -> Column:
        """First tile of the buffer's copy that an iteration uses."""
        return self._rows.base(environment)

    def offset(self, environment: Environment) -> Column:
        """Number of the row, from the buffer's copy on."""
        row = self._rows.offset(environment)
        return row - row % self._group + self._lane(environment) // self._narrow

    def slope(self, loop: str) -> int | None:
        """How many rows one iteration of a loop moves on, if that is the same for all."""
        slope = self._rows.slope(loop)
        return None if slope is None or slope % self._group or loop in self._lanes_of else slope


def rows_loops(data: Region, names: Sequence[str], reducing: AbstractSet[str]) -> frozenset[str]:
    """Those loops of `names` that move down the rows of `data`, not `reducing`: those of the first dimension that a
    reducing loop moves along."""
    for start in data.starts:
        variables = free_vars(start)
        if variables & reducing:
            return frozenset(variables & set(names)) - reducing
    return frozenset()


@dataclass(frozen=True, slots=True)
class PaddedRows:
    """Rows of pads around what sweeps go down from end to end: `above` and `below`, of `rows` in all.

    `row` is the number of the row that an operation reads. All of them read as the same value, so that one that a sweep
    ended with is as good as the first one of the next sweep.
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
        """Of the attributes "above", "below" and "rows" of a sweep.

        None without them, and where the loops `down` the rows are not all in one sequence of micro-ops, that of the
        `unrolled` ones.
        """
        if "rows" not in attributes:
            return None
        start = next(start for start in data.starts if free_vars(start) & down)
        if not free_vars(start) <= unrolled:
            return None
        above, below, rows = (int(attributes[name]) for name in ("above", "below", "rows"))
        return PaddedRows(evaluator(start), above, below, rows)

    def pads(self, environment: Environment, count: int) -> np.ndarray:
        """Which of `count` operations read a row of pads."""
        row = np.broadcast_to(np.asarray(self.row(environment)), (count,))
        return (row < self.above) | (row >= self.rows - self.below)


def sweep_order(
    config: Config, indices: Sequence[Rows], starting: np.ndarray, pads: np.ndarray | None = None
) -> tuple[list[Rows], np.ndarray]:
    """The micro-ops of sweeps that compute what TAPS would, one for each row of a window, with `indices` (dst, src,
    wgt); and which of them start a sum, as those do of which one does in `starting`.

    A sum's rows of one group of weights come in the order of the window. An operation finds the rows before it held
    if they are the sources of the operations just before it; those that are not are read by operations that only hold.
    Those that read `pads` are alike, and one of them is held when the sweeps begin and when they end: by an operation
    of its own where the last sweep ends above the pads, as some with dilations do.
    """
    alike = set() if pads is None else set(np.asarray(indices[1])[pads].tolist())
    windows: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for dst, src, wgt in zip(*(item.tolist() for item in indices), strict=True):
        windows[wgt][dst].append(src)
    starts = set(np.asarray(indices[2])[starting].tolist())
    holds = config.sweep_rows // 2
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
    """Each sum and the sources that its operations read, if its first ones need not be read again.

    Those that are `alike` count as PAD. `held` are the last ones that were read, at the beginning and at the end.
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
