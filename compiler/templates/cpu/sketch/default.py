"""The default point of a sketch's space: the cheapest register tile of the main sum, from the target's sizes alone."""

from __future__ import annotations

from itertools import permutations
from math import prod

from ..dense import row_block
from ..register_tile import LATENCY_SUMS, MAXIMUM_ROWS, choose_tile
from .sketch import INLINE, OUTERMOST, Sketches, candidates, permuted
from .stages import Axle, Read, Sum

COPIED_ROWS = 32
"""Least number of rows of a product at which copying a panel pays."""
ROWS, COLUMNS = 2, 4
"""Positions of a window in a tile: rows if vectors run over columns, columns if they run over channels."""
WRITTEN_TERMS = 16
"""Largest window, in terms, whose sum is unrolled whole; in its tiles along borders the pads are tested."""


def default_values(given: Sketches) -> dict[str, int]:
    """The values of a point of `cost.sketch_space` for a program whose main sum is a product, or has one operand.

    Vectors run along the innermost loop of the sum's consumer. The product's operand with that loop is read in panels,
    whose loops are outside of the loops over rows: a panel is copied if enough rows read it, or if it could not be read
    in vectors. A sum of one operand has tiles of as many vectors as keep the adders busy; over a window, of a few
    positions. Other knobs have their first value.
    """
    axes = {axis.name: axis.values for axis in given.axes}
    values = {name: known[0] for name, known in axes.items()}
    if given.main is None:
        return values
    summed, lane = given.main, candidates(given.main)[0]
    wide = [read for read in summed.reads if lane.inner in read.loops()]
    narrow = [read for read in summed.reads if lane.inner not in read.loops()]
    wanted = {lane.name: given.lanes(summed.bits) * LATENCY_SUMS}
    blocks: dict[str, int] = {}
    if positions := _positions(summed):
        wanted = _window_tile(given, summed, positions)
        values |= _taps(summed)
    elif len(wide) == len(narrow) == 1:
        rows = [axle for axle in summed.axles if axle.inner not in wide[0].loops()]
        wanted, blocks = _product_tile(given, summed, lane, rows)
        values |= _panels(given, summed, wide[0], lane, rows)
    for k, axle in enumerate(summed.axles):
        length = min(wanted.get(axle.name, 1), axle.size)
        values[f"tile.{k}"] = max(known for known in axes[f"tile.{k}"] if known <= length)
        values[f"block.{k}"] = max(known for known in axes[f"block.{k}"] if known <= blocks.get(axle.name, 0))
    return {name: value for name, value in values.items() if name in axes}


def _positions(summed: Sum) -> list[Axle]:
    """The loops over a window's positions: each moves along a dimension together with a reduction loop. Empty without a
    window.
    """
    terms = {term.name for term in summed.terms}
    read = [{name for name, _ in steps} for read in summed.reads for steps in read.steps]
    moved = {name for names in read if names & terms for name in names - terms}
    return [axle for axle in summed.axles if axle.inner in moved]


def _window_tile(given: Sketches, summed: Sum, positions: list[Axle]) -> dict[str, int]:
    """Elements of a register tile by loop: two vectors of channels at several columns, or one vector of columns in
    several rows.
    """
    lanes, channels, columns = given.lanes(summed.bits), summed.axles[-1], positions[-1]
    if channels not in positions:
        return {channels.name: 2 * lanes, columns.name: COLUMNS}
    return {columns.name: lanes} | {axle.name: ROWS for axle in positions[-2:-1]}


def _taps(summed: Sum) -> dict[str, int]:
    """The knobs of a window's terms: a small window is unrolled, and its pads are tested along borders; a large one
    reads a padded copy.
    """
    if prod(term.size for term in summed.terms) <= WRITTEN_TERMS:
        return {"unroll": WRITTEN_TERMS, "producer": INLINE}
    return {"unroll": WRITTEN_TERMS // 2, "producer": OUTERMOST}


def _product_tile(
    given: Sketches, summed: Sum, lane: Axle, rows: list[Axle]
) -> tuple[dict[str, int], dict[str, int]]:
    """Elements of a register tile, and tiles of a block, by loop: `lane` and the last of `rows` have more than one
    element.
    """
    lanes, depth = given.lanes(summed.bits), prod(term.size for term in summed.terms)
    row = next((axle for axle in reversed(rows) if axle.size > 1), None)
    sizes = (1, 1 if row is None else row.size, -(-lane.size // lanes))
    most = (1, MAXIMUM_ROWS, given.target.vector_registers)
    _, height, vectors = choose_tile(given.target, sizes, depth, most)
    if row is None:
        return {lane.name: vectors * lanes}, {}
    together = row_block(given.target, row.size, height, depth * summed.bits // 8)
    tiles = 0 if together >= row.size else together // height
    return {row.name: height, lane.name: vectors * lanes}, {row.name: tiles}


def _panels(given: Sketches, summed: Sum, wide: Read, lane: Axle, rows: list[Axle]) -> dict[str, int]:
    """The knobs of the operand `wide`, which is read in panels: whether panels are copied, and the order of loops."""
    copied = prod(axle.size for axle in rows) >= COPIED_ROWS or wide.stride(lane.inner) != 1
    loops = [axle.name for axle in summed.axles if axle not in rows]
    loops += [axle.name for axle in rows]
    free = permuted(summed)
    order = list(permutations(free)).index(tuple([name for name in loops if name in free]))
    number = given.number(wide)
    return {f"copy.{number}": int(copied), "order": order, "outer": order}
