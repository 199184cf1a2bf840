"""How long a GPU takes to move what an operator without reuse reads and writes: bandwidth, or what is under way."""

from __future__ import annotations

from math import prod

import numpy as np

from ...codegen.cuda.machine import CudaTarget
from ...ir.stmt import Program

LATENCY_CYCLES = 800
"""Cycles from a load from memory to its data. An estimate."""
BLOCK_CYCLES = 1000
"""Cycles before a block's first load and after its last store, which other blocks hide in part. An estimate."""
LARGEST_BLOCK = 1024
"""Threads (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability")."""


def moved_bytes(program: Program) -> int:
    """Bytes of all parameters: what has to be read or written once at least."""
    return sum(prod(p.shape) * p.dtype.bits // 8 for p in program.parameters)


def moving_seconds(
    target: CudaTarget, moved: int, blocks: np.ndarray, threads: np.ndarray, bytes_at_once: np.ndarray
) -> np.ndarray:
    """An estimate, for `blocks` of `threads` threads each of which has `bytes_at_once` of loads under way.

    By Little's law, bandwidth is what is under way divided by latency, at most the memory's.
    """
    resident = np.minimum(
        np.minimum(target.threads_per_multiprocessor // threads, target.blocks_per_multiprocessor)
        * target.multiprocessors,
        blocks,
    )
    under_way = resident * threads * bytes_at_once
    bandwidth = np.minimum(target.memory_bandwidth, under_way / (LATENCY_CYCLES / target.clock))
    rounds = np.ceil(blocks / np.maximum(resident, 1))
    return moved / bandwidth + rounds * BLOCK_CYCLES / target.clock
