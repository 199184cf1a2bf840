"""Access to a GPU by cuda-core. No other module calls cuda-core to allocate, to copy or to launch."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from vdla.util.closing import Closing
from vdla.util.errors import UserError

from ..codegen.cuda.architectures import STATIC_SHARED_BYTES
from .cuda_device import (
    ORDINAL,
    DeviceCall,
    DeviceError,
    DeviceGraph,
    DeviceMemory,
    DeviceModule,
    DeviceProperties,
    PinnedMemory,
    TensorAt,
)
from .cuda_libraries import checked, devices, libraries, properties_of

_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
"""Values of CUtensorMapSwizzle (CUDA driver API), by the number of bytes of a row."""
_TF32 = 11
"""CU_TENSOR_MAP_DATA_TYPE_TFLOAT32: copies round float32 elements to tf32."""
_PROMOTED_256 = 3
"""CU_TENSOR_MAP_L2_PROMOTION_L2_256B: fetches into the level 2 cache are 256 bytes."""


def open_device(ordinal: int = 0) -> CudaDevice:
    """Opens the GPU with the number `ordinal` in the driver's order, with a stream and a memory pool of its own.

    Raises MissingCudaError without the extra `cuda`, and DeviceError without the driver or the device.
    """
    return CudaDevice(ordinal)


class CudaDevice(Closing):
    """A GPU that is accessed through cuda-core; implements the protocol `cuda_device.Device`."""

    def __init__(self, ordinal: int) -> None:
        self._core, self._driver = libraries()
        self._label, self._ordinal = f"{ORDINAL}{ordinal}", ordinal
        self._device: Any = None
        with contextlib.ExitStack() as undo:
            with self._calling("opening it"):
                found = devices(self._core, self._label)
                if ordinal >= len(found):
                    known = ", ".join(f"{ORDINAL}{i} ({d.name})" for i, d in enumerate(found))
                    raise DeviceError(f"{self._label}: there is no such device; this machine has {known}")
                self._device = found[ordinal]
                self._device.set_current()
                self._properties = properties_of(self._device, self._driver)
                self._stream = self._device.create_stream()
                undo.callback(self._stream.close)
                self._pool = self._memory_pool()
                undo.callback(self._close_pool)
            self._queue: Any = self._stream
            self._capturing = threading.Lock()
            self._undo = undo.pop_all()

    @property
    def label(self) -> str:
        """The device's name in messages. `cuda_device.Device` describes this property and all methods below."""
        return self._label

    @property
    def properties(self) -> DeviceProperties:
        """The GPU's properties, as reported by the driver."""
        return self._properties

    def allocate(self, size: int) -> DeviceMemory:
        """`size` bytes of device memory from this object's own pool, so that `close` returns them to the system."""
        with self._calling(f"allocating {size:,} bytes", size=size):
            buffer = self._pool.allocate(size, stream=self._stream)
            # Lack of memory must raise here, not in the first kernel.
            self._stream.sync()
        return _Memory(buffer, self._stream)

    def allocate_pinned(self, size: int) -> PinnedMemory:
        """`size` bytes of page-locked host memory."""
        with self._calling(f"locking {size:,} bytes of the host's memory"):
            return _Pinned(self._core.LegacyPinnedMemoryResource().allocate(size), size, self._make_current)

    def load(self, cubin: bytes, functions: Mapping[str, int]) -> DeviceModule:
        """Loads the code `cubin`. Also looks up all its kernels, because CUDA loads a kernel only when the kernel is
        first looked up. `functions`: for each kernel, by name, the largest dynamic shared memory of its launches in
        bytes.
        """
        with self._calling("loading kernels"):
            code = self._core.ObjectCode.from_cubin(cubin)
            kernels = {name: code.get_kernel(name) for name in functions}
            attribute = self._driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            for name, shared_bytes in functions.items():
                if shared_bytes > STATIC_SHARED_BYTES:
                    checked(
                        self._driver.cuKernelSetAttribute(
                            attribute, shared_bytes, kernels[name].handle, self._device.device_id
                        )
                    )
        return _Module(code, kernels)

    def copy_in(self, address: int, source: PinnedMemory, start: int, size: int) -> None:
        """Copies `size` bytes of `source`, from byte `start` on, to device address `address`; asynchronous, so `source`
        must not change until `synchronize`.
        """
        self._copy(address, source.array.ctypes.data + start, size)

    def copy_out(self, destination: PinnedMemory, start: int, address: int, size: int) -> None:
        """Copies `size` bytes from device address `address` to `destination`, from its byte `start` on; asynchronous,
        so the bytes are valid after `synchronize`.
        """
        self._copy(destination.array.ctypes.data + start, address, size)

    def launch(self, module: DeviceModule, call: DeviceCall) -> None:
        """Launches a kernel into the stream or, during a capture, into the graph."""
        assert isinstance(module, _Module)
        launch = call.launch
        with self._calling(f"launching {launch.function}"):
            config = self._core.LaunchConfig(
                grid=launch.grid,
                block=launch.block,
                shmem_size=launch.shared_bytes,
                programmatic_stream_serialization=launch.overlaps,
            )
            given = [self._encoded(a) if isinstance(a, TensorAt) else a for a in call.arguments]
            self._core.launch(self._queue, config, module.kernels[launch.function], *given)

    def capture(self, work: Callable[[], None]) -> DeviceGraph:
        """The graph of the launches in `work`, which go to the graph builder's own stream and do not run yet."""
        # One capture at a time: `launch` uses `self._queue`.
        with self._capturing, self._calling("capturing a graph"):
            builder = self._device.create_graph_builder()
            try:
                builder.begin_building()
                self._queue = builder
                try:
                    work()
                finally:
                    self._queue = self._stream
                return _Graph(builder.end_building().complete())
            finally:
                # This also ends a capture in which something failed.
                with _CLOSING:
                    builder.close()

    def run(self, graph: DeviceGraph) -> None:
        """Launches a graph; asynchronous."""
        assert isinstance(graph, _Graph)
        with self._calling("launching a graph"):
            graph.graph.launch(self._stream)

    def milliseconds(self, graph: DeviceGraph) -> float:
        """Launches a graph and waits. Returns the milliseconds between two device events, one before and one after the
        graph. The events have a resolution of about half a microsecond.
        """
        assert isinstance(graph, _Graph)
        with self._calling("timing a graph"), contextlib.ExitStack() as events:
            timing = self._core.EventOptions(timing_enabled=True)
            begin, end = (self._device.create_event(timing) for _ in range(2))
            events.callback(begin.close)
            events.callback(end.close)
            self._stream.record(begin)
            graph.graph.launch(self._stream)
            self._stream.record(end)
            end.sync()
            return float(end - begin)

    def synchronize(self) -> None:
        """Waits for the stream; faults inside kernels raise DeviceError here."""
        with self._calling("running"):
            self._stream.sync()

    def close(self) -> None:
        """Closes the device, even if the device has failed. Errors during closing are ignored."""
        with _CLOSING:
            self._stream.sync()
        with _CLOSING:
            self._undo.close()

    def _memory_pool(self) -> Any:
        if self._device.properties.memory_pools_supported:
            return self._core.DeviceMemoryResource(
                self._device.device_id, options=self._core.DeviceMemoryResourceOptions()
            )
        return self._device.memory_resource

    def _close_pool(self) -> None:
        # If the device has no pools, its own resource is used, which must not be closed here.
        if self._pool is not self._device.memory_resource:
            self._pool.close()

    def _copy(self, destination: int, source: int, size: int) -> None:
        handle = self._core.Buffer.from_handle
        with self._calling("copying"):
            handle(destination, size).copy_from(handle(source, size), stream=self._stream)

    @contextlib.contextmanager
    def _calling(self, doing: str, size: int = 0) -> Iterator[None]:
        """Makes the device current for this thread, and turns errors of cuda-core and the driver into DeviceError. Two
        arguments are for its message. `doing`: name of the failed action. `size`: number of bytes that the action
        allocates, 0 for other actions.
        """
        try:
            if self._device is not None:
                self._make_current()
            yield
        except UserError:
            raise
        except Exception as error:  # errors of the bindings and of the loader have no base class of their own
            reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
            if "OUT_OF_MEMORY" in reason or isinstance(error, MemoryError):
                raise DeviceError(self._out_of_memory(size)) from None
            raise DeviceError(f"{self._label}: {doing} failed: {reason}") from error

    def _encoded(self, argument: TensorAt) -> Any:
        """The tensor map `argument`, encoded by cuda-core. The map's element type is tf32 if copies round to tf32, else
        an unsigned integer of the element's size.
        """
        tensor = argument.tensor
        size = math.prod(tensor.shape) * tensor.element_bytes
        view = self._core.utils.StridedMemoryView.from_buffer(
            self._core.Buffer.from_handle(argument.address, size),
            tensor.shape,
            dtype=np.dtype(np.float32 if tensor.rounds else f"u{tensor.element_bytes}"),
        )
        options = self._core.TensorMapDescriptorOptions(box_dim=tensor.box)
        # cuda-core has no public name for these enumerations; their values are the driver's.
        if tensor.rounds:
            options.data_type = importlib.import_module(type(options).__module__).TensorMapDataType(_TF32)
        options.swizzle = type(options.swizzle)(_SWIZZLES[tensor.swizzle])
        options.l2_promotion = type(options.l2_promotion)(_PROMOTED_256)
        return view.as_tensor_map(options=options)

    def _make_current(self) -> None:
        """Makes the device current for the calling thread: CUDA has a current device for each thread."""
        self._core.Device(self._ordinal).set_current()

    def _out_of_memory(self, size: int) -> str:
        free = ""
        with contextlib.suppress(Exception):
            left, total = checked(self._driver.cuMemGetInfo())
            free = f", and {left:,} of its {total:,} are free"
        needed = f"{size:,} bytes are needed{free}" if size else f"a call needs more than is free{free}"
        way_out = "end other programs on the device, or use a smaller batch"
        return f"{self._label}: out of device memory: {needed}; {way_out}"


# After the device has failed, its memory is gone, and freeing it fails too; that error would add no information.
_CLOSING = contextlib.suppress(Exception)


class _Memory:
    def __init__(self, buffer: Any, stream: Any) -> None:
        self._buffer, self._stream = buffer, stream
        self.address = int(buffer.handle)

    def close(self) -> None:
        with _CLOSING:
            self._buffer.close(self._stream)


class _Pinned:
    def __init__(self, buffer: Any, size: int, make_current: Callable[[], None]) -> None:
        self._buffer, self._make_current = buffer, make_current
        self.array = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(int(buffer.handle)))

    def close(self) -> None:
        self.array = np.zeros(0, np.uint8)
        with _CLOSING:
            # This runs in any thread: the garbage collector's thread may never have used the device.
            self._make_current()
            self._buffer.close()


class _Module:
    def __init__(self, code: Any, kernels: dict[str, Any]) -> None:
        self._code, self.kernels = code, kernels

    def close(self) -> None:
        # cuda-core unloads code when the last reference to it is dropped.
        self.kernels = {}
        self._code = None


class _Graph:
    def __init__(self, graph: Any) -> None:
        self.graph = graph

    def close(self) -> None:
        with _CLOSING:
            self.graph.close()
