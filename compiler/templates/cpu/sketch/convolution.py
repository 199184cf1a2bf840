"""Chooses the default knobs of convolutions, those of least estimated cost, in two steps.

The first step chooses the register tile (output positions x filters) with the least arithmetic. The second step chooses
the blocks of output positions with the fewest cycles for arithmetic, for moving operands and for copying inputs. Both
steps are done with sums in registers and, if tiles wait for their operands, with sums in memory.

A candidate of the second step is a number of tiles in a block of rows, or of columns if there is one row; with sums in
memory also a number of tiles in a block of filters. With sums in registers, the sums of a tile are finished before the
next tile, so that each tile reads all weights of a panel (packed weights of the tile's filters). With sums in memory, a
part of the weights stays in the first-level cache for all tiles of a block, but every sum is loaded and stored once for
each part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from ....codegen.cpu.intrinsics import DOT_DEPTH
from ....ir.types import DType
from ....passes.sum_in_blocks import BLOCK_TERMS
from ..loops import even_part, team_times
from ..register_tile import (
    MOST_ROWS,
    MOST_VECTORS,
    NEAR_VECTOR_COST,
    VECTOR_COST,
    choose_positions,
    most_steps,
    tile_cycles,
)
from .sketch import MIDDLE, WHOLE, Sketches, default_part, even, order_of_terms, taps_first, term_orders
from .stages import Axle, Read, Sum, dot_loop, padded_read
from .taps import taps_of
from .traffic import CACHE_SHARE, Level, box_bytes, copying_cycles, paging_cycles, waiting_cycles, waits

FEW_LIVE = 0.75
"""The model counts a gain from skipping products of pads only if at most this share of all products reads the input
itself. Above this share, small tiles, which can skip more, lose as much by loading weights (with a share of 0.91, 44 ms
instead of 26: 512 channels and filters on 28 x 28).
"""
HELD_SHARE = 2 / 3
"""For sums in memory: share of the first-level cache for the weights of one partial sum; the rest is for inputs."""
HELD_TERMS = 128
"""For sums in memory: least number of terms of a partial sum. It limits a tile's number of filters, so that the weights
of a partial sum fit the first-level cache.
"""
EQUAL = 0.001
"""Relative difference of costs that is below the model's accuracy. Among candidates whose costs differ by less, the one
with the smallest blocks is chosen: any number of threads can share small blocks evenly.
"""
STORED_CYCLES = 6.0
"""Cycles to add a vector of partial sums to sums in the second-level cache (measured with 512 channels, 1x1, 28 x 28: 6
to 9).
"""
BLOCK, PARTS = ".block", ".parts"
"""Suffixes of the names of loops over blocks, and over the parts of a sum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """The loops of a convolution's consumer (the nest that reads the sum), by role.

    `lane`: the vectorized loop, over the filters of a block. `filters`: the loop over blocks of filters. `positions`:
    at most two loops over output positions, or the loop over samples if an output has a single position. `outer`: all
    other loops. `weights`, `data`: the reads of the weights and of the input. `steps`: multiplications of a vector
    that add up to a sum.
    """

    lane: Axle
    filters: Axle | None
    positions: tuple[Axle, ...]
    outer: tuple[Axle, ...]
    weights: Read
    data: Read
    steps: int

    @property
    def matrix(self) -> tuple[Axle | None, Axle | None]:
        """The loops over rows and over columns of output positions; None for a loop that does not exist."""
        rows, columns = [None, None, *self.positions][-2:]
        return rows, columns

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Numbers of rows, of columns and of blocks of filters."""
        rows, columns, filters = [1 if a is None else a.size for a in (*self.matrix, self.filters)]
        return rows, columns, filters

    def split(self, sketches: Sketches, summed: Sum) -> int:
        """Number of vectors of a block of filters."""
        return -(-self.lane.size // sketches.lanes(summed.bits))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """A candidate for the tiling of a convolution: a register tile and its blocks, with their estimates.

    For each loop, `tile` has the elements of a tile, and `block` the tiles of a block (0: all). `part`: value of the
    knob "part". `stored`: whether sums are in memory instead of registers. `alone`: cycles on one thread. `cost`:
    `alone` plus, for parallel kernels, the cycles of all threads together, a mean over several numbers of threads.
    `far`: whether tiles wait for new memory pages, or for weights from beyond the second-level cache.
    """

    tile: Mapping[str, int]
    block: Mapping[str, int]
    part: int
    stored: bool
    alone: float
    cost: float
    far: bool


def roles_of(sketches: Sketches, summed: Sum, lane: Axle, positions: list[Axle]) -> Roles | None:
    """The roles of a sum's loops if the sum is a convolution; None for other sums. In a convolution, only one of the
    two factors, the weights, depends on the vectorized loop `lane`. `positions`: the loops over output positions.
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
    dots = dot_loop(sketches.target, summed, lane)
    inside = [lane, *filters[-1:], *moved]
    return Roles(
        lane=lane,
        filters=filters[-1] if filters else None,
        positions=tuple(moved),
        outer=tuple([a for a in summed.axles if a not in inside]),
        weights=wide[0],
        data=narrow[0],
        steps=prod(term.size for term in summed.terms) // (DOT_DEPTH if dots else 1),
    )


def convolution_values(sketches: Sketches, summed: Sum, roles: Roles) -> dict[str, int]:
    """The default setting of the knobs of a convolution."""
    shares = _live_shares(sketches, summed, roles)
    tile = _tile(sketches, summed, roles, VECTOR_COST, MOST_VECTORS, shares)
    # Sums of integers are exact in any order.
    widened = roles.weights.bits < summed.bits
    plan = _plan_blocks(sketches, summed, roles, tile, 0 if widened else default_part(summed))
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


def _in_memory(sketches: Sketches, summed: Sum, roles: Roles, parts: Sequence[int]) -> _Plan | None:
    """The plan of least cost that keeps sums in memory and adds to them in parts; None if one part would contain all
    terms. `parts`: the values of the knob "part" (iterations of the outermost reduction loop in a part), ascending.
    """
    held = int(HELD_SHARE * sketches.target.cache_bytes[0]) // (roles.weights.bits // 8 * roles.lane.size)
    most = max(1, min(MOST_VECTORS, held // HELD_TERMS))
    tile = _tile(sketches, summed, roles, NEAR_VECTOR_COST, most, None)
    filters = 1 if roles.filters is None else tile[roles.filters.name]
    first = next(t for t in summed.terms if t.name == order_of_terms(summed, 0)[0])
    unit = prod(term.size for term in summed.terms) // first.size
    part = even_part(first.size, max(1, min(BLOCK_TERMS, held // filters) // unit))
    part = max(known for known in parts if known <= part)
    return _plan_blocks(sketches, summed, roles, tile, part, stored=True) if 0 < part < first.size else None


def _live_shares(sketches: Sketches, summed: Sum, roles: Roles) -> tuple[np.ndarray, np.ndarray] | None:
    """Two arrays, for tiles of 1, 2, ... rows and for tiles of 1, 2, ... columns: the share of products that remain
    after taps that read only pads are skipped. None for int8 weights, several sums, or small savings (`FEW_LIVE`).
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
    """Elements of a register tile, by loop. `shares`: result of `_live_shares`. `vector_cost`: time to load a vector.
    `most_vectors`: largest number of blocks of filters in a tile.
    """
    named = (*roles.matrix, roles.filters)
    # A block of filters may take several registers.
    registers = sketches.target.vector_registers // roles.split(sketches, summed)
    room = replace(sketches.target, vector_registers=max(3, registers))
    chosen = choose_positions(room, roles.sizes, roles.steps, shares, vector_cost, most_vectors)
    tile = {axle.name: 1 for axle in roles.outer} | {roles.lane.name: roles.lane.size}
    return tile | {a.name: even(a.size, n) for a, n in zip(named, chosen, strict=True) if a is not None}


def _plan_blocks(
    sketches: Sketches, summed: Sum, roles: Roles, tile: Mapping[str, int], part: int, *, stored: bool = False
) -> _Plan:
    """The cheapest plan for the register tile `tile`. `part`: value of that knob. `stored`: sums are in memory."""
    target, cut = sketches.target, next(iter(roles.positions), None)
    strips = roles.filters if stored else None
    grid = np.meshgrid(_counts(sketches, summed, cut, tile), _counts(sketches, summed, strips, tile))
    tiles, panels = (axis.ravel() for axis in grid)
    inside = {axle.name: n for axle, n in ((cut, tiles), (strips, panels)) if axle is not None}
    length = {a.inner: np.full(len(tiles), tile[a.name]) for a in summed.axles}
    length |= {t.name: np.full(len(tiles), t.size) for t in (*summed.terms, *summed.beside)}
    panel = box_bytes(roles.weights, length)
    rows, columns, filters = roles.sizes
    height, width, high = [1 if a is None else tile[a.name] for a in (*roles.matrix, roles.filters)]
    of_tile = (height, width, high)
    outer, split = prod(axle.size for axle in roles.outer), roles.split(sketches, summed)
    vector_cost = NEAR_VECTOR_COST if stored else VECTOR_COST
    busy = outer * float(tile_cycles(roles.sizes, of_tile, roles.steps, vector_cost, split)) / 2
    paging, reads, first = 0.0, summed.reads, order_of_terms(summed, 0)[0]
    if stored:
        parts = -(-length[first] // part)
        busy += STORED_CYCLES * int(parts[0]) * outer * rows * columns * filters * split
        length[first] = np.full(len(tiles), part)
        reads = (*reads, _read_of_sums(summed))
    else:
        number = outer * prod(-(-size // n) for size, n in zip(roles.sizes, of_tile, strict=True))
        paging = number * float(paging_cycles(roles.data, panel, length)[0])
    nest = _nest(summed, roles, tile, inside, (first, part) if stored else None)
    waiting = waiting_cycles(target, reads, length, list(nest.values()), roles.weights.buffer)
    blocks = [name for name in nest if name.endswith(BLOCK)]
    copying = np.zeros(len(tiles))
    if (padded := padded_read(sketches.program, summed)) is not None:
        copying = copying_cycles(target, padded[0], length, list(nest.values()), len(blocks) - 1)
    alone = busy + paging + waiting + copying
    total = alone
    if sketches.parallel:
        # Threads share loops around the sums.
        shared = blocks if stored else list(nest)
        total = alone + np.array(
            [
                min(
                    team_times(
                        {name: float(nest[name].trips[i]) for name in shared} or {"": 1.0},
                        busy + paging + float(waiting[i]),
                        {name: float(copying[i]) for name in blocks[-1:]},
                    ).values()
                )
                for i in range(len(tiles))
            ]
        )
    best = int(np.argmax(total <= total.min() * (1 + EQUAL)))
    block = dict.fromkeys([axle.name for axle in roles.outer], 1)
    block |= {name: int(counts[best]) % int(counts.max()) for name, counts in inside.items()}
    return _Plan(
        tile=tile,
        block=block,
        part=part,
        stored=stored,
        alone=float(alone[best]),
        cost=float(total[best]),
        far=paging > 0 or float(panel[0]) > CACHE_SHARE * target.cache_bytes[1],
    )


def _counts(sketches: Sketches, summed: Sum, axle: Axle | None, tile: Mapping[str, int]) -> np.ndarray:
    """Numbers of tiles to try for a block along `axle` (None: 1), ascending to all tiles; `tile`: elements by loop."""
    if axle is None:
        return np.ones(1, np.int64)
    knob = f"block.{summed.axles.index(axle)}"
    known = next(axis.values for axis in sketches.axes if axis.name == knob)
    count = -(-axle.size // tile[axle.name])
    return np.array(sorted({min(n, count) for n in known if n} | {count}))


def _read_of_sums(summed: Sum) -> Read:
    """The sums in memory as an operand that the cost model counts like a read of a buffer."""
    return Read(
        buffer=summed.buffer,
        shape=tuple([axle.size for axle in summed.axles]),
        dtype=DType.FLOAT32,
        parameter=False,
        steps=tuple([((axle.inner, 1),) for axle in summed.axles]),
        plain=True,
    )


def _nest(
    summed: Sum,
    roles: Roles,
    tile: Mapping[str, int],
    inside: Mapping[str, np.ndarray],
    parts: tuple[str, int] | None,
) -> dict[str, Level]:
    """The loops around a tile by name, outermost first: over blocks, over the parts of a sum in memory, over tiles.

    `inside`: tiles of a block along the loops that are cut. `parts`: the reduction loop that is cut into parts, and its
    iterations in a part.
    """
    some = next(iter(inside.values()), np.ones(1, np.int64))
    counts = {a.name: -(-a.size // tile[a.name]) for a in summed.axles}
    nest: dict[str, Level] = {}
    for axle in summed.axles:
        if axle in roles.outer:
            trips = np.full(len(some), axle.size)
        elif axle.name in inside:
            trips = -(-counts[axle.name] // inside[axle.name])
        else:
            continue
        nest[axle.name + BLOCK] = Level(inner=axle.inner, size=axle.size, trips=trips)
    if parts is not None:
        size = next(term.size for term in summed.terms if term.name == parts[0])
        trips = np.full(len(some), -(-size // parts[1]))
        nest[parts[0] + PARTS] = Level(inner=parts[0], size=size, trips=trips)
    for axle in summed.axles:
        if axle not in roles.outer:
            cut = nest[axle.name + BLOCK].trips if axle.name in inside else np.ones(len(some))
            nest[axle.name] = Level(inner=axle.inner, size=axle.size, trips=counts[axle.name] / cut)
    return nest
