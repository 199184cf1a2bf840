"""Networks of kernels on a GPU: arrays by name in, arrays by name out, and a profile against the device's limits.

All memory is one allocation (`cuda_memory`). All kernels are captured once, as one graph.
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

from ..codegen.cpu.errors import KernelArgumentError
from ..codegen.cuda.machine import GpuTarget
from .cuda_code import CudaNetworkCode
from .cuda_device import Device, DeviceCall, DeviceError, DeviceGraph, DeviceModule
from .cuda_launches import kernel_calls, shared_bytes_of
from .cuda_memory import Places, address_of, fill_with_ones, host_slots, upload_constants
from .gpu_text import network_text
from .network_inputs import GraphNetwork, check_inputs
from .readable import Texts

REPETITIONS = 10
"""Number of times that a profile runs each kernel between two timing events of the device. One run would be too short
for the limited resolution of the events.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTime:
    """Median time of one node of the graph on the device, over several runs. `members`: names of the ONNX nodes that
    form the node.

    `gflops` is 0 if the node only moves data. For `gigabytes_per_second`, each array that the node reads or writes
    counts once. `kernels`: number of launches.
    """

    name: str
    operator: str
    members: tuple[str, ...]
    kernels: int
    milliseconds: float
    gflops: float
    gigabytes_per_second: float


def check_device(device: Device, target: GpuTarget) -> None:
    """Raises DeviceError if code for `target` does not run on the device."""
    p = device.properties
    reason = target.refusal(p.name, p.capability, p.threads_per_block, p.shared_bytes_per_block)
    if reason is not None:
        raise DeviceError(f"{device.label}: {reason}")


class CudaNetwork(GraphNetwork):
    """A compiled network on `device`, which the caller owns. `close` or garbage collection frees the device memory and
    the GPU graph of the network.

    Only one run executes at a time, since a network has one arena. Raises DeviceError if the code is not for this
    device, or if the network does not fit into the device's memory; then nothing stays allocated.
    """

    def __init__(self, code: CudaNetworkCode, device: Device) -> None:
        check_device(device, code.target)
        super().__init__(code.graph)
        self.code = code
        self.device = device
        # Timers of a network and its profile also run one at a time, like its runs.
        self._lock = threading.RLock()
        with ExitStack() as undo:
            places = Places.of(code)
            memory = device.allocate(places.size)
            undo.callback(memory.close)
            self._arena = memory.address
            upload_constants(device, code, places, memory.address)
            self._slots = host_slots(code.graph, code.plan)
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
    def target(self) -> GpuTarget:
        """The GPU target for which the network was compiled."""
        return self.code.target

    def run(self, inputs: Mapping[str, np.ndarray], *, threads: int = 1) -> dict[str, np.ndarray]:
        """One inference: fresh arrays of the outputs by name.

        Inputs are arrays in the model's shapes and types, with any strides. `threads` has no effect. Raises
        KernelArgumentError for other inputs, DeviceError if the device fails.
        """
        self._check(inputs)
        with self._lock:
            self._store(inputs)
            if self._graph is not None:
                self.device.run(self._graph)
            return self._results()

    def poison(self) -> None:
        """Fills activations and working memory with NaN (all bits 1), so that elements that no kernel writes become
        visible.

        Without poison the memory may contain right results of an earlier network. Raises DeviceError if the device
        fails.
        """
        places = Places.of(self.code)
        with self._lock:
            for start, end in ((0, self.code.plan.bytes), (places.workspace, places.size)):
                if end > start:
                    fill_with_ones(self.device, self._arena + start, end - start)

    def time(self, inputs: Mapping[str, np.ndarray], *, repeat: int = 20) -> list[float]:
        """Milliseconds of each of `repeat` runs of all kernels by the device's own clock, without copies from and to
        the host.

        Arguments and errors as in `run`; also raises KernelArgumentError if `repeat` is less than 1.
        """
        self._check_repeat(repeat)
        with closing(self.timer(inputs)) as timer:
            return [timer.milliseconds() for _ in range(repeat)]

    def timer(self, inputs: Mapping[str, np.ndarray], *, repetitions: int = 1) -> NetworkTimer:
        """A timer of a GPU graph with `repetitions` runs; arguments and errors as in `run`.

        Only the first run gets the given inputs: kernels reuse the inputs' memory, so later runs read other data at the
        same addresses. The caller must close the timer before the network.
        """
        self._check(inputs)
        with self._lock:
            self._store(inputs)
            # The next run overwrites the page-locked memory that the copies read.
            self.device.synchronize()
            numbers = [*range(len(self._calls))] * repetitions
            graph = self.device.capture(partial(self._launch, numbers)) if any(self._calls) else None
            return NetworkTimer(self.device, graph, repetitions, self._lock)

    def profile(
        self, inputs: Mapping[str, np.ndarray], *, threads: int = 1, repeat: int = 20
    ) -> tuple[DeviceTime, ...]:
        """The median time of each node over `repeat` measurements (at least 1), in the order in which nodes run;
        arguments and errors as in `run`. `threads` has no effect.

        A node's kernels run `REPETITIONS` times in a row between two events, so arrays that fit into the level 2 cache
        are read from that cache.
        """
        self._check_repeat(repeat)
        self.run(inputs)
        with self._lock:
            return tuple([self._profiled(number, repeat) for number in range(len(self._calls))])

    def close(self) -> None:
        """Frees the network's memory, after which it cannot run. A second call does nothing."""
        with self._lock:
            self._finalizer()

    def texts(self) -> Texts:
        """The text of the kernels in the language of the target: "cuda", "opencl" or "wgsl"."""
        kind = self.target.described["kind"]
        return {kind: self._text}

    def _text(self) -> str:
        modules = [(m.name, m.module) for m in self.code.modules]
        if all(module.source for _, module in modules):
            return network_text(self.target.described["kind"], self.code.graph, modules, self.code.launches)
        raise self.without_text(self.target.described["kind"])

    def _profiled(self, number: int, repeat: int) -> DeviceTime:
        launch, calls = self.code.launches[number], self._calls[number]
        graph = self.device.capture(partial(self._launch, [number] * REPETITIONS)) if calls else None
        with closing(NetworkTimer(self.device, graph, REPETITIONS, self._lock)) as timer:
            milliseconds = median([timer.milliseconds() for _ in range(repeat)])
        module = next(m.module for m in self.code.modules if m.name == launch.kernel)
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

    def _check(self, inputs: Mapping[str, np.ndarray]) -> None:
        check_inputs(self.name, self.inputs, inputs, self.code.quantized)
        for name, array in inputs.items():
            if (reason := self.target.unsuitable(array)) is not None:
                raise KernelArgumentError(f"input {name!r} {reason}")

    def _check_repeat(self, repeat: int) -> None:
        if repeat < 1:
            raise KernelArgumentError(f"cannot time {repeat} runs; ask for at least 1")

    def _launch(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            for call in self._calls[number]:
                self.device.launch(self._modules[self.code.launches[number].kernel], call)

    def _bind(self, undo: ExitStack, places: Places, base: int) -> list[list[DeviceCall]]:
        """Loads the modules, and returns the device calls of each launch.

        `places`: where the network's data is in its memory. `base`: address of this memory. `undo`: collects functions
        that free the network's resources; for each module, a function that closes the module is added.
        """
        self._modules: dict[str, DeviceModule] = {}
        by_name = {compiled.name: compiled for compiled in self.code.modules}
        for compiled in self.code.modules:
            module = self.device.load(compiled.cubin, shared_bytes_of(compiled.module))
            undo.callback(module.close)
            self._modules[compiled.name] = module
        calls: list[list[DeviceCall]] = []
        for launch in self.code.launches:
            addresses = {p: base + self.code.plan.offsets[t] for p, t in launch.tensors.items()}
            addresses.update({p: base + places.constants[address_of(a)] for p, a in launch.constants.items()})
            module = by_name[launch.kernel].module
            calls.append(list(kernel_calls(module, addresses, base + places.workspace)))
        return calls

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
    """Times a network by a GPU graph that contains `repetitions` runs. The graph runs once before as a warm-up. If the
    network has no launches, the graph is None and the time 0.
    """

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
        """The time of one run by the device's clock, without copies from and to the host."""
        if self._graph is None:
            return 0.0
        with self._lock:
            if not self._warm:
                self._device.run(self._graph)
                self._warm = True
            return self._device.milliseconds(self._graph) / self._repetitions

    def close(self) -> None:
        """Frees the graph."""
        if self._graph is not None:
            self._graph.close()
            self._graph = None
