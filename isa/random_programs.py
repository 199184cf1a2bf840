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

from .access import AccessError, Trace, accesses, advance, start_trace
from .config import EXTENSIONS, Config, Memory
from .hazards import LastAccess, conflicts, record, start_access
from .layout import (
    REGISTERS,
    TOKEN_QUEUES,
    Unit,
    encode,
    encode_uops,
    formats,
    pack_fields,
    unit_of,
    uop_fields,
)
from .program import Program, bare_program

UOPS = 64
"""Micro-ops that lie ready in the image, and the part of micro-op memory that random programs use."""

ENTRIES = 8
"""Places where a parameter load may start; it reaches at most 10 entries further, all of them valid."""

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
class _Regions:
    """Byte addresses of the parts of the image; all are multiples of 4096."""

    data: int
    parameters: int
    output: int
    end: int


@dataclass(slots=True, kw_only=True)
class _Builder:
    config: Config
    rng: np.random.Generator
    regions: _Regions
    trace: Trace
    last: LastAccess
    instructions: list[tuple[str, dict[str, int]]] = field(default_factory=list)
    # clocks[u][v]: index of the last instruction of unit v that has ended before unit u's next one begins.
    clocks: list[list[int]] = field(default_factory=lambda: [[-1] * 3 for _ in Unit])
    # The clock that each token in flight carries, a queue for each of TOKEN_QUEUES.
    tokens: list[deque[list[int]]] = field(default_factory=lambda: [deque() for _ in TOKEN_QUEUES])
    # Tokens in flight, in program order, when each unit's last instruction was placed.
    before: list[list[int]] = field(default_factory=lambda: [[0] * len(TOKEN_QUEUES) for _ in Unit])

    def number(self, limit: int, low: int = 0) -> int:
        """A random integer in low..limit, ends included."""
        return int(self.rng.integers(low, limit + 1))

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)


# --- the image ------------------------------------------------------------------------------------------


def _page(size: int) -> int:
    return -(-size // 4096) * 4096


def _image(config: Config, rng: np.random.Generator) -> tuple[np.ndarray, _Regions]:
    data = _page(4 * UOPS)
    parameters = data + _page(max(4096, 12 * config.wgt_bytes, 40 * config.acc_bytes))
    output = parameters + _page(3 * ENTRIES * config.par_bytes)
    end = output + _page(160 * config.out_bytes)
    image = rng.integers(0, 256, end, dtype=np.uint8)
    limits = (config.acc_depth // 2, config.inp_depth // 2, config.wgt_depth // 2)
    columns = [rng.integers(0, limit, UOPS) for limit in limits]
    if rng.random() < 0.3:
        # As ALU operands: both indices are accumulators.
        columns[1] = np.minimum(columns[1], config.acc_depth // 2 - 1)
    assert all(column.max() <= item.maximum for item, column in zip(uop_fields(config), columns, strict=True))
    image[: 4 * UOPS] = encode_uops(config, *columns).view(np.uint8)
    table = np.zeros((3 * ENTRIES, 2, config.block_out), np.uint32)
    table[:, 0] = rng.integers(-(2**18), 2**18, table[:, 0].shape, dtype=np.int32).view(np.uint32)
    table[:, 1] = np.exp2(rng.uniform(-14, 2, table[:, 1].shape)).astype(np.float32).view(np.uint32)
    image[parameters : parameters + table.nbytes] = table.reshape(-1).view(np.uint8)
    return image, _Regions(data=data, parameters=parameters, output=output, end=end)


# --- instructions ---------------------------------------------------------------------------------------


def _dram_base(build: _Builder, kind: str) -> int:
    """A random element address in the region that fits `kind`; now and then among the outputs."""
    size, regions = build.config.element_bytes(kind), build.regions
    match kind:
        case "uop":
            low, high = 0, UOPS * size
        case "par":
            low, high = regions.parameters, regions.parameters + ENTRIES * size
        case _ if build.chance(0.3):
            low, high = regions.output, regions.end
        case _:
            low, high = regions.data, regions.parameters
    return build.number(max(low, high - size), low) // size


def _shape(build: _Builder, rows: int, columns: int) -> dict[str, int]:
    width = build.number(columns, 0 if build.chance(0.1) else 1)
    return {
        "y_size": build.number(rows, 0 if build.chance(0.1) else 1),
        "x_size": width,
        "x_stride": max(0, width + build.number(4, -1)),
    }


def _load(build: _Builder, kind: str) -> dict[str, int]:
    target = "acc" if kind == "acc8" else kind
    depth = UOPS if kind == "uop" else getattr(build.config, f"{target}_depth")
    small = kind in ("wgt", "par")
    values = _shape(build, 2 if small else 4, 3 if small else 12)
    if build.chance(0.4):
        values |= {name: build.number(2) for name in ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")}
    return {**values, "sram_base": build.number(depth - 1), "dram_base": _dram_base(build, kind)}


def _patch(build: _Builder) -> dict[str, int]:
    values = _shape(build, 4, 8)
    values["x_stride"] = build.trace.registers["PATCH"]["row_bytes"] + build.number(9)
    if build.chance(0.4):
        values |= {name: build.number(2) for name in ("y_pad_0", "y_pad_1")}
    return {
        **values,
        "sram_base": build.number(build.config.inp_depth - 1),
        "dram_base": build.number(build.regions.parameters - 1, build.regions.data),
    }


def _loops(build: _Builder) -> dict[str, int]:
    begin = build.number(UOPS - 8)
    return {
        "uop_bgn": begin,
        "uop_end": begin + build.number(6, -1 if begin and build.chance(0.1) else 1),
        "iter_out": build.number(4, 0 if build.chance(0.1) else 1),
        "iter_in": build.number(5, 0 if build.chance(0.1) else 1),
        **{f"{name}_factor_{loop}": build.number(6) for name in ("dst", "src") for loop in ("out", "in")},
    }


def _matrix(build: _Builder) -> dict[str, int]:
    return {
        **_loops(build),
        "wgt_factor_out": build.number(1),
        "wgt_factor_in": build.number(1),
        "reset": int(build.chance(0.15)),
        "overwrite": int(build.chance(0.3)),
    }


def _alu(build: _Builder) -> dict[str, int]:
    opcode = build.number(4)
    return {
        **_loops(build),
        "alu_opcode": opcode,
        "use_imm": int(build.chance(0.6)),
        "imm": build.number(34, -34) if opcode == 3 else build.number(2**15 - 1, -(2**15)),
    }


def _store(build: _Builder, post: bool) -> dict[str, int]:
    config, regions = build.config, build.regions
    values = _shape(build, 3, 8)
    values["sram_base"] = build.number(config.acc_depth - 1)
    values["dram_base"] = build.number(
        regions.end // config.out_bytes - 1, regions.output // config.out_bytes
    )
    if post:
        values["par_index"] = build.number(config.par_depth - 1)
        values["combine"] = int(build.chance(0.6))
        values["operand"] = int(values["combine"] and build.chance(0.6))
        values["multiply"] = int(values["operand"] and build.chance(0.4))
        values["swap"] = int(values["operand"] and build.chance(0.4))
        values["unsigned"] = int(build.chance(0.5))
    return values


def _float_bits(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


def _register_values(build: _Builder, name: str) -> dict[str, int]:
    """Random fields of a configuration register, small enough that instructions often stay in bounds."""
    number, config = build.number, build.config
    low, high = sorted((number(127, -128), number(127, -128)))
    match name:
        case "LOAD_PAD" | "COMPUTE_PAD":
            return {"pad_value": number(127, -128)}
        case "PATCH":
            return {
                "run": number(24, 1),
                "step": number(10),
                "pitch": number(6, 1),
                "pad_left": number(8),
                "row_bytes": number(60),
                "batch_row": number(config.batch - 1),
            }
        case "BASE":
            return {"acc_base": number(8), "inp_base": number(8), "wgt_base": number(3)}
        case "ADDRESS":
            return {"y_stride": number(12), "x_stride": number(4)}
        case "WINDOW" if build.chance(0.3):
            return {}
        case "WINDOW":
            return {
                "rows_minus_1": number(2),
                "columns_minus_1": number(2),
                "row_stride": number(9) if build.chance(0.8) else config.acc_depth - number(9, 1),
                "column_stride": number(3),
                "sum": number(1),
            }
        case "REQUANTIZE":
            zeros = {"zero_point": number(127, -128), "operand_zero_point": number(127, -128)}
            return {**zeros, "low": low, "high": high}
        case "RATIO":
            bits = [_float_bits(float(np.exp2(build.rng.uniform(-6, 3)))) for _ in range(2)]
            return {"ratio_self": bits[0], "ratio_operand": bits[1]}
        case "COMBINE":
            offset = _float_bits(float(build.rng.uniform(-300, 300)))
            return {"offset": offset, "low": low, "high": high, "zero_point": number(127, -128)}
        case _:
            return {"delta": number(20, -200)}


def _config(build: _Builder) -> dict[str, int]:
    item = REGISTERS[build.number(len(REGISTERS) - 1)]
    value = pack_fields(item.name, item.fields, _register_values(build, item.name))
    return {"unit": int(item.unit), "register": item.index, "value": value}


_WEIGHTS = {
    "LOAD.INP": 4,
    "LOAD.WGT": 2,
    "LOAD.ACC": 2,
    "LOAD.ACC8": 1,
    "LOAD.UOP": 1,
    "LOAD.PAR": 1,
    "LOAD.PATCH": 3,
    "GEMM": 6,
    "DEPTHWISE": 2,
    "ALU": 3,
    "STORE.OUT": 3,
    "STORE.POST": 4,
    "CONFIG": 6,
}
_NEEDS = {"LOAD.PAR": "post", "STORE.POST": "post", "LOAD.PATCH": "patch", "DEPTHWISE": "depthwise"}


def _draw(build: _Builder) -> tuple[str, dict[str, int]]:
    kinds = [name for name in _WEIGHTS if name not in _NEEDS or build.config.has(_NEEDS[name])]
    weights = np.array([_WEIGHTS[name] for name in kinds], np.float64)
    name = kinds[int(build.rng.choice(len(kinds), p=weights / weights.sum()))]
    match name:
        case "CONFIG":
            return name, _config(build)
        case "GEMM" | "DEPTHWISE":
            return name, _matrix(build)
        case "ALU":
            return name, _alu(build)
        case "STORE.OUT" | "STORE.POST":
            return name, _store(build, name == "STORE.POST")
        case "LOAD.PATCH":
            return name, _patch(build)
        case _:
            return name, _load(build, name.removeprefix("LOAD.").lower())


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
        if item.producer is unit and build.chance(0.1):
            _push(build, queue)


def _push(build: _Builder, queue: int) -> bool:
    """Let the producer's last instruction push a token now, if there is one and the queue has room there."""
    item = TOKEN_QUEUES[queue]
    place = build.clocks[item.producer][item.producer]
    room = max(build.before[item.producer][queue], len(build.tokens[queue])) < build.config.token_queue_depth
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
    values = {item.name: 0 for item in formats(build.config)[name].fields} | values
    unit = unit_of(name, values)
    try:
        touched = accesses(build.trace, name, values)
    except AccessError:
        return False
    needed: dict[Unit, int] = {}
    for conflict in conflicts(build.last, unit, touched):
        needed[conflict.unit] = max(conflict.earlier, needed.get(conflict.unit, -1))
    popped = [_wait(build, unit, other, index, values) for other, index in needed.items()]
    for queue, item in enumerate(TOKEN_QUEUES):
        free = item.consumer is unit and build.tokens[queue] and not values[item.pop_flag]
        if free and build.chance(0.15):
            values[item.pop_flag] = 1
            popped.append(build.tokens[queue].popleft())
    for token in popped:
        if token is not None:
            _merge(build, unit, token)
    index = len(build.instructions)
    _place(build, name, values)
    record(build.last, unit, index, touched)
    advance(build.trace, name, values, touched)
    return True


def random_program(config: Config, seed: int, length: int = 60) -> Program:
    """A program of about `length` instructions besides those that only carry tokens, ending in FINISH.

    See the module's docstring for what is in it and what it promises.
    """
    rng = np.random.default_rng((seed, 2))
    image, regions = _image(config, rng)
    build = _Builder(
        config=config,
        rng=rng,
        regions=regions,
        trace=start_trace(config, image),
        last=start_access(config, len(image)),
    )
    _append(build, "LOAD.UOP", {"y_size": 1, "x_size": UOPS, "x_stride": UOPS})
    if config.has("post"):
        _append(build, "LOAD.PAR", _parameters(config, regions))
    tries = 0
    placed = 0
    while placed < length and tries < 50 * length:
        tries += 1
        placed += _append(build, *_draw(build))
    _append(build, "FINISH", {})
    for _ in range(build.number(3) if build.chance(0.15) else 0):
        build.instructions.append((_CARRIERS[Unit(build.number(2))], {}))
    words = [encode(config, name, **values) for name, values in build.instructions]
    return bare_program(config, np.array(words, np.uint64), image)


def _parameters(config: Config, regions: _Regions) -> dict[str, int]:
    count = min(config.par_depth, ENTRIES)
    return {
        "y_size": 1,
        "x_size": count,
        "x_stride": count,
        "dram_base": regions.parameters // config.par_bytes,
    }
