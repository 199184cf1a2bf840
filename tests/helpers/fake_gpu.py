"""A fake GPU for tests: its memory is a numpy array, its kernels are Python functions, and any call can be made to
fail.

It counts open resources, asserts correct use where a GPU would crash, and runs captured graphs only when they are
launched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from cuda_on_host import HostLaunch, Place, Tensor, run_source
from cuda_on_host.modules import tensor_of

from vdla.compiler.runtime.cuda_device import (
    Argument,
    Device,
    DeviceCall,
    DeviceError,
    DeviceGraph,
    DeviceMemory,
    DeviceModule,
    DeviceProperties,
    PinnedMemory,
    TensorAt,
)

BASE = 1 << 32
"""Address of the first byte of device memory; lower addresses are invalid."""
POISON = 0xA5

Kernel = Callable[["FakeDevice", tuple[int, int, int], tuple[Argument, ...]], None]
"""A fake kernel: a Python function that changes the device's memory, given its grid and arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """One kernel launch in a captured graph."""

    module: Handle
    function: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    arguments: tuple[Argument, ...]


@dataclass(eq=False)
class Handle:
    """A resource of the fake device (memory, module, graph ...). It is open at first and must be closed once."""

    device: FakeDevice
    address: int = 0
    array: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint8))
    functions: Mapping[str, int] = field(default_factory=dict)
    cubin: bytes = b""
    work: list[Launched] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.device.open.append(self)

    def close(self) -> None:
        self.device.open.remove(self)
        self.array = np.zeros(0, np.uint8)
        self.device.take_back(self.address)


class FakeDevice:
    """A fake `Device` with `memory_bytes` of memory and the `kernels` by name. The first `fails_at` calls of the device
    succeed and all later ones raise DeviceError (None: no call fails).
    """

    label = "cuda:0"

    def __init__(
        self,
        kernels: Mapping[str, Kernel],
        *,
        memory_bytes: int = 1 << 22,
        fails_at: int | None = None,
        capability: tuple[int, int] = (9, 0),
    ) -> None:
        self.kernels = kernels
        self.properties = DeviceProperties(
            name="Fake",
            capability=capability,
            driver="13.0",
            multiprocessors=4,
            memory_bytes=memory_bytes,
            shared_bytes_per_block=232448,
            shared_bytes_per_multiprocessor=233472,
            registers_per_multiprocessor=65536,
            clock_hz=10**9,
            memory_bandwidth=10**12,
            cache_bytes=1 << 20,
        )
        self.open: list[Handle] = []
        self.calls = 0
        self.fails_at = fails_at
        self.launched: list[str] = []
        self.pinned: list[int] = []
        self._memory = np.full(memory_bytes, POISON, np.uint8)
        self._used = 0
        self._capture: Handle | None = None

    def bytes_at(self, address: int, size: int) -> np.ndarray:
        """A uint8 view of `size` bytes of device memory from `address` on."""
        start = address - BASE
        assert start >= 0 and start + size <= self._used, "outside of the memory that was handed out"
        return self._memory[start : start + size]

    def floats(self, address: Argument, count: int) -> np.ndarray:
        """A float32 view of `count` elements of device memory from `address` on."""
        assert not isinstance(address, TensorAt) and int(address) % 4 == 0
        return self.bytes_at(int(address), 4 * count).view(np.float32)

    def allocate(self, size: int) -> DeviceMemory:
        self._call()
        if self._used + size > self._memory.size:
            raise DeviceError(f"{self.label}: out of device memory: {size} bytes")
        address = BASE + self._used
        self._used += -(-size // 256) * 256
        return Handle(self, address=address)

    def take_back(self, address: int) -> None:
        """Frees the memory at `address` if no later allocation is open. The next allocation gets the same memory, with
        its old contents.
        """
        if address and not any(handle.address > address for handle in self.open):
            self._used = address - BASE

    def allocate_pinned(self, size: int) -> PinnedMemory:
        self._call()
        self.pinned.append(size)
        return Handle(self, array=np.full(size, POISON, np.uint8))

    def load(self, cubin: bytes, functions: Mapping[str, int]) -> DeviceModule:
        self._call()
        assert cubin
        return Handle(self, functions=functions, cubin=cubin)

    def copy_in(self, address: int, source: PinnedMemory, start: int, size: int) -> None:
        self._call()
        assert self._capture is None
        self.bytes_at(address, size)[:] = source.array[start : start + size]

    def copy_out(self, destination: PinnedMemory, start: int, address: int, size: int) -> None:
        self._call()
        assert self._capture is None
        destination.array[start : start + size] = self.bytes_at(address, size)

    def launch(self, module: DeviceModule, call: DeviceCall) -> None:
        function, shared_bytes, arguments = call.launch.function, call.launch.shared_bytes, call.arguments
        self._call()
        assert isinstance(module, Handle) and module in self.open
        assert shared_bytes <= module.functions[function]
        for argument in arguments:
            if isinstance(argument, TensorAt):
                tensor = argument.tensor
                self.bytes_at(argument.address, int(np.prod(tensor.shape)) * tensor.element_bytes)
                assert argument.address % 16 == 0 and len(tensor.shape) == len(tensor.box) <= 5
        assert self._capture is not None, "networks launch graphs"
        self._capture.work.append(
            Launched(
                module=module,
                function=function,
                grid=call.launch.grid,
                block=call.launch.block,
                shared_bytes=shared_bytes,
                arguments=arguments,
            )
        )

    def capture(self, work: Callable[[], None]) -> DeviceGraph:
        self._call()
        graph = Handle(self)
        self._capture = graph
        try:
            work()
        except BaseException:
            graph.close()
            raise
        finally:
            self._capture = None
        return graph

    def run(self, graph: DeviceGraph) -> None:
        self._call()
        assert isinstance(graph, Handle) and graph in self.open
        self.launched += [launched.function for launched in graph.work]
        self.execute(graph.work)

    def execute(self, work: Sequence[Launched]) -> None:
        """Runs the kernels of the launches in order."""
        for launched in work:
            self.kernels[launched.function](self, launched.grid, launched.arguments)

    def milliseconds(self, graph: DeviceGraph) -> float:
        assert isinstance(graph, Handle)
        self.run(graph)
        return 0.25 * len(graph.work)

    def synchronize(self) -> None:
        self._call()

    def close(self) -> None:
        assert not self.open, "closed with memory, modules or graphs still open"

    def _call(self) -> None:
        self.calls += 1
        if self.fails_at is not None and self.calls > self.fails_at:
            raise DeviceError(f"{self.label}: call {self.calls} failed")


class HostDevice(FakeDevice):
    """A fake GPU that runs CUDA C++ on the CPU by `cuda_on_host`; its "cubins" are the CUDA C++ texts."""

    def __init__(self, *, memory_bytes: int = 1 << 22) -> None:
        super().__init__({}, memory_bytes=memory_bytes)

    def execute(self, work: Sequence[Launched]) -> None:
        """Runs all launches as one program on the allocated memory."""
        modules = {launched.module.cubin: f"module_{number}" for number, launched in enumerate(work)}
        source = "\n".join(f"namespace {name} {{\n{text.decode()}\n}}" for text, name in modules.items())
        launches = [
            HostLaunch(
                function=f"{modules[launched.module.cubin]}::{launched.function}",
                grid=launched.grid,
                block=launched.block,
                shared_bytes=launched.shared_bytes,
                arguments=tuple(map(_host_argument, launched.arguments)),
            )
            for launched in work
        ]
        results = run_source(source, launches, {"memory": self._memory[: self._used]}, orders=2, seconds=400)
        self._memory[: self._used] = results["memory"]


def _host_argument(argument: Argument) -> int | Place | Tensor:
    match argument:
        case np.integer():
            return int(argument)
        case TensorAt(address=address, tensor=tensor):
            return tensor_of(Place(array="memory", offset=address - BASE), tensor)
    return Place(array="memory", offset=argument - BASE)


def as_device(fake: FakeDevice) -> Device:
    """The fake device with the type `Device`, so that type checkers verify that it has all of its methods."""
    return fake
