"""Where what a network holds lies on a device, and what is written there before it runs.

All of it is one piece of memory: the arena of the storage plan, the constants, and the working memory of the kernel
that needs most, in this order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..graph.graph import Graph
from ..graph.storage_plan import StoragePlan
from .cuda_code import CudaNetworkCode
from .cuda_device import Device, PinnedMemory

ALIGNMENT = 256
"""Bytes; what device memory is aligned to (CUDA C++ Programming Guide, "Device Memory Accesses")."""
STAGING_BYTES = 16 * 2**20
"""Constants go to the device through page-locked memory of so many bytes at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Byte offsets in a network's device memory, of constants by the arrays' identity; the arena lies at 0."""

    constants: Mapping[int, int]
    workspace: int
    size: int

    @staticmethod
    def of(code: CudaNetworkCode) -> Places:
        """Of all that a network has, one behind the other."""
        end = _aligned(code.plan.bytes)
        constants: dict[int, int] = {}
        for launch in code.launches:
            for array in launch.constants.values():
                if id(array) not in constants:
                    constants[id(array)] = end
                    end = _aligned(end + array.nbytes)
        workspace = max((compiled.module.workspace_bytes for compiled in code.modules), default=0)
        return Places(constants=constants, workspace=end, size=max(ALIGNMENT, _aligned(end + workspace)))


def host_slots(graph: Graph, plan: StoragePlan) -> dict[str, tuple[int, int, int]]:
    """Of each tensor that the host writes or reads: offset in the arena, first byte in page-locked memory, bytes."""
    slots: dict[str, tuple[int, int, int]] = {}
    end = 0
    for name in (*graph.input_names, *[output.tensor for output in graph.outputs]):
        if name in plan.offsets and name not in slots:
            size = graph.tensors[name].bytes
            slots[name] = (plan.offsets[name], end, size)
            end = _aligned(end + size)
    return slots


def upload_constants(device: Device, code: CudaNetworkCode, places: Places, base: int) -> None:
    """All constants to where they lie behind the address `base`, through page-locked memory that is given back."""
    arrays = {id(a): a for launch in code.launches for a in launch.constants.values()}
    largest = max((array.nbytes for array in arrays.values()), default=0)
    if not largest:
        return
    staging = device.allocate_pinned(min(largest, STAGING_BYTES))
    try:
        for key, array in arrays.items():
            _upload(device, staging, np.ascontiguousarray(array), base + places.constants[key])
    finally:
        staging.close()


def fill_with_ones(device: Device, address: int, size: int) -> None:
    """Bytes of 0xFF from an address on, through page-locked memory that is given back at once."""
    staging = device.allocate_pinned(min(size, STAGING_BYTES))
    try:
        staging.array[:] = 0xFF
        for start in range(0, size, staging.array.size):
            device.copy_in(address + start, staging, 0, min(size - start, staging.array.size))
        device.synchronize()
    finally:
        staging.close()


def _upload(device: Device, staging: PinnedMemory, array: np.ndarray, address: int) -> None:
    raw = array.reshape(-1).view(np.uint8)
    for start in range(0, raw.size, staging.array.size):
        part = raw[start : start + staging.array.size]
        staging.array[: part.size] = part
        device.copy_in(address + start, staging, 0, part.size)
        device.synchronize()


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
