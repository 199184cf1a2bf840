"""Seeded random programs for comparing engines: in bounds, free of races and of deadlock by construction.

    config = random_config(seed)                       # or any configuration
    program = random_program(config, seed, length=60)  # a Program: .instructions, .image, .config

Equal arguments give equal programs. Every instruction kind that the configuration has appears, with pads, empty
instructions, accumulator windows, operands, leftover tokens, tokens that order nothing, several tokens in flight
and, now and then, instructions behind FINISH. `run_reference(config, program.instructions, program.image)` is
what every engine must reproduce.

Why no deadlock, whatever the depths: a token is popped by an instruction that lies behind its push in the
program, and a push is placed only where, in program order, its queue still has room. So each instruction waits
only for instructions before it, and the fetch unit has dispatched those.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from .access import AccessError, accesses, advance, start_trace
from .config import EXTENSIONS, Config, Memory
from .hazards import LastAccess, conflicts, record, start_access
from .layout import TOKEN_QUEUES, Unit, encode, formats, unit_of
from .program import Program, bare_program
from .random_instructions import ENTRIES, UOPS, Regions, Source, random_image, random_instruction

_CARRIERS = {Unit.LOAD: "LOAD.INP", Unit.COMPUTE: "LOAD.UOP", Unit.STORE: "STORE.OUT"}
"""With x_size = 0 these do nothing but carry tokens."""


def random_config(seed: int) -> Config:
    """A small machine with random shape, queue depths, bus, latencies, noise and extensions."""
    rng = np.random.default_rng((seed, 1))

    def pick(*choices: int) -> int:
        return int(rng.choice(choices))

    block_in, batch, bus = pick(4, 4, 8, 16), pick(1, 1, 2), pick(8, 8, 16, 64)
    block_out = block_in if rng.random() < 0.7 else pick(4, 8, 16)
    extensions = tuple(
        name for name in EXTENSIONS if rng.random() < 0.9 and (name != "depthwise" or block_in == block_out)
    )
    return Config(
        name=f"random {seed}",
        batch=batch,
        block_in=block_in,
        block_out=block_out,
        uop_buffer_bytes=4 * pick(128, 512),
        inp_buffer_bytes=batch * block_in * pick(64, 128),
        wgt_buffer_bytes=block_in * block_out * pick(16, 64),
        acc_buffer_bytes=4 * batch * block_out * pick(64, 128),
        acc_banks=pick(1, 2, 4),
        par_buffer_bytes=8 * block_out * pick(1, 4),
        command_queue_depth=pick(1, 2, 3, 8, 32),
        token_queue_depth=pick(1, 2, 5, 64),
        fetch_buffer_depth=pick(2, 4, 32),
        load_fifo_bytes=pick(2 * bus, 4 * bus, 1024),
        compute_fifo_bytes=pick(2 * bus, 256),
        operand_fifo_bytes=pick(128, 512),
        store_fifo_bytes=pick(128, 512),
        extensions=extensions,
        memory=Memory(
            bus_bytes=bus,
            read_latency=pick(1, 3, 30, 120),
            write_latency=pick(1, 10, 40),
            outstanding_reads=pick(1, 2, 8),
            outstanding_writes=pick(1, 4),
            jitter=pick(0, 0, 7, 50),
            stall=pick(0, 0, 5),
            seed=seed % 2**32,
        ),
    )


@dataclass(slots=True, kw_only=True)
class _Builder:
    source: Source
    last: LastAccess
    instructions: list[tuple[str, dict[str, int]]] = field(default_factory=list)
    # clocks[u][v]: index of the last instruction of unit v that has ended before unit u's next one begins.
    clocks: list[list[int]] = field(default_factory=lambda: [[-1] * 3 for _ in Unit])
    # The clock that each token in flight carries, a queue for each of TOKEN_QUEUES.
    tokens: list[deque[list[int]]] = field(default_factory=lambda: [deque() for _ in TOKEN_QUEUES])
    # Tokens in flight, in program order, when each unit's last instruction was placed.
    before: list[list[int]] = field(default_factory=lambda: [[0] * len(TOKEN_QUEUES) for _ in Unit])


# --- tokens ---------------------------------------------------------------------------------------------


def _merge(build: _Builder, unit: Unit, token: list[int]) -> None:
    """Let what `token` vouches for be known to the next instruction of `unit`."""
    clock = build.clocks[unit]
    clock[:] = [max(pair) for pair in zip(clock, token, strict=True)]


def _place(build: _Builder, name: str, values: dict[str, int]) -> None:
    """Append an instruction whose pops are done, with tokens pushed at random."""
    unit = unit_of(name, values)
    build.clocks[unit][unit] = len(build.instructions)
    build.before[unit] = [len(tokens) for tokens in build.tokens]
    build.instructions.append((name, values))
    for queue, item in enumerate(TOKEN_QUEUES):
        if item.producer is unit and build.source.chance(0.1):
            _push(build, queue)


def _push(build: _Builder, queue: int) -> bool:
    """Let the producer's last instruction push a token now, if there is one and the queue has room there."""
    item = TOKEN_QUEUES[queue]
    place = build.clocks[item.producer][item.producer]
    room = (
        max(build.before[item.producer][queue], len(build.tokens[queue]))
        < build.source.config.token_queue_depth
    )
    if place < 0 or not room or build.instructions[place][1].get(item.push_flag):
        return False
    build.instructions[place][1][item.push_flag] = 1
    build.tokens[queue].append(list(build.clocks[item.producer]))
    return True


def _carrier(build: _Builder, unit: Unit, queue: int | None = None) -> None:
    """Place an instruction that does nothing but, perhaps, pop the oldest token of `queue`."""
    values: dict[str, int] = {}
    if queue is not None:
        values[TOKEN_QUEUES[queue].pop_flag] = 1
        _merge(build, unit, build.tokens[queue].popleft())
    _place(build, _CARRIERS[unit], values)


def _wait(build: _Builder, unit: Unit, other: Unit, index: int, values: dict[str, int]) -> list[int] | None:
    """Order the instruction of `unit` about to be placed behind instruction `index` of unit `other`.

    The token that the instruction itself pops is returned, not merged: carriers may still be placed before it.
    """
    queue = next(
        number for number, item in enumerate(TOKEN_QUEUES) if (item.producer, item.consumer) == (other, unit)
    )
    tokens = build.tokens[queue]
    while build.clocks[unit][other] < index:
        if tokens and tokens[0][other] >= index:
            values[TOKEN_QUEUES[queue].pop_flag] = 1
            return tokens.popleft()
        if any(clock[other] >= index for clock in tokens):
            _carrier(build, unit, queue)
        elif not _push(build, queue):
            # No push where the producer stands: make room first, or let it go on to a place where there is.
            if tokens:
                _carrier(build, unit, queue)
            else:
                _carrier(build, other)
    return None


def _append(build: _Builder, name: str, values: dict[str, int]) -> bool:
    """Place an instruction with the tokens it needs; False, and nothing done, if it leaves a memory."""
    values = {item.name: 0 for item in formats(build.source.config)[name].fields} | values
    unit = unit_of(name, values)
    try:
        touched = accesses(build.source.trace, name, values)
    except AccessError:
        return False
    needed: dict[Unit, int] = {}
    for conflict in conflicts(build.last, unit, touched):
        needed[conflict.unit] = max(conflict.earlier, needed.get(conflict.unit, -1))
    popped = [_wait(build, unit, other, index, values) for other, index in needed.items()]
    for queue, item in enumerate(TOKEN_QUEUES):
        free = item.consumer is unit and build.tokens[queue] and not values[item.pop_flag]
        if free and build.source.chance(0.15):
            values[item.pop_flag] = 1
            popped.append(build.tokens[queue].popleft())
    for token in popped:
        if token is not None:
            _merge(build, unit, token)
    index = len(build.instructions)
    _place(build, name, values)
    record(build.last, unit, index, touched)
    advance(build.source.trace, name, values, touched)
    return True


def random_program(config: Config, seed: int, length: int = 60) -> Program:
    """A program of about `length` instructions besides those that only carry tokens, ending in FINISH.

    See the module's docstring for what is in it and what it promises.
    """
    rng = np.random.default_rng((seed, 2))
    image, regions = random_image(config, rng)
    build = _Builder(
        source=Source(config=config, rng=rng, regions=regions, trace=start_trace(config, image)),
        last=start_access(config, len(image)),
    )
    _append(build, "LOAD.UOP", {"y_size": 1, "x_size": UOPS, "x_stride": UOPS})
    if config.has("post"):
        _append(build, "LOAD.PAR", _parameters(config, regions))
    tries = 0
    placed = 0
    while placed < length and tries < 50 * length:
        tries += 1
        placed += _append(build, *random_instruction(build.source))
    _append(build, "FINISH", {})
    for _ in range(build.source.number(3) if build.source.chance(0.15) else 0):
        build.instructions.append((_CARRIERS[Unit(build.source.number(2))], {}))
    words = [encode(config, name, **values) for name, values in build.instructions]
    return bare_program(config, np.array(words, np.uint64), image)


def _parameters(config: Config, regions: Regions) -> dict[str, int]:
    count = min(config.par_depth, ENTRIES)
    return {
        "y_size": 1,
        "x_size": count,
        "x_stride": count,
        "dram_base": regions.parameters // config.par_bytes,
    }
