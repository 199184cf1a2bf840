"""The default knobs of convolutions: the least cost, found in two steps.

The first step chooses the register tile of output positions x filters with the least arithmetic, the second the blocks
of output positions that move the fewest bytes and that threads share most evenly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from ..loops import team_times
from ..partial_sums import most_steps
from ..register_tile import MOST_ROWS, choose_positions
from .sketch import MIDDLE, WHOLE, Sketches, default_part, even, taps_first, term_orders
from .stages import Axle, Read, Sum
from .taps import padded_read, taps_of
from .traffic import Level, copying_cycles, waiting_cycles, waits

FEW_LIVE = 0.75
"""The model counts a gain from skipping products of pads only if at most this share of all products reads the input
itself. Above this share, small tiles, which can skip more, lose as much by loading weights (at 0.91, 44 ms instead of
26 with 512 channels and filters on 28 x 28).
"""
EQUAL = 0.001
"""Relative difference of costs that is below the model's accuracy. Among numbers of tiles of a block whose costs differ
by less, the smallest is chosen: any number of threads can share small blocks evenly.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """The loops of a convolution's consumer (the nest that reads the sum), by role.

    `lane`: the vectorized loop, over the filters of a block. `filters`: the loop over blocks of filters. `positions`:
    at most two loops over output positions, or the loop over samples if an output has a single position. `outer`: all
    other loops. `weights`: the read of the weights.
    """

    lane: Axle
    filters: Axle | None
    positions: tuple[Axle, ...]
    outer: tuple[Axle, ...]
    weights: Read


def roles_of(sketches: Sketches, summed: Sum, lane: Axle, positions: list[Axle]) -> Roles | None:
    """The roles of a sum's loops if the sum is a convolution, of which one factor alone, the weights, depends on the
    vectorized loop `lane`; None for other sums. `positions`: the loops over output positions.
    """
    wide = [read for read in summed.reads if lane.inner in read.loops()]
    narrow = [read for read in summed.reads if lane.inner not in read.loops()]
    if len(wide) != 1 or len(narrow) != 1:
        return None
    of_weights, of_data = wide[0].loops(), narrow[0].loops()
    filters = [a for a in summed.axles if a is not lane and a.inner in of_weights - of_data]
    moved = [a for a in positions or summed.axles if a.inner in of_data - of_weights][-2:]
    if not positions and not (filters and wide[0].buffer in sketches.constants):
        return None
    inside = [lane, *filters[-1:], *moved]
    return Roles(
        lane=lane,
        filters=filters[-1] if filters else None,
        positions=tuple(moved),
        outer=tuple([a for a in summed.axles if a not in inside]),
        weights=wide[0],
    )


def convolution_values(sketches: Sketches, summed: Sum, roles: Roles) -> dict[str, int]:
    """The default setting of the knobs of a convolution."""
    depth = prod(term.size for term in summed.terms)
    shares = _live_shares(sketches, summed, roles)
    tile = _tile(sketches, summed, roles, depth, shares)
    block, producer = _blocks(sketches, summed, roles, tile)
    values = {f"tile.{k}": tile[a.name] for k, a in enumerate(summed.axles)}
    values |= {f"block.{k}": block.get(a.name, 0) for k, a in enumerate(summed.axles)}
    steps = most_steps(sketches.target)
    if roles.weights.buffer in sketches.constants:
        values[f"pack.{sketches.number(roles.weights)}"] = 1
        # Unrolled steps with prefetches are slower (1x1, 512 channels, 2048 filters on 7 x 7: by a third).
        if waits(sketches.target, summed, roles.weights, tile, sketches.lanes(summed.bits)):
            steps = 1
    values |= {"part": default_part(summed), "unroll": steps, "producer": producer}
    if shares is not None:
        # One branch skips a tap of all channels.
        values |= {"terms": term_orders(summed).index(taps_first(summed)), "part": 0}
    return values


def _live_shares(sketches: Sketches, summed: Sum, roles: Roles) -> tuple[np.ndarray, np.ndarray] | None:
    """Shares of products that are computed in tiles of 1, 2, ... rows, and of 1, 2, ... columns, if skipping taps that
    read only pads saves enough products (`FEW_LIVE`).
    """
    taps = {along.axle: along for along in taps_of(sketches.program, summed)}
    most = sketches.target.vector_registers
    shares = [
        np.array(
            [taps[a.name].live(n, a.size) if a.name in taps else 1.0 for n in range(1, min(a.size, most) + 1)]
        )
        for a in roles.positions
    ]
    rows, columns = [np.ones(1), np.ones(1), *shares][-2:]
    return (rows[:MOST_ROWS], columns) if rows[0] * columns[0] <= FEW_LIVE else None


def _tile(
    sketches: Sketches,
    summed: Sum,
    roles: Roles,
    depth: int,
    shares: tuple[np.ndarray, np.ndarray] | None,
) -> dict[str, int]:
    """Elements of a register tile, by loop. `shares`: result of `_live_shares`."""
    rows, columns = [None, None, *roles.positions][-2:]
    rows_columns_filters = (rows, columns, roles.filters)
    sizes = [1 if axle is None else axle.size for axle in rows_columns_filters]
    split = -(-roles.lane.size // sketches.lanes(summed.bits))
    # A block of filters may take several registers.
    room = replace(sketches.target, vector_registers=max(3, sketches.target.vector_registers // split))
    chosen = choose_positions(room, (sizes[0], sizes[1], sizes[2]), depth, shares)
    tile = {axle.name: 1 for axle in roles.outer} | {roles.lane.name: roles.lane.size}
    for axle, length in zip(rows_columns_filters, chosen, strict=True):
        if axle is not None:
            tile[axle.name] = even(axle.size, length)
    return tile


def _blocks(
    sketches: Sketches, summed: Sum, roles: Roles, tile: dict[str, int]
) -> tuple[dict[str, int], int]:
    """Tiles of a block by loop, and the place where a padded input is copied: the candidate of least cost.

    A candidate is a number of tiles in a block of rows, or of columns if there is one row. The cost is the cycles of
    moving operands; for parallel kernels, plus the cycles of all threads together, a mean over numbers of threads.
    """
    outer = dict.fromkeys([axle.name for axle in roles.outer], 1)
    cut = next(iter(roles.positions), None)
    if cut is None:
        return outer, MIDDLE if outer else WHOLE
    number = summed.axles.index(cut)
    known = next(axis.values for axis in sketches.axes if axis.name == f"block.{number}")
    count = -(-cut.size // tile[cut.name])
    tiles = np.array(sorted({min(b, count) for b in known if b} | {count}))
    length = {a.inner: np.full(len(tiles), tile[a.name]) for a in summed.axles}
    length |= {t.name: np.full(len(tiles), t.size) for t in (*summed.terms, *summed.beside)}
    blocked = [a for a in summed.axles if a is cut or a in roles.outer]
    levels: dict[str, Level] = {}
    for axle in blocked:
        trips = -(-count // tiles) if axle is cut else np.full(len(tiles), axle.size)
        levels[f"{axle.name}.block"] = Level(inner=axle.inner, size=axle.size, trips=trips)
    for axle in summed.axles:
        trips = (
            count / -(-count // tiles)
            if axle is cut
            else np.full(len(tiles), -(-axle.size // tile[axle.name]))
        )
        if axle not in roles.outer:
            levels[axle.name] = Level(inner=axle.inner, size=axle.size, trips=trips)
    nest = tuple(levels.values())
    waiting = waiting_cycles(sketches.target, summed, length, nest)
    padded = padded_read(sketches.program, summed)
    copying = np.zeros(len(tiles))
    if padded is not None:
        copying = copying_cycles(sketches.target, padded[0], length, nest, len(blocked) - 1)
    cost = waiting + copying
    arithmetic = summed.work / (2 * sketches.lanes(summed.bits))
    if sketches.parallel:
        cost = cost + np.array(
            [
                min(
                    team_times(
                        {name: float(level.trips[i]) for name, level in levels.items()},
                        arithmetic + float(waiting[i]),
                        {f"{cut.name}.block": float(copying[i])},
                    ).values()
                )
                for i in range(len(tiles))
            ]
        )
    # Beside the arithmetic, which is the same for all blocks.
    total = cost + arithmetic
    best = int(tiles[int(np.argmax(total <= total.min() * (1 + EQUAL)))])
    return outer | {cut.name: best if best < count else 0}, MIDDLE if outer or best < count else WHOLE
