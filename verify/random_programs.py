"""Random programs to compare engines (simulator, RTL, reference); by construction they stay in bounds and have neither
races nor deadlocks.

    config = random_config(seed)                       # or any configuration
    program = random_program(config, seed, length=60)  # a Program: .instructions, .image, .config

Equal arguments give equal programs. Many programs together have every kind of instruction that the configuration has,
with pads, empty instructions, accumulator windows, operands, transfers over 4 KiB boundaries and longer than the FIFOs,
fields from their whole range, results of the store pipeline that depend on the last bit of an operand, values used
right after they are computed, unused tokens, redundant tokens, several tokens in flight and sometimes instructions
after FINISH. Every engine must give the results of `run_reference(config, program.instructions, program.image)`.
`program_builder.py` explains why there are no races and no deadlocks.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.isa.alu import AluOpcode
from vdla.isa.array_modes import LEAST_COLUMNS, TAPS
from vdla.isa.config import Config, Memory
from vdla.isa.extensions import EXTENSIONS, with_what_they_need
from vdla.isa.layout import FLAGS, TOKEN_QUEUES, TokenQueue, Unit, names_of, unit_of
from vdla.isa.parameters import declared
from vdla.isa.program import Program
from vdla.isa.program_builder import CARRIERS, ProgramBuilder, append, finish, push, start_builder, steps
from vdla.isa.store_stages import TABLE_BYTES, StoreParts

from .random_images import TABLE, UOPS, Regions, random_image
from .random_instructions import MANY_LOADS, Source
from .random_sequences import random_sequence

_LONG = 1500
"""Number of operations of an instruction that keeps the compute unit busy for long."""

_FAR = 0.15
"""Share of programs whose image has additional memory behind the region that programs write; instructions with long
strides access it.
"""

_WIDE = 0.8
"""Share of programs whose fields may take any value of their range."""

_MOST_STEPS = dict.fromkeys(names_of("matrix", "vector"), 1 << 14)
_MOST_OTHER_STEPS = 3000
"""Random programs contain no instruction that takes more steps (operations, or vectors moved) than a limit. The limit
is _MOST_STEPS[name] for a matrix or ALU instruction, and _MOST_OTHER_STEPS for any other instruction.
"""

_IDLE = 0.03
_MOST_IDLE = 2200
"""_IDLE: share of programs that begin with many empty instructions. _MOST_IDLE: largest number of these instructions;
it is above 1,024 to test counters of more than ten bits.
"""

_SEQUENCE = 8
"""A random sequence of related instructions counts as at most this many instructions towards the length of a program,
even if it is longer. So a long sequence leaves room for other instructions.
"""

_MOST_TOKENS = 64
"""Largest depth of the token queues that programs fill; deeper ones are not filled."""


def random_config(seed: int) -> Config:
    """A small random machine: its array, queue depths, bus, memory latencies, random variations of latency, and
    extensions are drawn.

    The sizes of array, scratchpads and FIFOs depend on each other, so this function draws them itself. Each other field
    of the configuration takes one of the values declared as its `samples` (isa/parameters.py).
    """
    rng = np.random.default_rng((seed, 1))

    def pick(*choices: int) -> int:
        return int(rng.choice(choices))

    block_in, batch, bus = pick(4, 4, 8, 16), pick(1, 1, 2), pick(8, 8, 16, 64)
    block_out = block_in if rng.random() < 0.7 else pick(4, 8, 16)
    shapes = ((4, 128, 1), (128, 4, 1), (4, 4, 8), (64, 16, 4))
    if _generator(seed, "shape").random() < 0.12:
        block_in, block_out, batch = shapes[seed % len(shapes)]
    extensions = tuple(
        name
        for name in EXTENSIONS
        if _generator(seed, name).random() < 0.9 and (name != "rows" or batch == 1)
    )
    if block_in != block_out and "taps" not in extensions:
        extensions = tuple(name for name in extensions if name != "depthwise")
    most_folds = block_out // LEAST_COLUMNS if block_in == block_out else 1
    if most_folds < 2 or _generator(seed, "folds or not").random() < 0.4:
        extensions = tuple(name for name in extensions if name != "fold")
    extensions = with_what_they_need(extensions)
    uop_depth, inp_depth, wgt_depth, acc_depth = pick(128, 512), pick(64, 128), pick(16, 64), pick(64, 128)
    match _generator(seed, "encoding").choice(("128", "128", "128", "alu", "loops", "micro-ops")):
        case "alu":  # the factors of an ALU instruction alone need more than 128 bits
            inp_depth, acc_depth = 4096, 2048
        case "loops":
            uop_depth = 16384
        case "micro-ops":  # micro-ops of 64 bits
            inp_depth, wgt_depth, acc_depth = 2048, 2048, 2048
        case _:
            pass
    if (uneven := _generator(seed, "depths")).random() < 0.4:
        uop_depth, inp_depth, wgt_depth, acc_depth = (
            int(uneven.integers(-(-3 * depth // 4), depth + 1))
            for depth in (uop_depth, inp_depth, wgt_depth, acc_depth)
        )
    if "taps" in extensions:  # `taps` reads whole positions, and needs two in each of its banks
        position = max(1, block_out // block_in)
        inp_depth = max(2 * TAPS, -(-inp_depth // position)) * position
    samples = _samples(Config, seed)
    if "post" not in extensions:
        samples["chain_buffer_bytes"] = 0
    if "taps" in extensions and samples["chain_buffer_bytes"] < 2 * TAPS * batch * max(block_in, block_out):
        samples["chain_buffer_bytes"] = 0
    if "fold" in extensions:
        samples["folds"] = min(samples["folds"], most_folds)
    inputs = inp_depth
    if chained := samples["chain_buffer_bytes"] // (batch * block_in):
        inputs = (1 << (inp_depth - 1).bit_length()) + chained
    indices = sum((depth - 1).bit_length() for depth in (inputs, wgt_depth, acc_depth))
    return Config(
        name=f"random {seed}",
        batch=batch,
        block_in=block_in,
        block_out=block_out,
        uop_buffer_bytes=(4 if indices <= 32 else 8) * uop_depth,
        inp_buffer_bytes=batch * block_in * inp_depth,
        wgt_buffer_bytes=block_in
        * block_out
        * wgt_depth
        // (samples["folds"] if "fold" in extensions else 1),
        acc_buffer_bytes=4 * batch * block_out * acc_depth,
        par_buffer_bytes=8 * block_out * pick(1, 4),
        load_fifo_bytes=pick(2 * bus, 4 * bus, 1024),
        compute_fifo_bytes=pick(2 * bus, 256),
        operand_fifo_bytes=max(pick(128, 512), 2 * batch * block_out),
        store_fifo_bytes=max(pick(128, 512), 2 * batch * block_out),
        extensions=extensions,
        memory=Memory(bus_bytes=bus, seed=seed % 2**32, **_samples(Memory, seed)),
        post_lanes=max(1, batch * block_out >> pick(0, 0, 1, 2, 3)),
        **samples,
    )


def _samples(kind: type, seed: int) -> dict[str, Any]:
    """For each field of the class `kind` that declares samples, one of its samples at random; each field has its own
    random generator.
    """
    return {
        name: item.samples[int(_generator(seed, name).integers(len(item.samples)))]
        for name, _, item in declared(kind)
        if item.samples
    }


def _generator(seed: int, name: str) -> np.random.Generator:
    """A random generator for the part `name` of a machine; drawing from it does not change draws for other parts."""
    return np.random.default_rng((seed, zlib.crc32(name.encode())))


def _tokens(source: Source, values: dict[str, int]) -> bool:
    """Sets random token flags in `values`. Returns True if the program builder must keep these flags, and add
    instructions that supply the tokens; False if the builder may clear flags that are not valid.
    """
    if source.chance(0.25):
        for flag in FLAGS:
            values[flag] = int(source.chance(0.5))
        return True
    for flag in ("pop_prev", "pop_next"):
        values[flag] = int(source.chance(0.15))
    return False


def _hold(build: ProgramBuilder, source: Source, unit: Unit) -> None:
    """Appends instructions that keep `unit` busy for hundreds of cycles, in which it begins no later instruction."""
    config = source.config
    match unit:
        case Unit.LOAD:
            columns = min(31, config.inp_depth // 30)
            pads = {"y_pad_0": 15, "y_pad_1": 15, "x_pad_0": columns // 2, "x_size": columns - columns // 2}
            for _ in range(MANY_LOADS):
                append(build, "LOAD.INP", pads)
        case Unit.COMPUTE:
            loops = {"uop_bgn": UOPS - 1, "uop_end": UOPS, "iter_out": 1, "iter_in": _LONG}
            append(build, "ALU", {**loops, "alu_opcode": int(AluOpcode.ADD), "use_imm": 1, "imm": 1})
        case Unit.STORE:
            regions = source.regions
            count = min(config.acc_depth, (regions.end - regions.output) // config.out_bytes)
            shape = {"y_size": 1, "x_size": count, "x_stride": count}
            append(build, "STORE.OUT", {**shape, "dram_base": regions.output // config.out_bytes})


def _flood(build: ProgramBuilder, source: Source, item: TokenQueue) -> None:
    """Appends instructions by which the producer of token queue `item` fills the queue while its consumer is busy. In
    half of the calls the consumer's command queue fills, too.
    """
    give, take = CARRIERS[item.producer], CARRIERS[item.consumer]
    _hold(build, source, item.consumer)
    for _ in range(min(build.config.token_queue_depth, _MOST_TOKENS)):
        append(build, give, {item.push_flag: 1})
    for _ in range(4):
        append(build, take, {item.pop_flag: 1})
        found = [
            pair for _ in range(12) for pair in random_sequence(source) if unit_of(*pair) is item.producer
        ]
        name, values = found[0] if found else (give, {})
        if not append(build, name, {**values, item.push_flag: 1}):
            append(build, give, {item.push_flag: 1})
    for _ in range(min(build.config.command_queue_depth, _MOST_TOKENS) if source.chance(0.5) else 0):
        append(build, take, {})


def random_program(
    config: Config, seed: int, length: int = 60, *, uop: NDArray[np.unsignedinteger] | None = None
) -> Program:
    """A random program of about `length` instructions, plus instructions that only push or pop tokens. FINISH is the
    last instruction, except in some programs that have up to three empty instructions behind FINISH.

    `uop` (uop_depth,): the micro-op scratchpad at launch, by default zeros. The module's docstring says what programs
    contain and guarantee.
    """
    rng = np.random.default_rng((seed, 2))
    image, regions = random_image(config, rng, far=rng.random() < _FAR)
    build = start_builder(config, image, uop)
    uops_at = int(rng.integers(max(0, config.uop_depth - UOPS) + 1)) if rng.random() < 0.7 else 0
    source = Source(
        config=config, rng=rng, regions=regions, trace=build.trace, wide=rng.random() < _WIDE, uops_at=uops_at
    )

    def placed(build: ProgramBuilder, unit: Unit) -> None:
        for queue, item in enumerate(TOKEN_QUEUES):
            if item.producer is unit and source.chance(0.1):
                push(build, queue)

    held = min(UOPS, config.uop_depth)
    first = {"y_size": 1, "x_size": held, "x_stride": held, "dram_base": regions.uops // config.uop_bytes}
    append(build, "LOAD.UOP", first, placed=placed)
    if uops_at:
        append(build, "LOAD.UOP", first | {"sram_base": uops_at}, placed=placed)
    parts = StoreParts.of(config)
    if parts.post:
        append(build, "LOAD.PAR", _parameters(config, regions), placed=placed)
    if parts.table:
        count, first = config.table_depth, -(-regions.data // TABLE_BYTES) + source.number(8)
        whole = {"y_size": 1, "x_size": count, "x_stride": count, "dram_base": first}
        append(build, "LOAD.TABLE", whole, placed=placed)
    for _ in range(source.number(_MOST_IDLE, _MOST_IDLE // 2) if rng.random() < _IDLE else 0):
        append(build, CARRIERS[Unit(source.number(2))], {})
    tries = 0
    count = 0
    flood = source.number(length) if source.chance(0.7) else -1
    while count < length and tries < 50 * length:
        tries += 1
        if 0 <= flood <= count:
            flood = -1
            _flood(build, source, TOKEN_QUEUES[source.number(len(TOKEN_QUEUES) - 1)])
        found = 0
        for name, values in random_sequence(source):
            insist = _tokens(source, values)
            if steps(build, name, values) <= _MOST_STEPS.get(name, _MOST_OTHER_STEPS):
                found += append(build, name, values, insist=insist, placed=placed)
        count += min(found, _SEQUENCE)
    last: dict[str, int] = {}
    insist = _tokens(source, last)
    if source.chance(0.1):
        # FINISH may find a token queue full, too.
        queues = [item for item in TOKEN_QUEUES if item.producer is Unit.COMPUTE]
        item = queues[source.number(len(queues) - 1)]
        _flood(build, source, item)
        append(build, CARRIERS[item.consumer], {item.pop_flag: 1})
        last, insist = {item.push_flag: 1}, False
    append(build, "FINISH", last, insist=insist)
    for _ in range(source.number(3) if source.chance(0.15) else 0):
        build.instructions.append((CARRIERS[Unit(source.number(2))], {}))
    return finish(build)


def _parameters(config: Config, regions: Regions) -> dict[str, int]:
    """Fields, by name, of a LOAD.PAR that fills the parameter scratchpad with the image's parameter table, in one row
    or in several equal rows.
    """
    count = min(config.par_depth, TABLE)
    return {
        "y_size": config.par_depth // count,
        "x_size": count,
        "x_stride": 0 if config.par_depth > count else count,
        "dram_base": regions.parameters // config.par_bytes,
    }
