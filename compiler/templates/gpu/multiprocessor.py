"""Facts about a multiprocessor that the cost models of GPU templates share, and the form of their results."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ...codegen.cuda.machine import GpuTarget
from ..columns import ESTIMATE, Columns
from ..space import CostEstimates

SCHEDULERS = 4
"""Number of warp schedulers of a multiprocessor, each of which issues an instruction in a cycle (CUDA C++ Programming
Guide, "Multiprocessor Level").
"""
BANKS = 32
"""Banks of shared memory, 4 bytes wide (CUDA C++ Programming Guide, "Shared Memory")."""
SHARED_BYTES_CYCLE = 4 * BANKS
"""Bytes of shared memory accessed in a cycle."""
RESERVED_SHARED_BYTES = 1024
"""Bytes of shared memory that are reserved in every block, compute capability 8.0 and later (CUDA C++ Programming
Guide, "Shared Memory").
"""
DEPENDENT_ISSUE_CYCLES = 3
"""Least number of cycles between two successive instructions of one warp, because most instructions depend on the
preceding one. An estimate.
"""


def ceil_divided(a: np.ndarray | int, b: np.ndarray | int) -> np.ndarray:
    """a / b, rounded up to whole numbers."""
    return -(-np.asarray(a, np.int64) // b)


def power_of_two(size: int) -> int:
    """The least power of two that is at least `size`."""
    return 1 << (size - 1).bit_length()


def resident_blocks(
    target: GpuTarget, threads: np.ndarray | int, registers: np.ndarray, shared: np.ndarray
) -> np.ndarray:
    """The number of blocks for which a multiprocessor has registers, shared memory and threads at a time; 0 if a block
    is too large. Blocks have `threads` threads of `registers` registers each, and `shared` bytes of shared memory.
    """
    by_registers = target.registers_per_multiprocessor // (registers * threads)
    by_memory = target.shared_bytes_per_multiprocessor // (shared + RESERVED_SHARED_BYTES)
    return np.minimum(np.minimum(by_registers, by_memory), target.threads_per_multiprocessor // threads)


def estimates(
    seconds: np.ndarray,
    bound: np.ndarray,
    quantities: Mapping[str, Any],
    effective: Columns,
    limits: Mapping[str, np.ndarray] = MappingProxyType({}),
) -> CostEstimates:
    """The cost model's results for points (settings of the knobs) with an estimate in `seconds` and a lower `bound` in
    seconds. `quantities`, `effective`, `limits`: the fields of `CostEstimates` of these names. The quantities also get
    `seconds`, under the name ESTIMATE.
    """
    found = {name: np.asarray(values, np.float64) for name, values in quantities.items()}
    return CostEstimates(
        limits=limits, bound=bound, quantities={ESTIMATE: seconds, **found}, effective=effective
    )
