"""Base class of devices whose library has a queue of launches, but no graphs of launches: OpenCL and WGSL."""

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from vdla.util.closing import Closing
from vdla.util.errors import UserError

from .cuda_device import (
    DeviceCall,
    DeviceError,
    DeviceGraph,
    DeviceModule,
    DeviceProperties,
    PinnedMemory,
)


class QueuedDevice(Closing, ABC):
    """A device whose work is in one queue. A graph is a list of launches, which `run` adds to the queue one after the
    other. Subclasses implement the rest of the protocol `cuda_device.Device`, which describes all public methods.

    `label`: the device's name in messages. `errors`: the types of the library's exceptions, besides MemoryError.
    `line_of` returns the message of an exception as one line.
    """

    def __init__(
        self,
        label: str,
        properties: DeviceProperties,
        errors: tuple[type[Exception], ...],
        line_of: Callable[[BaseException], str],
    ) -> None:
        self._label, self._properties = label, properties
        self._errors, self._line_of = (*errors, MemoryError), line_of
        self._captured: list[Any] | None = None
        # Serializes launches and captures.
        self._lock = threading.RLock()

    @property
    def label(self) -> str:
        """The device's name in messages."""
        return self._label

    @property
    def properties(self) -> DeviceProperties:
        """The device's properties, as reported by the driver; numbers that the library does not report are 0."""
        return self._properties

    def allocate_pinned(self, size: int) -> PinnedMemory:
        """`size` bytes of ordinary host memory, not page-locked."""
        return _HostMemory(size)

    def launch(self, module: DeviceModule, call: DeviceCall) -> None:
        """Adds a launch to the queue or, during a capture, to the graph."""
        with self._lock, self._calling(f"launching {call.launch.function}"):
            encoded = self._encoded(module, call)
            if self._captured is None:
                self._submit((encoded,))
            else:
                self._captured.append(encoded)

    def capture(self, work: Callable[[], None]) -> DeviceGraph:
        """The launches of `work`, recorded so that they can be repeated."""
        with self._lock:
            self._captured = []
            try:
                work()
                return _Launches(tuple(self._captured))
            finally:
                self._captured = None

    def run(self, graph: DeviceGraph) -> None:
        """Adds the graph's launches to the queue, one after the other."""
        with self._lock, self._calling("running"):
            self._submit(launches_of(graph))

    @abstractmethod
    def _encoded(self, module: DeviceModule, call: DeviceCall) -> Any:
        """A launch in the form that `_submit` takes."""

    @abstractmethod
    def _submit(self, calls: Sequence[Any]) -> object:
        """Adds encoded launches to the queue."""

    def _check_size(self, size: int, most: int) -> None:
        """Raises DeviceError if an allocation of `size` bytes is larger than `most`, the largest of the device."""
        if size > most:
            raise DeviceError(
                f"{self._label}: out of device memory: {size:,} bytes are needed, but one allocation has at most "
                f"{most:,}; use a smaller batch"
            )

    @contextlib.contextmanager
    def _calling(self, doing: str) -> Iterator[None]:
        """Turns errors of the library into DeviceError; `doing` names the failed action in the message."""
        try:
            yield
        except UserError:
            raise
        except self._errors as error:
            raise DeviceError(f"{self._label}: {doing} failed: {self._line_of(error)}") from error


def numbered(found: Sequence[Any], prefix: str, ordinal: int, name_of: Callable[[Any], str]) -> Any:
    """Device number `ordinal` in the list `found`. Raises DeviceError if the list is too short. The message lists all
    devices: `prefix` stands before each number, and `name_of` returns a device's name.
    """
    if ordinal < len(found):
        return found[ordinal]
    known = ", ".join(f"{prefix}{i} ({name_of(device)})" for i, device in enumerate(found))
    raise DeviceError(f"{prefix}{ordinal}: there is no such device; this machine has {known}")


def launches_of(graph: DeviceGraph) -> tuple[Any, ...]:
    """The encoded launches of a graph that `QueuedDevice.capture` made."""
    assert isinstance(graph, _Launches)
    return graph.calls


class _HostMemory:
    def __init__(self, size: int) -> None:
        self.array = np.zeros(size, np.uint8)

    def close(self) -> None:
        self.array = np.zeros(0, np.uint8)


class _Launches:
    def __init__(self, calls: tuple[Any, ...]) -> None:
        self.calls = calls

    def close(self) -> None:
        self.calls = ()
