"""Tables of the fields of instructions and micro-ops, derived from a configuration; encoder.

The base instructions are bit-compatible with VTA's (its public `hw_spec.h`); extensions use opcodes, memory types and
bits that are free in VTA. isa/README.md has the semantics. An instruction has 128 or 256 bits (`widths.py`), stored as
little-endian uint64 words; no field crosses from one word to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .alu import ALU_OPCODE_BITS
from .array_modes import MODES
from .config import Config
from .errors import EncodingError
from .fields import Field, absent, pack, pack_columns, pack_fields
from .opcodes import POST, ROWS, TABLE, MemoryType, Opcode, Unit
from .widths import WORD_BITS


@dataclass(frozen=True, slots=True)
class Format:
    """One instruction format: assembler name, opcode, memory type (or None) and fields in the order of their bits."""

    name: str
    opcode: Opcode
    memory_type: int | None
    fields: tuple[Field, ...]

    def field(self, name: str) -> Field:
        """The field named `name`. Raises EncodingError if there is none."""
        for item in self.fields:
            if item.name == name:
                return item
        raise EncodingError(
            f"{self.name} has no field {name!r}; it has {', '.join(f.name for f in self.fields)}"
        )


FLAGS = ("pop_prev", "pop_next", "push_prev", "push_next")
_COMMON = (Field("opcode", 0, 3), *pack(3, *((name, 1) for name in FLAGS)))
FLAG_BITS = {item.name: item.low for item in _COMMON if item.name in FLAGS}
"""Position (number of the bit) of each token flag, the same in all formats."""
_MEMORY = (*_COMMON, Field("memory_type", 7, 3), *pack(10, ("sram_base", 16), ("dram_base", 32)))
_SIZES = pack(64, ("y_size", 16), ("x_size", 16), ("x_stride", 16))
PADS = ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")
"""Names of a load's padding fields: numbers of pads before and after the data in y and x; 4 bits each, from bit 112."""
_PADS = pack(112, *((name, 4) for name in PADS))
_POST = pack(
    112,
    ("combine", 1),
    ("operand", 1),
    ("multiply", 1),
    ("swap", 1),
    ("unsigned", 1),
    ("par_by_x", 1),
    ("par_by_y", 1),
    ("chain", 1),
)
_TABLE = (Field("table", 120, 1, extension="table"), Field("table_index", 121, 3))
_ROWS = (Field("rows", 124, 1, extension="rows"),)


def _box(config: Config) -> tuple[Field, ...]:
    return (*_MEMORY, *_SIZES, *_PADS)


def _post(config: Config) -> tuple[Field, ...]:
    return (*_MEMORY, Field("par_index", 58, 6), *_SIZES, *_POST, *_TABLE, *_ROWS)


def _statistics(config: Config) -> tuple[Field, ...]:
    """Fields of ROWS, an instruction that computes row statistics and accesses no memory except the accumulators."""
    head = (*_COMMON, Field("memory_type", 7, 3), Field("sram_base", 10, 16), Field("maximum", 26, 1))
    return (*head, *pack(64, ("y_size", 16), ("x_size", 16)))


def _loops(config: Config) -> tuple[tuple[str, int], ...]:
    uop = config.uop_index_bits
    return ("uop_bgn", uop), ("uop_end", uop + 1), ("iter_out", 14), ("iter_in", 14)


def _factors(config: Config, *widths: tuple[str, int]) -> tuple[Field, ...]:
    """The fields of loop factors, two (outer and inner loop) for each of `widths` (index name, bits). They are in an
    instruction's upper half: the second of two 64-bit words, or the last two of four."""
    items = ((f"{name}_factor_{loop}", width) for name, width in widths for loop in ("out", "in"))
    return pack(4 * config.instruction_bytes, *items)


def _matrix(config: Config) -> tuple[Field, ...]:
    acc, inp, wgt = config.acc_index_bits, config.inp_index_bits, config.wgt_index_bits
    loops = pack(8, *_loops(config), ("overwrite", 1))
    factors = _factors(config, ("dst", acc), ("src", inp), ("wgt", wgt))
    return (*_COMMON, Field("reset", 7, 1), *loops, *factors)


def _vector(config: Config) -> tuple[Field, ...]:
    loops = pack(8, *_loops(config))
    factors = _factors(config, ("dst", config.acc_index_bits), ("src", config.inp_index_bits))
    operation = (
        *pack(108, ("alu_opcode", ALU_OPCODE_BITS), ("use_imm", 1)),
        Field("imm", 112, 16, signed=True),
    )
    fields = (*_COMMON, Field("reset", 7, 1), *loops, *factors, *operation)
    return tuple(sorted(fields, key=lambda item: item.low))


def _register_write(config: Config) -> tuple[Field, ...]:
    return (*_COMMON, Field("unit", 7, 2), Field("register", 9, 7), Field("value", 64, 64))


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction, an entry of INSTRUCTIONS: assembler name, opcode, memory type, unit, group and fields.

    `group`: `load`, `store` (names LOAD.ELEMENT, STORE.ELEMENT), `matrix` (one operation of the array a cycle, fields
    of GEMM), `vector` (ALU), `rows` or `control`. `unit`: the unit that executes it; None if a field of the instruction
    names the unit. `extension`: the optional hardware (`Config.extensions`) that it needs, None if every machine has
    it.
    """

    name: str
    opcode: Opcode
    memory_type: int | None
    unit: Unit | None
    group: str
    fields: Callable[[Config], tuple[Field, ...]]
    extension: str | None = None


_INSTRUCTIONS = (
    Instruction("LOAD.UOP", Opcode.LOAD, MemoryType.UOP, Unit.COMPUTE, "load", _box),
    Instruction("LOAD.WGT", Opcode.LOAD, MemoryType.WGT, Unit.LOAD, "load", _box),
    Instruction("LOAD.INP", Opcode.LOAD, MemoryType.INP, Unit.LOAD, "load", _box),
    Instruction("LOAD.ACC", Opcode.LOAD, MemoryType.ACC, Unit.COMPUTE, "load", _box),
    Instruction("LOAD.ACC8", Opcode.LOAD, MemoryType.ACC8, Unit.COMPUTE, "load", _box),
    Instruction("LOAD.PAR", Opcode.LOAD, MemoryType.PAR, Unit.STORE, "load", _box, "post"),
    Instruction("LOAD.PATCH", Opcode.LOAD, MemoryType.PATCH, Unit.LOAD, "load", _box, "patch"),
    Instruction("LOAD.TABLE", Opcode.LOAD, TABLE, Unit.STORE, "load", _box, "table"),
    Instruction("STORE.OUT", Opcode.STORE, MemoryType.OUT, Unit.STORE, "store", _box),
    Instruction("STORE.POST", Opcode.STORE, POST, Unit.STORE, "store", _post, "post"),
    Instruction("ROWS", Opcode.STORE, ROWS, Unit.STORE, "rows", _statistics, "rows"),
    *(
        Instruction(mode.instruction, mode.opcode, None, Unit.COMPUTE, "matrix", _matrix, mode.extension)
        for mode in MODES
        if mode.register is None
    ),
    Instruction("FINISH", Opcode.FINISH, None, Unit.COMPUTE, "control", lambda config: _COMMON),
    Instruction("ALU", Opcode.ALU, None, Unit.COMPUTE, "vector", _vector),
    Instruction("CONFIG", Opcode.CONFIG, None, None, "control", _register_write),
)
INSTRUCTIONS = tuple(sorted(_INSTRUCTIONS, key=lambda item: item.opcode))
"""All instructions, by opcode; the table for encoder, decoder, documents, checker, simulator, RTL, random programs."""


def names_of(*groups: str) -> tuple[str, ...]:
    """Assembler names of the instructions in `groups` (all if no group is given), in the order of INSTRUCTIONS."""
    return tuple(item.name for item in INSTRUCTIONS if not groups or item.group in groups)


LOADS, STORES, MATRIX = names_of("load"), names_of("store"), names_of("matrix")
"""Assembler names of the loads, of the stores, and of the instructions of the array."""


EXTENSION_OF = {item.name: item.extension for item in INSTRUCTIONS if item.extension is not None}
"""The extension that an optional instruction needs, by format name; every machine has the other instructions."""

_UNIT_OF = {item.name: item.unit for item in INSTRUCTIONS}


@lru_cache(maxsize=64)
def absent_fields(config: Config) -> dict[str, tuple[Field, ...]]:
    """Fields that must be 0 since `config` lacks their extension, by format name; other formats are left out."""
    found = {name: absent(config, layout.fields) for name, layout in formats(config).items()}
    return {name: fields for name, fields in found.items() if fields}


@lru_cache(maxsize=64)
def formats(config: Config) -> dict[str, Format]:
    """All instruction formats, with the field widths of `config`, by assembler name: LOAD.INP, STORE.OUT, GEMM, ..."""
    return {
        item.name: Format(item.name, item.opcode, item.memory_type, item.fields(config))
        for item in INSTRUCTIONS
    }


def uop_fields(config: Config) -> tuple[Field, ...]:
    """The fields of a micro-op, three indices: dst (accumulator), src (input vector, or accumulator for ALU), wgt."""
    return pack(
        0, ("dst", config.acc_index_bits), ("src", config.inp_index_bits), ("wgt", config.wgt_index_bits)
    )


# --- encoding -------------------------------------------------------------------------------------------


def split_words(config: Config, word: int) -> tuple[int, ...]:
    """The 64-bit words of an instruction that is given as one integer, the lowest word first."""
    return tuple(
        [word >> low & (1 << WORD_BITS) - 1 for low in range(0, 8 * config.instruction_bytes, WORD_BITS)]
    )


def encode(config: Config, name: str, **values: int) -> tuple[int, ...]:
    """64-bit words of a `name` instruction with field `values` (default 0). Raises EncodingError naming the field."""
    layout = formats(config).get(name)
    if layout is None:
        raise EncodingError(f"no instruction {name!r}; there are {', '.join(formats(config))}")
    fixed = {"opcode": int(layout.opcode)}
    if layout.memory_type is not None:
        fixed["memory_type"] = int(layout.memory_type)
    return split_words(config, pack_fields(name, layout.fields, {**values, **fixed}))


def encode_many(
    config: Config, name: str, columns: Mapping[str, int | np.ndarray], count: int | None = None
) -> np.ndarray:
    """The words of n instructions of format `name`, uint64 (n, words). `columns`: values of fields, arrays (n,) or an
    int for all instructions. `count`: n; may be None if a column is an array. Raises EncodingError.
    """
    layout = formats(config)[name]
    fields = {item.name: item for item in layout.fields}
    arrays = {key: np.asarray(column) for key, column in columns.items() if not isinstance(column, int)}
    common = {key: column for key, column in columns.items() if isinstance(column, int)}
    if count is None:
        count = len(next(iter(arrays.values())))
    words = np.empty((count, config.instruction_words), dtype=np.uint64)
    words[:] = encode(config, name, **common)
    if arrays and count:
        for word, part in enumerate(pack_columns(name, fields, arrays, words.shape[1])):
            words[:, word] |= part
    return words


def uop_dtype(config: Config) -> np.dtype[np.unsignedinteger]:
    """The dtype of an array of micro-ops: uint32, or uint64 if `Config.uop_bytes` is 8."""
    return np.dtype(np.uint32 if config.uop_bytes == 4 else np.uint64)


def encode_uops(config: Config, dst: np.ndarray, src: np.ndarray, wgt: np.ndarray) -> np.ndarray:
    """Micro-ops (`uop_dtype`) of equal-shape arrays `dst`, `src`, `wgt`. Raises EncodingError if any does not fit."""
    dtype = uop_dtype(config)
    words = np.zeros(np.shape(dst), dtype=dtype)
    for item, column in zip(uop_fields(config), (dst, src, wgt), strict=True):
        values = np.asarray(column, dtype=np.int64)
        if values.size and (values.min() < 0 or values.max() > item.maximum):
            wrong = values.min() if values.min() < 0 else values.max()
            raise EncodingError(
                f"micro-op: {item.name} index {wrong} does not fit {item.width} bits (0..{item.maximum})"
            )
        words |= values.astype(dtype) << dtype.type(item.low)
    return words


def unit_of(name: str, values: Mapping[str, int]) -> Unit:
    """The unit that executes an instruction of format `name`; for CONFIG, the unit in its field `values["unit"]`."""
    unit = _UNIT_OF[name]
    return Unit(values["unit"]) if unit is None else unit


@dataclass(frozen=True, slots=True)
class TokenQueue:
    """Queue of dependence tokens from a producing to a consuming unit, with the flags that push and pop tokens."""

    name: str
    producer: Unit
    consumer: Unit
    push_flag: str
    pop_flag: str


TOKEN_QUEUES = (
    TokenQueue("load->compute", Unit.LOAD, Unit.COMPUTE, "push_next", "pop_prev"),
    TokenQueue("compute->load", Unit.COMPUTE, Unit.LOAD, "push_prev", "pop_next"),
    TokenQueue("compute->store", Unit.COMPUTE, Unit.STORE, "push_next", "pop_prev"),
    TokenQueue("store->compute", Unit.STORE, Unit.COMPUTE, "push_prev", "pop_next"),
    TokenQueue("store->load", Unit.STORE, Unit.LOAD, "push_next", "pop_prev"),
    TokenQueue("load->store", Unit.LOAD, Unit.STORE, "push_prev", "pop_next"),
)
"""The token queues: VTA's four, then two between store and load, whose flags are unused in VTA."""
