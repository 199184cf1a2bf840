"""The default knobs of convolutions: the least cost, found in two steps.

The first step chooses the register tile of output positions x filters with the least arithmetic, the second the blocks
of output positions that move the fewest bytes and that threads share most evenly. Both steps are done with sums in
registers and, if tiles wait for their operands, with sums in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from ....passes.sum_in_blocks import BLOCK_TERMS
from ..loops import even_part
from ..partial_sums import most_steps
from ..register_tile import MOST_ROWS, MOST_VECTORS, NEAR_VECTOR_COST, VECTOR_COST, choose_positions
from .blocks import Plan, plan_blocks
from .roles import Roles
from .sketch import MIDDLE, WHOLE, Sketches, default_part, even, order_of_terms, taps_first, term_orders
from .stages import Sum
from .taps import padded_read, taps_of
from .traffic import waits

FEW_LIVE = 0.75
"""The model counts a gain from skipping products of pads only if at most this share of all products reads the input
itself. Above this share, small tiles, which can skip more, lose as much by loading weights (at 0.91, 44 ms instead of
26 with 512 channels and filters on 28 x 28).
"""
HELD_SHARE = 2 / 3
"""Share of the first-level cache for the weights of a partial sum of sums in memory; the rest is for the input."""
HELD_TERMS = 128
"""Least number of terms of a partial sum of sums in memory; it limits a tile's number of filters, so that the weights
of a partial sum fit the first-level cache.
"""


def convolution_values(sketches: Sketches, summed: Sum, roles: Roles) -> dict[str, int]:
    """The default setting of the knobs of a convolution."""
    shares = _live_shares(sketches, summed, roles)
    tile = _tile(sketches, summed, roles, VECTOR_COST, MOST_VECTORS, shares)
    # Sums of integers are exact in any order.
    widened = roles.weights.bits < summed.bits
    plan = plan_blocks(sketches, summed, roles, tile, 0 if widened else default_part(summed))
    # Each block of filters would copy a padded input again (3x3, 512 channels on 28 x 28: 4% slower).
    if plan.far and not widened and roles.positions and padded_read(sketches.program, summed) is None:
        known = next((axis.values for axis in sketches.axes if axis.name == "part"), (0,))
        memory = _in_memory(sketches, summed, roles, sorted(known))
        # Sums in memory must be faster on one thread too, not only for teams of threads.
        if memory is not None and memory.alone < plan.alone and memory.cost < plan.cost:
            plan = memory
    values = {f"tile.{k}": plan.tile[a.name] for k, a in enumerate(summed.axles)}
    values |= {f"block.{k}": plan.block.get(a.name, 0) for k, a in enumerate(summed.axles)}
    steps = 1 if widened or len(sketches.stages.sums) > 1 else most_steps(sketches.target)
    if roles.weights.buffer in sketches.constants:
        values[f"pack.{sketches.number(roles.weights)}"] = 1
        read = dict(plan.tile) | ({order_of_terms(summed, 0)[0]: plan.part} if plan.stored else {})
        # Unrolled steps with prefetches are slower (1x1, 512 channels, 2048 filters on 7 x 7: by a third).
        if waits(sketches.target, summed, roles.weights, read, sketches.lanes(summed.bits)):
            steps = 1
    values |= {"part": plan.part, "unroll": steps, "stored": int(plan.stored)}
    values["producer"] = MIDDLE if any(plan.block.values()) else WHOLE
    if shares is not None:
        # One branch skips a tap of all channels.
        values |= {"terms": term_orders(summed).index(taps_first(summed)), "part": 0}
    return values


def _in_memory(sketches: Sketches, summed: Sum, roles: Roles, parts: Sequence[int]) -> Plan | None:
    """The plan of least cost with sums in memory; None if one partial sum would contain all terms. `parts`: values of
    the knob "part", ascending.
    """
    held = int(HELD_SHARE * sketches.target.cache_bytes[0]) // (roles.weights.bits // 8 * roles.lane.size)
    most = max(1, min(MOST_VECTORS, held // HELD_TERMS))
    tile = _tile(sketches, summed, roles, NEAR_VECTOR_COST, most, None)
    filters = 1 if roles.filters is None else tile[roles.filters.name]
    first = next(t for t in summed.terms if t.name == order_of_terms(summed, 0)[0])
    unit = prod(term.size for term in summed.terms) // first.size
    part = even_part(first.size, max(1, min(BLOCK_TERMS, held // filters) // unit))
    part = max(known for known in parts if known <= part)
    return plan_blocks(sketches, summed, roles, tile, part, stored=True) if 0 < part < first.size else None


def _live_shares(sketches: Sketches, summed: Sum, roles: Roles) -> tuple[np.ndarray, np.ndarray] | None:
    """Shares of products that are computed in tiles of 1, 2, ... rows, and of 1, 2, ... columns, if skipping taps that
    read only pads saves enough products (`FEW_LIVE`).
    """
    # Pads of integers are no zeros. With several sums, the main sum's order of terms is that of all sums.
    if roles.weights.bits < summed.bits or len(sketches.stages.sums) > 1:
        return None
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
    vector_cost: float,
    most_vectors: int,
    shares: tuple[np.ndarray, np.ndarray] | None,
) -> dict[str, int]:
    """Elements of a register tile, by loop. `shares`: result of `_live_shares`; other arguments as in
    `choose_positions`.
    """
    named = (*roles.matrix, roles.filters)
    # A block of filters may take several registers.
    registers = sketches.target.vector_registers // roles.split(sketches, summed)
    room = replace(sketches.target, vector_registers=max(3, registers))
    chosen = choose_positions(room, roles.sizes, roles.steps, shares, vector_cost, most_vectors)
    tile = {axle.name: 1 for axle in roles.outer} | {roles.lane.name: roles.lane.size}
    return tile | {a.name: even(a.size, n) for a, n in zip(named, chosen, strict=True) if a is not None}
