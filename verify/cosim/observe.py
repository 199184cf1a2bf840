"""Finds the coverage bins that one program on one machine hits, from the simulator's result.

A bin is a pair of names (group, bin) for an event; `coverage.py` declares all bins. Stage A of the store unit
requantizes int32 sums; stage B is the optional operation after it (rescale, add, multiply).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from vdla.isa.access import Access, Resource, accesses, advance, start_trace
from vdla.isa.alu import alu_code
from vdla.isa.array_modes import mode_of
from vdla.isa.config import Config
from vdla.isa.decoding import decode_one, decode_uops
from vdla.isa.dram_memory import FIXED
from vdla.isa.hazards import record, start_access
from vdla.isa.layout import FLAGS, MATRIX, PADS, Unit, unit_of
from vdla.isa.program import Program, instruction_address
from vdla.isa.program_builder import Instruction
from vdla.isa.registers import operand_shape
from vdla.isa.rows import elements_of_last
from vdla.isa.timing import (
    AXI_BOUNDARY,
    BEGIN_DELAY,
    LOADS_IN_FLIGHT,
    STORES_IN_FLIGHT,
    fetch_burst_instructions,
    read_burst_beats,
    write_burst_beats,
)
from vdla.sim import BUSY_CATEGORIES, CATEGORIES, SimulationResult

from . import folds

Bin = tuple[str, str]
Values = Mapping[str, int]

ZERO_POINTS = (
    "no zero points",
    "a zero point of inputs",
    "a zero point of weights",
    "zero points of inputs and weights",
)
CHAIN_SHAPES = ("block_in = block_out", "block_in > block_out", "block_in < block_out")
DATA_MOVES = ("", ", a load while a store runs")
"""Suffixes of the names of coverage bins. The first stands for any run, the second for a run in which data may move in
both directions at the same time.
"""
POST_MODES = ("requantize", "rescale", "add", "add swapped", "multiply", "multiply swapped")
ROW_MODES = (
    "maximum",
    *(
        f"{what} {kind}, {row}"
        for what in ("sums", "shares")
        for kind in ("of entries", "centred", "not centred")
        for row in ("one vector a row", "several vectors a row")
    ),
    "maximum in several passes",
    "sums in several passes",
    *(f"{what}, the last vector in part" for what in ("maximum", "sums", "shares")),
)
DISTANCES = (1, 2, 3, 4, 5)
"""Distances, in operations, from a write to a read of the same accumulator; the pipeline has up to four operations
between the two."""

MOST_OPERATIONS = 1 << 16
"""Largest number of operations of an instruction that is examined for pipeline hazards; an instruction with more is
skipped.
"""


def token_pattern(values: Values) -> str:
    """Names of the token flags that are 1, joined by +; `none` if all are 0."""
    return "+".join(flag for flag in FLAGS if values[flag]) or "none"


def extension_set(config: Config) -> str:
    """Names of a machine's extensions, joined by +; `none` if it has none."""
    return "+".join(sorted(config.extensions)) or "none"


def encoding(config: Config) -> str:
    """The coverage bin for a machine's widths of instructions and micro-ops."""
    return f"{8 * config.instruction_bytes} bits, micro-ops of {8 * config.uop_bytes}"


def alignment(start: int, end: int, bus: int) -> str:
    """The coverage bin that says how a range of bytes is aligned to bus words of `bus` bytes. The range goes from
    `start` up to, not including, `end`.
    """
    match (start % bus != 0, end % bus != 0):
        case (False, False):
            return "aligned"
        case (True, False):
            return "start unaligned"
        case (False, True):
            return "end unaligned"
        case _:
            return "both ends unaligned"


def observe(
    config: Config, program: Program, result: SimulationResult, uop: NDArray[np.unsignedinteger] | None
) -> set[Bin]:
    """All bins that `program` hits in the run with the simulator's `result`; `uop`: the micro-op scratchpad at launch,
    None for zeros.
    """
    executed = int((result.begin >= 0).sum())
    decoded = [decode_one(config, *words) for words in program.instructions[:executed].tolist()]
    bins: set[Bin] = set()
    for name, values in decoded:
        bins.add(("format x tokens", f"{name} {token_pattern(values)}"))
        bins.add(("format x extensions", f"{name} with {extension_set(config)}"))
        bins.add(("format x encoding", f"{name} of {encoding(config)}"))
        bins.update(_operation(config, name, values))
    bins.update(_waits(decoded, result))
    bins.update(_queues(config, decoded, result))
    bins.update(_overlaps(decoded, result))
    bins.update(_fetches(config, program))
    bins.update(_walk(config, program, decoded, uop))
    if config.memory.kind == FIXED:
        bins.update(
            ("data channels", f"{config.memory.data_channels}{how}") for how in _moves(decoded, result)
        )
    return bins


def _moves(decoded: Sequence[tuple[str, Values]], result: SimulationResult) -> Iterator[str]:
    """The items of DATA_MOVES that occur in a run."""
    yield DATA_MOVES[0]
    loads, stores = (
        np.array([i for i, (name, _) in enumerate(decoded) if name.startswith(kind)], dtype=np.int64)
        for kind in ("LOAD.", "STORE.")
    )
    begin, end = result.begin, result.end
    if ((begin[loads, None] < end[stores]) & (begin[stores] < end[loads, None])).any():
        yield DATA_MOVES[1]


# --- one instruction alone ------------------------------------------------------------------------------


def _operation(config: Config, name: str, values: Values) -> Iterator[Bin]:
    group = "operations"
    match name:
        case "ALU":
            operand = "immediate" if values["use_imm"] else "accumulator"
            code = alu_code(config, values["alu_opcode"])
            assert code is not None, "a program that ran has operations of the machine only"
            yield group, f"ALU {code.name} {operand}"
        case _ if name in MATRIX:
            yield group, f"{name} {matrix_mode(values)}"
        case "STORE.POST":
            kind = post_mode(values)
            yield group, f"STORE.POST {kind} {'unsigned' if values['unsigned'] else 'signed'}"
            for step, size in (("par_by_x", values["x_size"]), ("par_by_y", values["y_size"])):
                if values[step] and size > 1 and not _is_empty(name, values):
                    yield group, f"STORE.POST {step}"
        case "CONFIG":
            yield group, f"CONFIG {_register_name(values)}"
        case _ if name.startswith("LOAD."):
            for pad in PADS:
                if values[pad] and values["x_size"]:
                    yield group, f"{name} {pad}"
        case _:
            pass
    if name not in ("CONFIG", "FINISH") and _is_empty(name, values):
        yield group, f"{name} empty"


def matrix_mode(values: Values) -> str:
    """The effect of a matrix instruction on its accumulators: "reset", "overwrite" or "accumulate"."""
    return "reset" if values["reset"] else "overwrite" if values["overwrite"] else "accumulate"


def zero_points(zero: Values) -> str:
    """The bin that says which operands have a nonzero zero point; `zero`: fields of register ZERO."""
    return ZERO_POINTS[(zero["inp_zero"] != 0) + 2 * (zero["wgt_zero"] != 0)]


def post_mode(values: Values) -> str:
    """The bin for the operation that a STORE.POST does in stage B, after requantization: "rescale", "add" or
    "multiply", or "requantize" if there is none. If the operands of an add or multiply are swapped, " swapped" is
    appended.
    """
    if not values["combine"]:
        return "requantize"
    if not values["operand"]:
        return "rescale"
    return ("multiply" if values["multiply"] else "add") + (" swapped" if values["swap"] else "")


def _register_name(values: Values) -> str:
    from vdla.isa.registers import register_at

    found = register_at(values["unit"], values["register"])
    assert found is not None
    return found.name


def _is_empty(name: str, values: Values) -> bool:
    if name in (*MATRIX, "ALU"):
        return not (values["iter_out"] and values["iter_in"] and values["uop_end"] > values["uop_bgn"])
    return not values["x_size"] or not (values["y_size"] or values.get("y_pad_0") or values.get("y_pad_1"))


# --- time -----------------------------------------------------------------------------------------------


def _waits(decoded: list[Instruction], result: SimulationResult) -> Iterator[Bin]:
    for unit in Unit:
        for _, _, category, instruction in result.segments[unit].tolist():
            cause = CATEGORIES[category]
            if cause in BUSY_CATEGORIES:
                yield "unit x activity", f"{unit.name.lower()} {cause}"
            elif instruction >= 0:
                yield "format x wait", f"{decoded[instruction][0]} {cause}"


def depth_class(depth: int) -> str:
    """The coverage bin for a queue's depth: "of 1", "of 2" or "of 3 or more"."""
    return f"of {depth}" if depth < 3 else "of 3 or more"


def _queues(config: Config, decoded: list[Instruction], result: SimulationResult) -> Iterator[Bin]:
    for unit in Unit:
        for _, _, category, _ in result.segments[unit].tolist():
            kind, _, queue = CATEGORIES[category].partition(":")
            if kind == "full":
                yield "full queue", f"tokens {queue} {depth_class(config.token_queue_depth)}"
        mine = [index for index, item in enumerate(decoded) if unit_of(*item) is unit]
        depth = config.command_queue_depth
        for before, index in zip(mine, mine[depth:], strict=False):
            # If fetch waited for a free place, it moves the instruction in the cycle after the place became free.
            if result.dispatch[index] == result.begin[before] + 1:
                yield "full queue", f"commands {unit.name.lower()} {depth_class(depth)}"
                break


def _overlaps(decoded: list[Instruction], result: SimulationResult) -> Iterator[Bin]:
    group = "instructions in flight"
    loads = [i for i, item in enumerate(decoded) if unit_of(*item) is Unit.LOAD and item[0] != "CONFIG"]
    for before, index in zip(loads, loads[LOADS_IN_FLIGHT:], strict=False):
        if result.begin[index] == result.end[before] + BEGIN_DELAY:
            yield group, "a load waits for a place among those in flight"
            break
    stores = [i for i, item in enumerate(decoded) if unit_of(*item) is Unit.STORE]
    for before, index in zip(stores, stores[STORES_IN_FLIGHT:], strict=False):
        if result.begin[index] == result.end[before] + 1 + BEGIN_DELAY and (
            result.begin[index] <= result.end[stores[stores.index(index) - 1]]
        ):
            yield group, "a store waits for a place among those in flight"
            break
    previous: dict[Unit, int] = {}
    for index, item in enumerate(decoded):
        unit = unit_of(*item)
        earlier = previous.get(unit)
        if earlier is not None and result.begin[index] <= result.end[earlier]:
            names = decoded[earlier][0], item[0]
            if unit is Unit.LOAD:
                yield group, "a CONFIG behind a load" if item[0] == "CONFIG" else "a load behind a load"
            elif unit is Unit.STORE:
                yield group, f"{_in_store_unit(item)} behind {_in_store_unit(decoded[earlier])}"
            elif names[0] in MATRIX and item[0] == "CONFIG":
                yield group, "a CONFIG behind a matrix instruction"
            elif names[0] in MATRIX and item[0] in MATRIX:
                yield group, f"{names[1]} behind {names[0]}"
        previous[unit] = index


def _in_store_unit(item: Instruction) -> str:
    """The name of an instruction of the store unit in bins: its format, and whether it writes the chain memory (on-chip
    buffer between layers).
    """
    name, values = item
    return f"{name} to the chain memory" if values.get("chain") else name


def _fetches(config: Config, program: Program) -> Iterator[Bin]:
    """The bins that the fetch unit's bursts hit, computed by the rule of hw/README.md section 4."""
    bus, size = config.memory.bus_bytes, config.instruction_bytes
    most = fetch_burst_instructions(config)
    start = instruction_address(len(program.image))
    end = start + size * len(program.instructions)
    while start < end:
        stop = min(end, start + size * most, (start // AXI_BOUNDARY + 1) * AXI_BOUNDARY)
        yield "alignment", f"instruction {alignment(start, stop, bus)}"
        if stop % AXI_BOUNDARY == 0 and stop < end and (stop - start) < size * most:
            yield "4 KiB split", "instruction"
        start = stop


# --- data -----------------------------------------------------------------------------------------------


def _runs(
    config: Config, registers: Mapping[str, Values], name: str, values: Values
) -> Iterator[tuple[str, int, int, int]]:
    """Yields each run of consecutive DRAM bytes that an instruction (format `name`, fields `values`) reads or writes,
    as (kind of element, first byte, length in bytes, number of runs of this kind in the instruction). Rows that touch
    are one run, except those of patches. `registers`: configuration registers at the instruction.
    """
    if not name.startswith(("LOAD.", "STORE.")) or not values["x_size"]:
        return
    kind = name.partition(".")[2].lower()
    size = config.element_bytes(kind)
    length, pitch = values["x_size"] * size, values["x_stride"] * size
    start = values["dram_base"] * size
    if kind == "patch":
        patch = registers["PATCH"]
        length = min(
            patch["row_bytes"], (values["x_size"] - 1) * patch["step"] + patch["run"] - patch["pad_left"]
        )
        if not patch["run"]:
            return
    rows = values["y_size"]
    if length <= 0 or rows <= 0:
        return
    if pitch == length and kind != "patch":
        length, rows = length * rows, 1
    if name != "STORE.POST" or not values["chain"]:
        for row in range(rows):
            yield ("out" if name.startswith("STORE.") else kind), start + row * pitch, length, rows
    if name == "STORE.POST" and values["combine"] and values["operand"]:
        first, step, width = operand_shape(values, registers["OPERAND"])
        rows = values["y_size"]
        if step == width:
            width, rows = width * rows, 1
        for row in range(rows):
            yield "operand", (first + row * step) * size, width * size, rows


def fifo_bytes(config: Config, kind: str) -> int:
    """Size in bytes of the FIFO that transfers of `kind` use."""
    match kind:
        case "inp" | "wgt" | "patch":
            return config.fifo_bytes("load")
        case "uop" | "acc" | "acc8":
            return config.fifo_bytes("compute")
        case "out":
            return config.fifo_bytes("store")
        case _:
            return config.fifo_bytes("operand")


def _transfers(config: Config, registers: Mapping[str, Values], name: str, values: Values) -> Iterator[Bin]:
    bus = config.memory.bus_bytes
    moved: dict[str, int] = {}
    for kind, start, length, _ in _runs(config, registers, name, values):
        end = start + length
        yield "alignment", f"{kind} {alignment(start, end, bus)}"
        if start // AXI_BOUNDARY != (end - 1) // AXI_BOUNDARY:
            yield "4 KiB split", kind
        beats = -(-end // bus) - start // bus
        burst = (
            write_burst_beats(config) if kind == "out" else read_burst_beats(config, fifo_bytes(config, kind))
        )
        yield "length", f"{kind} {'one burst' if beats <= burst else 'several bursts'}"
        moved[kind] = moved.get(kind, 0) + beats * bus
    for kind, size in moved.items():
        if size > fifo_bytes(config, kind):
            yield "length", f"{kind} more than the FIFO holds"


def _walk(
    config: Config, program: Program, decoded: list[Instruction], uop: NDArray[np.unsignedinteger] | None
) -> Iterator[Bin]:
    """Tracks registers, micro-ops and written elements through the executed instructions `decoded` of the program;
    yields the bins that depend on them. `uop`: the micro-op scratchpad at launch, None for zeros.
    """
    trace = start_trace(config, program.image, uop)
    last = start_access(config, len(program.image))
    compute: list[int] = []
    tail: tuple[str, NDArray[np.int64]] | None = None
    folded: folds.Touched | None = None
    uops_by = np.full(config.uop_depth, -1, np.int32)
    for index, (name, values) in enumerate(decoded):
        unit = unit_of(name, values)
        yield from _transfers(config, trace.registers, name, values)
        touched = accesses(trace, name, values)
        if name == "STORE.POST" and values["x_size"] and values["y_size"]:
            yield from _window(config, trace.registers, values)
            yield from _look_up(config, trace.registers, values)
            yield from _broadcast(trace.registers, values)
        if name in ("ROWS", "STORE.POST") and values["x_size"] and values["y_size"]:
            yield from _rows(config, trace.registers["ROWS"], name, values)
        if config.chain_buffer_bytes:
            yield from _chain_memory(config, trace.registers, name, values, touched)
        for item in touched:
            resource = item.resource.value
            writers = last.writes[item.resource][item.elements]
            earlier = int(writers.max(initial=-1))
            if earlier >= 0 and not (item.write and not _reads_too(name, values, item.resource)):
                distance = ""
                if unit is Unit.COMPUTE and unit_of(*decoded[earlier]) is Unit.COMPUTE:
                    distance = ", at once" if compute and compute[-1] == earlier else ", later"
                yield "read after write", f"{resource}: {decoded[earlier][0]} -> {name}{distance}"
            if item.write:
                for (read, reader), readers in last.reads.items():
                    if read is item.resource and reader is not unit:
                        before = int(readers[item.elements].max(initial=-1))
                        if before >= 0:
                            yield "write after read", f"{resource}: {decoded[before][0]} -> {name}"
        if name in MATRIX and touched and not values["reset"]:
            kind = zero_points(trace.registers["ZERO"])
            yield "operations", f"{name} with {kind}"
        if name in (*MATRIX, "ALU"):
            operations = _operations(trace.uop, config, values, trace.registers["BASE"]["acc_base"])
            if operations is not None:
                destination, source = operations
                yield from _distances(name, values, destination, source)
                if tail is not None and name in MATRIX:
                    yield from _across(tail, name, values, destination)
                tail = (name, destination[-DISTANCES[-1] :]) if name in MATRIX else None
                begin, end = values["uop_bgn"], values["uop_end"]
                earlier_folded, folded = folded, None
                if config.tile_parts > 1 and name in MATRIX and not mode_of(name, trace.registers).holds:
                    words = trace.uop[begin:end]
                    folded = folds.touched(config, trace.registers, name, values, words, destination)
                    yield from folds.shapes(trace.registers, name, values, folded)
                    yield from folds.used_again(earlier_folded, folded, DISTANCES)
                    folded = folded.last(DISTANCES[-1])
                by = int(uops_by[begin:end].max(initial=-1))
                if by >= 0:
                    when = "at once" if compute and compute[-1] == by else "later"
                    yield "read after write", f"uop: LOAD.UOP -> {name}, {when}"
        elif unit is Unit.COMPUTE and name != "CONFIG":
            tail = folded = None
        if name == "LOAD.UOP" and values["x_size"]:
            rows = values["y_pad_0"] + values["y_size"] + values["y_pad_1"]
            columns = values["x_pad_0"] + values["x_size"] + values["x_pad_1"]
            uops_by[values["sram_base"] : values["sram_base"] + rows * columns] = index
        record(last, unit, index, touched)
        advance(trace, name, values, touched)
        if unit is Unit.COMPUTE:
            compute.append(index)


def chain_shape(config: Config) -> str:
    """The bin that says whether input vectors are shorter than, as long as, or longer than output vectors. A layer's
    output vectors are written to the chain memory, and the next layer reads them there as input vectors.
    """
    return CHAIN_SHAPES[(config.block_in > config.block_out) - (config.block_in < config.block_out)]


def _chain_memory(
    config: Config, registers: Mapping[str, Values], name: str, values: Values, touched: tuple[Access, ...]
) -> Iterator[Bin]:
    group = "chain memory"
    touches = {item.resource for item in touched}
    if Resource.CHAIN not in touches:
        return
    if name != "STORE.POST":
        yield group, f"read, {chain_shape(config)}"
        yield group, f"{name} of it {'and the input scratchpad' if Resource.INP in touches else 'alone'}"
        return
    window = registers["WINDOW"]
    yield group, f"store, {chain_shape(config)}"
    for part, there in (
        ("window", window["rows_minus_1"] or window["columns_minus_1"]),
        ("operand", values["operand"]),
        ("par_by_x", values["par_by_x"] and values["x_size"] > 1),
        ("par_by_y", values["par_by_y"] and values["y_size"] > 1),
        ("several rows", values["y_size"] > 1),
    ):
        if there:
            yield group, f"store with {part}"


def _look_up(config: Config, registers: Mapping[str, Values], values: Values) -> Iterator[Bin]:
    if not values["table"]:
        return
    group, window = "look-up tables", registers["WINDOW"]
    yield group, f"STORE.POST {post_mode(values)}"
    yield group, f"table {values['table_index']}"
    for part, there in (
        ("window", window["rows_minus_1"] or window["columns_minus_1"]),
        ("chain", values["chain"]),
        ("several passes", config.post_passes > 1),
    ):
        if there:
            yield group, f"store with {part}"


def _broadcast(registers: Mapping[str, Values], values: Values) -> Iterator[Bin]:
    operand = registers["OPERAND"]
    if values["operand"] and (operand["own_stride"] or operand["repeat"]):
        kind = ("own stride" if operand["own_stride"] else "") + (" repeated" if operand["repeat"] else "")
        _, pitch, width = operand_shape(values, operand)
        shape = "one row" if values["y_size"] == 1 else "rows that touch" if pitch == width else "rows apart"
        yield "operands", f"{kind.strip()}, {shape}"


def _rows(config: Config, register: Values, name: str, values: Values) -> Iterator[Bin]:
    if name == "STORE.POST" and not values["rows"]:
        return
    what = "shares" if name == "STORE.POST" else "maximum" if values["maximum"] else "sums"
    if elements_of_last(register["lanes"], config.block_out) < config.block_out:
        yield "rows", f"{what}, the last vector in part"
    if what != "shares" and config.post_passes > 1:
        yield "rows", f"{what} in several passes"
    if what == "maximum":
        yield "rows", what
        return
    kind = "of entries" if register["look_up"] else "centred" if register["centre"] else "not centred"
    yield "rows", f"{what} {kind}, {'one vector' if values['y_size'] == 1 else 'several vectors'} a row"


def _reads_too(name: str, values: Values, resource: Resource) -> bool:
    """Whether an instruction (format `name`, fields `values`) also reads the elements of `resource` that it writes."""
    if resource is not Resource.ACC:
        return False
    return name == "ALU" or (name in MATRIX and matrix_mode(values) == "accumulate")


def _window(config: Config, registers: Mapping[str, Values], values: Values) -> Iterator[Bin]:
    window, address = registers["WINDOW"], registers["ADDRESS"]
    count = (window["rows_minus_1"] + 1) * (window["columns_minus_1"] + 1)
    kind = "one vector" if count == 1 else "sum" if window["sum"] else "maximum"
    yield "operations", f"STORE.POST window: {kind}"
    end = (
        values["sram_base"]
        + (values["y_size"] - 1) * address["y_stride"]
        + (values["x_size"] - 1) * address["x_stride"]
        + window["rows_minus_1"] * window["row_stride"]
        + window["columns_minus_1"] * window["column_stride"]
    )
    if end >= config.acc_depth:
        yield "operations", "STORE.POST window: wraps"


def _operations(
    uop: NDArray[np.unsignedinteger], config: Config, values: Values, base: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Two arrays, int64 (n,): the accumulator index that each operation of an instruction (fields `values`) writes, and
    the index that the operation reads (valid for ALU instructions only). `uop`: micro-op scratchpad; `base`: field
    acc_base of register BASE. None if the instruction has no operations or more than MOST_OPERATIONS.
    """
    words = uop[values["uop_bgn"] : max(values["uop_end"], values["uop_bgn"])]
    count = values["iter_out"] * values["iter_in"] * len(words)
    if not 0 < count <= MOST_OPERATIONS:
        return None
    dst, src, _ = decode_uops(config, words)
    y = np.arange(values["iter_out"])[:, None, None]
    x = np.arange(values["iter_in"])[:, None]
    to = base + y * values["dst_factor_out"] + x * values["dst_factor_in"] + dst
    source = base + y * values["src_factor_out"] + x * values["src_factor_in"] + src
    return to.reshape(-1), source.reshape(-1)


def _distances(
    name: str, values: Values, destination: NDArray[np.int64], source: NDArray[np.int64]
) -> Iterator[Bin]:
    """The bins of operations that read the result of an earlier operation of the same instruction (format `name`,
    fields `values`). `destination`, `source`: accumulator indices of the operations, int64 (n,).
    """
    group = "hazard distance"
    for distance in DISTANCES:
        earlier = destination[:-distance]
        if not earlier.size:
            break
        if name in MATRIX:
            if (earlier == destination[distance:]).any():
                yield group, f"{name} {matrix_mode(values)} {distance}"
        elif values["use_imm"]:
            if (earlier == destination[distance:]).any():
                yield group, f"ALU immediate {distance}"
        else:
            if (earlier == destination[distance:]).any():
                yield group, f"ALU destination {distance}"
            if (earlier == source[distance:]).any():
                yield group, f"ALU source {distance}"


def _across(
    tail: tuple[str, NDArray[np.int64]], name: str, values: Values, destination: NDArray[np.int64]
) -> Iterator[Bin]:
    """The bins for hazards between two consecutive matrix instructions: an operation of the second one reads a result
    of the first one that is still in the pipeline. `tail`: name and last destinations of the first instruction. `name`,
    `values` (fields) and `destination` (accumulator indices, int64 (n,)) describe the second one.
    """
    if matrix_mode(values) != "accumulate":
        return
    before, written = tail
    for back in range(1, len(written) + 1):
        for ahead in range(min(DISTANCES[-1], len(destination))):
            if back + ahead <= DISTANCES[-1] and written[-back] == destination[ahead]:
                yield "hazard distance", f"{before} then {name} {back + ahead}"
