"""Describes a move of positions (pixels) between planes by as few boxes as possible. A box is a grid of rows and
columns with equal steps in the source and in the output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

import numpy as np

MOST_PERIOD = 64
"""In a list of positions (pixels), some may repeat or be skipped regularly. The search for a period ends at this
length.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """A grid of positions (pixels) of a plane, counted row by row: `start` + i * `down` + j * `along` for row i and
    column j of the grid.
    """

    start: int
    down: int
    along: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A move of `rows` x `columns` elements from one plane to another. Element (i, j) of the grid `output`, in the
    output plane, gets the value of element (i, j) of the grid `source`, in the source plane. If `source` is None, all
    elements get the fill value.
    """

    rows: int
    columns: int
    output: Steps
    source: Steps | None


@dataclass(frozen=True, slots=True)
class _Run:
    """A run of equally spaced values in a list: the value at index `start` + k * `step` is `first` + k * `by`, for k
    below `count`.
    """

    start: int
    step: int
    count: int
    first: int
    by: int


def boxes_of(index: np.ndarray, most: int) -> list[Box]:
    """Divides an output plane into boxes (grids with equal steps). `index`, int (H, W), is the source pixel of each
    output pixel, or -1 for the fill value.

    `most`: largest step between neighbouring pixels of a box in the source; steps are 0 to `most`.
    """
    width = index.shape[1]
    lines = [(y, _runs(line, most)) for y, line in enumerate(index.tolist())]
    found: list[Box] = []

    def shape(item: tuple[int, list[_Run]]) -> list[_Run]:
        # Key of lines that differ only in the source positions of their runs.
        return [replace(run, first=min(run.first, 0)) for run in item[1]]

    for _, group in groupby(lines, key=shape):
        alike = list(group)
        for place, run in enumerate(alike[0][1]):
            for down in _runs([runs[place].first for _, runs in alike], most):
                output = Steps(
                    start=(alike[0][0] + down.start) * width + run.start,
                    down=down.step * width,
                    along=run.step,
                )
                source = None if run.first < 0 else Steps(start=down.first, down=down.by, along=run.by)
                found.append(Box(rows=down.count, columns=run.count, output=output, source=source))
    return _joined(found, most)


def _runs(values: Sequence[int], most: int) -> list[_Run]:
    """Covers a list of `values` by as few runs as possible. In a run the values grow by a constant step from 0 to
    `most`. Runs have either consecutive indices of the list, or every p-th index, with one period p for all runs. Of
    the two choices, the one with fewer runs is taken.
    """
    plain = _plain_runs(values, most)
    count = len(values)
    for period in range(1, min(count // 2, MOST_PERIOD, len(plain)) + 1):
        steps = {values[i + period] - values[i] for i in range(count - period)}
        if len(steps) == 1 and 0 <= (by := steps.pop()) <= most and (min(values) >= 0 or max(values) < 0):
            return [
                _Run(start, period, len(range(start, count, period)), values[start], by)
                for start in range(period)
            ]
    return plain


def _plain_runs(values: Sequence[int], most: int) -> list[_Run]:
    count, start = len(values), 0
    found: list[_Run] = []
    while start < count:
        end = start + 1
        by = values[end] - values[start] if end < count else 0
        fits = end < count and 0 <= by <= most and (values[start] < 0) == (values[end] < 0)
        while (
            fits
            and end < count
            and values[end] - values[end - 1] == by
            and (values[end] < 0) == (values[start] < 0)
        ):
            end += 1
        found.append(_Run(start, 1, end - start, values[start], by if end - start > 1 else 0))
        start = end
    return found


def _joined(boxes: list[Box], most: int) -> list[Box]:
    """Merges boxes that have one column each, and follow each other at equal distances, into boxes of several columns.
    Returns the merged boxes and all boxes that cannot be merged.

    In a merged box, the output's indices of neighbouring columns are closer together than those of neighbouring rows.
    `most`: largest allowed distance in the source.
    """
    found: list[Box] = []
    for key, group in groupby(boxes, key=_column_key):
        lines = list(group)
        if key is None or len(lines) == 1:
            found += lines
            continue
        starts = [(box.output.start, 0 if box.source is None else box.source.start) for box in lines]
        steps = {(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(starts)}
        out, by = steps.pop()
        if steps or not 0 <= by <= most:
            found += lines
            continue
        first = lines[0]
        output = Steps(start=first.output.start, down=out, along=first.output.down)
        source = first.source
        source = None if source is None else Steps(start=source.start, down=by, along=source.down)
        box = Box(rows=len(lines), columns=first.rows, output=output, source=source)
        found.append(_transposed(box) if output.down < output.along else box)
    return found


def _transposed(box: Box) -> Box:
    """A box with rows and columns exchanged."""
    output, source = (
        None if side is None else replace(side, down=side.along, along=side.down)
        for side in (box.output, box.source)
    )
    assert output is not None
    return Box(rows=box.columns, columns=box.rows, output=output, source=source)


def _column_key(box: Box) -> tuple[int, int, int] | None:
    """Key by which `_joined` groups boxes that have only one column. Boxes with equal keys have equally many rows, with
    equal distances between them, and may be merged. Returns None for boxes of several columns.
    """
    if box.columns > 1:
        return None
    return box.rows, box.output.down, -1 if box.source is None else box.source.down
