"""Timing of the writers (hw/README.md section 6), which move data from a client's FIFO to a scratchpad in steps, one
step in a cycle.

A step takes at most one bus word, and the words of a burst arrive one in each cycle. So there is no gap between the
steps of a burst, and their cycles are computed by a formula.
"""

from __future__ import annotations

import numpy as np

from .cache import timing_code
from .memory import beats_of
from .parameters import (
    P_BLOCK_IN,
    P_BUS,
    P_FIFO_LATENCY,
    P_INP_BLOCK,
    P_PATCH_STEP_DELAY,
    P_ROOM_DELAY,
    P_STEP_DELAY,
    P_STEP_GAP,
    P_STEP_LATENCY,
)
from .state import (
    BLOCKED,
    C_ACTIVE,
    C_DATA,
    C_PATCH,
    C_ROW,
    C_SERVED,
    C_STEP,
    C_STEP_TIME,
    C_TAKEN,
    C_VECTOR,
    C_WINDOW,
    C_WORDS,
    DRAM_BASE,
    R_ADDRESS,
    R_BYTES,
    R_FREE,
    R_START,
    X_PAD_0,
    X_PAD_1,
    X_SIZE,
    X_STRIDE,
    Y_PAD_0,
    Y_PAD_1,
    Y_SIZE,
)


@timing_code
def _enter(P, C, c, first):  # type: ignore[no-untyped-def]
    C[c, C_ACTIVE] = 1
    C[c, C_STEP_TIME] = max(C[c, C_STEP_TIME] + P[P_STEP_GAP], first) - 1
    C[c, C_STEP] = -1
    C[c, C_DATA] = 0
    C[c, C_ROW] = 0
    C[c, C_PATCH] = 0
    C[c, C_VECTOR] = 0
    C[c, C_WORDS] = 0
    C[c, C_WINDOW] = 0


@timing_code
def write_elements(P, C, R, c, row, size, begin):  # type: ignore[no-untyped-def]
    """Computes the cycles of further steps of the load `row`, as far as the bus words they need have arrived. Client
    `c` began the load in cycle `begin`; an element has `size` bytes. Returns the cycle in which the load ends, or
    BLOCKED if it is not known yet. State arrays: P (parameters of the run), C (read clients), R (their bursts).
    """
    if C[c, C_ACTIVE] == 0:
        _enter(P, C, c, begin + P[P_STEP_DELAY])
    width = min(size, P[P_BUS])
    parts = size // width
    row_data = row[X_SIZE] * parts
    row_steps = row[X_PAD_0] + row_data + row[X_PAD_1]
    elements = row[X_PAD_0] + row[X_SIZE] + row[X_PAD_1]
    above = row[Y_PAD_0] * elements
    data = row[Y_SIZE] * row_data
    steps = above + row[Y_SIZE] * row_steps + row[Y_PAD_1] * elements
    if row[X_SIZE] == 0:
        data, steps = np.int64(0), np.int64(1)
    while C[c, C_DATA] < data:
        if C[c, C_TAKEN] == C[c, C_SERVED]:
            return BLOCKED
        burst = R[c, C[c, C_TAKEN] & (R.shape[1] - 1)]
        first = C[c, C_DATA]
        last = first + burst[R_BYTES] // width - 1
        first_step = above + first // row_data * row_steps + row[X_PAD_0] + first % row_data
        last_step = above + last // row_data * row_steps + row[X_PAD_0] + last % row_data
        begun = max(C[c, C_STEP_TIME] + first_step - C[c, C_STEP], burst[R_START] + P[P_FIFO_LATENCY])
        C[c, C_STEP_TIME] = begun + last_step - first_step
        C[c, C_STEP] = last_step
        C[c, C_DATA] = last + 1
        burst[R_FREE] = C[c, C_STEP_TIME] + P[P_ROOM_DELAY]
        C[c, C_TAKEN] += 1
    C[c, C_STEP_TIME] += max(steps, 1) - 1 - C[c, C_STEP]
    C[c, C_ACTIVE] = 0
    return C[c, C_STEP_TIME] + P[P_STEP_LATENCY]


@timing_code
def write_vectors(P, C, R, c, row, size, begin):  # type: ignore[no-untyped-def]
    """Computes the cycles of further steps of a LOAD.INP on a machine with the extension `wide_loads`, as far as the
    bus words they need have arrived. Client `c` began the load in cycle `begin`. Returns the cycle in which it ends, or
    BLOCKED if it is not known yet.

    A step writes all vectors of a row that are in the same aligned block of P_INP_BLOCK bytes of DRAM. `row`: the
    decoded instruction. `size`: bytes of a vector. State arrays: P (parameters of the run), C (read clients), R (their
    bursts). In array C, column C_ROW is the row of data in which the next byte is, and column C_PATCH is the number of
    steps of all rows before it.
    """
    if C[c, C_ACTIVE] == 0:
        _enter(P, C, c, begin + P[P_STEP_DELAY])
    block, length, start = P[P_INP_BLOCK], row[X_SIZE] * size, row[DRAM_BASE] * size
    elements = row[X_PAD_0] + row[X_SIZE] + row[X_PAD_1]
    pads, data = row[X_PAD_0] + row[X_PAD_1], row[Y_SIZE] * length
    if C[c, C_STEP] < 0 and C[c, C_ROW] == 0:
        C[c, C_PATCH] = row[Y_PAD_0] * elements
    if row[X_SIZE] == 0:
        data = np.int64(0)
    while C[c, C_DATA] < data:
        if C[c, C_TAKEN] == C[c, C_SERVED]:
            return BLOCKED
        burst = R[c, C[c, C_TAKEN] & (R.shape[1] - 1)]
        last = C[c, C_DATA] + burst[R_BYTES] - 1
        first_step, last_step = np.int64(-1), np.int64(-1)
        while True:
            at = start + C[c, C_ROW] * row[X_STRIDE] * size
            before = C[c, C_PATCH] + row[X_PAD_0] - at // block
            if first_step < 0:
                first_step = before + (at + C[c, C_DATA] - C[c, C_ROW] * length) // block
            last_step = before + (at + min(last - C[c, C_ROW] * length, length - 1)) // block
            if last < (C[c, C_ROW] + 1) * length - 1:
                break
            C[c, C_PATCH] += pads + (at + length - 1) // block - at // block + 1
            C[c, C_ROW] += 1
            if last < C[c, C_ROW] * length:
                break
        begun = max(C[c, C_STEP_TIME] + first_step - C[c, C_STEP], burst[R_START] + P[P_FIFO_LATENCY])
        C[c, C_STEP_TIME] = begun + last_step - first_step
        C[c, C_STEP] = last_step
        C[c, C_DATA] = last + 1
        burst[R_FREE] = C[c, C_STEP_TIME] + P[P_ROOM_DELAY]
        C[c, C_TAKEN] += 1
    steps = C[c, C_PATCH] + row[Y_PAD_1] * elements
    if row[X_SIZE] == 0:
        steps = np.int64(1)
    C[c, C_STEP_TIME] += max(steps, 1) - 1 - C[c, C_STEP]
    C[c, C_ACTIVE] = 0
    return C[c, C_STEP_TIME] + P[P_STEP_LATENCY]


@timing_code
def write_patches(P, C, R, c, row, patch, row_bytes, begin):  # type: ignore[no-untyped-def]
    """Computes the cycles of further steps of a LOAD.PATCH that client `c` began in cycle `begin`, as far as the bytes
    they need have arrived. Returns the cycle in which the load ends, or BLOCKED if it is not known yet.

    `row`: the decoded instruction. `patch`: value of register PATCH. `row_bytes`: number of bytes that the load reads
    from each row of the image. State arrays: P (parameters of the run), C (read clients), R (their bursts).
    """
    if C[c, C_ACTIVE] == 0:
        _enter(P, C, c, begin + P[P_PATCH_STEP_DELAY])
    bus, block = P[P_BUS], P[P_BLOCK_IN]
    run, step, left = patch & 0xFF, patch >> 8 & 0xFF, patch >> 24 & 0xFF
    rows = row[Y_PAD_0] + row[Y_SIZE] + row[Y_PAD_1]
    if run == 0 or row[X_SIZE] == 0 or rows == 0:
        C[c, C_STEP_TIME] += 1
        C[c, C_ACTIVE] = 0
        return C[c, C_STEP_TIME] + P[P_STEP_LATENCY]
    time = C[c, C_STEP_TIME]
    window = C[c, C_WINDOW]
    while C[c, C_ROW] < rows:
        y = C[c, C_ROW]
        has_data = row_bytes > 0 and y >= row[Y_PAD_0] and y < row[Y_PAD_0] + row[Y_SIZE]
        start = y * run // block
        vectors = (y * run + run - 1) // block - start + 1
        while C[c, C_PATCH] < row[X_SIZE]:
            while C[c, C_VECTOR] < vectors:
                idle = True
                if has_data:
                    last = min(run - 1, (start + C[c, C_VECTOR] + 1) * block - 1 - y * run)
                    need = min(C[c, C_PATCH] * step + last - left, row_bytes - 1)
                    while window <= need:
                        if C[c, C_TAKEN] == C[c, C_SERVED]:
                            C[c, C_STEP_TIME] = time
                            C[c, C_WINDOW] = window
                            return BLOCKED
                        burst = R[c, C[c, C_TAKEN] & (R.shape[1] - 1)]
                        time = max(time + 1, burst[R_START] + C[c, C_WORDS] + P[P_FIFO_LATENCY])
                        word = bus - burst[R_ADDRESS] % bus if C[c, C_WORDS] == 0 else bus
                        C[c, C_WORDS] += 1
                        if C[c, C_WORDS] == beats_of(burst[R_ADDRESS], burst[R_BYTES], bus):
                            word = (burst[R_ADDRESS] + burst[R_BYTES] - 1) % bus + 1
                            if C[c, C_WORDS] == 1:
                                word = burst[R_BYTES]
                            burst[R_FREE] = time + P[P_ROOM_DELAY]
                            C[c, C_TAKEN] += 1
                            C[c, C_WORDS] = 0
                        window += word
                        idle = False
                if idle:
                    time += 1
                C[c, C_VECTOR] += 1
            C[c, C_VECTOR] = 0
            C[c, C_PATCH] += 1
        C[c, C_PATCH] = 0
        C[c, C_ROW] += 1
        window = np.int64(0)
    C[c, C_STEP_TIME] = time
    C[c, C_ACTIVE] = 0
    return time + P[P_STEP_LATENCY]
