"""Tokens order the operations of different units by their memory accesses, and by nothing else.

Every read-after-write, write-after-read and write-after-write between two units becomes an edge, unless vector clocks
show that the order already follows from other edges. In each token queue, producers and consumers of the edges then
strictly increase, so one push and one pop flag of an instruction suffice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.isa.layout import FLAG_BITS, TOKEN_QUEUES, Unit
from vdla.util.machine_code import compiled

from .columns import Rows, full, lesser
from .machine import Batch

_UNITS = len(Unit)


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """Dependences between operations, one row for each, ordered by target: operation `source` must end before operation
    `target` begins.

    Both are numbers in program order. `queue` indexes `TOKEN_QUEUES`.
    """

    queue: Rows
    source: Rows
    target: Rows


@dataclass(frozen=True, slots=True, eq=False)
class Touches:
    """Memory accesses of n operations in program order.

    Operation i executes on `units[i]` and accesses the ranges numbered `first[i]` .. `first[i + 1]` - 1; `writes`:
    whether a range is written. All memories together are cut into `size` pieces: a piece ends wherever a range begins
    or ends. A range consists of the pieces `low` .. `high` - 1.
    """

    units: Rows
    first: Rows
    low: Rows
    high: Rows
    writes: NDArray[np.bool_]
    size: int


def touches(batches: Sequence[Batch], count: int, sizes: Mapping[str, int]) -> Touches:
    """The memory accesses of the `count` instructions in `batches`; `sizes`: extent of every memory in the unit of the
    spans (accessed ranges), by the name that spans use. Spans are cut off at the end of a memory.
    """
    base = dict(zip(sizes, np.cumsum([0, *sizes.values()]).tolist(), strict=False))
    units = np.zeros(count, dtype=np.int64)
    none = np.zeros(0, dtype=np.int64)
    numbers, lows, highs, writes = [none], [none], [none], [none > 0]
    for batch in batches:
        units[batch.numbers] = batch.unit
        for spans, writing in ((batch.reads, False), (batch.writes, True)):
            for span in spans:
                numbers.append(batch.numbers)
                high = lesser(span.high, sizes[span.space])
                lows.append(full(span.low, len(batch.numbers)) + base[span.space])
                highs.append(full(high, len(batch.numbers)) + base[span.space])
                writes.append(np.full(len(batch.numbers), writing))
    low, high = np.concatenate(lows), np.concatenate(highs)
    kept = np.flatnonzero(low < high)
    number = np.concatenate(numbers)[kept]
    kept = kept[np.argsort(number, kind="stable")]
    low, high = low[kept], high[kept]
    first = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(number, minlength=count), out=first[1:])
    cuts = np.zeros(sum(sizes.values()) + 1, dtype=np.int64)
    cuts[low] = cuts[high] = 1
    piece = np.cumsum(cuts)
    return Touches(
        units=units,
        first=first,
        low=piece[low],
        high=piece[high],
        writes=np.concatenate(writes)[kept],
        size=int(piece[-1]) + 1,
    )


def order(touched: Touches, *, token_queue_depth: int) -> Edges:
    """The dependences that must be enforced so that every execution gives the results of program order.

    If a queue would ever hold more than `token_queue_depth` tokens in program order (a possible deadlock), every edge
    starts at the latest possible producer instead. Then a queue holds one token at a time, and less latency is hidden.
    """
    edges = _edges(touched, late=False)
    if _most_open(edges, len(touched.units)) > token_queue_depth:
        edges = _edges(touched, late=True)
    return edges


def _edges(touched: Touches, *, late: bool) -> Edges:
    from .tokens import draw_edges  # numba takes longer to import than all else that compiling needs

    count = len(touched.units)
    queues = np.full((_UNITS, _UNITS), -1, dtype=np.int64)
    for number, queue in enumerate(TOKEN_QUEUES):
        queues[queue.producer, queue.consumer] = number
    written = np.full((_UNITS, touched.size), -1, dtype=np.int32)
    read = np.full((_UNITS, touched.size), -1, dtype=np.int32)
    ended = np.full((count, _UNITS), -1, dtype=np.int64)
    edges = np.empty((count * (_UNITS - 1), 3), dtype=np.int64)
    spans = (touched.units, touched.first, touched.low, touched.high, touched.writes)
    found = draw_edges(spans, late, queues, (written, read), ended, edges)
    queue, source, target = edges[:found].T
    return Edges(queue, source, target)


def _most_open(edges: Edges, count: int) -> int:
    """The largest number of tokens in any queue while the `count` operations run in program order."""
    held = np.zeros((len(TOKEN_QUEUES), count + 1), dtype=np.int64)
    held[edges.queue, edges.source] += 1
    held[edges.queue, edges.target] -= 1
    return int(held.cumsum(axis=1).max())


def flags(edges: Edges, count: int) -> NDArray[np.uint64]:
    """Dependence flags of `count` operations: uint64 [count], bits to set in the first word of each instruction."""
    push = np.array([1 << FLAG_BITS[queue.push_flag] for queue in TOKEN_QUEUES], dtype=np.uint64)
    pop = np.array([1 << FLAG_BITS[queue.pop_flag] for queue in TOKEN_QUEUES], dtype=np.uint64)
    bits = np.zeros(count, dtype=np.uint64)
    np.bitwise_or.at(bits, edges.source, push[edges.queue])
    np.bitwise_or.at(bits, edges.target, pop[edges.queue])
    return bits


@compiled()
def draw_edges(spans, late, queues, last, ended, edges):  # type: ignore[no-untyped-def]
    """Computes the dependences between units; fills `edges` with (queue, source, target) rows and returns their number.

    `spans`: the fields units, first, low, high and writes of `Touches`. `late`: whether edges start at the latest
    possible source. `queues[u, v]`: number of the queue from unit u to v. `last` and `ended` are working memory. `last`
    = (written, read) are arrays (units, size): the last operation of each unit that wrote or read each piece of memory
    (`Touches.size`). `ended[i, u]`: the last operation of unit u that has certainly ended when operation i ends.
    """
    units, first, low, high, writes = spans
    written, read = last
    count = len(queues)
    # clocks[v, u]: the last operation of unit u known to have ended when unit v begins its next operation.
    clocks = np.full((count, count), -1, dtype=np.int64)
    last_of_unit = np.full(count, -1, dtype=np.int64)
    needed = np.empty(count, dtype=np.int64)
    found = 0
    for number in range(len(units)):
        unit = units[number]
        for other in range(count):
            needed[other] = -1
            if other == unit:
                continue
            latest = np.int32(-1)
            for span in range(first[number], first[number + 1]):
                for element in range(low[span], high[span]):
                    latest = max(latest, written[other, element])
                if writes[span]:
                    for element in range(low[span], high[span]):
                        latest = max(latest, read[other, element])
            if latest > clocks[unit, other]:
                needed[other] = last_of_unit[other] if late else latest
        for other in range(count):
            source = needed[other]
            follows = False
            for third in range(count):
                if third != other and needed[third] >= 0 and ended[needed[third], other] >= source:
                    follows = True
            if source >= 0 and not follows:
                edges[found, 0], edges[found, 1], edges[found, 2] = queues[other, unit], source, number
                found += 1
        for other in range(count):
            if needed[other] >= 0:
                for third in range(count):
                    clocks[unit, third] = max(clocks[unit, third], ended[needed[other], third])
        for span in range(first[number], first[number + 1]):
            touched = written if writes[span] else read
            for element in range(low[span], high[span]):
                touched[unit, element] = number
        ended[number] = clocks[unit]
        ended[number, unit] = number
        last_of_unit[unit] = number
    return found
