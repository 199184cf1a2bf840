"""Counts operations that add to accumulators although their GEMM has `overwrite` (extension `fold`).

With `fold` (fewer columns than vectors have lanes), an operation multiplies one part of an input vector; only the
operation on the first part overwrites.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.isa.config import Config
from vdla.isa.layout import uop_fields
from vdla.util.machine_code import compiled

from .compute import micro_op
from .decode import Decoded
from .execute import trace_uops
from .folds import FOLD, groups_of
from .ports import load_size
from .state import (
    GEMM,
    ITER_IN,
    ITER_OUT,
    KIND,
    LOAD_UOP,
    OVERWRITE,
    REGISTERS_AT,
    RESET,
    SRAM_BASE,
    UOP_BGN,
    UOP_END,
    WGT_IN,
    WGT_OUT,
)


def adding_operations(config: Config, decoded: Decoded, memory: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Counts, for each GEMM with flag `overwrite`, the operations that add to accumulators nevertheless, because they
    multiply another part of an input vector than the first. Returns int64 (n,): these numbers, and 0 for other
    instructions.

    All are 0 on machines without the extension `fold`. No STORE may change the micro-ops in `memory`. Raises
    ProgramError for a LOAD.UOP out of bounds.
    """
    if config.tile_parts == 1:
        return np.zeros(len(decoded.rows), np.int64)
    trace = trace_uops(config, decoded, memory)
    uops = np.zeros(config.uop_depth, np.uint64)
    widths = np.array([item.width for item in uop_fields(config)], np.int64)
    return _adding(decoded.rows, decoded.registers, trace, uops, widths)


@compiled()
def _adding(rows, registers, trace, uops, widths):  # type: ignore[no-untyped-def]
    found = np.zeros(len(rows), np.int64)
    used = 0
    for i in range(len(rows)):
        row = rows[i]
        if row[KIND] == LOAD_UOP:
            for k in range(load_size(row)):
                uops[row[SRAM_BASE] + k] = trace[used]
                used += 1
        here = registers[row[REGISTERS_AT]]
        groups = groups_of(here[FOLD])
        if row[KIND] != GEMM or row[RESET] or not row[OVERWRITE] or groups == 1:
            continue
        base = here[0] >> 32 & 0xFFFF
        for u in range(row[UOP_BGN], row[UOP_END]):
            _, _, weights = micro_op(np.int64(uops[u]), widths)
            for y in range(row[ITER_OUT]):
                for x in range(row[ITER_IN]):
                    tile = base + weights + y * row[WGT_OUT] + x * row[WGT_IN]
                    # The part is tile % folds % groups (`folds.parts_of`), where groups divides folds.
                    found[i] += tile % groups != 0
    return found
