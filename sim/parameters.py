"""The parameters of a timing run, an int64 array P. Constants P_... are its indices; functions compute its values.

The simulator reads a parameter as, for example, `P[P_BUS]`; numba compiles the indices as constants. Latencies come
from `isa.timing` and are not computed here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.isa.alu import ALU_CODES
from vdla.isa.config import Config
from vdla.isa.layout import uop_fields
from vdla.isa.program import instruction_address
from vdla.isa.timing import (
    BEGIN_DELAY,
    FETCH_DELAY,
    FETCH_ROOM_DELAY,
    FIFO_LATENCY,
    PATCH_STEP_DELAY,
    PRODUCT_CYCLES,
    REQUEST_DELAY,
    REQUEST_GAP,
    ROOM_DELAY,
    SEPARATE,
    STEP_DELAY,
    STEP_GAP,
    STEP_LATENCY,
    STORES_IN_FLIGHT,
    WRITE_DELAY,
    alu_cycles,
    alu_latency,
    alu_read_stage,
    fetch_burst_instructions,
    gemm_latency,
    gemm_read_stage,
    parameter_cycles,
    post_latency,
    store_latency,
    write_burst_beats,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A timing run: a program of `count` instructions, the first FINISH at index `last` (`count` if there is none), a
    memory image of `memory_size` bytes, and the cycle `limit` in which the run is abandoned.
    """

    config: Config
    count: int
    last: int
    memory_size: int
    limit: int


_VALUES: list[Callable[[Launch], int]] = []


def _place(value: Callable[[Launch], int]) -> int:
    """Declares the next element of the parameter array P, whose value is `value(launch)`; returns its index."""
    _VALUES.append(value)
    return len(_VALUES) - 1


P_BUS = _place(lambda run: run.config.memory.bus_bytes)
P_READ_LATENCY = _place(lambda run: run.config.memory.read_latency)
P_WRITE_LATENCY = _place(lambda run: run.config.memory.write_latency)
P_READS = _place(lambda run: run.config.memory.outstanding_reads)
P_WRITES = _place(lambda run: run.config.memory.outstanding_writes)
P_JITTER = _place(lambda run: run.config.memory.jitter)
P_STALL = _place(lambda run: run.config.memory.stall)
P_SEPARATE = _place(lambda run: run.config.memory.data_channels == SEPARATE)
P_SEED = _place(lambda run: run.config.memory.seed)
P_COMMANDS = _place(lambda run: run.config.command_queue_depth)
P_TOKENS = _place(lambda run: run.config.token_queue_depth)
P_FETCH_DEPTH = _place(lambda run: run.config.fetch_buffer_depth)
P_GEMM_LATENCY = _place(lambda run: gemm_latency(run.config))
P_GEMM_STAGE = _place(lambda run: gemm_read_stage(run.config))
P_ALU_LATENCY = _place(lambda run: alu_latency(run.config))
P_ALU_STAGE = _place(lambda run: alu_read_stage(run.config))
# First of 2 x ALU_CODES elements: issue cycles of each opcode with two accumulators, and with an immediate.
P_ALU_CYCLES = len(_VALUES)
for _opcode in range(ALU_CODES):
    for _use_imm in (False, True):
        _place(lambda run, opcode=_opcode, use_imm=_use_imm: alu_cycles(run.config, opcode, use_imm))
P_POST_LATENCY = _place(lambda run: post_latency(run.config))
P_PARAMETER_CYCLES = _place(lambda run: parameter_cycles(run.config))
P_STORE_LATENCY = _place(lambda run: store_latency(run.config))
P_POST_PASSES = _place(lambda run: run.config.post_passes)
P_ACC_DEPTH = _place(lambda run: run.config.acc_depth)
P_BANK_DEPTH = _place(lambda run: run.config.acc_bank_depth)
P_UOP_DEPTH = _place(lambda run: run.config.uop_depth)
P_OUT_BYTES = _place(lambda run: run.config.out_bytes)
# Bytes of an aligned DRAM block whose vectors a step of LOAD.INP writes together; 0 if a step writes at most one.
P_INP_BLOCK = _place(
    lambda run: run.config.inp_bytes * run.config.inp_step_vectors if run.config.inp_step_vectors > 1 else 0
)
P_BLOCK_IN = _place(lambda run: run.config.block_in)
P_STORE_FIFO = _place(lambda run: run.config.fifo_bytes("store"))
# Bytes of the longest aligned write burst; instructions of the longest fetch burst.
P_WRITE_BURST = _place(lambda run: write_burst_beats(run.config) * run.config.memory.bus_bytes)
P_FETCH_BURST = _place(lambda run: fetch_burst_instructions(run.config))
P_INSTRUCTION = _place(lambda run: run.config.instruction_bytes)
P_PROGRAM = _place(lambda run: instruction_address(run.memory_size))  # byte address of instruction 0
P_BEGIN_DELAY = _place(lambda _: BEGIN_DELAY)
P_FETCH_DELAY = _place(lambda _: FETCH_DELAY)
P_FETCH_ROOM_DELAY = _place(lambda _: FETCH_ROOM_DELAY)
P_FIFO_LATENCY = _place(lambda _: FIFO_LATENCY)
P_PATCH_STEP_DELAY = _place(lambda _: PATCH_STEP_DELAY)
P_PRODUCT_CYCLES = _place(lambda _: PRODUCT_CYCLES)
P_REQUEST_DELAY = _place(lambda _: REQUEST_DELAY)
P_REQUEST_GAP = _place(lambda _: REQUEST_GAP)
P_ROOM_DELAY = _place(lambda _: ROOM_DELAY)
P_STEP_DELAY = _place(lambda _: STEP_DELAY)
P_STEP_GAP = _place(lambda _: STEP_GAP)
P_STEP_LATENCY = _place(lambda _: STEP_LATENCY)
P_STORES_IN_FLIGHT = _place(lambda _: STORES_IN_FLIGHT)
P_WRITE_DELAY = _place(lambda _: WRITE_DELAY)
P_COUNT = _place(lambda run: run.count)  # instructions in the program
P_LAST = _place(lambda run: run.last)  # index of the first FINISH, or P_COUNT
P_LIMIT = _place(lambda run: run.limit)
# Bits of a micro-op's dst, src and wgt fields.
P_UOP_DST = _place(lambda run: uop_fields(run.config)[0].width)
P_UOP_SRC = _place(lambda run: uop_fields(run.config)[1].width)
P_UOP_WGT = _place(lambda run: uop_fields(run.config)[2].width)


def parameter_values(run: Launch) -> NDArray[np.int64]:
    """The parameters of one timing run (array P), int64 (n,)."""
    return np.array([value(run) for value in _VALUES], np.int64)
