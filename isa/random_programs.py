"""Seeded random programs for comparing engines: in bounds, free of races and of deadlock by construction.

    config = random_config(seed)                       # or any configuration
    program = random_program(config, seed, length=60)  # a Program: .instructions, .image, .config

Equal arguments give equal programs. Every instruction kind that the configuration has appears, with pads, empty
instructions, accumulator windows, operands, transfers over 4 KiB boundaries and longer than the FIFOs, values used
right after they are made, leftover tokens, tokens that order nothing, several tokens in flight
and, now and then, instructions behind FINISH. `run_reference(config, program.instructions, program.image)` is
what every engine must reproduce. `program_builder.py` says why there is neither race nor deadlock.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .config import EXTENSIONS, Config, Memory
from .layout import FLAGS, TOKEN_QUEUES, Unit
from .program import Program
from .program_builder import CARRIERS, ProgramBuilder, append, finish, push, start_builder
from .random_instructions import ENTRIES, UOPS, Regions, Source, random_image, random_sequence


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


def _tokens(source: Source, values: dict[str, int]) -> bool:
    """Wish for tokens at random; whether to insist on them."""
    if source.chance(0.25):
        for flag in FLAGS:
            values[flag] = int(source.chance(0.5))
        return True
    for flag in ("pop_prev", "pop_next"):
        values[flag] = int(source.chance(0.15))
    return False


def random_program(
    config: Config, seed: int, length: int = 60, *, uop: NDArray[np.uint32] | None = None
) -> Program:
    """A program of about `length` instructions besides those that only carry tokens, ending in FINISH.

    `uop` (uop_depth,) is the micro-op memory at launch, zero unless given. See the module's docstring for what is in
    it and what it promises.
    """
    rng = np.random.default_rng((seed, 2))
    image, regions = random_image(config, rng)
    build = start_builder(config, image, uop)
    source = Source(config=config, rng=rng, regions=regions, trace=build.trace)

    def placed(build: ProgramBuilder, unit: Unit) -> None:
        for queue, item in enumerate(TOKEN_QUEUES):
            if item.producer is unit and source.chance(0.1):
                push(build, queue)

    first = {"y_size": 1, "x_size": UOPS, "x_stride": UOPS, "dram_base": regions.uops // 4}
    append(build, "LOAD.UOP", first, placed=placed)
    if config.has("post"):
        append(build, "LOAD.PAR", _parameters(config, regions), placed=placed)
    tries = 0
    count = 0
    while count < length and tries < 50 * length:
        tries += 1
        for name, values in random_sequence(source):
            insist = _tokens(source, values)
            count += append(build, name, values, insist=insist, placed=placed)
    last: dict[str, int] = {}
    append(build, "FINISH", last, insist=_tokens(source, last))
    for _ in range(source.number(3) if source.chance(0.15) else 0):
        build.instructions.append((CARRIERS[Unit(source.number(2))], {}))
    return finish(build)


def _parameters(config: Config, regions: Regions) -> dict[str, int]:
    count = min(config.par_depth, ENTRIES)
    return {
        "y_size": 1,
        "x_size": count,
        "x_stride": count,
        "dram_base": regions.parameters // config.par_bytes,
    }
