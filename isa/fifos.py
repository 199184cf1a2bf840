"""Sizes of FIFOs that keep the bus busy: defaults of a configuration, and warnings about smaller configured sizes.

The formulas follow from the timing contract (hw/README.md, sections 1 to 3 and 8). A FIFO of w bus words reads in
bursts of b = min(READ_BURST_BEATS, w / 2) beats and has room for k = w / b of them. A burst's room is reserved while
its request waits for memory (`read_latency`), while its beats move and until a new request may reuse the room; the next
k - 1 bursts must keep the bus busy for that time. `outstanding_reads` bursts must keep it busy from the acceptance of a
request to its last beat.
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
"""The FIFOs between the bus and the units; `load_fifo_bytes` and the like give their sizes."""

FIFO_WORDS = 1 << 16
"""Largest number of bus words in a FIFO, equal to the largest number of elements in a scratchpad: at the longest
latency more do not help.
"""

OUTSTANDING = 64
"""Largest number of outstanding reads, and of outstanding writes, of a memory."""

DEFAULT_RATE = {"load": 1.0, "compute": 0.9, "operand": 0.9, "store": 0.75}
"""Share of bus cycles that a FIFO of default size keeps busy, at least, while nothing else uses the bus.

Loads alone can fill the bus; reads of the compute and store units share it with them. Layers that expand channels store
more than they load, so half of the bus is too little for stores.
"""

JITTER = 0.75
"""Effective random latency as a part of its maximum: reads are served in order, so the slowest of several determines
the delay.

None of 0.5, 0.6, ..., 1 predicted as well, on the simulator, which of 1,344 machines keep a bus 95% busy: 0.75 without
an error.
"""

BUSY = {"load": 0.95, "compute": 0.5, "operand": 0.5, "store": 0.45}
"""Share of busy bus cycles below which a configured FIFO size gets a warning."""


def read_rate(memory: Memory, words: float, outstanding: float = OUTSTANDING) -> float:
    """Share of the time in which reads into a FIFO of `words` bus words keep the bus busy, relative to the memory's
    best.

    Assumes one long run of bytes, a writer as fast as the bus, and `outstanding` reads at a time. Random latency counts
    as JITTER of its maximum, random stalls count as their mean.
    """
    burst = longest_burst(words, READ_BURST_BEATS)
    moved = burst + memory.stall / 2
    trip = memory.read_latency + JITTER * memory.jitter + moved
    room = (trip + FIFO_LATENCY + ROOM_DELAY - 1) / (words // burst)
    best = 1 + memory.stall / 2 / READ_BURST_BEATS
    return best * burst / max(moved, REQUEST_GAP, room, trip / outstanding)


def write_rate(config: Config, words: float, outstanding: float = OUTSTANDING) -> float:
    """`read_rate` for outputs that leave a store FIFO of `words` bus words, `outstanding` writes at a time."""
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


def least_bytes(config: Config, fifo: str) -> int:
    """The smallest size of `fifo` that can be built: two bus words; for operands and outputs at least two vectors."""
    out = config.out_bytes if fifo in ("operand", "store") else 0
    return 2 * max(config.memory.bus_bytes, out)


def default_bytes(config: Config, fifo: str) -> int:
    """The default size of `fifo`: the smallest power of two that keeps DEFAULT_RATE of the bus busy."""
    bus, rate = config.memory.bus_bytes, _rate(config, fifo)
    size = least_bytes(config, fifo)
    wanted = min(DEFAULT_RATE[fifo], rate(FIFO_WORDS))
    while rate(size // bus) < wanted:
        size *= 2
    return size


def _rate(config: Config, fifo: str) -> Callable[..., float]:
    return partial(write_rate, config) if fifo == "store" else partial(read_rate, config.memory)


def starved(config: Config) -> Iterator[str]:
    """One warning for each FIFO size and number of outstanding bursts with which `config` cannot keep its own bus busy.

    A warning names the field, its value, the reachable share of busy cycles, and a value that suffices.
    """
    memory, bus = config.memory, config.memory.bus_bytes
    fifos = [fifo for fifo in FIFOS if fifo != "operand" or config.has("post")]
    for fifo in fifos:
        size, rate, default = config.fifo_bytes(fifo), _rate(config, fifo), default_bytes(config, fifo)
        # An array narrower than the bus uses less than the bus delivers, whatever the FIFO.
        reachable = _taken(config, fifo)
        busy = min(rate(size // bus), reachable)
        if size < default and busy < BUSY[fifo] * min(1.0, reachable):
            yield (
                f"{fifo}_fifo_bytes = {size} keeps the bus of {bus} bytes busy {busy:.0%} of the time at most; "
                f"{default} would do"
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
            f"{enough} would do" if enough <= OUTSTANDING else f"it would take {enough}, over {OUTSTANDING}"
        )
        yield f"memory.{name} = {given} keeps the bus of {bus} bytes busy {busy:.0%} of the time at most; {remedy}"


def _taken(config: Config, fifo: str) -> float:
    """Largest share of a bus word that a unit consumes or produces in a cycle."""
    widest = {
        "load": max(config.wgt_bytes, config.inp_bytes),
        "compute": config.acc_bytes,
        "operand": config.out_bytes,
        "store": config.out_bytes,
    }
    return min(1.0, widest[fifo] / config.memory.bus_bytes)
