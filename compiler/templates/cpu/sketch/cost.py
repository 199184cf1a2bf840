"""The cost model of sketches (rule-generated schedules): bounds and features of many points (settings of the knobs) of
a space at once, without scheduling them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from math import prod

import numpy as np

from ...columns import Columns, one_point
from ...space import Axis, CostEstimates, Space
from .sketch import (
    INLINE,
    INNERMOST,
    MIDDLE,
    OUTERMOST,
    TILE_ROWS,
    WHOLE,
    Sketches,
    candidates,
    middle,
    order_of_terms,
    part_of,
    permuted,
    term_orders,
    unrolled_loops,
)
from .stages import Sum
from .traffic import box_bytes

CLOCK, MULTIPLIERS = 6.0e9, 2
"""Upper bounds, for all processors, on the clock of a thread (Hz) and on its vector multiply-adds per cycle. The true
clock is unknown, and lower bounds in seconds must stay below measured times.
"""
MEMORY_BYTES_CYCLE = 64.0
"""Largest number of bytes per cycle that a core loads from the memory level that holds a tensor at the start of a
kernel.
"""
MOST_WORKSPACE = 1 << 28
"""Largest workspace for the sums of a block in memory, in bytes."""
SLACK = 8.0
"""A point (setting of the knobs) is searched if its lower bound on the time is at most this multiple of the space's
lower bound. The factor is so small that points without vectors are not searched, and so large that points with short
vectors are.
"""
MOST_STATEMENTS = 1024
"""Largest number of unrolled statements in the tiles of all sums; more would take longer to compile than other
trials.
"""


def sketch_space(sketches: Sketches) -> Space:
    """The space of all values of the knobs that `sketch.find_sketches` found; costs are seconds of one thread."""
    moved = sum(p.dtype.bits // 8 * prod(p.shape) for p in sketches.program.parameters)
    floor = moved / MEMORY_BYTES_CYCLE / CLOCK
    if sketches.main is not None:
        vectors = sketches.lanes(sketches.main.bits) * MULTIPLIERS * CLOCK
        floor = max(floor, sketches.main.work / vectors)
    terms = None if sketches.main is None else _Terms.of(sketches.main, sketches.axes)
    return Space(
        template="sketch_cpu",
        axes=sketches.axes,
        cost=partial(_estimated, sketches, floor, terms),
        floor=floor,
        slack=SLACK,
    )


def effective_values(sketches: Sketches, values: Mapping[str, int]) -> dict[str, int]:
    """Canonical form of a point (setting of the knobs): each knob without effect gets a fixed value, so that points
    with equal programs have equal values.
    """
    if sketches.main is None:
        return dict(values)
    columns = one_point(values)
    found = _effective(sketches, sketches.main, columns, _Terms.of(sketches.main, sketches.axes))
    return {name: int(column[0]) for name, column in found.items()}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Terms:
    """Tables for every combination of the knobs "terms" (order of the reduction loops), "part" (iterations of the first
    loop in a partial sum) and "unroll", with the results of `part_of` and `unrolled_loops`: int64 [orders, parts,
    unrolls] each.

    `part`, `unroll`: effective values of the knobs. `steps`: number of unrolled terms. `parts`, `unrolls`: the knobs'
    values along the second and third axis.
    """

    parts: tuple[int, ...]
    unrolls: tuple[int, ...]
    part: np.ndarray
    unroll: np.ndarray
    steps: np.ndarray

    @staticmethod
    def of(summed: Sum, axes: tuple[Axis, ...]) -> _Terms:
        values = {axis.name: axis.values for axis in axes}
        parts, unrolls = values.get("part", (0,)), values.get("unroll", (1,))
        shape = (len(term_orders(summed)), len(parts), len(unrolls))
        part, unroll, steps = (np.zeros(shape, np.int64) for _ in range(3))
        for k in range(shape[0]):
            order = order_of_terms(summed, k)
            for i, wanted in enumerate(parts):
                of_part = part_of(summed, order, wanted)
                known: dict[tuple[tuple[str, int], ...], int] = {}
                for j, most in enumerate(unrolls):
                    loops = unrolled_loops(summed, order, of_part, most)
                    part[k, i, j] = of_part
                    unroll[k, i, j] = known.setdefault(loops, most)
                    steps[k, i, j] = prod(size for _, size in loops)
        return _Terms(parts=parts, unrolls=unrolls, part=part, unroll=unroll, steps=steps)

    def at(self, columns: Columns, zero: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each point (setting of the knobs), its indices into the tables of terms: (order, part, unroll), an array
        each. `zero`: an array of zeros, the values of a knob that `columns` lacks.
        """
        return (
            columns.get("terms", zero),
            np.searchsorted(self.parts, columns.get("part", zero)),
            np.searchsorted(self.unrolls, columns.get("unroll", zero + 1)),
        )


def _tiles(summed: Sum, columns: Columns) -> tuple[dict[str, np.ndarray], ...]:
    """Returns three maps: elements of a tile, number of tiles, and tiles of a block (0: all). Each maps a loop of the
    sum's consumer (the nest that reads the sum) to an array with a value for each point (setting of the knobs).
    """
    tile = {a.name: np.minimum(columns[f"tile.{k}"], a.size) for k, a in enumerate(summed.axles)}
    tiles = {a.name: -(-a.size // tile[a.name]) for a in summed.axles}
    wanted = {a.name: columns[f"block.{k}"] for k, a in enumerate(summed.axles)}
    block = {name: np.where(column >= tiles[name], 0, column) for name, column in wanted.items()}
    return tile, tiles, block


def _effective(sketches: Sketches, summed: Sum, columns: Columns, terms: _Terms) -> dict[str, np.ndarray]:
    _, tiles, block = _tiles(summed, columns)
    zero = np.zeros_like(next(iter(tiles.values())))
    found = {name: np.array(column) for name, column in columns.items()}
    for k, a in enumerate(summed.axles):
        found[f"block.{k}"] = block[a.name]
    at = terms.at(columns, zero)
    if "part" in found:
        found["part"], found["unroll"] = terms.part[at], terms.unroll[at]
    repeats = {a: np.where(block[a] > 0, block[a], tiles[a]) > 1 for a in tiles}
    cut = {a: block[a] > 0 for a in tiles}
    for name, loops in (("order", repeats), ("outer", cut)):
        if name in found:
            found[name] = _same_order([loops[a] for a in permuted(summed)], found[name])
    if "stored" in found:
        # Sums in memory are added in parts, for several tiles.
        several = np.logical_or.reduce(list(repeats.values()))
        found["stored"] = np.where(several & (found["part"] > 0), found["stored"], 0)
    stored = found.get("stored", zero) > 0
    blocks, count = sum((c.astype(np.int64) for c in cut.values()), zero), len(summed.axles)
    if "producer" in found:
        producer = found["producer"]
        producer = np.where((producer == INNERMOST) & (blocks + count == 1), OUTERMOST, producer)
        # The innermost loop around sums in memory is one over blocks.
        producer = np.where((producer == INNERMOST) & stored, MIDDLE, producer)
        producer = np.where(stored & (blocks == 0) & (producer != INLINE), WHOLE, producer)
        first = np.where(blocks > 0, blocks == 1, middle(0, count) == 0)
        found["producer"] = np.where((producer == MIDDLE) & first, OUTERMOST, producer)
    return found


def _same_order(active: list[np.ndarray], number: np.ndarray) -> np.ndarray:
    """For each point (setting of the knobs), the index of the first permutation that puts the active loops in the same
    order as permutation `number`. `active`: for each loop, bool [points].
    """
    orders = list(permutations(range(len(active))))
    table = np.zeros((1 << len(active), len(orders)), np.int64)
    for mask in range(1 << len(active)):
        known: dict[tuple[int, ...], int] = {}
        for k, order in enumerate(orders):
            table[mask, k] = known.setdefault(tuple([i for i in order if mask >> i & 1]), k)
    mask = sum((a.astype(np.int64) << i for i, a in enumerate(active)), np.zeros_like(number))
    return table[mask, number]


def _estimated(sketches: Sketches, floor: float, terms: _Terms | None, columns: Columns) -> CostEstimates:
    count = len(next(iter(columns.values()))) if columns else 1
    knobs = {axis.name: columns[axis.name] + 1.0 for axis in sketches.axes}
    if sketches.main is None or terms is None:
        bound = np.full(count, floor)
        return CostEstimates(limits={}, bound=bound, quantities=knobs, effective=dict(columns))
    summed = sketches.main
    zero = np.zeros(count, np.int64)
    tile, tiles, block = _tiles(summed, columns)
    effective = _effective(sketches, summed, columns, terms)
    n = sketches.lanes(summed.bits)
    whole, vectorized = np.ones(count, bool), {}
    for number, candidate in enumerate(candidates(summed)):
        vectorized[candidate.inner] = mine = columns.get("vector", zero) == number
        length = tile[candidate.name]
        whole &= ~mine | (length % n == 0) | (length == candidate.size)
    # Iterations of each loop in one step: vectors of the vectorized loop, elements of the others.
    units = {
        a.inner: np.where(vectorized.get(a.inner, False), -(-tile[a.name] // n), tile[a.name])
        for a in summed.axles
    }
    units |= {t.name: np.full(count, t.size) for t in summed.beside}
    sums = _product(units.values(), count)
    vectors, elements = zero, zero
    for read in summed.reads:
        names = read.loops()
        loads = _product((units[name] for name in units if name in names), count)
        wide = np.zeros(count, bool)
        for name in vectorized.keys() & names:
            wide |= vectorized[name]
        vectors, elements = vectors + np.where(wide, loads, 0), elements + np.where(wide, 0, loads)
    # A step needs registers for its sums, the vectors of one operand, and an element of the other.
    registers = sums + np.minimum(np.maximum(vectors, 1), np.maximum(elements, 1)) + 1
    written = terms.steps[terms.at(columns, zero)]
    depth = prod(t.size for t in summed.terms)
    number = _product(tiles.values(), count)
    # Fractional, since the last tile of a loop may be shorter.
    steps = summed.work / _product((tile[a.name] for a in summed.axles), count)
    steps = steps / prod(t.size for t in summed.beside)
    quantities: dict[str, np.ndarray] = {
        "sums in registers": sums.astype(np.float64),
        "vectors loaded a step": vectors + 1.0,
        "elements loaded a step": elements + 1.0,
        "sums a load": sums / np.maximum(vectors + elements, 1),
        "steps": steps,
        "cycles of the sums": steps * sums / MULTIPLIERS,
        "cycles of the loads": steps * (vectors + elements) / MULTIPLIERS,
        "tiles": number.astype(np.float64),
        "terms": np.full(count, float(depth)),
        "terms written out": written.astype(np.float64),
        "bytes of a tile's operands": _operands(summed, tile, count),
        "bytes of a block's operands": _operands(
            summed, {a: np.where(block[a] > 0, block[a], tiles[a]) * tile[a] for a in tile}, count
        ),
    }
    for k, a in enumerate(summed.axles):
        quantities[f"waste {k}"] = tiles[a.name] * tile[a.name] / a.size
    least = steps * sums / MULTIPLIERS / CLOCK
    return CostEstimates(
        limits={
            "tiles of whole vectors": whole,
            f"tiles of at most {TILE_ROWS} vectors or elements": np.logical_and.reduce(
                [units[a.inner] <= TILE_ROWS for a in summed.axles]
            ),
            "the vector registers": registers <= sketches.target.vector_registers,
            "the workspace": (columns.get("stored", zero) == 0)
            | (_stored_bytes(summed, tile, block) <= MOST_WORKSPACE),
            "the statements of its tiles' code": sums * written * len(sketches.stages.sums)
            <= MOST_STATEMENTS,
        },
        bound=np.maximum(floor, least),
        quantities=quantities | knobs,
        effective=effective,
    )


def _stored_bytes(summed: Sum, tile: Columns, block: Columns) -> np.ndarray:
    """Bytes of the sums of a block at every point (setting of the knobs). For each loop, `tile` has the elements of a
    tile, `block` the tiles of a block (0: all).
    """
    bytes_ = np.full(len(tile[summed.axles[0].name]), summed.bits // 8 * prod(t.size for t in summed.beside))
    for a in summed.axles:
        bytes_ = bytes_ * np.where(block[a.name] > 0, block[a.name] * tile[a.name], a.size)
    return bytes_


def _operands(summed: Sum, tile: Mapping[str, np.ndarray], count: int) -> np.ndarray:
    """Estimated bytes that one tile of the sum reads, over all its operands: float64 [count], for `count` points
    (settings of the knobs). `tile`: elements of the tile along each loop, int64 [count]. An operand counts with the
    bounding box of the elements read.
    """
    length = {a.inner: tile[a.name] for a in summed.axles}
    length |= {t.name: np.full(count, t.size) for t in (*summed.terms, *summed.beside)}
    total = np.zeros(count)
    for read in summed.reads:
        total = total + box_bytes(read, length)
    return np.maximum(total, 1.0)


def _product(columns: Iterable[np.ndarray], count: int) -> np.ndarray:
    total = np.ones(count, np.int64)
    for column in columns:
        total = total * column
    return total
