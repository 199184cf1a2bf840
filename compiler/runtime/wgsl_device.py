"""Access to a device by wgpu (Vulkan, Metal or DirectX). No other module calls wgpu. This module implements the
protocol `cuda_device.Device`, and has the functions of this kind of GPU (`KIND`, a `gpus.GpuKind`).

WebGPU has buffers, not addresses. This module gives each allocation a range of invented addresses (numbers). A launch
converts an address to the buffer whose range contains it, and to an offset in the buffer.
"""

from __future__ import annotations

import bisect
import contextlib
import importlib
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np

from ..codegen.opencl.work_groups import device_limits, parse_limits
from ..codegen.wgsl.machine import NAME, WgslTarget, parse_target, wgsl_target
from .cuda_archive import ArchiveKind, read_target
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
from .gpus import GpuKind
from .queued_device import QueuedDevice, launches_of, numbered

ORDINAL = "wgsl:"
"""Prefix of a device's number in names of devices."""
BACKENDS = ("Vulkan", "Metal", "DX12")
"""Drivers that wgpu uses. Others, such as OpenGL, lack some of the limits."""
FLAGS = ("Default", "AutomaticTimestampNormalization")
"""Flags of wgpu: times are in nanoseconds, not in units of the device's clock."""
_ADDRESSES = 2**40
"""Distance between the first addresses of two allocations."""
_PLACE = 256
"""Allocations are multiples of this number of bytes, and begin at multiples of it."""
_LIMITS = (
    "max-buffer-size",
    "max-storage-buffer-binding-size",
    "max-storage-buffers-per-shader-stage",
    "max-uniform-buffers-per-shader-stage",
    "max-compute-workgroup-storage-size",
    "max-compute-invocations-per-workgroup",
    "max-compute-workgroup-size-x",
    "max-compute-workgroup-size-y",
    "max-compute-workgroup-size-z",
    "min-storage-buffer-offset-alignment",
)
"""Limits for which an opened device gets the adapter's values. All other limits of the device are the least values that
WebGPU guarantees.
"""
_CLOCK = "timestamp-query"
_DECLARED = re.compile(
    r"^@group\(0\) @binding\(\d+\) var<(storage|uniform)[^>]*> (\w+)|^fn (\w+)\(", re.MULTILINE
)


def wgpu() -> ModuleType:
    """The module wgpu. Raises DeviceError if the extra is not installed."""
    try:
        return importlib.import_module("wgpu")
    except ImportError:
        raise DeviceError('running WGSL needs the extra `wgsl`: pip install "vdla[wgsl]"') from None


def adapters() -> list[Any]:
    """The adapters of all drivers, in wgpu's order. Raises DeviceError if there is none."""
    module = wgpu()
    _use_backends()
    found = [
        a for a in module.gpu.enumerate_adapters_sync() if a.info["backend_type"] in (*BACKENDS, "D3D12")
    ]
    if not found:
        raise DeviceError(
            "WGSL: this machine has no adapter; install the device's driver for Vulkan, Metal or DirectX, or Debian's "
            "mesa-vulkan-drivers, which runs kernels on the processor"
        )
    return found


def open_device(ordinal: int = 0) -> WgslDevice:
    """Opens the device with this number, with a queue of its own. Raises DeviceError if it does not exist."""
    adapter = numbered(adapters(), ORDINAL, ordinal, lambda adapter: adapter.info["device"])
    return WgslDevice(wgpu(), adapter, f"{ORDINAL}{ordinal}")


def _use_backends() -> None:
    """Restricts wgpu to `BACKENDS` in this process, unless the process has used wgpu before."""
    if "XDG_RUNTIME_DIR" not in os.environ:
        # There is no display. A layer of Mesa that asks the display for the GPU to prefer would print errors.
        os.environ.setdefault("NODEVICE_SELECT", "1")
    extras = importlib.import_module("wgpu.backends.wgpu_native.extras")
    with contextlib.suppress(RuntimeError):
        extras.set_instance_extras(backends=list(BACKENDS), flags=FLAGS)


class WgslDevice(QueuedDevice):
    """A device that is accessed through wgpu; implements the protocol `cuda_device.Device`."""

    def __init__(self, module: ModuleType, adapter: Any, label: str) -> None:
        self._wgpu = module
        info, limits = adapter.info, adapter.limits
        properties = DeviceProperties(
            name=info["device"],
            capability=(0, 0),
            driver=f"{info['backend_type']}, {info['description'] or info['vendor']}",
            multiprocessors=0,
            memory_bytes=limits["max-buffer-size"],
            shared_bytes_per_block=limits["max-compute-workgroup-storage-size"],
            shared_bytes_per_multiprocessor=limits["max-compute-workgroup-storage-size"],
            registers_per_multiprocessor=0,
            clock_hz=0,
            memory_bandwidth=0,
            cache_bytes=0,
            threads_per_block=limits["max-compute-invocations-per-workgroup"],
        )
        super().__init__(label, properties, (module.GPUError, RuntimeError), _line)
        self._has_clock = _CLOCK in adapter.features
        self._most = {name: limits[name] for name in _LIMITS}
        self._alignment = limits["min-storage-buffer-offset-alignment"]
        with self._calling("opening it"):
            self._device = adapter.request_device_sync(
                required_features=[_CLOCK] if self._has_clock else [], required_limits=self._most
            )
        self._queue = self._device.queue
        self._buffers: dict[int, Any] = {}
        self._starts: list[int] = []
        self._next = _ADDRESSES
        self._numbers: dict[int, Any] = {}

    def allocate(self, size: int) -> DeviceMemory:
        """Allocates a buffer of `size` bytes."""
        self._check_size(size, self._most["max-buffer-size"])
        usage = self._wgpu.BufferUsage
        with self._lock, self._calling(f"allocating {size:,} bytes"):
            buffer = self._device.create_buffer(
                size=-(-size // _PLACE) * _PLACE, usage=usage.STORAGE | usage.COPY_SRC | usage.COPY_DST
            )
            address, self._next = self._next, self._next + _ADDRESSES
            self._buffers[address] = buffer
            self._starts.append(address)
            return _Memory(self, address)

    def load(self, cubin: bytes, functions: Mapping[str, int]) -> DeviceModule:
        """Compiles the WGSL text in `cubin`. The keys of `functions` are the kernels' names; its values have no effect.
        Raises DeviceError with the compiler's message.
        """
        text = cubin.decode()
        bindings: list[tuple[str, str]] = []
        kernels: dict[str, tuple[tuple[str, str], ...]] = {}
        for kind, name, function in _DECLARED.findall(text):
            if function in functions:
                kernels[function], bindings = tuple(bindings), []
            elif name:
                bindings.append((kind, name))
        with self._calling("compiling kernels"):
            module = self._device.create_shader_module(code=text)
            return _Module(module, kernels)

    def copy_in(self, address: int, source: PinnedMemory, start: int, size: int) -> None:
        """Copies `size` bytes of `source`, from byte `start` on, to the invented address `address` in queue order;
        `source` may change as soon as the call returns.
        """
        if not size:
            return
        with self._lock, self._calling("copying"):
            buffer, offset = self._at(address)
            # Copies are of whole words. Arrays begin at multiples of a word, so that no other array is overwritten.
            data = source.array[start : start + -(-size // 4) * 4]
            self._queue.write_buffer(buffer, offset, np.pad(data, (0, -data.size % 4)))

    def copy_out(self, destination: PinnedMemory, start: int, address: int, size: int) -> None:
        """Copies `size` bytes from the invented address `address` to `destination`, from byte `start` of `destination`
        on. The copy follows all work in the queue; the method waits until it is done.
        """
        if not size:
            return
        with self._lock, self._calling("copying"):
            buffer, offset = self._at(address)
            data = self._queue.read_buffer(buffer, offset, -(-size // 4) * 4)
            destination.array[start : start + size] = np.frombuffer(data, np.uint8)[:size]

    def milliseconds(self, graph: DeviceGraph) -> float:
        """Runs a graph and waits; returns the milliseconds of its kernels by the device's clock, or by the host's clock
        if the device has none.
        """
        calls = launches_of(graph)
        with self._lock, self._calling("timing kernels"):
            self.synchronize()
            if not self._has_clock:
                started = time.perf_counter()
                self._submit(calls)
                self.synchronize()
                return (time.perf_counter() - started) * 1e3
            usage = self._wgpu.BufferUsage
            stamps = self._device.create_query_set(type="timestamp", count=2)
            result = self._device.create_buffer(size=16, usage=usage.QUERY_RESOLVE | usage.COPY_SRC)
            self._submit(calls, stamps, result)
            begin, end = np.frombuffer(self._queue.read_buffer(result, 0, 16), np.uint64).tolist()
            return (end - begin) / 1e6

    def synchronize(self) -> None:
        """Waits for the queue."""
        with self._calling("running"):
            # wgpu 0.32 fails in on_submitted_work_done_sync, and a read waits as well.
            self._queue.read_buffer(self._number(0), 0, 4)

    def close(self) -> None:
        """Waits for the queue, and frees the device."""
        with contextlib.suppress(Exception):
            self.synchronize()
        with contextlib.suppress(Exception):
            self._device.destroy()

    def free(self, address: int) -> None:
        """Frees the allocation that begins at an address."""
        with self._lock:
            self._starts.remove(address)
            with contextlib.suppress(Exception):
                self._buffers.pop(address).destroy()

    def _at(self, address: int) -> tuple[Any, int]:
        """The buffer whose range of invented addresses contains `address`, and the byte offset of the address in it."""
        start = self._starts[bisect.bisect_right(self._starts, address) - 1]
        return self._buffers[start], address - start

    def _encoded(self, module: DeviceModule, call: DeviceCall) -> _Call:
        assert isinstance(module, _Module)
        function = call.launch.function
        bindings = module.kernels[function]
        entries: list[dict[str, Any]] = []
        first: dict[str, int] = {}
        for number, ((_, name), argument) in enumerate(zip(bindings, call.arguments, strict=True)):
            if isinstance(argument, np.integer):
                resource = {"buffer": self._number(int(argument))}
            else:
                resource, ahead = self._range(argument)
                first[f"{name}_at_"] = ahead
            entries.append({"binding": number, "resource": resource})
        pipeline, layout = self._pipeline(module, function, bindings, first)
        return _Call(
            pipeline=pipeline,
            group=self._device.create_bind_group(layout=layout, entries=entries),
            grid=call.launch.grid,
        )

    def _range(self, address: Argument) -> tuple[dict[str, Any], int]:
        """Returns the part of a buffer to bind for the array at `address`, and the number of 32-bit words in this part
        before the array. Parts begin at multiples of the device's alignment.
        """
        assert not isinstance(address, TensorAt), "no target without bulk copies has tensor maps"
        buffer, offset = self._at(int(address))
        begin = offset // self._alignment * self._alignment
        size = min(buffer.size - begin, self._most["max-storage-buffer-binding-size"]) // 4 * 4
        return {"buffer": buffer, "offset": begin, "size": size}, (offset - begin) // 4

    def _number(self, value: int) -> Any:
        """A buffer with the int32 `value`; equal values share a buffer."""
        usage = self._wgpu.BufferUsage
        if value not in self._numbers:
            self._numbers[value] = self._device.create_buffer_with_data(
                data=np.array([value], np.int32), usage=usage.UNIFORM | usage.COPY_SRC
            )
        return self._numbers[value]

    def _pipeline(
        self,
        module: _Module,
        function: str,
        bindings: tuple[tuple[str, str], ...],
        first: Mapping[str, int],
    ) -> tuple[Any, Any]:
        """Returns the compute pipeline of the kernel `function`, and the layout of its bindings. `bindings`: (kind,
        name) of each. `first`: for each array, the number of words between the beginning of its binding and its first
        element (`_range`).
        """
        constants = {name: words for name, words in first.items() if words}
        key = function, tuple(sorted(constants.items()))
        if key not in module.pipelines:
            layout = self._device.create_bind_group_layout(
                entries=[
                    {"binding": n, "visibility": self._wgpu.ShaderStage.COMPUTE, "buffer": {"type": kind}}
                    for n, (kind, _) in enumerate(bindings)
                ]
            )
            pipeline = self._device.create_compute_pipeline(
                layout=self._device.create_pipeline_layout(bind_group_layouts=[layout]),
                compute={"module": module.shader, "entry_point": function, "constants": constants},
            )
            module.pipelines[key] = pipeline, layout
        return module.pipelines[key]

    def _submit(self, calls: Sequence[_Call], stamps: Any = None, result: Any = None) -> None:
        """Adds launches to the queue. `stamps`: a query set in which the device records the times before and after the
        launches; both times are then copied to the buffer `result` (None: no times are recorded).
        """
        encoder = self._device.create_command_encoder()
        timed = {
            "query_set": stamps,
            "beginning_of_pass_write_index": 0,
            "end_of_pass_write_index": 1,
        }
        compute = encoder.begin_compute_pass(**({} if stamps is None else {"timestamp_writes": timed}))
        for call in calls:
            compute.set_pipeline(call.pipeline)
            compute.set_bind_group(0, call.group)
            compute.dispatch_workgroups(*call.grid)
        compute.end()
        if stamps is not None:
            encoder.resolve_query_set(stamps, 0, 2, result, 0)
        self._queue.submit([encoder.finish()])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """A kernel launch: the pipeline, the bound arguments, and the numbers of blocks."""

    pipeline: Any
    group: Any
    grid: tuple[int, int, int]


class _Memory:
    def __init__(self, device: WgslDevice, address: int) -> None:
        self._device: WgslDevice | None = device
        self.address = address

    def close(self) -> None:
        device, self._device = self._device, None
        if device is not None:
            device.free(self.address)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


class _Module:
    """A compiled WGSL text. `kernels`: for each kernel, the (kind of memory, name) of its bindings. `pipelines`: the
    pipelines that earlier launches have made.
    """

    def __init__(self, shader: Any, kernels: dict[str, tuple[tuple[str, str], ...]]) -> None:
        self.shader, self.kernels = shader, kernels
        self.pipelines: dict[tuple[str, tuple[tuple[str, int], ...]], tuple[Any, Any]] = {}

    def close(self) -> None:
        self.shader, self.pipelines = None, {}


def _line(error: BaseException) -> str:
    """The message of an error of wgpu as one line. The quoted source and the name of the call are removed."""
    lines = [line.strip() for line in str(error).splitlines()]
    told = [line for line in lines if line and line[0] not in "│┌=^" and not line[0].isdigit()]
    told = [
        line
        for line in told
        if line not in ("Validation Error", "Caused by:") and not line.startswith("In wgpu")
    ]
    return "; ".join(told[:3]).rstrip(".") or type(error).__name__


def device_target(text: str, properties: DeviceProperties) -> WgslTarget:
    """The target that `text` ("wgsl ...") names, with the device's limits where `text` sets none."""
    own = device_limits(properties.threads_per_block, properties.shared_bytes_per_block)
    return replace(wgsl_target(parse_limits(text, NAME, own)), card=properties.name)


TEXTS = ArchiveKind(
    code="kernels.wgsl",
    text=None,
    target=lambda fields: read_target(
        fields, WgslTarget, [NAME], invocations=fields.at("invocations").integer(1)
    ),
    description="network compiled to WGSL",
)
KIND = GpuKind(
    target=WgslTarget,
    parse=parse_target,
    on_device=device_target,
    open=open_device,
    archive=TEXTS,
)
