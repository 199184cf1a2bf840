"""Networks of compiled kernels on this machine: arrays by name in, arrays by name out, and a profile."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from vdla.util.machine_memory import memory_problem

from ..codegen.cpu.errors import MachineMemoryError, TargetError
from ..codegen.cpu.kernel import BoundKernel, Kernel, working_room
from ..codegen.cpu.machine import CpuTarget
from ..codegen.cpu.machine_code import assembly_of
from ..codegen.cpu.memory import aligned_empty
from ..codegen.cpu.module import Module
from ..codegen.cpu.pool import Pool
from ..graph.graph import Graph, Tensor
from ..graph.storage_plan import StoragePlan
from .launch import Launch
from .network_inputs import (
    GraphNetwork,
    OutputArrays,
    accesses_of,
    address_of,
    check_ids,
    check_inputs,
    direct_inputs,
    direct_outputs,
)
from .readable import Texts

if TYPE_CHECKING:
    from .kernel_times import LaunchTime


class CpuNetwork(GraphNetwork):
    """A compiled network. `graph` is the fused graph with layouts, `plan` has the offsets of its tensors in the arena.

    `quantized`: the float32 inputs that are quantized; they must not contain NaN, which has no integer value. Only one
    run executes at a time, since a network has one arena. `close`, a `with` block or garbage collection ends the
    network's threads.
    """

    def __init__(
        self,
        *,
        graph: Graph,
        plan: StoragePlan,
        launches: tuple[Launch[Kernel], ...],
        target: CpuTarget,
        compile_seconds: float,
        quantized: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(graph)
        self.plan = plan
        self.launches = launches
        self.target = target
        self.compile_seconds = compile_seconds
        self.quantized = quantized
        accesses = accesses_of((launch.tensors, launch.kernel.outputs) for launch in launches)
        self._direct_inputs = direct_inputs(graph, plan, accesses)
        self._outputs = OutputArrays(
            {
                name: (graph.tensors[name].shape, graph.tensors[name].dtype.numpy)
                for name in direct_outputs(graph, plan, accesses)
            }
        )
        self._rows = {
            port.name: port.rows for port in self.inputs if port.rows is not None and 0 not in port.shape
        }
        self._expected = {port.name: (port.shape, port.dtype) for port in self.inputs}
        if problem := memory_problem(plan.bytes):
            raise MachineMemoryError(
                f"network '{graph.name}' {problem}; run the network on a machine with more memory"
            )
        self._arena = aligned_empty((max(1, plan.bytes),), np.dtype(np.uint8))
        self.lock = threading.Lock()
        self._pools: dict[int, Pool] = {}
        self._bound: dict[int, list[BoundKernel]] = {}
        # For each tensor that may be in the caller's array: the kernels that access it, and the parameter's position.
        self._places: dict[int, dict[str, list[tuple[BoundKernel, int]]]] = {}
        # A pool's threads must end before the memory that they access is freed.
        self._finalizer = weakref.finalize(self, _close, self._pools)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """All kernels of the network, each only once."""
        return tuple({id(launch.kernel): launch.kernel for launch in self.launches}.values())

    def run(self, inputs: Mapping[str, np.ndarray], *, threads: int = 1) -> dict[str, np.ndarray]:
        """One inference: fresh arrays of the outputs by name.

        Inputs are arrays in the model's shapes and types, with any strides. Raises KernelArgumentError for other
        inputs, TargetError for less than one thread.
        """
        self._check(inputs)
        with self.lock:
            bound = self.ready(threads)
            outputs = self.enter(threads, inputs)
            if threads == 1:
                for kernel in bound:
                    kernel.run_in_turn()
            else:
                with self._pools[threads].turn():
                    for kernel in bound:
                        kernel.run_in_turn()
            return self._results(outputs)

    def _check(self, inputs: Mapping[str, np.ndarray]) -> None:
        """Checks inputs as `check_inputs` does. For networks that quantize no input, a faster check comes first: it
        compares shapes and types, and reads values only of inputs that are row numbers of a table (`Port.rows`).
        """
        # `isinstance(inputs, Mapping)` would take a twentieth of the time of a short network.
        if not self.quantized and type(inputs) is dict and inputs.keys() == self._expected.keys():
            for name, (shape, dtype) in self._expected.items():
                array = inputs[name]
                if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != dtype:
                    break
            else:
                for name, rows in self._rows.items():
                    check_ids(name, rows, inputs[name])
                return
        check_inputs(self.name, self.inputs, inputs, self.quantized)

    def profile(
        self, inputs: Mapping[str, np.ndarray], *, threads: int = 1, repeat: int = 20
    ) -> tuple[LaunchTime, ...]:
        """Median wall-clock time of each kernel over `repeat` runs, in the order of execution; errors as in `run`."""
        from .kernel_times import launch_times

        return launch_times(self, inputs, threads=threads, repeat=repeat)

    def close(self) -> None:
        """Ends the threads. A later run of the network starts new threads."""
        with self.lock:
            for threads in list(self._pools):
                self._pools.pop(threads).close()
                self._bound.pop(threads, None)
                self._places.pop(threads, None)

    def texts(self) -> Texts:
        """The network's code by kind: LLVM IR, and LLVM's assembly for the target. Each kernel occurs once."""
        return {
            **self.of_gpu,
            "llvm": lambda: self._text("llvm", lambda module: module.text),
            "asm": self._assembly,
        }

    def _assembly(self) -> str:
        return self._text("asm", lambda module: module.text and assembly_of(module, self.target))

    def _text(self, kind: str, text: Callable[[Module], str]) -> str:
        names = {id(launch.kernel): launch.name for launch in reversed(self.launches)}
        return self.text_of(kind, [(names[id(kernel)], text(kernel.module)) for kernel in self.kernels])

    def ready(self, threads: int) -> list[BoundKernel]:
        """The launches bound to their arrays and, for more than one thread, to a pool of threads."""
        if not isinstance(threads, int):
            raise TargetError(f"{self.name}: threads is {threads!r}; give a number of at least 1")
        if threads in self._bound:
            return self._bound[threads]
        # Pool refuses less than one thread; with one, kernels run their loops themselves.
        pool = None if threads == 1 else Pool(threads)
        if pool is not None:
            self._pools[threads] = pool
        room = working_room([launch.kernel for launch in self.launches], pool)
        bound: list[BoundKernel] = []
        for launch in self.launches:
            arrays = dict(launch.constants)
            for parameter in launch.kernel.program.parameters:
                if parameter.name in launch.tensors:
                    view = self._view(launch.tensors[parameter.name])
                    arrays[parameter.name] = view.reshape(parameter.shape)
            bound.append(launch.kernel.bind(arrays, pool, room))
        self._bound[threads] = bound
        direct = {*self._direct_inputs, *self._outputs.names}
        places: dict[str, list[tuple[BoundKernel, int]]] = {}
        for launch, kernel in zip(self.launches, bound, strict=True):
            for position, parameter in enumerate(launch.kernel.program.parameters):
                if (tensor := launch.tensors.get(parameter.name)) in direct:
                    places.setdefault(tensor, []).append((kernel, position))
        self._places[threads] = places
        return bound

    def _view(self, name: str) -> np.ndarray:
        """The array of a tensor in the arena, in the shape in which the tensor is stored."""
        tensor: Tensor = self.graph.tensors[name]
        start = self.plan.offsets[name]
        flat = self._arena[start : start + tensor.bytes].view(tensor.dtype.numpy)
        return flat.reshape(tensor.storage)

    def enter(self, threads: int, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Prepares a run on `threads` threads: tells the kernels the addresses of inputs and outputs. Returns the new
        arrays of outputs that kernels write directly, by tensor. Kernels read contiguous inputs in the caller's arrays;
        other inputs are copied into the arena.
        """
        places = self._places[threads]
        for name, array in inputs.items():
            if name not in self.plan.offsets:
                continue
            address = None
            if name in self._direct_inputs:
                flags = array.flags
                if flags.c_contiguous and flags.aligned:
                    address = address_of(array)
            if address is None:
                view = self._view(name)
                np.copyto(view, array)
                address = address_of(view)
            for kernel, position in places.get(name, ()):
                kernel.point(position, address)
        outputs: dict[str, np.ndarray] = {}
        for name, array, address in self._outputs.take():
            outputs[name] = array
            for kernel, position in places[name]:
                kernel.point(position, address)
        return outputs

    def _results(self, outputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        results: dict[str, np.ndarray] = {}
        for output in self.graph.outputs:
            if output.tensor in self.graph.constants:
                results[output.name] = self.graph.constants[output.tensor].copy()
            elif output.tensor in outputs:
                results[output.name] = outputs[output.tensor]
            else:
                results[output.name] = self._view(output.tensor).copy()
        return results


def _close(pools: dict[int, Pool]) -> None:
    for pool in pools.values():
        pool.close()
