"""Networks of kernels on a GPU: arrays by name in, arrays by name out, and a profile against the card's limits.

All memory is taken once: the arena of the storage plan, the constants, and the working memory of the kernel that needs
most, in this order in one piece. All kernels are captured once, as one graph.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from math import prod
from statistics import median

import numpy as np

from ..graph.floating.graph import FloatGraph
from ..graph.floating.storage_plan import StoragePlan
from ..target.cpu.errors import KernelArgumentError
from ..target.cuda.machine import CudaTarget, architecture_for
from ..target.cuda.module import CudaModule
from .cuda_device import Device, DeviceError, DeviceGraph, DeviceModule, PinnedMemory
from .cuda_launches import DeviceCall, kernel_calls, shared_bytes_of
from .network_inputs import check_inputs, input_shapes, input_types

ALIGNMENT = 256
"""Bytes; what device memory is aligned to (CUDA C++ Programming Guide, "Device Memory Accesses")."""
STAGING_BYTES = 16 * 2**20
"""Constants go to the device through page-locked memory of so many bytes at most."""
REPETITIONS = 10
"""Runs of one kernel between the events of a profile, so that their resolution does not count."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CudaLaunch:
    """One node of a network: the `module` of its kernels, by name, and what they work on.

    `tensors` by parameter are the network's, `constants` by parameter are arrays, packed as the kernels read them.
    `members` are the names of the ONNX nodes that it computes, `operations` its floating-point operations.
    """

    name: str
    operator: str
    members: tuple[str, ...]
    operations: int
    module: str
    tensors: Mapping[str, str]
    constants: Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CompiledModule:
    """Kernels of one program as text, launches and a cubin."""

    name: str
    module: CudaModule
    cubin: bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CudaNetworkCode:
    """A network compiled for `target`, on whatever machine."""

    graph: FloatGraph
    plan: StoragePlan
    launches: tuple[CudaLaunch, ...]
    target: CudaTarget
    modules: tuple[CompiledModule, ...]
    compile_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTime:
    """What one node took on the device, in the median of the runs.

    `gflops` is 0 where nothing is computed; `gigabytes_per_second` counts every array that the node reads or writes
    once. `kernels` is how many were launched.
    """

    name: str
    operator: str
    members: tuple[str, ...]
    kernels: int
    milliseconds: float
    gflops: float
    gigabytes_per_second: float


def check_device(device: Device, target: CudaTarget) -> None:
    """DeviceError where code for `target` does not run on a device."""
    properties = device.properties
    if not target.architecture.runs_on(properties.capability):
        major, minor = properties.capability
        raise DeviceError(
            f"{device.label}: is a {properties.name} of compute capability {major}.{minor}, and code for {target.arch} "
            f"does not run on it; compile with -arch={architecture_for(properties.capability).name}"
        )


class CudaNetwork:
    """A compiled network on `device`, which stays the caller's. Its memory and graph go with `close`, or with it.

    Runs take turns: a network has one arena. DeviceError where the code is not for this device or does not fit on it;
    then nothing stays allocated.
    """

    def __init__(self, code: CudaNetworkCode, device: Device) -> None:
        check_device(device, code.target)
        self.code = code
        self.device = device
        # Timers of a network take turns with its runs, also those that a profile makes.
        self._lock = threading.RLock()
        with ExitStack() as undo:
            places = _Places.of(code)
            memory = device.allocate(places.size)
            undo.callback(memory.close)
            self._arena = memory.address
            self._upload(places, memory.address)
            self._slots = _slots(code.graph, code.plan)
            ends = [start + size for _, start, size in self._slots.values()]
            self._pinned = device.allocate_pinned(max(1, *ends) if ends else 1)
            undo.callback(self._pinned.close)
            self._calls = self._bind(undo, places, memory.address)
            self._graph = None
            if any(self._calls):
                self._graph = device.capture(partial(self._launch, range(len(self._calls))))
                undo.callback(self._graph.close)
            self._finalizer = weakref.finalize(self, undo.pop_all().close)

    @property
    def graph(self) -> FloatGraph:
        """The fused graph."""
        return self.code.graph

    @property
    def target(self) -> CudaTarget:
        """What it was compiled for."""
        return self.code.target

    @property
    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        """The inputs' shapes by name."""
        return input_shapes(self.graph)

    @property
    def input_types(self) -> dict[str, np.dtype]:
        """The inputs' types by name."""
        return input_types(self.graph)

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """One inference: fresh arrays of the outputs by name.

        Inputs are arrays in the model's shapes and types, with any strides. KernelArgumentError for others, DeviceError
        where the device fails.
        """
        check_inputs(self.graph, inputs, frozenset())
        with self._lock:
            self._store(inputs)
            if self._graph is not None:
                self.device.run(self._graph)
            return self._results()

    def poison(self) -> None:
        """Fills activations and working memory with NaN (all bits 1), so that what kernels leave out shows in results.

        Else it may hold what a network before this one left there, right results among them. DeviceError where the
        device fails.
        """
        places = _Places.of(self.code)
        with self._lock:
            for start, end in ((0, self.code.plan.bytes), (places.workspace, places.size)):
                if end > start:
                    self._fill(self._arena + start, end - start)

    def time(self, inputs: Mapping[str, np.ndarray], *, repeat: int = 20) -> list[float]:
        """Milliseconds of each of `repeat` runs of all kernels by the device's own clock, without copies from and to
        the host; arguments and errors as of `run`."""
        self._check_repeat(repeat)
        with closing(self.timer(inputs)) as timer:
            return [timer.milliseconds() for _ in range(repeat)]

    def timer(self, inputs: Mapping[str, np.ndarray], *, repetitions: int = 1) -> NetworkTimer:
        """Times runs whenever it is asked, several at once if they are short; arguments and errors as of `run`.

        Only the first run is on these inputs: later kernels use their memory again, so others are on what these left
        there, at the same addresses. To be closed before the network is.
        """
        check_inputs(self.graph, inputs, frozenset())
        with self._lock:
            self._store(inputs)
            # What the copies read is the next run's to write.
            self.device.synchronize()
            numbers = [*range(len(self._calls))] * repetitions
            graph = self.device.capture(partial(self._launch, numbers)) if any(self._calls) else None
            return NetworkTimer(self.device, graph, repetitions, self._lock)

    def profile(self, inputs: Mapping[str, np.ndarray], *, repeat: int = 20) -> tuple[DeviceTime, ...]:
        """What each node takes, in the order of their runs; arguments and errors as of `run`.

        A node's kernels run `REPETITIONS` times in a row between two events, so what fits into the level 2 cache is
        read from there.
        """
        self._check_repeat(repeat)
        self.run(inputs)
        with self._lock:
            return tuple([self._profiled(number, repeat) for number in range(len(self._calls))])

    def close(self) -> None:
        """Gives back its memory; it cannot run any more. More than once does nothing."""
        with self._lock:
            self._finalizer()

    def __enter__(self) -> CudaNetwork:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _profiled(self, number: int, repeat: int) -> DeviceTime:
        launch, calls = self.code.launches[number], self._calls[number]
        graph = self.device.capture(partial(self._launch, [number] * REPETITIONS)) if calls else None
        with closing(NetworkTimer(self.device, graph, REPETITIONS, self._lock)) as timer:
            milliseconds = median([timer.milliseconds() for _ in range(repeat)])
        module = next(m.module for m in self.code.modules if m.name == launch.module)
        size = sum(prod(p.shape) * p.dtype.bits // 8 for p in module.parameters)
        per_second = 1e3 / milliseconds if milliseconds else 0.0
        return DeviceTime(
            name=launch.name,
            operator=launch.operator,
            members=launch.members,
            kernels=len(calls),
            milliseconds=milliseconds,
            gflops=launch.operations * per_second / 1e9,
            gigabytes_per_second=size * per_second / 1e9,
        )

    def _check_repeat(self, repeat: int) -> None:
        if repeat < 1:
            raise KernelArgumentError(f"cannot time {repeat} runs; ask for at least 1")

    def _launch(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            for call in self._calls[number]:
                self.device.launch(
                    self._modules[self.code.launches[number].module],
                    call.function,
                    grid=call.grid,
                    block=call.block,
                    shared_bytes=call.shared_bytes,
                    arguments=call.arguments,
                    overlaps=call.overlaps,
                )

    def _bind(self, undo: ExitStack, places: _Places, base: int) -> list[list[DeviceCall]]:
        """Loads the modules; the calls of each launch with their addresses."""
        self._modules: dict[str, DeviceModule] = {}
        by_name = {compiled.name: compiled for compiled in self.code.modules}
        for compiled in self.code.modules:
            module = self.device.load(compiled.cubin, shared_bytes_of(compiled.module))
            undo.callback(module.close)
            self._modules[compiled.name] = module
        calls: list[list[DeviceCall]] = []
        for launch in self.code.launches:
            addresses = {p: base + self.code.plan.offsets[t] for p, t in launch.tensors.items()}
            addresses.update({p: base + places.constants[id(a)] for p, a in launch.constants.items()})
            module = by_name[launch.module].module
            calls.append(list(kernel_calls(module, addresses, base + places.workspace)))
        return calls

    def _upload(self, places: _Places, base: int) -> None:
        """All constants, through page-locked memory that is given back at once."""
        arrays = {id(a): a for launch in self.code.launches for a in launch.constants.values()}
        largest = max((array.nbytes for array in arrays.values()), default=0)
        if not largest:
            return
        staging = self.device.allocate_pinned(min(largest, STAGING_BYTES))
        try:
            for key, array in arrays.items():
                _upload(self.device, staging, np.ascontiguousarray(array), base + places.constants[key])
        finally:
            staging.close()

    def _fill(self, address: int, size: int) -> None:
        """Bytes of 0xFF, through page-locked memory that is given back at once."""
        staging = self.device.allocate_pinned(min(size, STAGING_BYTES))
        try:
            staging.array[:] = 0xFF
            for start in range(0, size, staging.array.size):
                self.device.copy_in(address + start, staging, 0, min(size - start, staging.array.size))
            self.device.synchronize()
        finally:
            staging.close()

    def _store(self, inputs: Mapping[str, np.ndarray]) -> None:
        for name, array in inputs.items():
            if name in self._slots:
                address, start, size = self._slots[name]
                view = self._pinned.array[start : start + size].view(array.dtype).reshape(array.shape)
                np.copyto(view, array)
                self.device.copy_in(self._arena + address, self._pinned, start, size)

    def _results(self) -> dict[str, np.ndarray]:
        for output in self.graph.outputs:
            if output.tensor in self._slots:
                address, start, size = self._slots[output.tensor]
                self.device.copy_out(self._pinned, start, self._arena + address, size)
        self.device.synchronize()
        results: dict[str, np.ndarray] = {}
        for output in self.graph.outputs:
            if output.tensor in self.graph.constants:
                results[output.name] = self.graph.constants[output.tensor].copy()
                continue
            tensor = self.graph.tensors[output.tensor]
            _, start, size = self._slots[output.tensor]
            flat = self._pinned.array[start : start + size].view(tensor.dtype.numpy)
            results[output.name] = flat.reshape(tensor.storage).copy()
        return results


class NetworkTimer:
    """A graph of `repetitions` runs, None for nothing at all, which has run once before the first time counts."""

    def __init__(
        self,
        device: Device,
        graph: DeviceGraph | None,
        repetitions: int,
        lock: contextlib.AbstractContextManager[object],
    ) -> None:
        self._device, self._graph, self._repetitions, self._lock = device, graph, repetitions, lock
        self._warm = False

    def milliseconds(self) -> float:
        """One run's time by the device's clock, without copies from and to the host."""
        if self._graph is None:
            return 0.0
        with self._lock:
            if not self._warm:
                self._device.run(self._graph)
                self._warm = True
            return self._device.milliseconds(self._graph) / self._repetitions

    def close(self) -> None:
        """Gives back the graph."""
        if self._graph is not None:
            self._graph.close()
            self._graph = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Places:
    """Byte offsets in a network's device memory, of constants by the arrays' identity; the arena lies at 0."""

    constants: Mapping[int, int]
    workspace: int
    size: int

    @staticmethod
    def of(code: CudaNetworkCode) -> _Places:
        end = _aligned(code.plan.bytes)
        constants: dict[int, int] = {}
        for launch in code.launches:
            for array in launch.constants.values():
                if id(array) not in constants:
                    constants[id(array)] = end
                    end = _aligned(end + array.nbytes)
        workspace = max((compiled.module.workspace_bytes for compiled in code.modules), default=0)
        return _Places(constants=constants, workspace=end, size=max(ALIGNMENT, _aligned(end + workspace)))


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _slots(graph: FloatGraph, plan: StoragePlan) -> dict[str, tuple[int, int, int]]:
    """Of each tensor that the host writes or reads: offset in the arena, first byte in page-locked memory, bytes."""
    slots: dict[str, tuple[int, int, int]] = {}
    end = 0
    for name in (*graph.inputs, *[output.tensor for output in graph.outputs]):
        if name in plan.offsets and name not in slots:
            size = graph.tensors[name].bytes
            slots[name] = (plan.offsets[name], end, size)
            end = _aligned(end + size)
    return slots


def _upload(device: Device, staging: PinnedMemory, array: np.ndarray, address: int) -> None:
    raw = array.reshape(-1).view(np.uint8)
    for start in range(0, raw.size, staging.array.size):
        part = raw[start : start + staging.array.size]
        staging.array[: part.size] = part
        device.copy_in(address + start, staging, 0, part.size)
        device.synchronize()
