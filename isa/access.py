"""Computes the exact sets of elements that an instruction accesses in each shared memory, and checks their bounds.

Shared memories are the input and weight scratchpads (written by load, read by compute), the accumulators (written by
compute, read by store), the chain memory (written by store, read by compute) and DRAM (written by store, read by all).
The micro-op scratchpad, the parameter table, the look-up tables and the configuration registers belong to one unit
each, which accesses them in program order.

A `Trace` has the state of registers and micro-ops in a program; `accesses` returns the accesses of the next
instruction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from .array_modes import mode_of
from .config import Config
from .decoding import decode_uops
from .errors import ProgramError
from .fields import unpack_fields
from .layout import MATRIX, PADS, uop_dtype
from .parameters import is_power_of_two
from .registers import REGISTERS, operand_shape
from .rows import MOST_ELEMENTS

Values = Mapping[str, int]
Indices = NDArray[np.int64]
Elements = slice | Indices


class Resource(Enum):
    """A memory that several units access.

    An element of DRAM is a granule of `Config.out_bytes` bytes, the size of an output vector; an element of the chain
    memory (on-chip buffer between layers) is a granule of `Config.chain_granule` bytes.
    """

    INP = "inp"
    WGT = "wgt"
    ACC = "acc"
    CHAIN = "chain"
    DRAM = "dram"


@dataclass(frozen=True, slots=True)
class Access:
    """One access of an instruction to `resource`: a read or, if `write`, a write. `elements`: the accessed elements, a
    slice or an array of indices.
    """

    resource: Resource
    write: bool
    elements: Elements


class AccessError(ProgramError):
    """Raised for an access out of bounds, and for other field values with which an instruction cannot access memory
    (pads that must be 0, a row that is too long, an operand that the instruction itself writes). The message names the
    field or register; the caller adds the name of the instruction.
    """


class UnknownMicroOps(AccessError):
    """Raised if an instruction uses micro-ops whose indices are unknown: they were loaded from addresses of DRAM to
    which the program had stored.
    """


@dataclass(slots=True, kw_only=True)
class Trace:
    """State of a machine after the first instructions of a program. `registers`: field values by name of the register.
    `uop`: the micro-op scratchpad. `image`: DRAM at launch, uint8.

    `unknown_uop`, bool (uop_depth,): micro-ops with unknown contents, loaded from DRAM that a store had written.
    `written`, bool: the DRAM granules (aligned pieces of `Config.out_bytes` bytes) that stores have written.
    `index_sets`: cache of operand indices.
    """

    config: Config
    image: NDArray[np.uint8]
    registers: dict[str, dict[str, int]]
    uop: NDArray[np.unsignedinteger]
    unknown_uop: NDArray[np.bool_]
    written: NDArray[np.bool_]
    index_sets: dict[tuple[object, ...], Indices] = field(default_factory=dict)


def start_trace(
    config: Config, image: NDArray[np.uint8], uop: NDArray[np.unsignedinteger] | None = None
) -> Trace:
    """The state at launch: registers are zero; DRAM is `image`; the micro-op scratchpad is a copy of `uop`
    (uop_depth,), by default zeros.
    """
    return Trace(
        config=config,
        image=image,
        registers={item.name: {part.name: 0 for part in item.fields} for item in REGISTERS},
        uop=np.zeros(config.uop_depth, uop_dtype(config)) if uop is None else uop.copy(),
        unknown_uop=np.zeros(config.uop_depth, np.bool_),
        written=np.zeros(len(image) // config.out_bytes + 1, np.bool_),
    )


def accesses(trace: Trace, name: str, values: Values) -> tuple[Access, ...]:
    """The accesses of an instruction (format `name`, field values `values`) to the shared memories when it executes in
    the state `trace`, which is not changed.

    Raises AccessError for an access out of bounds and for other field values that cannot be executed, UnknownMicroOps
    for micro-ops loaded from DRAM that a store wrote.
    """
    match name:
        case _ if name in MATRIX:
            return tuple(_matrix(trace, name, values))
        case "ALU":
            return tuple(_alu(trace, values))
        case "STORE.OUT":
            return tuple(_store_out(trace, values))
        case "STORE.POST":
            return tuple(_store_post(trace, values))
        case "ROWS":
            return tuple(_rows(trace, values))
        case "LOAD.PATCH":
            return tuple(_patch(trace, values))
        case "FINISH" | "CONFIG":
            return ()
        case _:
            return tuple(_load(trace, name.removeprefix("LOAD.").lower(), values))


def advance(trace: Trace, name: str, values: Values, touched: tuple[Access, ...]) -> None:
    """Changes `trace` to the state after an instruction (format `name`, field values `values`); `touched`: the
    instruction's accesses, as `accesses` returns them.
    """
    match name:
        case "CONFIG":
            for item in REGISTERS:
                if (item.unit, item.index) == (values["unit"], values["register"]):
                    trace.registers[item.name] = unpack_fields(item.fields, values["value"])
        case "LOAD.UOP":
            _load_uops(trace, values)
        case _:
            for item in touched:
                if item.resource is Resource.DRAM and item.write:
                    trace.written[item.elements] = True


def _within(what: str, of: str, value: int, limit: int) -> None:
    if not 0 <= value < limit:
        raise AccessError(f"{what} leads to {of} {value}, outside 0..{limit - 1}")


# --- DRAM -----------------------------------------------------------------------------------------------


def _dram(
    trace: Trace, verb: str, what: str, rows: int, start: int, pitch: int, length: int
) -> Iterator[Elements]:
    """Yields the indices of the DRAM granules (aligned pieces of `Config.out_bytes` bytes) that contain `rows` runs of
    `length` bytes, `pitch` bytes apart, the first at byte `start`; yields nothing if `rows` or `length` is not
    positive. Raises AccessError for bytes outside of DRAM; the message contains `verb` ("reads" or "writes") and the
    field name `what`.
    """
    if rows <= 0 or length <= 0:
        return
    size, granule = len(trace.image), trace.config.out_bytes
    end = start + (rows - 1) * pitch + length
    if start < 0 or end > size:
        place = "; the instructions follow this memory" if verb == "writes" and end > size else ""
        raise AccessError(
            f"{what} {verb} DRAM bytes {start}..{end}, outside of the memory of {size} bytes{place}"
        )
    if rows == 1 or pitch <= length:
        yield slice(start // granule, (end - 1) // granule + 1)
        return
    starts = start + np.arange(rows, dtype=np.int64) * pitch
    first, last = starts // granule, (starts + length - 1) // granule
    grid = first[:, None] + np.arange(int((last - first).max()) + 1)
    yield grid[grid <= last[:, None]]


# --- loads ----------------------------------------------------------------------------------------------


def _shape(values: Values) -> tuple[int, int]:
    """Size of the block of scratchpad elements that a load with the fields `values` writes, pads included: (rows,
    columns); (0, 0) if x_size is 0.
    """
    if values["x_size"] == 0:
        return 0, 0
    rows = values["y_pad_0"] + values["y_size"] + values["y_pad_1"]
    return rows, values["x_pad_0"] + values["x_size"] + values["x_pad_1"]


def _load(trace: Trace, kind: str, values: Values) -> Iterator[Access]:
    config = trace.config
    if kind == "table" and any(values[pad] for pad in PADS):
        raise AccessError("the pads of a table load must be 0")
    rows, columns = _shape(values)
    if rows * columns == 0:
        return
    target = "acc" if kind == "acc8" else kind
    depth = getattr(config, f"{target}_depth")
    last = values["sram_base"] + rows * columns - 1
    _within("sram_base", f"{target} element", last, depth)
    if target in ("inp", "wgt", "acc"):
        yield Access(Resource(target), True, slice(values["sram_base"], last + 1))
    size = config.element_bytes(kind)
    for run in _dram(
        trace,
        "reads",
        "dram_base",
        values["y_size"],
        values["dram_base"] * size,
        values["x_stride"] * size,
        values["x_size"] * size,
    ):
        yield Access(Resource.DRAM, False, run)


def loaded_elements(config: Config, kind: str, values: Values) -> tuple[Indices, Indices]:
    """Returns two arrays, int64 (n,), for the n data elements (not pads) of a load with the fields `values`: scratchpad
    indices, and addresses of first bytes in DRAM. `kind`: kind of the elements, for example "inp" or "par"
    (`Config.element_bytes`).
    """
    size = config.element_bytes(kind)
    _, columns = _shape(values)
    y = np.arange(values["y_size"], dtype=np.int64)[:, None]
    x = np.arange(values["x_size"], dtype=np.int64)
    index = values["sram_base"] + (y + values["y_pad_0"]) * columns + x + values["x_pad_0"]
    return index.reshape(-1), ((values["dram_base"] + y * values["x_stride"] + x) * size).reshape(-1)


def _load_uops(trace: Trace, values: Values) -> None:
    rows, columns = _shape(values)
    whole = slice(values["sram_base"], values["sram_base"] + rows * columns)
    trace.uop[whole] = 0
    trace.unknown_uop[whole] = False
    if rows * columns == 0:
        return
    index, address = loaded_elements(trace.config, "uop", values)
    size, granule = trace.config.uop_bytes, trace.config.out_bytes
    word = trace.image[address[:, None] + np.arange(size)]
    trace.uop[index] = np.ascontiguousarray(word).view(uop_dtype(trace.config)).reshape(-1)
    trace.unknown_uop[index] = (
        trace.written[address // granule] | trace.written[(address + size - 1) // granule]
    )


def _patch(trace: Trace, values: Values) -> Iterator[Access]:
    config, patch = trace.config, trace.registers["PATCH"]
    if values["x_pad_0"] or values["x_pad_1"]:
        raise AccessError("x_pad_0 and x_pad_1 must be 0 in a patch load; register PATCH pads a row's ends")
    _within("register PATCH.batch_row", "row", patch["batch_row"], config.batch)
    rows = values["y_pad_0"] + values["y_size"] + values["y_pad_1"]
    vectors = -(-rows * patch["run"] // config.block_in)
    patches, pitch, base = values["x_size"], patch["pitch"], values["sram_base"]
    if patches == 0 or vectors == 0:
        return
    last = base + (patches - 1) * pitch + vectors - 1
    _within("sram_base", "input vector", last, config.inp_depth)
    if patches == 1 or pitch <= vectors:
        yield Access(Resource.INP, True, slice(base, last + 1))
    else:
        grid = base + np.arange(patches, dtype=np.int64)[:, None] * pitch + np.arange(vectors)
        yield Access(Resource.INP, True, grid.reshape(-1))
    length = min(patch["row_bytes"], (patches - 1) * patch["step"] + patch["run"] - patch["pad_left"])
    for run in _dram(
        trace, "reads", "dram_base", values["y_size"], values["dram_base"], values["x_stride"], length
    ):
        yield Access(Resource.DRAM, False, run)


# --- compute --------------------------------------------------------------------------------------------


def _sums(first: Indices, second: Indices) -> Indices:
    """The distinct sums `a` + `b` of all `a` in `first` and all `b` in `second`, ascending."""
    if first.size > second.size:
        first, second = second, first
    mask = np.zeros(int(first.max()) + int(second.max()) + 1, np.bool_)
    if first.size * second.size <= 1 << 20:
        mask[first[:, None] + second] = True
    else:
        for offset in first.tolist():
            mask[second + offset] = True
    return np.flatnonzero(mask)


def _steps(count: int, stride: int) -> Indices:
    return np.arange(count if stride else 1, dtype=np.int64) * stride


def _operand(trace: Trace, values: Values, column: int, name: str, base: int, limit: int, of: str) -> Indices:
    """Returns the distinct indices of the elements that all operations of an instruction (fields `values`), executed in
    the state `trace`, use as operand `name` (dst, src or wgt). `column`: position of this operand in a decoded micro-op
    (0, 1 or 2). `base`: number from the operand's base register, which is added to every index. `limit`: number of
    elements in the memory; raises AccessError if an index is not below it. `of`: the noun for such an element in the
    error message, for example "accumulator".
    """
    begin, end = values["uop_bgn"], values["uop_end"]
    outer, inner = values[f"{name}_factor_out"], values[f"{name}_factor_in"]
    words = trace.uop[begin:end]
    key = (words.tobytes(), column, values["iter_out"], values["iter_in"], outer, inner)
    # Checks the largest index before any set is made, so that an error in huge loops is found at once.
    largest = int(decode_uops(trace.config, words)[column].max())
    largest += base + (values["iter_out"] - 1) * outer + (values["iter_in"] - 1) * inner
    _within(name, of, largest, limit)
    found = trace.index_sets.get(key)
    if found is None:
        start = np.unique(decode_uops(trace.config, words)[column])
        grid = _sums(_steps(values["iter_out"], outer), _steps(values["iter_in"], inner))
        found = trace.index_sets[key] = _sums(start, grid)
    return found + base if base else found


def _empty(trace: Trace, values: Values) -> bool:
    """Whether a compute instruction (fields `values`), executed in the state `trace`, has no operations. Raises
    AccessError for micro-ops out of bounds, UnknownMicroOps for unknown micro-ops.
    """
    begin, end = values["uop_bgn"], values["uop_end"]
    if not values["iter_out"] or not values["iter_in"] or end <= begin:
        return True
    _within("uop_end", "micro-op", end - 1, trace.config.uop_depth)
    if trace.unknown_uop[begin:end].any():
        which = begin + int(np.argmax(trace.unknown_uop[begin:end]))
        raise UnknownMicroOps(
            f"micro-op {which} was loaded from DRAM that the program itself writes, so bounds and races of this "
            "instruction are not checked; keep micro-ops apart from outputs"
        )
    return False


def _matrix(trace: Trace, name: str, values: Values) -> Iterator[Access]:
    if _empty(trace, values):
        return
    config, base = trace.config, trace.registers["BASE"]
    dst = _operand(trace, values, 0, "dst", base["acc_base"], config.acc_depth, "accumulator")
    yield Access(Resource.ACC, True, dst)
    if values["reset"]:
        return
    limit = config.chain_base + config.chain_depth if config.chain_buffer_bytes else config.inp_depth
    mode = mode_of(name, trace.registers)
    position, more = mode.position_vectors(config), mode.vectors(config) - 1
    of = f"the first of {more + 1} input vectors" if more else "input vector"
    src = _operand(trace, values, 1, "src", base["inp_base"], limit - more + position - 1, of)
    yield from _inputs(config, np.unique(src // position * position), more)
    rows, of = mode.tile_weights(config), "weight row" if mode.by_lane else "weight tile"
    weights = _operand(trace, values, 2, "wgt", rows * base["wgt_base"], rows * config.wgt_depth, of)
    yield Access(Resource.WGT, False, np.unique(weights // rows) if mode.by_lane else weights)


def _inputs(config: Config, vectors: Indices, more: int) -> Iterator[Access]:
    """The reads of the input vectors with indices `vectors` (ascending) and of the `more` vectors after each. Indices
    below `chain_base` are in the input scratchpad, all others in the chain memory (on-chip buffer between layers);
    raises AccessError for an index in neither.
    """
    own, chained = vectors, vectors[:0]
    if config.chain_buffer_bytes and vectors[-1] + more >= config.inp_depth:
        first = int(np.searchsorted(vectors, config.chain_base))
        own, chained = vectors[:first], vectors[first:]
    if own.size and own[-1] + more >= config.inp_depth:
        raise AccessError(
            f"src leads to input vector {own[-1] + more}, outside 0..{config.inp_depth - 1} of the input scratchpad "
            f"and {config.chain_base}..{config.chain_base + config.chain_depth - 1} of the chain memory"
        )
    if more:
        own, chained = (_sums(part, np.arange(more + 1)) if part.size else part for part in (own, chained))
    if own.size:
        yield Access(Resource.INP, False, own)
    if chained.size:
        pieces = config.inp_bytes // config.chain_granule
        places = (chained - config.chain_base)[:, None] * pieces + np.arange(pieces)
        yield Access(Resource.CHAIN, False, places.reshape(-1))


def _alu(trace: Trace, values: Values) -> Iterator[Access]:
    if _empty(trace, values):
        return
    config, base = trace.config, trace.registers["BASE"]["acc_base"]
    dst = _operand(trace, values, 0, "dst", base, config.acc_depth, "accumulator")
    yield Access(Resource.ACC, True, dst)
    if not values["use_imm"]:
        src = _operand(trace, values, 1, "src", base, config.acc_depth, "accumulator")
        yield Access(Resource.ACC, False, src)


# --- stores ---------------------------------------------------------------------------------------------


def _outputs(trace: Trace, values: Values) -> Iterator[Elements]:
    first, pitch, width = values["dram_base"], values["x_stride"], values["x_size"]
    return _vectors(trace, "writes", "dram_base", values["y_size"], first, pitch, width)


def _vectors(
    trace: Trace, verb: str, what: str, rows: int, first: int, pitch: int, width: int
) -> Iterator[Elements]:
    """Indices of the DRAM granules (aligned pieces of `Config.out_bytes` bytes) of `rows` rows of `width` output
    vectors. The first row begins at vector `first`, and rows begin `pitch` vectors apart. `verb` and `what` are for the
    message of an AccessError, as in `_dram`.
    """
    size = trace.config.out_bytes
    return _dram(trace, verb, what, rows, first * size, pitch * size, width * size)


def _store_out(trace: Trace, values: Values) -> Iterator[Access]:
    if any(values[pad] for pad in PADS):
        raise AccessError("the pads of a store must be 0")
    count = values["y_size"] * values["x_size"]
    if count == 0:
        return
    last = values["sram_base"] + count - 1
    _within("sram_base", "accumulator", last, trace.config.acc_depth)
    yield Access(Resource.ACC, False, slice(values["sram_base"], last + 1))
    for run in _outputs(trace, values):
        yield Access(Resource.DRAM, True, run)


def _store_post(trace: Trace, values: Values) -> Iterator[Access]:
    if values["y_size"] == 0 or values["x_size"] == 0:
        return
    config = trace.config
    rows, columns = values["y_size"], values["x_size"]
    entry = values["par_index"] + (rows - 1) * values["par_by_y"] + (columns - 1) * values["par_by_x"]
    _within("par_index", "parameter entry", entry, config.par_depth)
    if values["table"]:
        _within("table_index", "table", values["table_index"], config.tables)
    if values["rows"]:
        _row_entries(trace, values)
    yield _read_accumulators(trace, values)
    if values["combine"] and values["operand"]:
        operand = trace.registers["OPERAND"]
        first, pitch, width = operand_shape(values, operand)
        if not values["chain"] and _reads_own_outputs(values, first, pitch, width):
            raise AccessError(
                f"register OPERAND.delta = {operand['delta']} reads vectors that this instruction writes; its "
                "operands are read before it writes, so split the store in two"
            )
        for run in _vectors(trace, "reads", "register OPERAND.delta", rows, first, pitch, width):
            yield Access(Resource.DRAM, False, run)
    if values["chain"]:
        yield _chained(config, values)
        return
    for run in _outputs(trace, values):
        yield Access(Resource.DRAM, True, run)


def _rows(trace: Trace, values: Values) -> Iterator[Access]:
    """Yields the access of ROWS to the accumulators, a read; nothing if y_size or x_size is 0. Raises AccessError for
    rows that are too long and for row entries that do not exist.
    """
    if values["y_size"] == 0 or values["x_size"] == 0:
        return
    elements = values["y_size"] * trace.config.block_out
    if elements > MOST_ELEMENTS:
        raise AccessError(
            f"y_size = {values['y_size']} makes rows of {elements} elements; at most {MOST_ELEMENTS}, so that no sum "
            "overflows"
        )
    _row_entries(trace, values)
    yield _read_accumulators(trace, values)


def _row_entries(trace: Trace, values: Values) -> None:
    last = trace.registers["ROWS"]["first"] + values["x_size"] - 1
    _within("register ROWS.first", "entry of rows", last, trace.config.row_depth)


def _read_accumulators(trace: Trace, values: Values) -> Access:
    """The accumulators that a STORE.POST or ROWS (fields `values`) reads, one window for each of its vectors.
    Register ADDRESS gives the strides from window to window; register WINDOW gives the size of a window and the strides
    inside it. Raises AccessError for a window that begins out of bounds, and for a stride that is too large.
    """
    config, address, window = trace.config, trace.registers["ADDRESS"], trace.registers["WINDOW"]
    loops = (
        (values["y_size"], address["y_stride"]),
        (values["x_size"], address["x_stride"]),
        (window["rows_minus_1"] + 1, window["row_stride"]),
        (window["columns_minus_1"] + 1, window["column_stride"]),
    )
    base = values["sram_base"]
    for count, stride, of in (
        (window["rows_minus_1"], window["row_stride"], "row_stride"),
        (window["columns_minus_1"], window["column_stride"], "column_stride"),
    ):
        if count and stride >= config.acc_depth and not is_power_of_two(config.acc_depth):
            raise AccessError(
                f"register WINDOW.{of} = {stride}: must be less than {config.acc_depth}, the number of accumulators, "
                "because that number is not a power of two"
            )
    # Corners must be inside the scratchpad; windows wrap around at its end.
    corners = loops[:2]
    _within("sram_base", "accumulator", base + sum((n - 1) * d for n, d in corners), config.acc_depth)
    key = ("post", *loops)
    found = trace.index_sets.get(key)
    if found is None:
        read = np.zeros(1, np.int64)
        for count, stride in loops:
            read = _sums(read, _steps(count, stride))
        found = trace.index_sets[key] = read
    return Access(Resource.ACC, False, (found + base) % config.acc_depth)


def _chained(config: Config, values: Values) -> Access:
    """The write access to the chain memory (on-chip buffer between layers) of a STORE.POST with field `chain` = 1. Its
    elements are granules of `Config.chain_granule` bytes.
    """
    rows, columns, pitch = values["y_size"], values["x_size"], values["x_stride"]
    vectors = config.chain_buffer_bytes // config.out_bytes
    last = values["dram_base"] + (rows - 1) * pitch + columns - 1
    _within("dram_base", "output vector of the chain memory", last, vectors)
    first = values["dram_base"] + np.arange(rows, dtype=np.int64)[:, None] * pitch
    grid = np.unique(first + np.arange(columns, dtype=np.int64))
    pieces = config.out_bytes // config.chain_granule
    return Access(Resource.CHAIN, True, (grid[:, None] * pieces + np.arange(pieces)).reshape(-1))


def _reads_own_outputs(values: Values, first: int, pitch: int, width: int) -> bool:
    """Whether a vector's operand is the output of an earlier vector of the same STORE.POST (fields `values`).

    Row y writes output vectors dram_base + y * x_stride + x. Its operands are the vectors `first` + y * pitch + x, or,
    with `width` 1, the vector `first` + y * pitch for the whole row.
    """
    step, columns, rows = values["x_stride"], values["x_size"], values["y_size"]
    row = np.arange(rows, dtype=np.int64)
    begin = first - values["dram_base"] + row * pitch
    # Outputs of the same row: vector x reads an earlier output, or the shared operand is an output other than the last.
    within = begin - row * step
    own = (within < 0) & (within > -columns) if width > 1 else (within >= 0) & (within < columns - 1)
    # Outputs of earlier rows: whether those of a row overlap the operands of this row.
    if step == 0:
        earlier = (row > 0) & (begin < columns) & (begin + width > 0)
    else:
        nearest = np.minimum((begin + width - 1) // step, row - 1)
        earlier = (nearest >= 0) & (nearest * step + columns > begin)
    return bool((own | earlier).any())
