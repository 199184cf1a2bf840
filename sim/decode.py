"""Decodes instruction words to one int64 row for each instruction, by the tables of `isa.layout`.

It also tracks the effect of CONFIG instructions in program order, the order in which each unit runs its instructions.
So it finds the register values that each instruction sees, and checks that every DRAM access is inside the image.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from vdla.isa.alu import alu_extension
from vdla.isa.config import Config
from vdla.isa.decoding import format_names
from vdla.isa.errors import ProgramError
from vdla.isa.layout import EXTENSION_OF, LOADS, STORES, Unit, absent_fields, formats, unit_of
from vdla.isa.registers import REGISTERS
from vdla.isa.timing import LOADS_IN_FLIGHT
from vdla.util.machine_code import compiled, read_only

from . import state as s
from .cache import timing_code
from .state import (
    CHAIN,
    CONFIG,
    DRAM_BASE,
    FINISH,
    KIND,
    KIND_NAMES,
    LOAD,
    LOAD_BEFORE,
    LOAD_PATCH,
    LOAD_UOP,
    OPERAND,
    REGISTER,
    REGISTERS_AT,
    ROW_COLUMNS,
    STORE,
    STORE_OUT,
    STORE_POST,
    UNIT,
    VALUE,
    X_SIZE,
    X_STRIDE,
    Y_SIZE,
)

_COLUMNS = {
    "pop_prev": s.POP_PREV,
    "pop_next": s.POP_NEXT,
    "push_prev": s.PUSH_PREV,
    "push_next": s.PUSH_NEXT,
    "sram_base": s.SRAM_BASE,
    "dram_base": s.DRAM_BASE,
    "y_size": s.Y_SIZE,
    "x_size": s.X_SIZE,
    "x_stride": s.X_STRIDE,
    "y_pad_0": s.Y_PAD_0,
    "y_pad_1": s.Y_PAD_1,
    "x_pad_0": s.X_PAD_0,
    "x_pad_1": s.X_PAD_1,
    "par_index": s.PAR_INDEX,
    "combine": s.COMBINE,
    "operand": s.OPERAND,
    "multiply": s.MULTIPLY,
    "swap": s.SWAP,
    "unsigned": s.UNSIGNED,
    "par_by_x": s.PAR_BY_X,
    "par_by_y": s.PAR_BY_Y,
    "chain": s.CHAIN,
    "table": s.TABLE,
    "table_index": s.TABLE_INDEX,
    "rows": s.WITH_ROWS,
    "maximum": s.MAXIMUM,
    "reset": s.RESET,
    "overwrite": s.OVERWRITE,
    "uop_bgn": s.UOP_BGN,
    "uop_end": s.UOP_END,
    "iter_out": s.ITER_OUT,
    "iter_in": s.ITER_IN,
    "dst_factor_out": s.DST_OUT,
    "dst_factor_in": s.DST_IN,
    "src_factor_out": s.SRC_OUT,
    "src_factor_in": s.SRC_IN,
    "wgt_factor_out": s.WGT_OUT,
    "wgt_factor_in": s.WGT_IN,
    "alu_opcode": s.ALU_OPCODE,
    "use_imm": s.USE_IMM,
    "imm": s.IMM,
    "register": s.REGISTER,
    "value": s.VALUE,
    "unit": s.UNIT,
}

LOG_COLUMNS = 8
_DONE, _UNKNOWN, _OUTSIDE, _BAD_REGISTER, _OUTSIDE_CHAIN = range(5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """A decoded program. `rows` int64 (n, ROW_COLUMNS): a row for each instruction up to and with the first FINISH.
    `registers` int64 (m, 8): values of one unit's configuration registers, one row for each state between two CONFIGs.
    Column REGISTERS_AT of an instruction is the index of the row in `registers` that the instruction sees.

    `last`: index of the first FINISH, n if there is none. `rewrites_uops`: whether a STORE may write bytes that a
    LOAD.UOP reads.
    """

    rows: NDArray[np.int64]
    registers: NDArray[np.int64]
    last: int
    rewrites_uops: bool


@lru_cache(maxsize=64)
def _tables(
    config: Config,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Returns three tables for `_decode`: the index of the instruction format by the low 10 bits of a word, -1 if there
    is none; for each format, (kind of instruction, unit); for each format, its fields.

    A field is (column, word, shift, width, signed); the list of a format's fields ends with column -1. The unit of
    CONFIG is -1: a field of the instruction gives it.
    """
    chosen = np.full(1024, -1, np.int64)
    count = len(formats(config))
    kinds = np.zeros((count, 2), np.int64)
    fields = np.full((count, 24, 5), -1, np.int64)
    for number, (name, layout) in enumerate(formats(config).items()):
        if layout.memory_type is None:
            chosen[int(layout.opcode) :: 8] = number
        else:
            for flags in range(16):
                chosen[layout.memory_type << 7 | flags << 3 | layout.opcode] = number
        kinds[number] = KIND_NAMES.index(name), -1 if name == "CONFIG" else int(unit_of(name, {}))
        used = [item for item in layout.fields if item.name not in ("opcode", "memory_type")]
        for place, item in enumerate(used):
            fields[number, place] = (
                _COLUMNS[item.name],
                item.low // 64,
                item.low % 64,
                item.width,
                item.signed,
            )
    return chosen, kinds, fields


@compiled()
def _decode(words, chosen, kinds, fields, rows):  # type: ignore[no-untyped-def]
    """Decodes `words` into `rows`, up to the first FINISH; returns the index of an unknown instruction, or -1.
    `chosen`, `kinds`, `fields`: the three tables of `_tables`.
    """
    for i in range(len(words)):
        number = chosen[words[i, 0] & np.uint64(1023)]
        if number < 0:
            return i
        row = rows[i]
        row[KIND] = kinds[number, 0]
        row[UNIT] = kinds[number, 1]
        place = 0
        while fields[number, place, 0] >= 0:
            width = fields[number, place, 3]
            raw = words[i, fields[number, place, 1]] >> np.uint64(fields[number, place, 2])
            if width < 64:
                raw &= (np.uint64(1) << np.uint64(width)) - np.uint64(1)
            value = np.int64(raw)
            if fields[number, place, 4] == 1 and value >> (width - 1):
                value -= np.int64(1) << width
            row[fields[number, place, 0]] = value
            place += 1
        if row[KIND] == FINISH:
            return -1
    return -1


@timing_code
def patch_row_bytes(row, patch):  # type: ignore[no-untyped-def]
    """Number of bytes of an image row that the decoded LOAD.PATCH `row` reads; `patch`: value of register PATCH."""
    run, step = patch & 0xFF, patch >> 8 & 0xFF
    if run == 0 or row[X_SIZE] == 0:
        return np.int64(0)
    end = (row[X_SIZE] - 1) * step + run - (patch >> 24 & 0xFF)
    return max(np.int64(0), min(patch >> 32 & 0xFFFF, end))


@timing_code
def operand_shape(row, operand):  # type: ignore[no-untyped-def]
    """Place of a STORE.POST's operand vectors in DRAM: (index of the first vector, pitch of rows, vectors in a row), as
    in `isa.registers.operand_shape`. `row`: the decoded instruction; `operand`: value of register OPERAND.
    """
    pitch = operand >> 32 & 0xFFFF if operand >> 48 & 1 else row[X_STRIDE]
    width = np.int64(1) if operand >> 49 & 1 else row[X_SIZE]
    return row[DRAM_BASE] + (operand << 32 >> 32), pitch, width


@compiled()
def _follow(rows, count, sizes, register_counts, size, chain_size, registers):  # type: ignore[no-untyped-def]
    """Tracks the register values in program order: fills `registers` and columns REGISTERS_AT and LOAD_BEFORE of the
    first `count` `rows`, and checks that DRAM accesses are inside the image. `sizes`: element bytes by kind;
    `register_counts`: number of registers by unit; `size`, `chain_size`: bytes of the image and of the chain memory.

    Returns (_DONE or the kind of fault, instruction at fault, first byte and end of its access, whether stores may
    write bytes that a LOAD.UOP reads). For _DONE, the second item is the number of used rows of `registers`.
    """
    current = np.zeros(3, np.int64)
    used = 1
    uop_low, uop_high = np.int64(1) << 60, np.int64(-1)
    in_flight, loads = np.full(LOADS_IN_FLIGHT, -1, np.int64), 0
    for i in range(count):
        row = rows[i]
        kind = row[KIND]
        if row[UNIT] == LOAD:
            row[LOAD_BEFORE] = in_flight[loads % LOADS_IN_FLIGHT]
            if kind != CONFIG:
                in_flight[loads % LOADS_IN_FLIGHT] = i
                loads += 1
        if kind == CONFIG:
            unit = row[UNIT]
            if unit > STORE or row[REGISTER] >= register_counts[unit]:
                return _BAD_REGISTER, i, 0, 0, False
            # An assignment of whole rows would compile numba's error message for shapes that differ: 2.4 s.
            for place in range(registers.shape[1]):
                registers[used, place] = registers[current[unit], place]
            registers[used, row[REGISTER]] = row[VALUE]
            current[unit] = used
            used += 1
        row[REGISTERS_AT] = current[row[UNIT]]
        if sizes[kind] == 0 or row[Y_SIZE] == 0 or row[X_SIZE] == 0:
            continue
        begin = row[DRAM_BASE] * sizes[kind]
        end = begin + ((row[Y_SIZE] - 1) * row[X_STRIDE] + row[X_SIZE]) * sizes[kind]
        if kind == LOAD_PATCH:
            length = patch_row_bytes(row, registers[row[REGISTERS_AT], 1])
            if length <= 0:
                # The load writes pads only and reads no DRAM.
                continue
            end = begin + (row[Y_SIZE] - 1) * row[X_STRIDE] + length
        if kind == STORE_POST and row[CHAIN]:
            if end > chain_size:
                return _OUTSIDE_CHAIN, i, begin, end, False
        elif begin < 0 or end > size:
            return _OUTSIDE, i, begin, end, False
        if kind == LOAD_UOP:
            uop_low, uop_high = min(uop_low, begin), max(uop_high, end)
        if kind == STORE_POST and row[OPERAND]:
            first, pitch, width = operand_shape(row, registers[row[REGISTERS_AT], 5])
            begin, end = first * sizes[kind], (first + (row[Y_SIZE] - 1) * pitch + width) * sizes[kind]
            if begin < 0 or end > size:
                return _OUTSIDE, i, begin, end, False
    rewrites = False
    for i in range(count):
        row = rows[i]
        if row[KIND] == STORE_OUT or (row[KIND] == STORE_POST and row[CHAIN] == 0):
            begin = row[DRAM_BASE] * sizes[row[KIND]]
            end = begin + ((row[Y_SIZE] - 1) * row[X_STRIDE] + row[X_SIZE]) * sizes[row[KIND]]
            rewrites = rewrites or (begin < uop_high and end > uop_low)
    return _DONE, used, 0, 0, rewrites


def kind_sizes(config: Config) -> NDArray[np.int64]:
    """DRAM bytes of an element that a LOAD or STORE moves, int64 indexed by kind of instruction; 0 for other kinds."""
    sizes = np.zeros(len(KIND_NAMES), np.int64)
    for name in (*LOADS, *STORES):
        sizes[KIND_NAMES.index(name)] = config.element_bytes(name.partition(".")[2].lower())
    return sizes


def _lacking(
    config: Config, rows: NDArray[np.int64], present: NDArray[np.int64]
) -> Iterator[tuple[int, str]]:
    """Yields the hardware features that the instructions `rows` use and `config` lacks, each as (index of the first
    instruction that uses the feature, text that names the feature).

    `present`: for each kind of instruction, whether `rows` have one.
    """
    chained = (rows[:, KIND] == STORE_POST) & (rows[:, CHAIN] == 1)
    if chained.any() and not config.chain_buffer_bytes:
        yield int(np.argmax(chained)), "a chain memory (chain = 1)"
    for item in REGISTERS:
        lacks = item.extension is not None and not config.has(item.extension)
        absent = item.absent(config)
        if not (lacks or absent):
            continue
        sets = (rows[:, KIND] == CONFIG) & (rows[:, UNIT] == item.unit) & (rows[:, REGISTER] == item.index)
        if lacks and sets.any():
            yield int(np.argmax(sets)), f"the extension {item.extension!r} (register {item.name})"
        for field in absent:
            used = sets & ((rows[:, VALUE] >> field.low & (1 << field.width) - 1) != 0)
            if used.any():
                yield int(np.argmax(used)), f"the extension {field.extension!r} ({item.name}.{field.name})"
    for name, fields in absent_fields(config).items():
        for field in fields:
            used = (rows[:, KIND] == KIND_NAMES.index(name)) & (rows[:, _COLUMNS[field.name]] != 0)
            if used.any():
                yield int(np.argmax(used)), f"the extension {field.extension!r} ({field.name})"
    for kind in np.flatnonzero(present).tolist():
        if kind == s.ALU:
            kinds = rows[:, KIND] == kind
            for code in np.unique(rows[kinds, s.ALU_OPCODE]).tolist():
                extension = alu_extension(code)
                if extension is not None and not config.has(extension):
                    yield (
                        int(np.argmax(kinds & (rows[:, s.ALU_OPCODE] == code))),
                        f"the extension {extension!r}",
                    )
            continue
        extension = EXTENSION_OF.get(KIND_NAMES[kind])
        if extension is not None and not config.has(extension):
            yield int(np.argmax(rows[:, KIND] == kind)), f"the extension {extension!r}"


def decode(config: Config, instructions: NDArray[np.uint64], memory_size: int) -> Decoded:
    """Returns `instructions`, uint64 (n, words), decoded for a memory image of `memory_size` bytes.

    Raises ProgramError for an unknown register, a missing extension or an access outside DRAM or chain memory, and
    EncodingError for bits that encode no instruction; each names the instruction.
    """
    words = read_only(instructions, np.uint64)
    if words.ndim != 2 or words.shape[1] != config.instruction_words:
        raise ProgramError(
            f"instructions are an array of shape {words.shape}; expected (n, {config.instruction_words}) 64-bit words"
        )
    rows = np.zeros((len(words), ROW_COLUMNS), np.int64)
    bad = _decode(words, *_tables(config), rows)
    if bad >= 0:
        format_names(words[: bad + 1])
    finish = np.flatnonzero(rows[:, KIND] == FINISH)
    last = int(finish[0]) if finish.size else len(rows)
    rows = rows[: last + 1]
    present = np.bincount(rows[:, KIND], minlength=len(KIND_NAMES))
    for where, needed in sorted(_lacking(config, rows, present)):
        raise ProgramError(
            f"instruction {where} ({KIND_NAMES[rows[where, KIND]]}) needs {needed}, which configuration "
            f"{config.name!r} lacks"
        )
    counts = np.array([sum(item.unit == unit for item in REGISTERS) for unit in Unit], np.int64)
    registers = np.zeros((int(present[CONFIG]) + 1, LOG_COLUMNS), np.int64)
    outcome, where, begin, end, rewrites = _follow(
        rows, len(rows), kind_sizes(config), counts, memory_size, config.chain_buffer_bytes, registers
    )
    if outcome == _BAD_REGISTER:
        raise ProgramError(
            f"instruction {where} (CONFIG): unit {rows[where, UNIT]} has no register {rows[where, REGISTER]}"
        )
    if outcome == _OUTSIDE:
        raise ProgramError(
            f"instruction {where} ({KIND_NAMES[rows[where, KIND]]}) accesses DRAM bytes {begin}..{end}, outside of "
            f"the memory of {memory_size} bytes; check dram_base, x_stride and the sizes"
        )
    if outcome == _OUTSIDE_CHAIN:
        raise ProgramError(
            f"instruction {where} (STORE.POST) accesses bytes {begin}..{end}, outside of the chain memory of "
            f"{config.chain_buffer_bytes} bytes; check dram_base, x_stride and the sizes"
        )
    return Decoded(rows=rows, registers=registers, last=last, rewrites_uops=bool(rewrites))
