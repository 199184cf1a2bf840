"""The default knobs of sums other than convolutions (`convolution.roles_of`): pools, depthwise convolutions, products
and plain sums.
"""

from __future__ import annotations

from itertools import permutations
from math import prod

from ..register_tile import LATENCY_SUMS, MAXIMUM_ROWS, choose_tile, most_steps, row_block, written_steps
from .sketch import INLINE, MIDDLE, OUTERMOST, WHOLE, Sketches, default_part, permuted
from .stages import Axle, Read, Sum, padded_read
from .taps import taps_of

COPIED_ROWS = 32
"""Least number of rows of a matrix product at which it pays to copy an operand into panels (contiguous pieces, each
read by one tile).
"""
ROWS, COLUMNS = 2, 4
"""Output positions in the register tile of a sum over a window, such as a pool: ROWS rows if vectors run along a row,
COLUMNS columns if vectors run over channels.
"""
SCALARS = 16
"""Largest number of rows in a register tile of a windowed sum with a single filter and data in blocks of channels. The
tile's columns are not contiguous in memory, so each sum is a scalar; LLVM combines scalars into vectors.
"""
WEIGHTED = 2, 7
"""Largest number of rows and of columns of output positions in the register tile of a windowed sum with weights (a
convolution). Each loaded weight is used at all positions of the tile. With 16 registers, a single row is 1.0 to 2.2
times as fast as two rows, because the sums of two rows are spilled.
"""
WRITTEN_TERMS = 16
"""Number of terms of the largest window whose sum is unrolled completely. Tiles along borders then test for each term
whether it is a pad.
"""


def other_values(sketches: Sketches, summed: Sum, lane: Axle, positions: list[Axle]) -> dict[str, int]:
    """The default setting of the knobs of a sum whose vectors run along the loop `lane`. `positions`: the loops over
    the output positions of a windowed sum.

    In a product, the operand that depends on the loop `lane` is read in panels (the pieces that one tile reads). The
    loops over panels are outside of the loops over rows. A panel is copied if enough rows read it, or if it could not
    be read in vectors. For a sum of one operand, a tile has as many vectors as keep the adders busy; for a sum over a
    window, a tile has a few output positions.
    """
    axes = {axis.name: axis.values for axis in sketches.axes}
    wide = [read for read in summed.reads if lane.inner in read.loops()]
    narrow = [read for read in summed.reads if lane.inner not in read.loops()]
    wanted = {lane.name: sketches.lanes(summed.bits) * LATENCY_SUMS}
    values: dict[str, int] = {}
    blocks: dict[str, int] = {}
    if positions:
        moved = {axle.inner for axle in positions}
        if lane in positions or all(read.loops() & moved for read in summed.reads):
            wanted = _window_tile(sketches, summed, positions)
            values |= _taps(summed) | ({"part": default_part(summed)} if len(summed.reads) > 1 else {})
        else:
            wanted = _weighted_tile(sketches, summed, lane, positions)
            blocks, taps = _weighted_taps(sketches, summed, positions, wanted)
            values |= taps
    elif len(wide) == len(narrow) == 1:
        rows = [axle for axle in summed.axles if axle.inner not in wide[0].loops()]
        wanted, blocks = _product_tile(sketches, summed, lane, rows)
        again = [
            a.name for a in summed.axles if (blocks.get(a.name, 0) or -(-a.size // wanted.get(a.name, 1))) > 1
        ]
        values |= _panels(sketches, summed, wide[0], lane, rows, again)
    for k, axle in enumerate(summed.axles):
        length = min(wanted.get(axle.name, 1), axle.size)
        values[f"tile.{k}"] = max(known for known in axes[f"tile.{k}"] if known <= length)
        values[f"block.{k}"] = max(known for known in axes[f"block.{k}"] if known <= blocks.get(axle.name, 0))
    return values


def _window_tile(sketches: Sketches, summed: Sum, positions: list[Axle]) -> dict[str, int]:
    """Elements of a register tile of a windowed sum without weights (a pool), by loop: two vectors of channels at
    several columns, or one vector of columns in several rows. `positions`: the loops over output positions.
    """
    lanes, channels, columns = sketches.lanes(summed.bits), summed.axles[-1], positions[-1]
    if channels not in positions:
        return {channels.name: 2 * lanes, columns.name: COLUMNS}
    long = [[steps for steps, size in zip(r.steps, r.shape, strict=True) if size > 1] for r in summed.reads]
    last = [steps[-1] if steps else () for steps in long]
    if len(last) > 1 and all(columns.inner not in dict(steps) for steps in last):
        # A single filter on blocks of channels: columns are not contiguous, so sums are scalars.
        return {axle.name: min(SCALARS, 2 * lanes) for axle in positions[-2:-1]}
    return {columns.name: lanes} | {axle.name: ROWS for axle in positions[-2:-1]}


def _taps(summed: Sum) -> dict[str, int]:
    """The knobs that decide how a windowed sum without weights (a pool) adds its terms. A small window is unrolled, and
    tiles along borders test for pads; a large window reads a padded copy.
    """
    if prod(term.size for term in summed.terms) <= WRITTEN_TERMS:
        return {"unroll": WRITTEN_TERMS, "producer": INLINE}
    return {"unroll": WRITTEN_TERMS // 2, "producer": OUTERMOST}


def _weighted_tile(sketches: Sketches, summed: Sum, lane: Axle, positions: list[Axle]) -> dict[str, int]:
    """Elements of a register tile of a windowed sum with weights (a convolution), by loop: all channels of some output
    positions.
    """
    vectors = -(-lane.size // sketches.lanes(summed.bits))
    # Values that must be widened first are worth a register of sums for each row that uses them. Otherwise half of the
    # registers is for inputs, which the compiler loads for several taps ahead.
    widened = any(read.bits < summed.bits for read in summed.reads)
    registers = sketches.target.vector_registers
    room = max(1, (registers - 2 if widened else registers // 2) // vectors)
    rows = min(WEIGHTED[0], max(1, room // WEIGHTED[1])) if len(positions) > 1 else 1
    columns = min(WEIGHTED[1], max(1, room // rows))
    tile = zip([axle.name for axle in positions[-2:]], (rows, columns)[-len(positions) :], strict=True)
    return {lane.name: lane.size, **dict(tile)}


def _weighted_taps(
    sketches: Sketches, summed: Sum, positions: list[Axle], tile: dict[str, int]
) -> tuple[dict[str, int], dict[str, int]]:
    """Chooses knobs for a windowed sum with weights (a convolution), given the elements of its `tile` by loop. Returns
    (tiles in a block, by loop; the knobs that decide how the terms are added). `positions`: the loops over output
    positions.

    If only the tiles along borders read pads, these tiles test for pads. If windows of other tiles read pads too, such
    a test would be needed for every term, so the input is copied with its pads: for each block of channels a whole
    plane or, if half of the second-level cache does not hold the plane, a block of its rows.
    """
    (unroll,) = [axis.values[-1] for axis in sketches.axes if axis.name == "unroll"] or [1]
    values = {"unroll": unroll, "producer": INLINE}
    padded = padded_read(sketches.program, summed)
    taps = taps_of(sketches.program, summed)
    if padded is None or all(along.in_ends(tile[along.axle]) for along in taps):
        return {}, values
    read = padded[0]
    outer = [axle.name for axle in summed.axles if axle.name not in tile]
    height = next(d for d, steps in enumerate(read.steps) if positions[0].inner in dict(steps))
    line = prod(read.shape[height + 1 :]) * read.bits // 8
    room = sketches.target.cache_bytes[1] // 2
    if line * read.shape[height] > room:
        step = tile[positions[0].name] * dict(read.steps[height])[positions[0].inner]
        blocks = dict.fromkeys(outer, 1) | {positions[0].name: max(1, room // (line * step))}
        return blocks, values | {"producer": MIDDLE if outer else OUTERMOST}
    if len(outer) < 2:
        return {}, values | {"producer": OUTERMOST if outer else WHOLE}
    return dict.fromkeys(outer, 1), values | {"producer": MIDDLE}


def _product_tile(
    sketches: Sketches, summed: Sum, lane: Axle, rows: list[Axle]
) -> tuple[dict[str, int], dict[str, int]]:
    """Chooses the tile of a matrix product. Returns (elements of a register tile, by loop; number of tiles in a block,
    by loop). Only the loop `lane` and the last of the loops `rows` have more than one element in a tile.
    """
    lanes, depth = sketches.lanes(summed.bits), prod(term.size for term in summed.terms)
    row = next((axle for axle in reversed(rows) if axle.size > 1), None)
    sizes = (1, 1 if row is None else row.size, -(-lane.size // lanes))
    most = (1, MAXIMUM_ROWS, sketches.target.vector_registers)
    _, height, vectors = choose_tile(sketches.target, sizes, depth, most)
    if row is None:
        return {lane.name: vectors * lanes}, {}
    together = row_block(sketches.target, row.size, height, depth * summed.bits // 8)
    tiles = 0 if together >= row.size else together // height
    return {row.name: height, lane.name: vectors * lanes}, {row.name: tiles}


def _panels(
    sketches: Sketches, summed: Sum, wide: Read, lane: Axle, rows: list[Axle], again: list[str]
) -> dict[str, int]:
    """Chooses knobs for a matrix product with operand `wide`: whether the operand is packed or copied into panels
    (contiguous pieces, each for one tile), and the order of loops. If the operand is a constant (weights), its
    reduction may be long, so the knobs of unrolled steps and partial sums are chosen too.

    `lane`: the vectorized loop. `rows`: the loops over rows of the product. `again`: of the loops over tiles, the loops
    with several iterations. In the chosen order, the loops over rows are inside all other loops of `again`.
    """
    loops = [axle.name for axle in summed.axles if axle not in rows]
    loops += [axle.name for axle in rows]
    free = permuted(summed)
    order = next(
        k
        for k, names in enumerate(permutations(free))
        if [n for n in names if n in again] == [n for n in loops if n in free and n in again]
    )
    number = sketches.number(wide)
    if wide.buffer in sketches.constants:
        part = default_part(summed)
        if len(long := [term.size for term in summed.terms if term.size > 1]) == 1:
            part -= part % written_steps(sketches.target, long[0])
        steps = {"part": part, "unroll": most_steps(sketches.target)}
        return {f"pack.{number}": 1, "order": order, "outer": order, **steps}
    if number < 0:
        return {"order": order, "outer": order}
    copied = prod(axle.size for axle in rows) >= COPIED_ROWS or wide.stride(lane.inner) != 1
    return {f"copy.{number}": int(copied), "order": order, "outer": order}
