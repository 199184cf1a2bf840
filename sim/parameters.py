"""The parameters of a timing run: one int64 array, each place declared with the value that it holds.

A rule of the simulator reads `P[P_NAME]`; numba takes the places as constants. A latency is `isa.timing`'s, never
computed here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.isa.config import Config
from vdla.isa.layout import uop_fields
from vdla.isa.program import instruction_address
from vdla.isa.timing import (
    ALU_LATENCY,
    ALU_READ_STAGE,
    STORE_LATENCY,
    fetch_burst_instructions,
    gemm_latency,
    gemm_read_stage,
    parameter_cycles,
    post_latency,
    write_burst_beats,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A run to be timed: the program has `count` instructions, of which `last` is the first FINISH, or `count`.

    The memory image has `memory_size` bytes; the run is given up in cycle `limit`.
    """

    config: Config
    count: int
    last: int
    memory_size: int
    limit: int


_VALUES: list[Callable[[Launch], int]] = []


def _place(value: Callable[[Launch], int]) -> int:
    """The next place of the array, which holds `value` of the launch."""
    _VALUES.append(value)
    return len(_VALUES) - 1


P_BUS = _place(lambda run: run.config.memory.bus_bytes)
P_READ_LATENCY = _place(lambda run: run.config.memory.read_latency)
P_WRITE_LATENCY = _place(lambda run: run.config.memory.write_latency)
P_READS = _place(lambda run: run.config.memory.outstanding_reads)
P_WRITES = _place(lambda run: run.config.memory.outstanding_writes)
P_JITTER = _place(lambda run: run.config.memory.jitter)
P_STALL = _place(lambda run: run.config.memory.stall)
P_SEED = _place(lambda run: run.config.memory.seed)
P_COMMANDS = _place(lambda run: run.config.command_queue_depth)
P_TOKENS = _place(lambda run: run.config.token_queue_depth)
P_FETCH_DEPTH = _place(lambda run: run.config.fetch_buffer_depth)
P_GEMM_LATENCY = _place(lambda run: gemm_latency(run.config))
P_GEMM_STAGE = _place(lambda run: gemm_read_stage(run.config))
P_ALU_LATENCY = _place(lambda _: ALU_LATENCY)
P_ALU_STAGE = _place(lambda _: ALU_READ_STAGE)
P_POST_LATENCY = _place(lambda run: post_latency(run.config))
P_PARAMETER_CYCLES = _place(lambda run: parameter_cycles(run.config))
P_STORE_LATENCY = _place(lambda _: STORE_LATENCY)
P_POST_PASSES = _place(lambda run: run.config.post_passes)
P_ACC_DEPTH = _place(lambda run: run.config.acc_depth)
P_BANK_DEPTH = _place(lambda run: run.config.acc_bank_depth)
P_UOP_DEPTH = _place(lambda run: run.config.uop_depth)
P_OUT_BYTES = _place(lambda run: run.config.out_bytes)
# Bytes of the aligned block of DRAM of which a step of LOAD.INP writes all vectors; 0 where it writes one at most.
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
P_COUNT = _place(lambda run: run.count)  # instructions in the program
P_LAST = _place(lambda run: run.last)  # index of the first FINISH, or P_COUNT
P_LIMIT = _place(lambda run: run.limit)
# Bits of a micro-op's dst, src and wgt fields.
P_UOP_DST = _place(lambda run: uop_fields(run.config)[0].width)
P_UOP_SRC = _place(lambda run: uop_fields(run.config)[1].width)
P_UOP_WGT = _place(lambda run: uop_fields(run.config)[2].width)


def parameter_values(run: Launch) -> NDArray[np.int64]:
    """The array for one run, int64."""
    return np.array([value(run) for value in _VALUES], np.int64)
