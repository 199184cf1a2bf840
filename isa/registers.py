"""The table of the configuration registers, 64-bit values that CONFIG writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from .array_modes import ARRAY_REGISTERS
from .errors import EncodingError
from .fields import Field, Register, pack_columns, pack_fields
from .opcodes import Unit
from .rows import LENGTH_BITS

if TYPE_CHECKING:
    from .config import Config


REGISTERS = (
    Register("LOAD_PAD", Unit.LOAD, 0, (Field("pad_value", 0, 8, True),)),
    Register(
        "PATCH",
        Unit.LOAD,
        1,
        (
            Field("run", 0, 8),
            Field("step", 8, 8),
            Field("pitch", 16, 8),
            Field("pad_left", 24, 8),
            Field("row_bytes", 32, 16),
            Field("batch_row", 48, 3),
        ),
    ),
    Register(
        "BASE",
        Unit.COMPUTE,
        0,
        (
            Field("acc_base", 0, 16),
            Field("inp_base", 16, 16),
            Field("wgt_base", 32, 16),
        ),
    ),
    Register("COMPUTE_PAD", Unit.COMPUTE, 1, (Field("pad_value", 0, 32, True),)),
    *ARRAY_REGISTERS,
    Register(
        "ADDRESS",
        Unit.STORE,
        0,
        (
            Field("y_stride", 0, 16),
            Field("x_stride", 16, 16),
        ),
    ),
    Register(
        "WINDOW",
        Unit.STORE,
        1,
        (
            Field("rows_minus_1", 0, 8),
            Field("columns_minus_1", 8, 8),
            Field("row_stride", 16, 16),
            Field("column_stride", 32, 16),
            Field("sum", 48, 1),
        ),
    ),
    Register(
        "REQUANTIZE",
        Unit.STORE,
        2,
        (
            Field("zero_point", 0, 16, True),
            Field("low", 16, 8, True),
            Field("high", 24, 8, True),
            Field("operand_zero_point", 32, 16, True),
            Field("table_zero_point", 48, 16, True),
        ),
    ),
    Register(
        "RATIO",
        Unit.STORE,
        3,
        (
            Field("ratio_self", 0, 32),
            Field("ratio_operand", 32, 32),
        ),
    ),
    Register(
        "COMBINE",
        Unit.STORE,
        4,
        (
            Field("offset", 0, 32),
            Field("low", 32, 8, True),
            Field("high", 40, 8, True),
            Field("zero_point", 48, 16, True),
        ),
    ),
    Register(
        "OPERAND",
        Unit.STORE,
        5,
        (
            Field("delta", 0, 32, True),
            Field("stride", 32, 16, extension="broadcast"),
            Field("own_stride", 48, 1, extension="broadcast"),
            Field("repeat", 49, 1, extension="broadcast"),
        ),
    ),
    Register(
        "ROWS",
        Unit.STORE,
        6,
        (
            Field("first", 0, 8),
            Field("look_up", 8, 1),
            Field("centre", 9, 1),
            Field("zero_point", 10, 8, True),
            Field("length", 18, LENGTH_BITS),
            Field("epsilon", 32, 16),
            Field("epsilon_shift", 48, 5),
            Field("lanes", 53, 8),
        ),
        extension="rows",
    ),
)
"""All configuration registers; the fields `ratio_self`, `ratio_operand` and `offset` are the bits of a float32."""


def register(name: str) -> Register:
    """The configuration register named `name`. Raises EncodingError if there is none."""
    for item in REGISTERS:
        if item.name == name:
            return item
    raise EncodingError(
        f"no configuration register {name!r}; there are {', '.join(r.name for r in REGISTERS)}"
    )


def register_at(unit: int, index: int) -> Register | None:
    """Configuration register number `index` of a unit; None if the unit has no such register."""
    return next((item for item in REGISTERS if (item.unit, item.index) == (unit, index)), None)


def registers_of(config: Config) -> tuple[Register, ...]:
    """The configuration registers that programs for `config` may set."""
    return tuple([item for item in REGISTERS if item.extension is None or config.has(item.extension)])


def register_value(name: str, **values: int) -> int:
    """The value of configuration register `name` with the field values `values`, others 0. Raises EncodingError."""
    return pack_fields(name, register(name).fields, values)


def register_values(name: str, columns: Mapping[str, int | np.ndarray]) -> int | np.ndarray:
    """One value of configuration register `name`, an int, if all `columns` are ints, else n values, uint64 (n,).
    `columns`: values of fields, an int for all or an array (n,). Raises EncodingError.
    """
    arrays = {key: column for key, column in columns.items() if isinstance(column, np.ndarray)}
    common = register_value(name, **{key: int(v) for key, v in columns.items() if key not in arrays})
    if not arrays:
        return common
    where = f"register {name}"
    (words,) = pack_columns(where, {item.name: item for item in register(name).fields}, arrays)
    return words | np.uint64(common)


def operand_shape(values: Mapping[str, int], operand: Mapping[str, int]) -> tuple[int, int, int]:
    """Position of a STORE.POST's operand vectors in DRAM, as (first, pitch, width) in units of output vectors: row y
    has `width` operands, beginning with vector first + y * pitch. `values`: fields of the instruction; `operand`:
    fields of register OPERAND.
    """
    pitch = operand["stride"] if operand["own_stride"] else values["x_stride"]
    return values["dram_base"] + operand["delta"], pitch, 1 if operand["repeat"] else values["x_size"]
