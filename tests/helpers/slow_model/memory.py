"""External memory in the slow model (hw/README.md, sections 1 and 2): which request is accepted and which beat moves in
a cycle.
"""

from __future__ import annotations

from vdla.isa.noise import NOISE_READ, NOISE_STALL, NOISE_WRITE, NOISE_WRITE_STALL, memory_noise
from vdla.isa.timing import REQUEST_GAP, WRITE_DELAY

from .bursts import Burst
from .instructions import Instruction, product_cycles
from .model import Model, Transfer


def accept(model: Model, now: int) -> None:
    memory = model.config.memory
    outstanding = sum(b.last is None or b.last >= now for b in model.reads)
    showing = [c for c in model.clients.values() if c.shown]
    if outstanding < memory.outstanding_reads and showing:
        client = showing[0]
        burst = client.shown
        assert burst is not None
        noise = memory_noise(memory.seed, len(model.reads), NOISE_READ, memory.jitter)
        burst.accepted, burst.ready = now, now + memory.read_latency + noise
        model.reads.append(burst)
        client.shown, client.last_accept = None, now
        count(model, burst)
    outstanding = sum(b.response is None or b.response >= now for b in model.writes)
    if model.accepted_writes == len(model.to_write):
        return
    burst, store, vector = model.to_write[model.accepted_writes]
    there = vector < len(store.vector_ready) and store.vector_ready[vector] <= now
    free = now >= model.last_write_accept + REQUEST_GAP
    if burst.first_shown is None and there and free:
        shows = now >= cut_from(model, store) + WRITE_DELAY + product_cycles(store)
        burst.first_shown = now if shows else None
    if burst.first_shown is not None and outstanding < memory.outstanding_writes:
        model.last_write_accept = now
        model.accepted_writes += 1
        burst.accepted, burst.ready = now, now + 1
        if memory.data_channels == "separate":
            burst.ready += memory_noise(memory.seed, len(model.writes), NOISE_WRITE, memory.jitter)
        model.writes.append(burst)
        count(model, burst)


def cut_from(model: Model, store: Instruction) -> int:
    """The cycle from which the store unit may divide the data of `store` into bursts. All bursts of earlier stores must
    have been accepted.
    """
    if store.cut_from is None:
        assert store.begin is not None
        store.cut_from = store.begin
        if model.accepted_writes:
            _, before, _ = model.to_write[model.accepted_writes - 1]
            assert before.cut_from is not None
            leaves = before.cut_from + WRITE_DELAY - 2 + product_cycles(before)
            if model.accepted_writes > 1:
                leaves = max(leaves, model.to_write[model.accepted_writes - 2][0].first_shown or 0)
            store.cut_from = max(store.begin, leaves + 1)
    return store.cut_from


def count(model: Model, burst: Burst) -> None:
    model.bytes[burst.kind] += burst.size
    model.beats[burst.kind] += burst.beats


def move(model: Model, now: int) -> None:
    memory = model.config.memory
    if memory.data_channels == "shared":
        if model.transfer is None:
            model.transfer = choose(model, now)
        model.transfer = transfer(model, model.transfer, now)
        return
    if model.transfer is None and (burst := ready(model.reads, model.served_reads, now)):
        wait = memory_noise(memory.seed, model.served_reads, NOISE_STALL, memory.stall)
        model.transfer = burst, wait
        model.served_reads += 1
    if model.write_transfer is None and (burst := ready(model.writes, model.served_writes, now)):
        wait = memory_noise(memory.seed, model.served_writes, NOISE_WRITE_STALL, memory.stall)
        model.write_transfer = burst, wait
        model.served_writes += 1
    model.transfer = transfer(model, model.transfer, now)
    model.write_transfer = transfer(model, model.write_transfer, now)


def ready(bursts: list[Burst], served: int, now: int) -> Burst | None:
    """The next burst of one direction to be served, if it is ready in cycle `now`; else None. `bursts`: all bursts of
    this direction in order. `served`: number of them that have been served.
    """
    burst = bursts[served] if served < len(bursts) else None
    return burst if burst is not None and burst.ready is not None and burst.ready <= now else None


def choose(model: Model, now: int) -> Transfer | None:
    """Chooses the burst that the shared data channel transfers next, and counts it as served; None if no burst is ready
    in cycle `now`.
    """
    memory = model.config.memory
    read = ready(model.reads, model.served_reads, now)
    write = ready(model.writes, model.served_writes, now)
    take_write = write is not None and (read is None or not model.last_was_write)
    burst = write if take_write else read
    if burst is None:
        return None
    model.last_was_write = take_write
    model.served_writes += take_write
    model.served_reads += not take_write
    model.served += 1
    return burst, memory_noise(memory.seed, model.served - 1, NOISE_STALL, memory.stall)


def transfer(model: Model, current: Transfer | None, now: int) -> Transfer | None:
    """Moves a beat of the transfer `current` in cycle `now`, or waits a cycle; returns the transfer as it then is, None
    if this was its last beat or if there is none.
    """
    if current is None:
        return None
    burst, wait = current
    if wait:
        return burst, wait - 1
    burst.moved.append(now)
    if burst.last is None:
        return current
    if burst.kind == "out":
        burst.response = now + model.config.memory.write_latency
    return None
