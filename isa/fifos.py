"""Sizes of FIFOs that keep the bus busy: defaults of a configuration, and warnings about smaller configured sizes.

The formulas follow from the timing contract (hw/README.md, sections 1 to 3 and 8). A FIFO of w bus words is filled by
bursts of b = min(READ_BURST_BEATS, w / 2) beats and has room for k = w / b of them. A burst's room is reserved when it
is requested, and free for a new request after the last beat has passed the FIFO. In between, the request waits for
memory (`read_latency`), the beats move, and the last beat passes the FIFO (FIFO_LATENCY, ROOM_DELAY). To keep the bus
busy in this time, the k - 1 other bursts must be long enough. In the same way, `outstanding_reads` bursts must be long
enough to keep the bus busy from the acceptance of a request to its last beat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from .timing import (
    FIFO_LATENCY,
    READ_BURST_BEATS,
    REQUEST_GAP,
    ROOM_DELAY,
    longest_burst,
    most_write_beats,
    post_latency,
    store_latency,
)

if TYPE_CHECKING:
    from .config import Config, Memory

FIFOS = ("load", "compute", "operand", "store")
"""Names of the FIFOs between the bus and the units; the fields NAME_fifo_bytes of a configuration have their sizes."""

FIFO_WORDS = 1 << 16
"""Largest number of bus words in a FIFO, equal to the largest number of elements in a scratchpad; more words do not
help at any latency.
"""

OUTSTANDING = 64
"""Largest number of outstanding reads, and of outstanding writes, of a memory."""

DEFAULT_RATE = {"load": 1.0, "compute": 0.9, "operand": 0.9, "store": 0.75}
"""Least share of bus cycles that a FIFO of default size keeps busy while no other unit uses the bus.

Loads alone may fill the bus; reads of the compute and store units share it with loads. Layers that expand channels
store more than they load, so half of the bus would be too little for stores.
"""

JITTER = 0.75
"""Effective random latency as a fraction of its maximum: reads are served in order, so the slowest of several
determines the delay.

With 0.75 the formulas predict without error which of 1,344 simulated machines keep the bus busy 95% of the time; with
0.5, 0.6, ..., 1 they make errors.
"""

BUSY = {"load": 0.95, "compute": 0.5, "operand": 0.5, "store": 0.45}
"""Share of busy bus cycles below which there is a warning about a configured FIFO size."""


def read_rate(memory: Memory, words: float, outstanding: float = OUTSTANDING) -> float:
    """Estimates how well a read FIFO of `words` bus words keeps the bus busy, if at most `outstanding` reads are
    unanswered at a time. Returns the share of busy cycles, divided by the share that an unlimited FIFO would reach.

    Assumes one long run of bytes, and a writer as fast as the bus. Random latency counts as JITTER times its maximum,
    random stalls count as their mean.
    """
    burst = longest_burst(words, READ_BURST_BEATS)
    moved = burst + memory.stall / 2
    trip = memory.read_latency + JITTER * memory.jitter + moved
    room = (trip + FIFO_LATENCY + ROOM_DELAY - 1) / (words // burst)
    best = 1 + memory.stall / 2 / READ_BURST_BEATS
    return best * burst / max(moved, REQUEST_GAP, room, trip / outstanding)


def write_rate(config: Config, words: float, outstanding: float = OUTSTANDING) -> float:
    """Estimates how well a store FIFO of `words` bus words keeps the bus busy with writes, if at most `outstanding`
    writes are unanswered at a time. Returns the share of busy cycles, divided by the share that bursts of the largest
    size would reach without any waiting.

    Assumes one long run of bytes, and a store unit that makes an output vector in each cycle. The memory's random
    stalls count as their mean.
    """
    memory = config.memory
    longest = most_write_beats(config)
    burst = longest_burst(words, longest)
    moved = burst + memory.stall / 2
    fill = burst * max(1.0, memory.bus_bytes / config.out_bytes)
    latency = post_latency(config) if config.has("post") else store_latency(config)
    room = (fill + latency + 2 + moved) / (words // burst)
    answered = (moved + memory.write_latency + 2) / outstanding
    best = 1 + memory.stall / 2 / longest
    return best * burst / max(moved, fill, REQUEST_GAP, room, answered)


def default_bytes(config: Config, fifo: str) -> int:
    """The default size of `fifo` in bytes: the least legal size, doubled until the bus is busy in a wanted share of the
    cycles. The wanted share is DEFAULT_RATE or, if no FIFO reaches that, the share that a FIFO of FIFO_WORDS words
    reaches.
    """
    bus, rate = config.memory.bus_bytes, _rate(config, fifo)
    size = config.least_fifo_bytes(fifo)
    wanted = min(DEFAULT_RATE[fifo], rate(FIFO_WORDS))
    while rate(size // bus) < wanted:
        size *= 2
    return size


def _rate(config: Config, fifo: str) -> Callable[..., float]:
    return partial(write_rate, config) if fifo == "store" else partial(read_rate, config.memory)


def starved(config: Config) -> Iterator[str]:
    """A warning for each FIFO size and number of outstanding bursts of `config` that is too small to keep the bus busy.

    A warning names the field, its value, the reachable share of busy cycles, and a value that suffices.
    """
    memory, bus = config.memory, config.memory.bus_bytes
    fifos = [fifo for fifo in FIFOS if fifo != "operand" or config.has("post")]
    for fifo in fifos:
        size, rate, default = config.fifo_bytes(fifo), _rate(config, fifo), default_bytes(config, fifo)
        # A unit whose elements are narrower than the bus uses less than the bus delivers, with any FIFO.
        reachable = _taken(config, fifo)
        busy = min(rate(size // bus), reachable)
        if size < default and busy < BUSY[fifo] * min(1.0, reachable):
            yield (
                f"{fifo}_fifo_bytes = {size} keeps the bus of {bus} bytes busy for at most {busy:.0%} of the time; "
                f"{default} would suffice"
            )
    for name, kind, rate, size in (
        ("outstanding_reads", "load", partial(read_rate, memory), config.fifo_bytes("load")),
        ("outstanding_writes", "store", partial(write_rate, config), config.fifo_bytes("store")),
    ):
        words = max(size, default_bytes(config, kind)) // bus
        bound = BUSY[kind] * min(1.0, _taken(config, kind), rate(words, float("inf")))
        given = getattr(memory, name)
        if (busy := rate(words, given)) >= bound:
            continue
        enough = given
        while rate(words, enough) < bound:
            enough += 1
        remedy = (
            f"{enough} would suffice"
            if enough <= OUTSTANDING
            else f"{enough} would suffice, but at most {OUTSTANDING} are possible"
        )
        yield f"memory.{name} = {given} keeps the bus of {bus} bytes busy for at most {busy:.0%} of the time; {remedy}"


def _taken(config: Config, fifo: str) -> float:
    """Largest share of a bus word that the unit of `fifo` consumes or produces in a cycle."""
    widest = {
        "load": max(config.wgt_bytes, config.inp_bytes),
        "compute": config.acc_bytes,
        "operand": config.out_bytes,
        "store": config.out_bytes,
    }
    return min(1.0, widest[fifo] / config.memory.bus_bytes)
