"""A GPU as networks use it: `Device` says what a network needs of one, and `cuda_core.open_device` gives a real one.

All work goes to one stream, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from vdla.util.errors import UserError

from ..codegen.cuda.architectures import THREADS_PER_BLOCK
from ..codegen.cuda.bulk_copies import TensorMap

ORDINAL = "cuda:"
"""What stands before a GPU's number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorAt:
    """A tensor map of an array that begins at an address of device memory, a multiple of 16."""

    address: int
    tensor: TensorMap


Argument = int | np.integer | TensorAt
"""What a kernel takes: addresses as int (8 bytes), numbers as numpy integers of the parameter's type, and tensor maps,
which the device encodes and hands over by value (128 bytes)."""


class DeviceError(UserError):
    """A GPU that is not there, cannot do what is asked, or failed; the message names it and the way out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProperties:
    """What the driver says of a GPU: compute capability as (9, 0), bytes, Hz, and bytes a second of its memory.

    `memory_bandwidth` is 0 where the driver does not say. `threads_per_block`: the most that a block may have.
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
    """Something of the device's that is released by hand, once."""

    def close(self) -> None:
        """Releases it."""
        ...


class DeviceMemory(Closable, Protocol):
    """Device memory from `address` on."""

    @property
    def address(self) -> int:
        """Its first byte, on a boundary of 256 bytes at least."""
        ...


class PinnedMemory(Closable, Protocol):
    """Memory of the host that the device can copy from and to while the host goes on."""

    @property
    def array(self) -> np.ndarray:
        """Its bytes, uint8; not to be used after `close`."""
        ...


class DeviceModule(Closable, Protocol):
    """Loaded code."""


class DeviceGraph(Closable, Protocol):
    """Work that was captured and can be launched as one."""


class Device(Protocol):
    """A GPU and one stream on it. What it hands out is to be closed before it is."""

    @property
    def label(self) -> str:
        """How messages name it: cuda:0."""
        ...

    @property
    def properties(self) -> DeviceProperties:
        """What the driver says of it."""
        ...

    def allocate(self, size: int) -> DeviceMemory:
        """`size` bytes of its memory; DeviceError where there are not so many."""
        ...

    def allocate_pinned(self, size: int) -> PinnedMemory:
        """`size` bytes of the host's."""
        ...

    def load(self, cubin: bytes, functions: Mapping[str, int]) -> DeviceModule:
        """A cubin's `functions`, with the dynamic shared memory in bytes that each may ask for."""
        ...

    def copy_in(self, address: int, source: PinnedMemory, start: int, size: int) -> None:
        """Bytes [start, start + size) of `source` to device memory, in the stream's turn."""
        ...

    def copy_out(self, destination: PinnedMemory, start: int, address: int, size: int) -> None:
        """Device memory to bytes [start, start + size) of `destination`, in the stream's turn."""
        ...

    def launch(
        self,
        module: DeviceModule,
        function: str,
        *,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        arguments: tuple[Argument, ...],
        overlaps: bool = False,
    ) -> None:
        """One kernel in the stream's turn, x before y before z; `overlaps`: it waits itself for the one before it."""
        ...

    def capture(self, work: Callable[[], None]) -> DeviceGraph:
        """What `work` launches, as a graph; nothing of it runs yet."""
        ...

    def run(self, graph: DeviceGraph) -> None:
        """All of a graph in the stream's turn."""
        ...

    def milliseconds(self, graph: DeviceGraph) -> float:
        """Runs a graph and waits; the time between events of the device before and after it."""
        ...

    def synchronize(self) -> None:
        """Waits for all that the stream was given; DeviceError where some of it failed."""
        ...

    def close(self) -> None:
        """Gives back all that it holds."""
        ...


def parse_device(text: str) -> int:
    """The ordinal in "cuda:0" ("cuda" alone: 0). Raises DeviceError."""
    number = text.removeprefix(ORDINAL) if text != "cuda" else "0"
    if not number.isdecimal() or not number.isascii():
        raise DeviceError(
            f'device "{text}": write cuda:0 for the first GPU, cuda:1 for the next one, or cuda:emulated for none'
        )
    return int(number)
