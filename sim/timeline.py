"""Timeline of a unit: busy and stalled intervals without gaps (hw/README.md section 9).

An interval [start, stop) has the cycles start + 1 .. stop, so the intervals from 0 to `total` have all cycles 1 ..
total of the run.
"""

from __future__ import annotations

import numpy as np

from vdla.isa.layout import TOKEN_QUEUES
from vdla.util.machine_code import compiled

from .state import (
    ALU,
    COMPUTE,
    KIND,
    LOAD_ACC,
    LOAD_ACC8,
    LOAD_UOP,
    MATRIX,
    POP_PREV,
    PUSH_PREV,
    UNIT,
    X_BEGIN,
    X_END,
    X_FULL_0,
    X_HEAD,
    X_ISSUES,
    X_POP_0,
)

_QUEUES = len(TOKEN_QUEUES)
CATEGORIES = (
    "busy",
    "gemm",
    "alu",
    "load_uop",
    "load_acc",
    "other",
    "drain",
    "instruction",
    *(f"token:{queue.name}" for queue in TOKEN_QUEUES),
    *(f"full:{queue.name}" for queue in TOKEN_QUEUES),
    "unit",
    "begin",
)
"""Categories of intervals: seven activities, then the causes of stalls."""

BUSY_CATEGORIES = CATEGORIES[:7]
_BUSY, _GEMM, _ALU, _LOAD_UOP, _LOAD_ACC, _OTHER, _DRAIN, _INSTRUCTION = range(8)
_TOKEN = 8
_FULL = _TOKEN + _QUEUES
_UNIT = _FULL + _QUEUES
_BEGIN = _UNIT + 1


@compiled()
def _add(segments, used, start, stop, category, i):  # type: ignore[no-untyped-def]
    if stop <= start:
        return used, start
    segments[used, 0] = start
    segments[used, 1] = stop
    segments[used, 2] = category
    segments[used, 3] = i
    return used + 1, stop


@compiled()
def unit_segments(X, rows, pop_queue, push_queue, u, total, begin_delay):  # type: ignore[no-untyped-def]
    """The intervals of unit `u` over [0, total), int64 (m, 4): start, stop, category, instruction (-1 after the last
    one). X: the record of each instruction. `rows`: decoded instructions. `pop_queue`, `push_queue`: the queues of the
    units' token flags. `begin_delay`: cycles from when an instruction's conditions are met to its begin.
    """
    count = 0
    for i in range(len(rows)):
        count += rows[i, UNIT] == u
    segments = np.empty((10 * count + 2, 4), np.int64)
    used, at, busy_until = 0, np.int64(0), np.int64(0)
    idle_kind = _DRAIN if u == COMPUTE else _BUSY
    for i in range(len(rows)):
        if rows[i, UNIT] != u or X[i, X_BEGIN] < 0:
            continue
        begin = X[i, X_BEGIN]
        used, at = _add(segments, used, at, min(begin, busy_until), idle_kind, i)
        if at < begin:
            used, at = _add(segments, used, at, X[i, X_HEAD] - 1, _INSTRUCTION, i)
            for side in range(2):
                if rows[i, POP_PREV + side]:
                    cause = _TOKEN + pop_queue[u, side]
                    used, at = _add(segments, used, at, X[i, X_POP_0 + side] - 1, cause, i)
            for side in range(2):
                if rows[i, PUSH_PREV + side]:
                    cause = _FULL + push_queue[u, side]
                    used, at = _add(segments, used, at, X[i, X_FULL_0 + side] - 1, cause, i)
            used, at = _add(segments, used, at, begin - begin_delay - 1, _UNIT, i)
            used, at = _add(segments, used, at, begin, _BEGIN, i)
        kind = rows[i, KIND]
        issues = X[i, X_ISSUES]
        if u != COMPUTE:
            used, at = _add(segments, used, at, X[i, X_END], _BUSY, i)
        elif kind == LOAD_UOP:
            used, at = _add(segments, used, at, X[i, X_END], _LOAD_UOP, i)
        elif kind in (LOAD_ACC, LOAD_ACC8):
            used, at = _add(segments, used, at, X[i, X_END], _LOAD_ACC, i)
        elif kind in MATRIX and issues > 0:
            used, at = _add(segments, used, at, begin + issues, _GEMM, i)
        elif kind == ALU and issues > 0:
            used, at = _add(segments, used, at, begin + issues, _ALU, i)
        else:
            used, at = _add(segments, used, at, begin + 1, _OTHER, i)
        busy_until = max(busy_until, X[i, X_END])
    used, at = _add(segments, used, at, busy_until, idle_kind, -1)
    used, at = _add(segments, used, at, total, _INSTRUCTION, -1)
    return segments[:used]
