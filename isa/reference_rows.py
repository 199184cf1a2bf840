"""The reference semantics of the extension `rows`, row statistics for softmax and normalizations (ROWS, and STORE.POST
with `rows`), element by element as in isa/README.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from .config import Config
from .rows import (
    MOST_ELEMENTS,
    PLANES,
    VALUE_BITS,
    apply,
    difference,
    elements_of_last,
    radicand,
    reciprocal,
    reciprocal_root,
    signed_value,
)

Values = Mapping[str, int]


class _Machine(Protocol):
    config: Config
    table: NDArray[np.int8]
    rows: NDArray[np.uint32]
    registers: dict[str, dict[str, int]]

    def fail(self, message: str) -> NoReturn: ...

    def check(self, field: str, value: int, limit: int, of: str) -> int: ...


def row_table(config: Config, table: NDArray[np.int8]) -> NDArray[np.int64]:
    """The 256 entries of the look-up table for ROWS, int64. An entry has PLANES bytes; the tables after the ordinary
    look-up tables in `table` hold the lowest byte of all entries, then the next byte, and so on.
    """
    planes = table[config.tables : config.tables + PLANES].view(np.uint8).astype(np.int64)
    return np.asarray(sum(plane << (8 * place) for place, plane in enumerate(planes)))


def _entry(machine: _Machine, x: int) -> int:
    return machine.check(
        "register ROWS.first",
        machine.registers["ROWS"]["first"] + x,
        machine.config.row_depth,
        "entry of rows",
    )


def row_statistics(
    machine: _Machine, values: Values, reduced: Callable[[int, int], NDArray[np.int64]]
) -> None:
    """Executes ROWS; `reduced(y, x)` returns the reduction of the window of vector (y, x), int64 (1, block_out)."""
    register = machine.registers["ROWS"]
    if values["y_size"] * machine.config.block_out > MOST_ELEMENTS and values["x_size"]:
        machine.fail(f"y_size = {values['y_size']} makes rows of more than {MOST_ELEMENTS} elements")
    for x in range(values["x_size"] if values["y_size"] else 0):
        row = machine.rows[_entry(machine, x)]
        lanes = np.concatenate([reduced(y, x).reshape(-1) for y in range(values["y_size"])])
        spare = machine.config.block_out - elements_of_last(register["lanes"], machine.config.block_out)
        lanes = lanes[: len(lanes) - spare]
        if values["maximum"]:
            row[1] = int(difference(lanes, 0).max()) & ((1 << VALUE_BITS) - 1)
        elif register["look_up"]:
            places = difference(lanes, signed_value(int(row[1]))) & 255
            row[0] = reciprocal(int(row_table(machine.config, machine.table)[places].sum()))
        else:
            d = difference(lanes, register["zero_point"])
            total, squares = int(d.sum()), int((d * d).sum())
            epsilon = register["epsilon"] << register["epsilon_shift"]
            row[0] = reciprocal_root(
                radicand(register["length"], squares, total, bool(register["centre"]), epsilon)
            )
            row[1] = total & ((1 << VALUE_BITS) - 1)


def row_shares(machine: _Machine, x: int, reduced: NDArray[np.int64], is_last: bool) -> NDArray[np.int64]:
    """The softmax shares or normalized elements of a vector, as STORE.POST with `rows` computes them: int32 values in
    an int64 array (1, block_out). `reduced`: the vector. `x`: number, from 0, of its row in the instruction. `is_last`:
    the vector is the row's last one.
    """
    register, row = machine.registers["ROWS"], machine.rows[_entry(machine, x)]
    value = signed_value(int(row[1]))
    if register["look_up"]:
        w = row_table(machine.config, machine.table)[difference(reduced, value) & 255]
    else:
        d = difference(reduced, register["zero_point"])
        w = register["length"] * d - (value if register["centre"] else 0)
    if is_last:
        elements = elements_of_last(register["lanes"], machine.config.block_out)
        w = np.where(np.arange(machine.config.block_out) < elements, w, 0)
    return apply(w, int(row[0])).astype(np.int64)
