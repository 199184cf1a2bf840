"""The interface of a GPU for networks: the protocol `Device`. `cuda_core.open_device` opens a real device.

All work is done in one stream, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from vdla.util.errors import UserError

from ..codegen.cuda.architectures import THREADS_PER_BLOCK
from ..codegen.cuda.bulk_copies import TensorMap
from ..codegen.cuda.module import KernelLaunch

ORDINAL = "cuda:"
"""Prefix of a GPU's number in names of devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorAt:
    """A tensor map of an array in device memory. The array's address is a multiple of 16."""

    address: int
    tensor: TensorMap


Argument = int | np.integer | TensorAt
"""An argument of a kernel: an address, given as an int (8 bytes); a number, given as a numpy integer of the parameter's
type; or a tensor map, which the device encodes and passes by value (128 bytes).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCall:
    """A kernel launch whose arguments are concrete addresses and numbers."""

    launch: KernelLaunch
    arguments: tuple[Argument, ...]


class DeviceError(UserError):
    """Raised for a GPU that does not exist, lacks a needed capability, or has failed; the message names the GPU and
    says what to do.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProperties:
    """A GPU's properties as reported by its driver: compute capability (for example (9, 0)), sizes in bytes, clock in
    Hz.

    `memory_bandwidth`: bytes a second, 0 if the driver does not report it. `threads_per_block`: largest number of
    threads that a block may have.
    """

    name: str
    capability: tuple[int, int]
    driver: str
    multiprocessors: int
    memory_bytes: int
    shared_bytes_per_block: int
    shared_bytes_per_multiprocessor: int
    registers_per_multiprocessor: int
    clock_hz: int
    memory_bandwidth: int
    cache_bytes: int
    threads_per_block: int = THREADS_PER_BLOCK


class Closable(Protocol):
    """A resource of the device that its owner must release once."""

    def close(self) -> None:
        """Releases the resource."""
        ...


class DeviceMemory(Closable, Protocol):
    """A piece of device memory, from `address` on."""

    @property
    def address(self) -> int:
        """The address of the first byte, a multiple of at least 256."""
        ...


class PinnedMemory(Closable, Protocol):
    """Page-locked memory of the host, which the device can copy asynchronously."""

    @property
    def array(self) -> np.ndarray:
        """The bytes as uint8; the array must not be used after `close`."""
        ...


class DeviceModule(Closable, Protocol):
    """Code that is loaded on the device."""


class DeviceGraph(Closable, Protocol):
    """Captured work that can be launched as a whole."""


class Device(Protocol):
    """A GPU and one stream on it. Memory, modules and graphs of the device must be closed before the device."""

    @property
    def label(self) -> str:
        """The device's name in messages, for example cuda:0."""
        ...

    @property
    def properties(self) -> DeviceProperties:
        """The GPU's properties, as reported by the driver."""
        ...

    def allocate(self, size: int) -> DeviceMemory:
        """`size` bytes of device memory. Raises DeviceError if there is not enough."""
        ...

    def allocate_pinned(self, size: int) -> PinnedMemory:
        """`size` bytes of page-locked host memory."""
        ...

    def load(self, cubin: bytes, functions: Mapping[str, int]) -> DeviceModule:
        """Loads a cubin; `functions` maps each kernel to the largest dynamic shared memory of its
        launches, in bytes.
        """
        ...

    def copy_in(self, address: int, source: PinnedMemory, start: int, size: int) -> None:
        """Copies bytes [start, start + size) of `source` to the device address `address`, in stream order."""
        ...

    def copy_out(self, destination: PinnedMemory, start: int, address: int, size: int) -> None:
        """Copies `size` bytes from device address `address` to `destination`, from its byte `start` on, in stream
        order.
        """
        ...

    def launch(self, module: DeviceModule, call: DeviceCall) -> None:
        """Launches a kernel in stream order."""
        ...

    def capture(self, work: Callable[[], None]) -> DeviceGraph:
        """Records the launches made by `work` as a graph, without running them."""
        ...

    def run(self, graph: DeviceGraph) -> None:
        """Launches a graph in stream order."""
        ...

    def milliseconds(self, graph: DeviceGraph) -> float:
        """Runs a graph and waits; returns the milliseconds between device events before and after it."""
        ...

    def synchronize(self) -> None:
        """Waits for all work in the stream. Raises DeviceError if some of it failed."""
        ...

    def close(self) -> None:
        """Releases the stream and the device's memory."""
        ...


def parse_device(text: str) -> int:
    """The number of the GPU in a device name such as "cuda:0" ("cuda" alone: 0). Raises DeviceError for other names."""
    number = text.removeprefix(ORDINAL) if text != "cuda" else "0"
    if not number.isdecimal() or not number.isascii():
        raise DeviceError(
            f'device "{text}": write cuda:0 for the first GPU, cuda:1 for the next one, or cuda:emulated to emulate a '
            "GPU on this processor"
        )
    return int(number)
