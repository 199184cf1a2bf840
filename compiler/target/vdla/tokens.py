"""Latency-hiding tokens: order machine operations of different units by what they touch, and by nothing else.

Every read-after-write, write-after-read and write-after-write between two units becomes an edge, unless the order
already follows from other edges (vector clocks decide). What is left is, for each token queue, a strictly
increasing sequence of (producer, consumer) pairs, so one push and one pop flag an instruction suffice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from vdla.isa.layout import TOKEN_QUEUES, TokenQueue, Unit

from .machine import MachineOp

_UNITS = tuple(Unit)


@dataclass(frozen=True, slots=True)
class Edge:
    """Operation `source` must have ended before operation `target` begins; both index the program order."""

    queue: TokenQueue
    source: int
    target: int


def order(operations: Sequence[MachineOp], sizes: Mapping[str, int], *, token_queue_depth: int) -> list[Edge]:
    """The edges that make any execution equal to program order.

    `sizes` gives the extent of every space that spans name. Should program order itself ever hold more than
    `token_queue_depth` tokens in one queue (which could deadlock), the edges are drawn again from the latest
    possible producer, which needs one token at a time and hides less latency.
    """
    edges = _edges(operations, sizes, late=False)
    if _most_open(edges) > token_queue_depth:
        edges = _edges(operations, sizes, late=True)
    return edges


def _edges(operations: Sequence[MachineOp], sizes: Mapping[str, int], *, late: bool) -> list[Edge]:
    queues = {(queue.producer, queue.consumer): queue for queue in TOKEN_QUEUES}
    written = {space: np.full((len(_UNITS), size), -1, dtype=np.int64) for space, size in sizes.items()}
    read = {space: np.full((len(_UNITS), size), -1, dtype=np.int64) for space, size in sizes.items()}
    # clocks[v][u]: the last operation of unit u known to have ended when unit v begins its next one.
    clocks = [[-1] * len(_UNITS) for _ in _UNITS]
    ended: list[tuple[int, ...]] = []
    last_of_unit = [-1] * len(_UNITS)
    edges: list[Edge] = []
    for number, operation in enumerate(operations):
        unit = operation.unit
        clock = clocks[unit]
        needed = [-1] * len(_UNITS)
        for other in _UNITS:
            if other == unit:
                continue
            latest = clock[other]
            for space, low, high in operation.reads:
                latest = max(latest, int(written[space][other, low:high].max(initial=-1)))
            for space, low, high in operation.writes:
                latest = max(latest, int(written[space][other, low:high].max(initial=-1)))
                latest = max(latest, int(read[space][other, low:high].max(initial=-1)))
            if latest > clock[other]:
                needed[other] = last_of_unit[other] if late else latest
        for other in _UNITS:
            source = needed[other]
            if source < 0 or any(
                needed[third] >= 0 and third != other and ended[needed[third]][other] >= source
                for third in _UNITS
            ):
                continue
            edges.append(Edge(queues[other, unit], source, number))
        for other in _UNITS:
            if needed[other] >= 0:
                clocks[unit] = clock = [max(a, b) for a, b in zip(clock, ended[needed[other]], strict=True)]
        for space, low, high in operation.reads:
            read[space][unit, low:high] = number
        for space, low, high in operation.writes:
            written[space][unit, low:high] = number
        after = list(clock)
        after[unit] = number
        ended.append(tuple(after))
        last_of_unit[unit] = number
    return edges


def _most_open(edges: Sequence[Edge]) -> int:
    """The most tokens any queue holds when the program runs in program order."""
    most = 0
    for queue in TOKEN_QUEUES:
        mine = [edge for edge in edges if edge.queue is queue]
        if not mine:
            continue
        sources = np.array([edge.source for edge in mine])
        targets = np.array([edge.target for edge in mine])
        # After operation p, tokens pushed by sources <= p and not yet popped by targets <= p are in the queue.
        most = max(
            most,
            int((np.searchsorted(sources, sources, side="right") - np.searchsorted(targets, sources)).max()),
        )
    return most


def flags(edges: Sequence[Edge], count: int) -> dict[str, np.ndarray]:
    """The four dependence flags of `count` operations as int64 arrays by flag name."""
    columns = {
        name: np.zeros(count, dtype=np.int64) for name in ("pop_prev", "pop_next", "push_prev", "push_next")
    }
    for edge in edges:
        columns[edge.queue.push_flag][edge.source] = 1
        columns[edge.queue.pop_flag][edge.target] = 1
    return columns
