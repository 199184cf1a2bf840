"""Counts the bits of registers that toggle while a program runs: the part of switching energy that depends on data.

Executes the program with its data, instruction by instruction as `execute.py` does. Each register gets a sequence of
values, in program order; the bits that differ between one value and the next are counted (`toggles_compute.py`,
`toggles_store.py`, `toggles_bus.py`). The cycles of operations do not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vdla.isa.config import Config
from vdla.isa.errors import ProgramError
from vdla.isa.fields import extract
from vdla.isa.layout import formats, uop_fields
from vdla.util.machine_code import compiled, read_only

from .decode import decode, kind_sizes
from .execute import run_row, start_pads
from .loads import OUTSIDE
from .state import (
    COMPUTE,
    KIND,
    LOAD_ACC,
    LOAD_ACC8,
    OPERATIONS,
    REGISTERS_AT,
    ROWS,
    SRAM_BASE,
    STORE,
    STORE_OUT,
    STORE_POST,
    UNIT,
)
from .toggles_bus import BUS_MEASURED, observe_fetch, observe_transfer
from .toggles_compute import (
    COMPUTE_MEASURED,
    NO_IMMEDIATE,
    Sample,
    observe_immediate,
    observe_loaded,
    observe_operations,
    start_compute,
)
from .toggles_store import STORE_MEASURED, observe_begin, observe_store, operands_of, start_store

MEASURED: tuple[str, ...] = (*COMPUTE_MEASURED, *STORE_MEASURED, *BUS_MEASURED)
"""Names of all counters; the constants COMPUTE_MEASURED, STORE_MEASURED and BUS_MEASURED describe them."""

_STORE_AT = len(COMPUTE_MEASURED)
_BUS_AT = _STORE_AT + len(STORE_MEASURED)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperandStatistics:
    """Toggled bits of a program by counter of `MEASURED`. Bits inside the array were counted in `looked_at` operations
    and scaled up to all `operations` of the array.
    """

    operations: int
    looked_at: int
    changes: dict[str, float]


def operand_statistics(
    config: Config,
    instructions: NDArray[np.uint64],
    memory: NDArray[np.uint8],
    *,
    share: float = 1.0,
    seed: int = 0,
) -> OperandStatistics:
    """Returns the numbers of bits that toggle while the program `instructions` runs from the DRAM image `memory`,
    uint8.

    Counting inside the array takes by far the most time. So this is done only for a random `share` (0 to 1), drawn with
    `seed`, of the array's operations in the whole program; each of these is compared with the operation just before it.
    All other bits are counted in full. Raises ProgramError as `simulate` does.
    """
    decoded = decode(config, instructions, len(memory))
    image = np.array(memory, np.uint8)
    totals = np.zeros(len(MEASURED))
    words = read_only(instructions, np.uint64).view(np.uint8).reshape(-1)
    counts = np.zeros(2, np.int64)
    program = _Program(decoded.rows, decoded.registers, words, _immediates(config, instructions))
    machine = _Machine(
        np.array([item.width for item in uop_fields(config)], np.int64),
        config.uop_bytes,
        kind_sizes(config),
        config.acc_bank_depth,
        config.post_passes,
        config.memory.bus_bytes,
    )
    sample = Sample(min(1.0, float(share)), int(seed), counts)
    wrong = _observe(program, machine, image, start_pads(config), sample, totals)
    if wrong >= 0:
        raise ProgramError(f"instruction {wrong} reaches outside a scratchpad")
    operations, looked_at = int(counts[0]), int(counts[1])
    scale = np.ones(len(MEASURED))
    scale[[MEASURED.index(name) for name in SAMPLED]] = operations / max(1, looked_at)
    return OperandStatistics(
        operations=operations,
        looked_at=looked_at,
        changes=dict(zip(MEASURED, (totals * scale).tolist(), strict=True)),
    )


def _immediates(config: Config, instructions: NDArray[np.uint64]) -> NDArray[np.int64]:
    """For each instruction, int64 (n,), the immediate that reaches the ALU's lanes while the instruction runs. The
    hardware takes the bits of the ALU format's field `imm` from instructions of all kinds. NO_IMMEDIATE if the bit of
    field `use_imm` is 0.
    """
    layout = formats(config)["ALU"]
    found = extract(np.asarray(instructions), layout.field("imm")).astype(np.int64)
    used = extract(np.asarray(instructions), layout.field("use_imm"))
    return np.where(used == 1, found, NO_IMMEDIATE)


SAMPLED = ("weights", "digits", "partial_products", "carries", "products", "sums")
"""Counters that are measured on a random share of the array's operations."""


class _Program(NamedTuple):
    """A program: decoded instructions `rows`, the configuration `registers` that they see, their encoded bytes `words`,
    and for each instruction the value `immediates` that reaches the ALU's lanes (`_immediates`).
    """

    rows: NDArray[np.int64]
    registers: NDArray[np.int64]
    words: NDArray[np.uint8]
    immediates: NDArray[np.int64]


class _Machine(NamedTuple):
    """Sizes of a configuration. `widths`: number of bits of each field of a micro-op. `uop_bytes`: bytes of a micro-op.
    `sizes`: DRAM bytes of an element, by kind of instruction. `bank_depth`: vectors in an accumulator bank. `passes`:
    passes of a vector through the store pipeline. `bus_bytes`: bytes of a bus word.
    """

    widths: NDArray[np.int64]
    uop_bytes: int
    sizes: NDArray[np.int64]
    bank_depth: int
    passes: int
    bus_bytes: int


@compiled()
def _next_stores(rows, bank_depth):  # type: ignore[no-untyped-def]
    """For each instruction of `rows`, int64 (n,), the accumulator bank that the next store or ROWS after it reads
    first; 0 if none follows. The store unit's read port shows the output of this bank in the meantime. `bank_depth`:
    number of vectors in a bank.
    """
    found = np.zeros(len(rows), np.int64)
    bank = np.int64(0)
    for i in range(len(rows) - 1, -1, -1):
        found[i] = bank
        if rows[i, KIND] == STORE_OUT or rows[i, KIND] == STORE_POST or rows[i, KIND] == ROWS:
            bank = rows[i, SRAM_BASE] // bank_depth
    return found


@compiled()
def _observe(  # type: ignore[no-untyped-def]
    program, machine, memory, pads, sample, totals
):
    """Executes the program on DRAM `memory` and scratchpads `pads`, and adds the numbers of toggled bits to `totals`,
    in the order of MEASURED. Returns the index of the first instruction that `run_row` would refuse, such as for an
    access out of bounds, or -1. `sample`: the operations for which bits inside the array are counted.
    """
    rows, widths, sizes = program.rows, machine.widths, machine.sizes
    scratch = np.empty(pads.acc.shape[1:], np.int32)
    compute = start_compute(pads, machine.bank_depth)
    store = start_store(pads, machine.passes)
    beat = np.zeros((2, machine.bus_bytes), np.uint8)
    of_compute, of_store, of_bus = totals[:_STORE_AT], totals[_STORE_AT:_BUS_AT], totals[_BUS_AT:]
    shown = _next_stores(rows, machine.bank_depth)
    observe_fetch(program.words, beat, of_bus)
    for i in range(len(rows)):
        row = rows[i]
        here = program.registers[row[REGISTERS_AT]]
        kind = row[KIND]
        observe_transfer(row, here, memory, sizes, beat, of_bus)
        if row[UNIT] == COMPUTE:
            observe_immediate(program.immediates[i], compute, of_compute)
        elif row[UNIT] == STORE:
            observe_begin(row, here, store, of_store)
        if kind in OPERATIONS:
            if observe_operations(row, here, widths, pads, compute, shown[i], sample, of_compute) < 0:
                return i
            continue
        operands = operands_of(row, here, memory, pads.acc.shape[1] * pads.acc.shape[2])
        if run_row(row, here, memory, widths, machine.uop_bytes, pads, scratch) == OUTSIDE:
            return i
        if kind in (LOAD_ACC, LOAD_ACC8):
            observe_loaded(row, pads.acc, compute, of_compute)
        elif kind in (STORE_OUT, STORE_POST):
            observe_store(row, here, memory, operands, pads, compute, store, of_store)
            observe_transfer(row, here, memory, sizes, beat[1:], of_bus)
    return -1
