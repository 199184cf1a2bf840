"""The blocks of a convolution with a given register tile: the candidate with the least cycles of arithmetic, of moving
operands and of copying inputs.

A candidate is a number of tiles in a block of rows, or of columns if there is one row; with sums in memory also a
number of tiles in a block of filters. With sums in registers, the sums of a tile are finished before the next tile, so
that each tile reads all weights of a panel (packed weights of the tile's filters). With sums in memory, a part of the
weights stays in the first-level cache for all tiles of a block, at the price of a load and a store of every sum for
each part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from ....ir.types import DType
from ..loops import team_times
from ..register_tile import NEAR_VECTOR_COST, VECTOR_COST, tile_cycles
from .roles import Roles
from .sketch import Sketches, order_of_terms
from .stages import Axle, Read, Sum
from .taps import padded_read
from .traffic import CACHE_SHARE, Level, box_bytes, copying_cycles, paging_cycles, waiting_cycles

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
class Plan:
    """A register tile and its blocks, with their estimates.

    `tile`, `block`: by loop, elements of a tile, and tiles of a block (0: all). `part`: value of the knob "part".
    `stored`: whether sums are in memory. `alone`: cycles on one thread. `cost`: `alone` plus, for parallel kernels, the
    cycles of all threads together, a mean over several numbers of threads. `far`: whether a tile waits for memory
    pages, or for weights from beyond the second-level cache.
    """

    tile: Mapping[str, int]
    block: Mapping[str, int]
    part: int
    stored: bool
    alone: float
    cost: float
    far: bool


def plan_blocks(
    sketches: Sketches, summed: Sum, roles: Roles, tile: Mapping[str, int], part: int, *, stored: bool = False
) -> Plan:
    """The plan of least cost for a register tile; arguments as in `Plan`."""
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
    return Plan(
        tile=tile,
        block=block,
        part=part,
        stored=stored,
        alone=float(alone[best]),
        cost=float(total[best]),
        far=paging > 0 or float(panel[0]) > CACHE_SHARE * target.cache_bytes[1],
    )


def _counts(sketches: Sketches, summed: Sum, axle: Axle | None, tile: Mapping[str, int]) -> np.ndarray:
    """Candidate numbers of tiles in a block along a loop, ascending; the last one is all of them."""
    if axle is None:
        return np.ones(1, np.int64)
    knob = f"block.{summed.axles.index(axle)}"
    known = next(axis.values for axis in sketches.axes if axis.name == knob)
    count = -(-axle.size // tile[axle.name])
    return np.array(sorted({min(n, count) for n in known if n} | {count}))


def _read_of_sums(summed: Sum) -> Read:
    """The access to sums in memory, as if it were a read of a buffer."""
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
