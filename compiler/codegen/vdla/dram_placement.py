"""Programs for machines with a DRAM (hw/dram.md): weights in the order of their loads, stores apart from loads.

Rows: a load that reads several runs of bytes opens a row for almost each of them. Constant weights are rearranged so
that a load is one run, and each load begins where the one before it ended.

Directions: the controller changes from reads to writes and back in more than twenty cycles, and its AXI bridge
alternates between both directions after each burst while both have bursts. In a layer whose stores are kept apart from
loads, the stores of a tile wait for the loads of the next tile, and later loads wait for these stores: the bus changes
direction twice in a tile instead of twice in a burst. Tokens between load and store unit enforce this order.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vdla.isa.config import Config
from vdla.isa.dram_memory import controller_of
from vdla.isa.layout import Unit
from vdla.isa.program import Segment

from .columns import full
from .emit import Emission
from .link import Image, LoweredLayer, alignment_of
from .machine import DRAM, Batch, Span


@dataclass(slots=True)
class DramImage(Image):
    """The memory image of a program for a machine with a DRAM. `apart`: numbers of the layers whose stores are kept
    apart from loads.
    """

    apart: frozenset[int] = frozenset()

    def finish(self, emission: Emission, group: int, *, data: bool = True) -> NDArray[np.uint8]:
        """Completes a program and returns the memory image, as `Image.finish`; rearranges weights, and keeps the stores
        of the layers `apart` from loads.
        """
        memory = Image.finish(self, emission, group, data=data)
        tile = emission.config.wgt_bytes
        for address, source in order_weights(emission, self.segments):
            place = memory[address : address + len(source) * tile].reshape(-1, tile)
            place[...] = place[source]
        if self.apart:
            keep_apart(emission, self.apart)
        return memory


def dram_image(config: Config, layers: Sequence[LoweredLayer], apart: Collection[str]) -> DramImage:
    """An empty memory image for a program of `layers` on a machine with a DRAM; each segment begins at a row. `apart`:
    names of the layers whose stores are kept apart from loads.
    """
    numbers = controller_of(config)
    row = numbers.word_bytes << numbers.column_bits
    chosen = frozenset(number for number, layer in enumerate(layers) if layer.name in apart)
    return DramImage(max(alignment_of(config), row), apart=chosen)


def order_weights(emission: Emission, segments: Sequence[Segment]) -> list[tuple[int, NDArray[np.int64]]]:
    """Rearranges constant weights so that each load reads one contiguous run of bytes, and the loads of a layer follow
    one another in memory; the loads in `emission` get their new addresses.

    Returns, for each segment with a new order, its byte address and for each of its weight tiles the number of the tile
    that was there before. A segment keeps its order if two different loads have a tile in common.
    """
    tile, found = emission.config.wgt_bytes, []
    loads = [(number, batch) for number, batch in enumerate(emission.batches) if batch.name == "LOAD.WGT"]
    if not loads or emission.config.tile_parts > 1:
        return []
    names = ("dram_base", "y_size", "x_size", "x_stride")
    boxes = np.concatenate(
        [
            np.stack(
                [batch.numbers, *(full(batch.fields.get(name, 0), len(batch.numbers)) for name in names)], 1
            )
            for _, batch in loads
        ]
    )
    known, first, which = np.unique(boxes[:, 1:], axis=0, return_index=True, return_inverse=True)
    which, first = which.reshape(-1), np.full(len(known), emission.count)
    np.minimum.at(first, which, boxes[:, 0])
    bases, strides = known[:, 0].copy(), known[:, 3].copy()
    for segment in segments:
        low, count = segment.address // tile, segment.size // tile
        own = np.flatnonzero((known[:, 0] >= low) & (known[:, 0] < low + count))
        if segment.kind != "constant" or segment.address % tile or segment.size % tile or not len(own):
            continue
        own = own[np.argsort(first[own], kind="stable")]
        parts = [_tiles(known[row]) - low for row in own.tolist()]
        source = np.concatenate(parts)
        if len(np.unique(source)) < len(source) or source.max() >= count:
            continue
        bases[own] = low + np.cumsum([0, *(len(part) for part in parts[:-1])])
        strides[own] = known[own, 2]
        rest = np.setdiff1d(np.arange(count), source)
        found.append((segment.address, np.concatenate([source, rest])))
    begin = 0
    for number, batch in loads:
        rows = which[begin : begin + len(batch.numbers)]
        begin += len(rows)
        fields = {**batch.fields, "dram_base": bases[rows], "x_stride": strides[rows]}
        emission.batches[number] = replace(batch, fields=fields)
    return found


def _tiles(box: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbers of the weight tiles that a load reads, in order; `box`: its dram_base, y_size, x_size and x_stride."""
    base, rows, columns, stride = box.tolist()
    return (base + np.arange(rows)[:, None] * stride + np.arange(columns)).reshape(-1)


def keep_apart(emission: Emission, layers: Collection[int]) -> None:
    """Keeps stores and loads of the layers numbered `layers` apart: moves the stores of a tile behind the loads that
    follow them, and lets all loads and stores access one more piece of DRAM, so that tokens order them.
    """
    low, high = emission.activations
    piece = -(-(high - low) // emission.granule) + 1
    emission.activations = (low, low + (piece + 1) * emission.granule)
    bus = (Span(DRAM, piece, piece + 1),)
    places = _moved(emission.batches, emission.count, layers)
    for number, batch in enumerate(emission.batches):
        numbers, reads, writes = places[batch.numbers], batch.reads, batch.writes
        if batch.group in layers:
            if batch.name.startswith("STORE"):
                writes = (*writes, *bus)
            elif batch.unit == Unit.LOAD and batch.name != "CONFIG":
                reads = (*reads, *bus)
        emission.batches[number] = replace(batch, numbers=numbers, reads=reads, writes=writes)


def _moved(batches: Sequence[Batch], count: int, layers: Collection[int]) -> NDArray[np.int64]:
    """The new number of each of `count` instructions, after each run of instructions of the store unit changed places
    with the run of the load unit behind it, in the same layer, unless both access the same memory.
    """
    units, groups = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for batch in batches:
        units[batch.numbers], groups[batch.numbers] = batch.unit, batch.group
    first = np.ones(count, bool)
    first[1:] = (units[1:] != units[:-1]) | (groups[1:] != groups[:-1])
    run = np.cumsum(first) - 1
    units, groups = units[first], groups[first]
    moves = np.zeros(len(units), bool)
    moves[:-1] = (units[:-1] == Unit.STORE) & (units[1:] == Unit.LOAD) & (groups[:-1] == groups[1:])
    moves &= np.isin(groups, list(layers))
    moves[:-1] &= ~_conflicts(batches, run, len(units))
    order = np.argsort((2 * np.arange(len(units)) + 3 * moves)[run], kind="stable")
    places = np.empty(count, np.int64)
    places[order] = np.arange(count)
    return places


def _conflicts(batches: Sequence[Batch], run: NDArray[np.int64], runs: int) -> NDArray[np.bool_]:
    """For each of `runs` runs of instructions but the last: whether it and the next one access the same memory and one
    of them writes it; compares the ranges from the first to the last byte. `run`: the run of each instruction.
    """
    low, high = np.full(runs, 1 << 62), np.full(runs, -1)
    ends: dict[tuple[str, bool], tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
    for batch in batches:
        for spans, writes in ((batch.reads, False), (batch.writes, True)):
            for span in spans:
                first, last = ends.setdefault((span.space, writes), (low.copy(), high.copy()))
                used = np.broadcast_to(np.asarray(span.low) < span.high, len(batch.numbers))
                own = run[batch.numbers][used]
                np.minimum.at(first, own, np.broadcast_to(span.low, len(used))[used])
                np.maximum.at(last, own, np.broadcast_to(span.high, len(used))[used])
    found = np.zeros(runs - 1, bool)
    for (space, writes), (first, last) in ends.items():
        for other in (False, True) if writes else (True,):
            if (space, other) in ends:
                begin, end = ends[space, other]
                found |= (first[:-1] < end[1:]) & (begin[1:] < last[:-1])
    return found
