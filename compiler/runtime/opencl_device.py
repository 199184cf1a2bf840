"""Access to an OpenCL device by pyopencl; no other module calls pyopencl. Implements the protocol `cuda_device.Device`.

Memory is shared virtual memory (OpenCL 2.0): kernels' arguments are addresses anywhere within an allocation.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from .cuda_device import (
    Argument,
    DeviceCall,
    DeviceError,
    DeviceGraph,
    DeviceMemory,
    DeviceModule,
    DeviceProperties,
    PinnedMemory,
    TensorAt,
)
from .queued_device import QueuedDevice, launches_of, numbered

ORDINAL = "opencl:"
"""Prefix of a device's number in names of devices."""
OPTIONS = ("-cl-std=CL1.2",)
CORRECTLY_ROUNDED = "-cl-fp32-correctly-rounded-divide-sqrt"
UNKNOWN_PROCESSOR = "unknown target CPU"
"""Error text of POCL's compiler if the processor is newer than the release of POCL."""
_LOG_LINES = 3
"""Largest number of lines of a failed compilation's log that a message quotes."""


def pyopencl() -> ModuleType:
    """The module pyopencl. Raises UserError if the extra is not installed."""
    try:
        return importlib.import_module("pyopencl")
    except ImportError:
        raise DeviceError(
            'running on OpenCL devices needs the extra `opencl`: pip install "vdla[opencl]"'
        ) from None


def devices() -> list[Any]:
    """The devices of all platforms, in the loader's order. Raises DeviceError if there is none."""
    cl = pyopencl()
    try:
        found = [device for platform in cl.get_platforms() for device in platform.get_devices()]
    except cl.Error as error:
        found = []
        if "PLATFORM_NOT_FOUND" not in str(error):
            raise DeviceError(f"OpenCL: listing the platforms failed: {_line(error)}") from None
    if not found:
        raise DeviceError(
            "OpenCL: this machine has no platform; install the device's driver, or `pip install "
            "pocl-binary-distribution`, which runs kernels on the processor"
        )
    return found


def open_device(ordinal: int = 0) -> OpenClDevice:
    """Opens the device with this number, with a queue of its own. Raises DeviceError if it does not exist."""
    device = numbered(devices(), ORDINAL, ordinal, lambda device: device.name)
    return OpenClDevice(pyopencl(), device, f"{ORDINAL}{ordinal}")


class OpenClDevice(QueuedDevice):
    """An OpenCL device that is accessed through pyopencl; implements the protocol `cuda_device.Device`. In its
    properties, "capability" is the version of OpenCL.
    """

    def __init__(self, cl: ModuleType, device: Any, label: str) -> None:
        self._cl, self._device = cl, device
        version = device.version.split()[1].split(".")
        properties = DeviceProperties(
            name=device.name,
            capability=(int(version[0]), int(version[1])),
            driver=f"{device.platform.name} {device.driver_version}",
            multiprocessors=device.max_compute_units,
            memory_bytes=device.global_mem_size,
            shared_bytes_per_block=device.local_mem_size,
            shared_bytes_per_multiprocessor=device.local_mem_size,
            registers_per_multiprocessor=0,
            clock_hz=device.max_clock_frequency * 1_000_000,
            memory_bandwidth=0,
            cache_bytes=device.global_mem_cache_size,
            threads_per_block=device.max_work_group_size,
        )
        super().__init__(label, properties, (cl.Error,), _line)
        with self._calling("opening it"):
            shared = device.svm_capabilities if properties.capability >= (2, 0) else 0
            if not shared & cl.device_svm_capabilities.COARSE_GRAIN_BUFFER:
                raise DeviceError(
                    f"{label}: {device.name} lacks shared virtual memory (OpenCL 2.0), which vdla needs for its "
                    "arrays; use another device"
                )
            self._context = cl.Context([device])
            self._queue = cl.CommandQueue(
                self._context, properties=cl.command_queue_properties.PROFILING_ENABLE
            )
        rounded = device.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
        self._options = [*OPTIONS, *([CORRECTLY_ROUNDED] if rounded else [])]

    def allocate(self, size: int) -> DeviceMemory:
        """Allocates `size` bytes of coarse-grained shared virtual memory."""
        cl = self._cl
        self._check_size(size, self._device.max_mem_alloc_size)
        with self._calling(f"allocating {size:,} bytes"):
            allocation = cl.SVMAllocation(self._context, size, 0, cl.svm_mem_flags.READ_WRITE)
            return _Memory(allocation, self._queue)

    def load(self, cubin: bytes, functions: Mapping[str, int]) -> DeviceModule:
        """Compiles the OpenCL C text in `cubin`. The keys of `functions` are the kernels' names; its values have no
        effect. Raises DeviceError with the compiler's log.
        """
        cl = self._cl
        with self._calling("compiling kernels"):
            try:
                # The platform has its own cache.
                program = cl.Program(self._context, cubin.decode()).build(self._options, cache_dir=False)
            except cl.RuntimeError as error:
                raise DeviceError(f"{self._label}: kernels do not compile: {_log(error)}") from None
            return _Module({name: cl.Kernel(program, name) for name in functions})

    def copy_in(self, address: int, source: PinnedMemory, start: int, size: int) -> None:
        """Copies `size` bytes of `source`, from byte `start` on, to device address `address` in queue order; `source`
        must not change before the copy runs.
        """
        with self._calling("copying"):
            self._cl.enqueue_copy(self._queue, self._at(address, size), source.array[start : start + size])

    def copy_out(self, destination: PinnedMemory, start: int, address: int, size: int) -> None:
        """Copies `size` bytes from device address `address` to `destination`, from its byte `start` on, in queue
        order.
        """
        with self._calling("copying"):
            self._cl.enqueue_copy(
                self._queue, destination.array[start : start + size], self._at(address, size)
            )

    def milliseconds(self, graph: DeviceGraph) -> float:
        """Runs a graph of at least one launch and waits; returns the milliseconds from the start of the first kernel to
        the end of the last, by the device's clock.
        """
        with self._lock:
            events = self._submit(launches_of(graph))
        with self._calling("timing kernels"):
            events[-1].wait()
            return (events[-1].profile.end - events[0].profile.start) / 1e6

    def synchronize(self) -> None:
        """Waits for the queue; faults inside kernels raise DeviceError here."""
        with self._calling("running"):
            self._queue.finish()

    def close(self) -> None:
        """Waits for the queue."""
        with contextlib.suppress(Exception):
            self._queue.finish()

    def _encoded(self, module: DeviceModule, call: DeviceCall) -> _Call:
        assert isinstance(module, _Module)
        (x, y, z), block = call.launch.grid, call.launch.block
        return _Call(
            function=call.launch.function,
            kernel=module.kernels[call.launch.function],
            size=(x * block[0], y * block[1], z * block[2]),
            group=block,
            arguments=tuple([self._argument(argument) for argument in call.arguments]),
        )

    def _submit(self, calls: Sequence[_Call]) -> list[Any]:
        """Adds launches to the queue, and returns their events. Kernels declare their shared memory."""
        events: list[Any] = []
        for call in calls:
            with self._calling(f"launching {call.function}"):
                for index, argument in enumerate(call.arguments):
                    call.kernel.set_arg(index, argument)
                events.append(
                    self._cl.enqueue_nd_range_kernel(self._queue, call.kernel, call.size, call.group)
                )
        return events

    def _argument(self, argument: Argument) -> Any:
        assert not isinstance(argument, TensorAt), "no target without bulk copies has tensor maps"
        # pyopencl takes addresses from arrays only; one byte suffices, kernels know their arrays' sizes.
        return argument if isinstance(argument, np.integer) else self._at(argument, 1)

    def _at(self, address: int, size: int) -> Any:
        return self._cl.SVM(np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """A kernel launch, with its arguments in the types that pyopencl takes."""

    function: str
    kernel: Any
    size: tuple[int, int, int]
    group: tuple[int, int, int]
    arguments: tuple[Any, ...]


class _Memory:
    """A piece of device memory. `close` waits for the queue and then frees the memory directly. It does not use a
    command of the queue, because POCL 3.0 reads the list of addresses only when the command runs; the caller's list is
    gone by then.
    """

    def __init__(self, allocation: Any, queue: Any) -> None:
        self._allocation, self._queue = allocation, queue
        self.address = int(allocation.svm_ptr)

    def close(self) -> None:
        if self._allocation is not None:
            allocation, self._allocation = self._allocation, None
            with contextlib.suppress(Exception):
                self._queue.finish()
            allocation.release()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


class _Module:
    def __init__(self, kernels: dict[str, Any]) -> None:
        self.kernels = kernels

    def close(self) -> None:
        self.kernels = {}


def _line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


def _log(error: BaseException) -> str:
    """The errors in a compiler's log, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if "error" in line.lower()]
    log = "; ".join(lines[:_LOG_LINES]) or _line(error)
    if UNKNOWN_PROCESSOR in log:
        return f"{log}: this version of POCL does not know the processor; install a newer one, or use another device"
    return log
