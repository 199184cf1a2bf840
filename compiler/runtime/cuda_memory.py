"""The layout of a network's memory on a device, and the upload of its constants.

The memory is one allocation. It holds the arena of the storage plan, then the constants, then working memory; the
working memory has the size that the most demanding kernel needs.
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
"""Alignment of device memory in bytes (CUDA C++ Programming Guide, "Device Memory Accesses")."""
STAGING_BYTES = 16 * 2**20
"""Size of the page-locked buffer through which constants are copied to the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Byte offsets of a network's data in its device memory. The arena is at offset 0.

    `constants`: maps the host address of each constant's array to the constant's offset; arrays with equal addresses
    share device memory. `workspace`: offset of the working memory. `size`: bytes of the device memory.
    """

    constants: Mapping[int, int]
    workspace: int
    size: int

    @staticmethod
    def of(code: CudaNetworkCode) -> Places:
        """The offsets for a network: arena, constants and working memory one behind the other, aligned."""
        end = _aligned(code.plan.bytes)
        constants: dict[int, int] = {}
        for key, array in _constants(code).items():
            constants[key] = end
            end = _aligned(end + array.nbytes)
        workspace = max((compiled.module.workspace_bytes for compiled in code.modules), default=0)
        return Places(constants=constants, workspace=end, size=max(ALIGNMENT, _aligned(end + workspace)))


def address_of(array: np.ndarray) -> int:
    """The address of an array's first byte, by which `Places.constants` finds a constant."""
    return array.ctypes.data


def _constants(code: CudaNetworkCode) -> dict[int, np.ndarray]:
    """The constants of all launches, by address. If several constants begin at one address, only the longest is
    included.
    """
    found: dict[int, np.ndarray] = {}
    for launch in code.launches:
        for array in launch.constants.values():
            key = address_of(array)
            if key not in found or found[key].nbytes < array.nbytes:
                found[key] = array
    return found


def host_slots(graph: Graph, plan: StoragePlan) -> dict[str, tuple[int, int, int]]:
    """Maps each tensor that the host writes (inputs) or reads (outputs) to (offset in the arena, offset in page-locked
    memory, bytes).
    """
    slots: dict[str, tuple[int, int, int]] = {}
    end = 0
    for name in (*graph.input_names, *[output.tensor for output in graph.outputs]):
        if name in plan.offsets and name not in slots:
            size = graph.tensors[name].bytes
            slots[name] = (plan.offsets[name], end, size)
            end = _aligned(end + size)
    return slots


def upload_constants(device: Device, code: CudaNetworkCode, places: Places, base: int) -> None:
    """Copies all constants to their offsets from the address `base`, through a temporary page-locked buffer."""
    arrays = _constants(code)
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
    """Fills `size` bytes from `address` on with 0xFF, through a temporary page-locked buffer."""
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
