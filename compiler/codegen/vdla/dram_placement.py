"""Orders memory accesses for machines with a DRAM (hw/dram.md). Weights lie in memory in the order in which they are
loaded, and stores are separated from loads in time.

Rows: a load that reads several runs of bytes opens a row for almost each of them. Constant weights are therefore
rearranged so that a load reads one run, and each load begins where the preceding load ended.

Directions: the controller needs more than twenty cycles to change from reads to writes and back. Its AXI bridge changes
the direction after each burst as long as both reads and writes wait. If the stores of a layer are separated from its
loads, the stores of a tile wait for the loads of the next tile, and later loads wait for these stores. The bus then
changes its direction twice in a tile instead of twice in a burst. Tokens between the load unit and the store unit
enforce this order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vdla.isa.config import Config
from vdla.isa.dram_memory import controller_of
from vdla.isa.layout import Unit
from vdla.isa.program import Segment

from .columns import Rows, full, pick
from .emit import Emission
from .link import Image, LoweredLayer, alignment_of
from .machine import DRAM, Batch, Span

START = 96
"""Number of bus cycles that the last part of a load takes. The next store does not wait for this part: meanwhile the
store unit's pipeline fills a burst. With 96, MobileNet-v1 on DDR3-800 takes fewer cycles than with 30, 48, 70 or 128.
"""


@dataclass(slots=True)
class DramImage(Image):
    """The memory image of a program for a machine with a DRAM. `apart`: numbers of the layers whose stores are
    separated in time from loads. `tail`: number of input vectors in the last part of a load, which the bus transfers in
    START cycles.
    """

    apart: frozenset[int] = frozenset()
    tail: int = 0

    def finish(self, emission: Emission, group: int, *, data: bool = True) -> NDArray[np.uint8]:
        """Completes the program `emission` and returns the memory image, with the arguments of `Image.finish`; then
        rearranges weights, and separates the stores of the layers in `apart` from loads in time.
        """
        memory = Image.finish(self, emission, group, data=data)
        tile = emission.config.wgt_bytes
        for address, source in order_weights(emission, self.segments):
            if data:
                place = memory[address : address + len(source) * tile].reshape(-1, tile)
                place[...] = place[source]
        if self.apart:
            keep_apart(emission, self.apart, self.tail)
        return memory


def dram_image(config: Config, layers: Sequence[LoweredLayer], apart: Collection[str]) -> DramImage:
    """An empty memory image for a program of `layers` on a machine with a DRAM; each segment begins at the start of a
    DRAM row. `apart`: names of the layers whose stores are separated in time from loads (`keep_apart`).
    """
    row = controller_of(config).row_bytes
    chosen = frozenset(number for number, layer in enumerate(layers) if layer.name in apart)
    tail = START * config.memory.bus_bytes // config.inp_bytes
    return DramImage(max(alignment_of(config), row), apart=chosen, tail=max(1, tail))


def order_weights(emission: Emission, segments: Sequence[Segment]) -> list[tuple[int, NDArray[np.int64]]]:
    """Rearranges constant weights so that each load reads one contiguous run of bytes, and the loads of a layer follow
    one another in memory. Sets the new addresses of the loads in `emission`; the caller moves the weights in the image.

    Returns (byte address, order) for each of `segments` whose weights must be rearranged: tile k of the segment is the
    tile that had the number order[k] before. A segment keeps its order if two different loads have a tile in common.
    All segments keep their order on a machine that multiplies a tile in several parts (extension `fold`).
    """
    tile, found = emission.config.wgt_bytes, []
    loads = [(number, batch) for number, batch in enumerate(emission.batches) if batch.name == "LOAD.WGT"]
    if not loads or emission.config.tile_parts > 1:
        return []
    names = ("dram_base", "y_size", "x_size", "x_stride")
    boxes = np.stack(
        [
            np.concatenate([full(batch.fields.get(name, 0), len(batch.numbers)) for _, batch in loads])
            for name in names
        ]
    )
    order = np.lexsort(boxes[::-1])
    ordered = boxes[:, order]
    new = np.append(True, (ordered[:, 1:] != ordered[:, :-1]).any(axis=0))
    starts = np.flatnonzero(new)
    which = np.empty_like(order)
    which[order] = np.cumsum(new) - 1
    first = np.minimum.reduceat(np.concatenate([batch.numbers for _, batch in loads])[order], starts)
    known = ordered[:, starts]
    bases, strides = known[0].copy(), known[3].copy()
    for segment in segments:
        low, count = segment.address // tile, segment.size // tile
        if segment.kind != "constant" or segment.address % tile or segment.size % tile:
            continue
        own = slice(*np.searchsorted(known[0], (low, low + count)))
        own = np.arange(own.start, own.stop)[np.argsort(first[own], kind="stable")]
        if not len(own):
            continue
        sizes = known[1, own] * known[2, own]
        ends = np.cumsum(sizes)
        source = _tiles(known[:, own], sizes) - low
        if source.max() >= count or (times := np.bincount(source, minlength=count)).max() > 1:
            continue
        bases[own] = low + ends - sizes
        strides[own] = known[2, own]
        found.append((segment.address, np.concatenate([source, np.flatnonzero(times == 0)])))
    begin = 0
    for number, batch in loads:
        rows = which[begin : begin + len(batch.numbers)]
        begin += len(rows)
        fields = {**batch.fields, "dram_base": bases[rows], "x_stride": strides[rows]}
        emission.batches[number] = replace(batch, fields=fields)
    return found


def _tiles(boxes: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbers of the weight tiles that loads read, in order. `boxes`: the dram_base, y_size, x_size and x_stride of the
    loads, int64 (4, n). `sizes`: number of tiles of each load, int64 (n,).
    """
    base, _, columns, stride = np.repeat(boxes, sizes, axis=1)
    place = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return base + place // columns * stride + place % columns


def keep_apart(emission: Emission, layers: Collection[int], tail: int) -> None:
    """In `emission`, separates the stores of the layers numbered `layers` from the loads of these layers. The stores of
    a tile move behind the loads that followed them. These loads and stores also access a fictitious piece of DRAM, so
    that tokens order them.

    A store takes some time before it sends its first burst. So the last `tail` input vectors in front of a store become
    a separate load, for which the store does not wait.
    """
    low, high = emission.activations
    piece = -(-(high - low) // emission.granule) + 1
    emission.activations = (low, low + (piece + 1) * emission.granule)
    bus = (Span(DRAM, piece, piece + 1),)
    tails = _cut_tails(emission, layers, tail)
    places = _moved(emission.batches, emission.count, layers)
    for number, batch in enumerate(emission.batches):
        reads, writes = batch.reads, batch.writes
        if batch.group in layers and batch not in tails:
            if batch.name.startswith("STORE"):
                writes = (*writes, *bus)
            elif _loads(batch) and batch.name != "CONFIG":
                reads = (*reads, *bus)
        emission.batches[number] = replace(batch, numbers=places[batch.numbers], reads=reads, writes=writes)


def _loads(batch: Batch) -> bool:
    """Whether the instructions are the load unit's, or loads of accumulators, which the compute unit executes."""
    return batch.unit == Unit.LOAD or batch.name.startswith("LOAD.ACC")


def _cut_tails(emission: Emission, layers: Collection[int], tail: int) -> set[Batch]:
    """Cuts off the end of each LOAD.INP in `layers` that is not followed by another load. The last `tail` vectors
    become a separate load, or more vectors if only whole rows can be cut off. A load stays whole if it has too few
    vectors, or if the cut would be within a row and pad rows follow. Returns the batches of the separate loads.
    """
    loading = np.zeros(emission.count + 1, bool)
    for batch in emission.batches:
        loading[batch.numbers] = batch.unit == Unit.LOAD
    more, others, cut, tails = np.zeros(emission.count, np.int64), [], [], set[Batch]()
    for batch in emission.batches:
        if batch.name == "LOAD.INP" and batch.group in layers:
            boxes = boxes_of(batch)
            counts = np.where(loading[batch.numbers + 1], 1, parts_of(boxes, tail))
            more[batch.numbers] = counts - 1
            cut.append((batch, boxes, counts))
        else:
            others.append(batch)
    places = np.arange(emission.count) + np.cumsum(more) - more
    emission.count += int(more.sum())
    emission.batches[:] = [replace(batch, numbers=places[batch.numbers]) for batch in others]
    for batch, boxes, counts in cut:
        for part, rows, fields in cut_boxes(boxes, tail, counts):
            spans = [
                tuple([Span(span.space, pick(span.low, rows), pick(span.high, rows)) for span in spans])
                for spans in (batch.reads, batch.writes)
            ]
            emission.batches.append(
                replace(
                    batch,
                    numbers=places[batch.numbers[rows]] + part,
                    fields={**{name: pick(value, rows) for name, value in batch.fields.items()}, **fields},
                    reads=spans[0],
                    writes=spans[1],
                )
            )
            if part and part == int(counts[rows[0]]) - 1:
                tails.add(emission.batches[-1])
    return tails


_BOX = ("sram_base", "dram_base", "y_size", "x_size", "x_stride", "y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")
"""Fields of a load that describe the box of DRAM elements that the load reads, and the pads around the box: two
addresses, numbers of rows and columns, distance of the rows, and numbers of pads above, below, left and right.
"""


def boxes_of(batch: Batch) -> dict[str, Rows]:
    """The fields _BOX of the loads in `batch`, each as a column with one number for each load."""
    return {name: full(batch.fields.get(name, 0), len(batch.numbers)) for name in _BOX}


def parts_of(box: Mapping[str, Rows], tail: int) -> Rows:
    """For each load of `box` (fields _BOX), the number of parts into which it is cut: 1 (it stays whole), 2, or 3 (the
    rows before the last row, and two parts of the last row). `tail`: number of vectors to be cut off at the end.
    """
    rows, columns = box["y_size"], box["x_size"]
    last = -(-tail // np.maximum(columns, 1))
    one_row = (rows == 1) & (box["y_pad_0"] == 0)
    several = np.where(rows > 1, 3, np.where(one_row, 2, 1))
    return np.where(
        columns <= tail,
        np.where((columns > 0) & (rows > last), 2, 1),
        np.where(box["y_pad_1"] == 0, several, 1),
    )


def cut_boxes(
    box: Mapping[str, Rows], tail: int, counts: Rows
) -> Iterator[tuple[int, Rows, dict[str, Rows]]]:
    """Cuts the loads of `box` (fields _BOX) into parts. `tail`: number of vectors to be cut off at the end. `counts`:
    number of parts of each load, from `parts_of`.

    Each yielded item is for one part of all loads that are cut in the same way: (number of the part, from 0; indices of
    the loads; fields _BOX of this part, for each of these loads).
    """
    rows, columns, left, none = box["y_size"], box["x_size"], box["x_pad_0"], 0 * box["y_size"]
    by_rows = columns <= tail
    last = np.where(by_rows, -(-tail // np.maximum(columns, 1)), 1)
    before, width = rows - last, left + columns + box["x_pad_1"]
    upper = {**box, "y_size": before, "y_pad_1": none}
    lower = {
        **box,
        "sram_base": box["sram_base"] + (box["y_pad_0"] + before) * width,
        "dram_base": box["dram_base"] + before * box["x_stride"],
        "y_size": last,
        "y_pad_0": none,
    }
    # The last row is cut into its columns but the last ones, with the left pads, and its last `tail` columns.
    short = columns - tail
    row = {**lower, "y_pad_1": none}
    front = {**row, "x_size": short, "x_stride": short, "x_pad_1": none}
    back = {
        **row,
        "sram_base": row["sram_base"] + left + short,
        "dram_base": row["dram_base"] + short,
        "x_size": none + tail,
        "x_stride": none + tail,
        "x_pad_0": none,
    }
    for chosen, parts in (
        (counts == 1, (box,)),
        ((counts == 2) & by_rows, (upper, lower)),
        ((counts == 2) & ~by_rows, (front, back)),
        (counts == 3, (upper, front, back)),
    ):
        chosen_rows = np.flatnonzero(chosen)
        if len(chosen_rows):
            for part, fields in enumerate(parts):
                yield part, chosen_rows, {name: item[chosen_rows] for name, item in fields.items()}


def _moved(batches: Sequence[Batch], count: int, layers: Collection[int]) -> NDArray[np.int64]:
    """Moves loads before stores. Returns the new number of each of the `count` instructions, by its old number.
    `batches`: all instructions of the program; they are not changed.

    A run is a sequence of consecutive instructions of one unit in one layer; loads of accumulators count as the load
    unit's. In `layers`, each run of the store unit changes places with a run of the load unit that directly follows it
    in the same layer. Two runs keep their order if they access the same memory and one of them writes it.
    """
    units, groups = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for batch in batches:
        units[batch.numbers] = Unit.LOAD if _loads(batch) else batch.unit
        groups[batch.numbers] = batch.group
    first = np.ones(count, bool)
    first[1:] = (units[1:] != units[:-1]) | (groups[1:] != groups[:-1])
    run = np.cumsum(first) - 1
    units, groups = units[first], groups[first]
    moves = np.zeros(len(units), bool)
    moves[:-1] = (units[:-1] == Unit.STORE) & (units[1:] == Unit.LOAD) & (groups[:-1] == groups[1:])
    moves &= np.isin(groups, list(layers))
    moving = [
        batch for batch in batches if batch.group in layers and (_loads(batch) or batch.unit == Unit.STORE)
    ]
    moves[:-1] &= ~_conflicts(moving, run, len(units))
    order = np.argsort((2 * np.arange(len(units)) + 3 * moves)[run], kind="stable")
    places = np.empty(count, np.int64)
    places[order] = np.arange(count)
    return places


def _conflicts(batches: Sequence[Batch], run: NDArray[np.int64], runs: int) -> NDArray[np.bool_]:
    """For each run of instructions except the last: whether the run and the next run access the same memory, and one of
    the two writes it. Only instructions in `batches` count. A run counts as accessing all addresses from the lowest to
    the highest one. `run`: for each instruction, the number of its run. `runs`: the number of runs.
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
