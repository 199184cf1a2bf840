"""Executes a program's instructions in program order; results are bit for bit equal to those of `isa.reference`.

For speed, input scratchpads are int16, and weight tiles are stored a second time as int16 pairs
(`kernels.multiply_tile`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.isa.alu import ALU_CODES
from vdla.isa.array_modes import SWEEP_MODE
from vdla.isa.config import Config
from vdla.isa.errors import ProgramError
from vdla.isa.layout import uop_dtype, uop_fields
from vdla.isa.scratchpads import Contents, typed_scratchpads
from vdla.util.machine_code import compiled, read_only

from .compute import Pads, run_operations
from .custom import custom_addresses
from .decode import Decoded
from .kernels import LANES
from .loads import (
    OUTSIDE,
    load_acc,
    load_acc8,
    load_inp,
    load_par,
    load_patch,
    load_table,
    load_uop,
    load_wgt,
)
from .ports import load_size
from .post import store_out, store_post
from .result import Scratchpads
from .rows import count_rows
from .state import (
    CONFIG,
    FINISH,
    KIND,
    KIND_NAMES,
    LOAD_ACC,
    LOAD_ACC8,
    LOAD_INP,
    LOAD_PAR,
    LOAD_PATCH,
    LOAD_TABLE,
    LOAD_UOP,
    LOAD_WGT,
    OPERATIONS,
    REGISTERS_AT,
    ROWS,
    SRAM_BASE,
    STORE_OUT,
)

_LINE = 64  # bytes


@compiled()
def run_row(  # type: ignore[no-untyped-def]
    row, here, memory, widths, uop_bytes, pads, scratch
):
    """Executes the instruction `row` on DRAM `memory` and scratchpads `pads`; returns DONE, or OUTSIDE for an index out
    of bounds or another error that `_refuse` names. `here`: values of its unit's configuration registers. `widths`,
    `uop_bytes`: bits of a micro-op's fields, bytes of a micro-op. `scratch`: a temporary int32 (batch, block_out).
    """
    uop, inp, wgt, packed, acc, par = pads.uop, pads.inp, pads.wgt, pads.packed, pads.acc, pads.par
    kind = row[KIND]
    if kind in OPERATIONS:
        outcome = run_operations(row, here, widths, pads)
    elif kind in (CONFIG, FINISH):
        outcome = 0
    elif kind == LOAD_INP:
        outcome = load_inp(row, here, memory, inp)
    elif kind == LOAD_WGT:
        outcome = load_wgt(row, memory, wgt, packed)
    elif kind == LOAD_PATCH:
        outcome = load_patch(row, here, memory, inp)
    elif kind == LOAD_UOP:
        outcome = load_uop(row, memory, uop_bytes, uop)
    elif kind == LOAD_ACC:
        outcome = load_acc(row, here, memory, acc)
    elif kind == LOAD_ACC8:
        outcome = load_acc8(row, here, memory, acc)
    elif kind == LOAD_PAR:
        outcome = load_par(row, memory, par)
    elif kind == LOAD_TABLE:
        outcome = load_table(row, memory, pads.table)
    elif kind == STORE_OUT:
        outcome = store_out(row, memory, acc)
    elif kind == ROWS:
        outcome = count_rows(row, here, acc, scratch, pads.table, pads.rows)
    else:
        outcome = store_post(row, here, memory, pads, scratch)
    return outcome


@compiled()
def _execute(rows, registers, memory, widths, uop_bytes, pads, trace):  # type: ignore[no-untyped-def]
    """Executes the program (`rows`, `registers`: see `Decoded`) by `run_row`, and fills `trace` with the micro-ops that
    its LOAD.UOPs write. Returns the index of the first instruction that `run_row` refuses, or -1 if there is none.
    """
    used = 0
    scratch = np.empty(pads.acc.shape[1:], np.int32)
    for i in range(len(rows)):
        here = registers[rows[i, REGISTERS_AT]]
        if run_row(rows[i], here, memory, widths, uop_bytes, pads, scratch) == OUTSIDE:
            return i
        if rows[i, KIND] == LOAD_UOP:
            first = rows[i, SRAM_BASE]
            for k in range(load_size(rows[i])):
                trace[used] = pads.uop[first + k]
                used += 1
    return -1


@compiled()
def _trace_size(rows):  # type: ignore[no-untyped-def]
    total = 0
    for i in range(len(rows)):
        if rows[i, KIND] == LOAD_UOP:
            total += load_size(rows[i])
    return total


@compiled()
def _trace_uops(rows, memory, uop_bytes, buffer, trace):  # type: ignore[no-untyped-def]
    """Executes only the LOAD.UOPs of `rows`, from DRAM `memory`, and fills `trace` with the words that each writes;
    returns the index of the first LOAD.UOP that writes beyond `buffer`, the micro-op scratchpad, or -1.
    """
    used = 0
    for i in range(len(rows)):
        if rows[i, KIND] == LOAD_UOP:
            if load_uop(rows[i], memory, uop_bytes, buffer) == OUTSIDE:
                return i
            for k in range(load_size(rows[i])):
                trace[used] = buffer[rows[i, SRAM_BASE] + k]
                used += 1
    return -1


def trace_uops(
    config: Config, decoded: Decoded, memory: NDArray[np.uint8], contents: Contents | None = None
) -> NDArray[np.uint64]:
    """The words that the LOAD.UOPs write, one load after the other, uint64. The program is executed to find these words
    only if a STORE may change the loaded bytes of `memory`. `contents`: the scratchpads at launch. Raises ProgramError
    for a LOAD.UOP out of bounds.
    """
    if decoded.rewrites_uops:
        return execute(config, decoded, memory, contents)[2]
    trace = np.empty(_trace_size(decoded.rows), np.uint64)
    buffer = np.zeros(config.uop_depth, np.uint64)
    image = read_only(memory, np.uint8)
    _refuse(decoded, _trace_uops(decoded.rows, image, config.uop_bytes, buffer, trace))
    return trace


def _refuse(decoded: Decoded, index: int) -> None:
    if index >= 0:
        raise ProgramError(
            f"instruction {index} ({KIND_NAMES[decoded.rows[index, KIND]]}) reaches outside a scratchpad, sets a "
            "field that must be 0, or needs a register whose value is illegal; `vdla check` names the field"
        )


def _aligned(shape: tuple[int, ...], dtype: type) -> NDArray[Any]:
    """Zeros of this shape and dtype that start at a cache line. Vectors that cross lines would slow GEMM by a third."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    buffer = np.zeros(size + _LINE, np.uint8)
    start = -buffer.ctypes.data % _LINE
    return buffer[start : start + size].view(dtype).reshape(shape)


def start_pads(config: Config, contents: Contents | None = None) -> Pads:
    """The scratchpads at launch, filled from `contents`; scratchpads that `contents` does not name are zero."""
    start = typed_scratchpads(config, contents)
    wgt, par, uop = start["wgt"], start["par"], start["uop"].astype(np.uint64)
    depth = config.chain_base + config.chain_depth if config.chain_buffer_bytes else config.inp_depth
    inputs = _aligned((depth, config.batch, config.block_in), np.int16)
    inp, chain = inputs[: config.inp_depth], inputs[depth - config.chain_depth :]
    inp[...] = start["inp"]
    chain[...] = start["chain"]
    acc = _aligned(start["acc"].shape, np.int32)
    acc[...] = start["acc"]
    lanes, pairs = min(LANES, config.columns), config.block_in // 2
    shape = (config.wgt_depth, config.columns // lanes, pairs, lanes, 2)
    packed = np.zeros(shape, np.int16)
    if contents is not None and "wgt" in contents:
        packed[...] = wgt.reshape(shape[0], shape[1], lanes, pairs, 2).transpose(0, 1, 3, 2, 4)
    return Pads(
        uop=uop,
        inp=inp,
        inputs=inputs,
        chain=chain.reshape(-1),
        wgt=wgt,
        packed=packed,
        acc=acc,
        swept=np.zeros(SWEEP_MODE.held(config), np.int32),
        par=par,
        table=start["table"],
        rows=start["rows"],
        custom=custom_addresses(config) if config.instructions else np.zeros(ALU_CODES, np.int64),
    )


def execute(
    config: Config, decoded: Decoded, memory: NDArray[np.uint8], contents: Contents | None = None
) -> tuple[NDArray[np.uint8], Scratchpads, NDArray[np.uint64]]:
    """Executes a program on a copy of `memory`. Returns the copy, the final scratchpads, the LOAD.UOPs' words, uint64.

    `contents`: the scratchpads at launch. Raises ProgramError, which names the instruction, for an index outside a
    scratchpad, a field that must be 0 and is not, or an illegal value of a register.
    """
    image = np.array(memory, np.uint8)
    pads = start_pads(config, contents)
    trace = np.empty(_trace_size(decoded.rows), np.uint64)
    widths = np.array([item.width for item in uop_fields(config)], np.int64)
    _refuse(
        decoded,
        _execute(decoded.rows, decoded.registers, image, widths, config.uop_bytes, pads, trace),
    )
    final = Scratchpads(
        uop=pads.uop.astype(uop_dtype(config)),
        inp=pads.inp.astype(np.int8),
        wgt=pads.wgt,
        acc=pads.acc,
        par=pads.par,
        chain=pads.chain.astype(np.int8).reshape(config.chain_depth, config.batch, config.block_in),
        table=pads.table,
        rows=pads.rows,
    )
    return image, final, trace
