"""The reference semantics of all instructions in plain Python and numpy, slow and simple; simulator and RTL must agree
with it.

Instructions execute one after the other in program order, without tokens and timing. A program without races has the
same results in simulator and RTL, so this module defines a program's results. The formulas are those of isa/README.md,
element by element.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from .alu import alu_code
from .arithmetic import AddConstants, combine_add, combine_multiply, requantize, rescale, wrap_int32
from .array_modes import MODES, ArrayMode, mode_of
from .config import Config
from .decoding import decode_uops, format_names, join_words, lacking
from .errors import ProgramError
from .fields import unpack_fields
from .layout import MATRIX, PADS, Opcode, formats
from .reference_rows import row_shares, row_statistics
from .registers import REGISTERS, operand_shape
from .scratchpads import Contents, typed_scratchpads

Values = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceResult:
    """Memory and scratchpads after a program.

    `memory` uint8 (size,); `uop` (uop_depth,) of `layout.uop_dtype`; `inp` int8 (inp_depth, batch, block_in); `wgt`
    int8 (wgt_depth, columns, block_in); `acc` int32 (acc_depth, batch, block_out); `par` uint32 (par_depth, 2,
    block_out), bits of int32 biases and of float32 scales; `chain` int8 (chain_depth, batch, block_in); `table` int8
    (table_depth, 256); `rows` uint32 (row_depth, 2), packed factors and values of ROWS. `executed`: number of executed
    instructions, including FINISH.
    """

    memory: NDArray[np.uint8]
    uop: NDArray[np.unsignedinteger]
    inp: NDArray[np.int8]
    wgt: NDArray[np.int8]
    acc: NDArray[np.int32]
    par: NDArray[np.uint32]
    chain: NDArray[np.int8]
    table: NDArray[np.int8]
    rows: NDArray[np.uint32]
    executed: int


@dataclass(slots=True, kw_only=True)
class _Machine:
    config: Config
    memory: NDArray[np.uint8]
    uop: NDArray[np.unsignedinteger]
    inp: NDArray[np.int8]
    wgt: NDArray[np.int8]
    acc: NDArray[np.int32]
    par: NDArray[np.uint32]
    chain: NDArray[np.int8]
    table: NDArray[np.int8]
    rows: NDArray[np.uint32]
    registers: dict[str, dict[str, int]]
    held: dict[str, NDArray[np.int64]]
    where: str = ""

    def fail(self, message: str) -> NoReturn:
        raise ProgramError(f"{self.where}: {message}")

    def check(self, field: str, value: int, limit: int, of: str) -> int:
        """Returns `value` if it is an index in 0..`limit` - 1, else raises ProgramError. The message says which
        elements the index is for, with the noun `of` (such as "weight tile"), and names `field`, the field of the
        instruction that led to it.
        """
        if not 0 <= value < limit:
            self.fail(f"{field} leads to {of} {value}, outside 0..{limit - 1}")
        return value

    def read(self, field: str, address: int, size: int) -> NDArray[np.uint8]:
        if address < 0 or address + size > len(self.memory):
            self.fail(
                f"{field} reads DRAM bytes {address}..{address + size}, outside of the memory of {len(self.memory)} "
                "bytes"
            )
        return self.memory[address : address + size]

    def write(self, field: str, address: int, data: NDArray[np.int8]) -> None:
        if address < 0 or address + data.size > len(self.memory):
            end = address + data.size
            self.fail(
                f"{field} writes DRAM bytes {address}..{end}, outside of the memory of {len(self.memory)} bytes"
            )
        self.memory[address : address + data.size] = data.reshape(-1).view(np.uint8)


def run_reference(
    config: Config,
    instructions: NDArray[np.uint64],
    memory: NDArray[np.uint8],
    *,
    scratchpads: Contents | None = None,
) -> ReferenceResult:
    """Executes `instructions`, uint64 (n, words), up to FINISH on a copy of `memory`, the whole DRAM image, uint8.
    Returns memory and scratchpads at the end.

    `scratchpads`: contents at launch (`isa.scratchpads`); scratchpads without contents are zero. Raises ProgramError,
    which names the index and the field of an instruction, for an access to a memory or scratchpad out of bounds, a
    missing extension, an unknown register or ALU operation; also for a program without FINISH. Raises EncodingError for
    bits that encode no instruction.
    """
    finish = np.flatnonzero((instructions[:, 0] & np.uint64(7)) == np.uint64(Opcode.FINISH))
    if not finish.size:
        raise ProgramError("the program has no FINISH; end it with one")
    executed = int(finish[0]) + 1
    start = typed_scratchpads(config, scratchpads)
    machine = _Machine(
        config=config,
        memory=np.array(memory, dtype=np.uint8),
        uop=start["uop"],
        inp=start["inp"],
        wgt=start["wgt"],
        acc=start["acc"],
        par=start["par"],
        chain=start["chain"],
        table=start["table"],
        rows=start["rows"],
        registers={item.name: {part.name: 0 for part in item.fields} for item in REGISTERS},
        held={mode.name: np.zeros(mode.held(config), np.int64) for mode in MODES if mode.holds},
    )
    names = format_names(instructions[:executed])
    for index, (name, words) in enumerate(zip(names, instructions[:executed].tolist(), strict=True)):
        machine.where = f"instruction {index} ({name})"
        _execute(machine, name, unpack_fields(formats(config)[name].fields, join_words(words)))
    return ReferenceResult(
        memory=machine.memory,
        uop=machine.uop,
        inp=machine.inp,
        wgt=machine.wgt,
        acc=machine.acc,
        par=machine.par,
        chain=machine.chain,
        table=machine.table,
        rows=machine.rows,
        executed=executed,
    )


def _execute(machine: _Machine, name: str, values: Values) -> None:
    missing = lacking(machine.config, name, values)
    if missing is not None:
        machine.fail(missing)
    match name:
        case "FINISH":
            pass
        case "CONFIG":
            _set_register(machine, values)
        case _ if name in MATRIX:
            _matrix(machine, name, values)
        case "ALU":
            _alu(machine, values)
        case "STORE.OUT":
            _store_out(machine, values)
        case "ROWS":
            row_statistics(machine, values, lambda y, x: _reduced(machine, values, y, x))
        case "STORE.POST":
            _store_post(machine, values)
        case "LOAD.PATCH":
            _load_patch(machine, values)
        case "LOAD.TABLE":
            if any(values[pad] for pad in PADS):
                machine.fail("the pads of a table load must be 0")
            _load(machine, "table", values)
        case _:
            _load(machine, name.removeprefix("LOAD.").lower(), values)


def _set_register(machine: _Machine, values: Values) -> None:
    for item in REGISTERS:
        if (item.unit, item.index) == (values["unit"], values["register"]):
            machine.registers[item.name] = unpack_fields(item.fields, values["value"])
            return
    machine.fail(f"unit {values['unit']} has no register {values['register']}")


# --- loads ----------------------------------------------------------------------------------------------


def _load(machine: _Machine, kind: str, values: Values) -> None:
    config = machine.config
    size = config.element_bytes(kind)
    scratchpad = machine.acc if kind == "acc8" else getattr(machine, kind)
    match kind:
        case "inp":
            pad = machine.registers["LOAD_PAD"]["pad_value"]
        case "acc" | "acc8":
            pad = machine.registers["COMPUTE_PAD"]["pad_value"]
        case _:
            pad = 0
    if values["x_size"] == 0:
        return
    rows = values["y_pad_0"] + values["y_size"] + values["y_pad_1"]
    columns = values["x_pad_0"] + values["x_size"] + values["x_pad_1"]
    for row in range(rows):
        for column in range(columns):
            index = values["sram_base"] + row * columns + column
            machine.check("sram_base", index, len(scratchpad), f"{kind} element")
            y, x = row - values["y_pad_0"], column - values["x_pad_0"]
            if 0 <= y < values["y_size"] and 0 <= x < values["x_size"]:
                element = values["dram_base"] + y * values["x_stride"] + x
                data = machine.read("dram_base", element * size, size)
                dtype = np.int8 if kind == "acc8" else scratchpad.dtype
                scratchpad[index] = data.view(dtype).reshape(scratchpad.shape[1:])
            else:
                scratchpad[index] = pad


def _load_patch(machine: _Machine, values: Values) -> None:
    config, patch = machine.config, machine.registers["PATCH"]
    if values["x_pad_0"] or values["x_pad_1"]:
        machine.fail(
            "x_pad_0 and x_pad_1 of a patch load must be 0; the row's ends are padded by register PATCH"
        )
    machine.check("register PATCH.batch_row", patch["batch_row"], config.batch, "row")
    for y in range(values["y_pad_0"] + values["y_size"] + values["y_pad_1"]):
        row = y - values["y_pad_0"]
        for w in range(values["x_size"]):
            for i in range(patch["run"]):
                c = w * patch["step"] + i - patch["pad_left"]
                if 0 <= row < values["y_size"] and 0 <= c < patch["row_bytes"]:
                    address = values["dram_base"] + row * values["x_stride"] + c
                    byte = machine.read("dram_base", address, 1).view(np.int8)[0]
                else:
                    byte = machine.registers["LOAD_PAD"]["pad_value"]
                k = y * patch["run"] + i
                vector = values["sram_base"] + w * patch["pitch"] + k // config.block_in
                machine.check("sram_base", vector, config.inp_depth, "input vector")
                machine.inp[vector, patch["batch_row"], k % config.block_in] = byte


# --- compute --------------------------------------------------------------------------------------------


def _operations(machine: _Machine, values: Values) -> Iterator[tuple[int, int, int, int, int]]:
    """Yields (y, x, dst, src, wgt) for each operation in order: the counters of the outer and the inner loop, and the
    fields of the micro-op, without base registers and loop factors.
    """
    begin, end = values["uop_bgn"], values["uop_end"]
    if values["iter_out"] and values["iter_in"] and end > begin:
        machine.check("uop_end", end - 1, machine.config.uop_depth, "micro-op")
    # Operations do not write micro-ops. Without micro-ops the loops, maybe of millions of steps, do nothing.
    columns = decode_uops(machine.config, machine.uop[begin:end])
    micro_ops = list(zip(*[column.tolist() for column in columns], strict=True))
    if not micro_ops:
        return
    for y in range(values["iter_out"]):
        for x in range(values["iter_in"]):
            for indices in micro_ops:
                yield y, x, *indices


def _input(machine: _Machine, index: int, first: int | None = None) -> NDArray[np.int64]:
    """Input vector `index`, int64 (batch, block_in), in the input scratchpad or, from chain_base on, in the chain
    memory (on-chip buffer between layers). `first`: index of the first input vector of the same position (pixel), which
    selects the memory; None for `index` itself. Raises ProgramError if this memory has no vector `index`.
    """
    config = machine.config
    if config.chain_buffer_bytes and (index if first is None else first) >= config.chain_base:
        place = machine.check(
            "src", index - config.chain_base, config.chain_depth, "vector of the chain memory"
        )
        return machine.chain[place].astype(np.int64)
    return machine.inp[machine.check("src", index, config.inp_depth, "input vector")].astype(np.int64)


def _factor(values: Values, name: str, y: int, x: int) -> int:
    return y * values[f"{name}_factor_out"] + x * values[f"{name}_factor_in"]


def _matrix(machine: _Machine, name: str, values: Values) -> None:
    """Executes the instruction `name` of the array (GEMM, DEPTHWISE or TAPS) with the fields `values`."""
    config, base = machine.config, machine.registers["BASE"]
    mode = mode_of(name, machine.registers)
    products = _lane_products if mode.by_lane else _dot_products
    first, group = base["wgt_base"] * mode.tile_weights(config), mode.group(config)
    lanes, replaces = slice(None), True
    for y, x, dst, src, wgt in _operations(machine, values):
        d = base["acc_base"] + dst + _factor(values, "dst", y, x)
        machine.check("dst", d, config.acc_depth, "accumulator")
        if values["reset"]:
            machine.acc[d] = 0
            continue
        s, w = (
            base["inp_base"] + src + _factor(values, "src", y, x),
            first + wgt + _factor(values, "wgt", y, x),
        )
        total = products(machine, mode, s, w)
        if mode.holds and w % group >= group // 2:
            continue  # The operation only holds its positions.
        if mode.folds:
            lanes, replaces = _folded_lanes(machine, w)
        before = machine.acc[d][:, lanes].astype(np.int64)
        if values["overwrite"] and replaces:
            before = np.zeros_like(before)
        machine.acc[d][:, lanes] = wrap_int32(before + total)


def _dot_products(machine: _Machine, mode: ArrayMode, s: int, w: int) -> NDArray[np.int64]:
    """Computes the dot products of input vector number `s` with the rows of weight tile number `w`. Returns int64
    (batch, n) for the n lanes that the operation changes.

    With the extension `fold`, a tile row consists of several groups of weights. The operation uses only a part of the
    vector, as long as one group, and makes a dot product of this part with each group.
    """
    config, zero = machine.config, machine.registers["ZERO"]
    vector = _input(machine, s) - zero["inp_zero"]
    machine.check("wgt", w, config.wgt_depth, "weight tile")
    tile = machine.wgt[w].astype(np.int64) - zero["wgt_zero"]
    groups, size, part = _fold(machine, w)
    inputs = vector[:, part * size : (part + 1) * size]
    parts = [inputs @ tile[:, g * size : (g + 1) * size].T for g in range(groups)]
    return np.concatenate(parts, axis=1)


def _fold(machine: _Machine, w: int) -> tuple[int, int, int]:
    """Divides the array for an operation with weight tile `w`: returns (number of groups of the array's rows, rows in a
    group, number of the part of the input vector that all groups multiply). The result is (1, block_in, 0) without the
    extension `fold`.
    """
    config, shape = machine.config, machine.registers["FOLD"]["shape"]
    groups = 1 << machine.check("register FOLD.shape", shape, config.tile_parts.bit_length(), "shape")
    return groups, config.block_in // groups, w % config.tile_parts % groups


def _folded_lanes(machine: _Machine, w: int) -> tuple[slice, bool]:
    """Returns (lanes that a GEMM operation with tile `w` changes, whether the flag `overwrite` applies to it). Only an
    operation on the first part of the input vector overwrites; operations on other parts add.
    """
    config = machine.config
    groups, _, part = _fold(machine, w)
    first = w % config.tile_parts // groups * groups * config.columns
    return slice(first, first + groups * config.columns), part == 0


def _lane_products(machine: _Machine, mode: ArrayMode, s: int, row: int) -> NDArray[np.int64]:
    """Computes the products of an operation of `mode` that multiplies lane by lane. Returns int64 (batch, block_out):
    for each lane, the sum of input times weight over all positions (pixels). `s`: number of an input vector in the
    first position. `row`: number of a weight row; the operation uses the group of rows that contains it. In a mode that
    holds positions, the sum includes those of earlier operations, and `machine.held` gets the positions of this
    operation.

    If an output vector is longer than an input vector, a position consists of several input vectors, and each has a row
    of weights. If it is shorter, the lanes multiply only one part of an input vector; the low bits of `row` number the
    part.
    """
    config, zero = machine.config, machine.registers["ZERO"]
    machine.check("wgt", row, config.wgt_depth * config.tile_rows, "weight row")
    inputs, narrow = config.position_inputs, min(config.block_in, config.block_out)
    part = row % config.position_outputs
    s, first = s // inputs * inputs, row // mode.group(config) * mode.group(config)
    read = np.zeros((mode.positions, config.batch, config.block_out), np.int64)
    for t in range(mode.positions):
        for k in range(inputs):
            vector = _input(machine, s + t * inputs + k, s)[:, part * narrow : (part + 1) * narrow]
            read[t, :, k * narrow : (k + 1) * narrow] = vector - zero["inp_zero"]
    positions = read
    if mode.holds:
        held = np.concatenate([machine.held[mode.name][1:], read[None]])
        machine.held[mode.name], positions = held, held.reshape(-1, *read.shape[1:])
    total = np.zeros_like(read[0])
    for number, position in enumerate(positions):
        rows = [first + mode.row(config, number * inputs + k, part) for k in range(inputs)]
        weights = np.concatenate([_weight_row(machine, place) for place in rows]).astype(np.int64)
        total += position * (weights - zero["wgt_zero"])
    return total


def _weight_row(machine: _Machine, row: int) -> NDArray[np.int8]:
    """Row `row` of weights in the weight scratchpad, int8 (n,), where n is the number of elements of the shorter of
    input and output vector.
    """
    config = machine.config
    tile, place = divmod(row, config.tile_rows)
    return machine.wgt[tile].reshape(config.tile_rows, -1)[place]


def _alu(machine: _Machine, values: Values) -> None:
    config, base = machine.config, machine.registers["BASE"]
    code = alu_code(config, values["alu_opcode"])
    if code is None:
        machine.fail(f"alu_opcode {values['alu_opcode']} is unknown")
    for y, x, dst, src, _ in _operations(machine, values):
        d = base["acc_base"] + dst + _factor(values, "dst", y, x)
        machine.check("dst", d, config.acc_depth, "accumulator")
        left = machine.acc[d].astype(np.int64)
        if values["use_imm"]:
            right = np.full_like(left, values["imm"])
        else:
            s = base["acc_base"] + src + _factor(values, "src", y, x)
            machine.check("src", s, config.acc_depth, "accumulator")
            right = machine.acc[s].astype(np.int64)
        machine.acc[d] = wrap_int32(code.operation.compute(left, right))


# --- stores ---------------------------------------------------------------------------------------------


def _store_out(machine: _Machine, values: Values) -> None:
    config = machine.config
    if any(values[pad] for pad in PADS):
        machine.fail("the pads of a store must be 0")
    for y in range(values["y_size"]):
        for x in range(values["x_size"]):
            index = values["sram_base"] + y * values["x_size"] + x
            machine.check("sram_base", index, config.acc_depth, "accumulator")
            element = values["dram_base"] + y * values["x_stride"] + x
            machine.write("dram_base", element * config.out_bytes, machine.acc[index].astype(np.int8))


def _reduced(machine: _Machine, values: Values, y: int, x: int) -> NDArray[np.int64]:
    """Maximum or sum, int64 (batch, block_out), of the accumulators in the window for output vector (y, x); a sum may
    exceed int32. `values`: fields of the STORE.POST or ROWS.
    """
    config, address, window = machine.config, machine.registers["ADDRESS"], machine.registers["WINDOW"]
    corner = values["sram_base"] + y * address["y_stride"] + x * address["x_stride"]
    machine.check("sram_base", corner, config.acc_depth, "accumulator")
    vectors = []
    for r in range(window["rows_minus_1"] + 1):
        for c in range(window["columns_minus_1"] + 1):
            index = corner + r * window["row_stride"] + c * window["column_stride"]
            vectors.append(machine.acc[index % config.acc_depth].astype(np.int64))
    reduced = np.sum(vectors, axis=0) if window["sum"] else np.max(vectors, axis=0)
    return np.asarray(reduced)


def _store_post(machine: _Machine, values: Values) -> None:
    config, registers = machine.config, machine.registers
    first = registers["REQUANTIZE"]
    for y in range(values["y_size"]):
        for x in range(values["x_size"]):
            reduced = _reduced(machine, values, y, x)
            if values["rows"]:
                reduced = row_shares(machine, x, reduced, y == values["y_size"] - 1)
            entry = values["par_index"] + y * values["par_by_y"] + x * values["par_by_x"]
            machine.check("par_index", entry, config.par_depth, "parameter entry")
            bias = machine.par[entry, 0].view(np.int32).astype(np.int64)
            scale = machine.par[entry, 1].view(np.float32)
            total = wrap_int32(wrap_int32(reduced) + bias)
            q = requantize(total, scale, first["zero_point"], first["low"], first["high"])
            out = (values["dram_base"] + y * values["x_stride"] + x) * config.out_bytes
            if values["table"]:
                place = machine.check("table_index", values["table_index"], config.tables, "table")
                q = machine.table[place][q.astype(np.int64) + 128]
            first_operand, pitch, width = operand_shape(values, registers["OPERAND"])
            result = _combine(machine, values, q, first_operand + y * pitch + (x if width > 1 else 0))
            if values["chain"]:
                vectors = config.chain_buffer_bytes // config.out_bytes
                place = machine.check(
                    "dram_base", out // config.out_bytes, vectors, "output vector of the chain memory"
                )
                machine.chain.reshape(vectors, config.batch, config.block_out)[place] = result
            else:
                machine.write("dram_base", out, result)


def _combine(machine: _Machine, values: Values, q: NDArray[np.int8], operand_at: int) -> NDArray[np.int8]:
    """Returns the result of stage B (the operation after requantization) for the int8 vector `q`; `q` itself if the
    instruction has no stage B (flag `combine` 0). `operand_at`: place of the operand vector in DRAM, in output vectors.
    """
    config, registers = machine.config, machine.registers
    first, last = registers["REQUANTIZE"], registers["COMBINE"]
    zero_point = first["table_zero_point" if values["table"] else "zero_point"]
    if not values["combine"]:
        return q
    ratio_self, ratio_operand, offset = (
        np.uint32(bits).view(np.float32)
        for bits in (registers["RATIO"]["ratio_self"], registers["RATIO"]["ratio_operand"], last["offset"])
    )
    low, high = last["low"], last["high"]
    if not values["operand"]:
        return rescale(q, zero_point, ratio_self, last["zero_point"], low, high)
    operand = machine.read("register OPERAND.delta", operand_at * config.out_bytes, config.out_bytes)
    pairs = [
        (q, ratio_self, zero_point),
        (operand.view(np.int8).reshape(q.shape), ratio_operand, first["operand_zero_point"]),
    ]
    if values["swap"]:
        pairs.reverse()
    (a, ratio_a, zero_a), (b, ratio_b, zero_b) = pairs
    unsigned = bool(values["unsigned"])
    if values["multiply"]:
        return combine_multiply(a, b, (zero_a, zero_b), ratio_self, last["zero_point"], unsigned, low, high)
    constants = AddConstants(ratio_a=ratio_a, ratio_b=ratio_b, offset=offset, unsigned=unsigned)
    return combine_add(a, b, constants, low, high)
