"""Estimated time of operators without reuse on a GPU: bytes moved, divided by bandwidth. If few bytes are in flight,
bandwidth is these bytes divided by the latency.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from ...codegen.cuda.machine import GpuTarget
from ...ir.stmt import Program
from ..columns import Columns
from ..space import CostEstimates
from .multiprocessor import estimates

LATENCY_CYCLES = 800
"""Cycles from the issue of a memory load to the arrival of its data. An estimate."""
BLOCK_CYCLES = 1000
"""Sum of the cycles before a block's first load and after its last store; other blocks can use part of these cycles. An
estimate.
"""


def moved_bytes(program: Program) -> int:
    """Bytes of all parameters of a program, a lower bound on traffic: each parameter is read or written at
    least once.
    """
    return sum(prod(p.shape) * p.dtype.bits // 8 for p in program.parameters)


def moving_seconds(
    target: GpuTarget, moved: int, blocks: np.ndarray, threads: np.ndarray, bytes_at_once: np.ndarray
) -> np.ndarray:
    """Estimated seconds to move `moved` bytes by `blocks` blocks of `threads` threads. Each thread has loads of
    `bytes_at_once` bytes in flight.

    By Little's law, bandwidth is the bytes in flight divided by latency, at most the memory's bandwidth. Each round of
    blocks that run at the same time adds `BLOCK_CYCLES`.
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


def moving_account(
    target: GpuTarget,
    moved: int,
    seconds: np.ndarray,
    quantities: Mapping[str, Any],
    effective: Columns,
    limits: Mapping[str, np.ndarray] = MappingProxyType({}),
) -> CostEstimates:
    """The cost model's results for points (settings of the knobs) whose kernels take estimated `seconds` and move at
    least `moved` bytes. `quantities`, `effective`, `limits`: the fields of `CostEstimates` of these names. The
    quantities also get `seconds`, under the name ESTIMATE.
    """
    bound = np.full(seconds.shape, moved / target.memory_bandwidth)
    return estimates(seconds, bound, quantities, effective, limits)
