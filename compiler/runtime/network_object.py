"""A whole compiled network as one C function: an object with its weights, a header, a driver; or a shared library."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..graph.floating.graph import FloatGraph
from ..graph.floating.storage_plan import view_roots
from ..ir.expr import Buffer
from ..target.cpu.ahead_of_time import ObjectCode, emit_object
from ..target.cpu.machine import CpuTarget
from ..target.cpu.module import Module, lower
from ..target.cpu.sequence import Arena, Argument, Call, Constant, Place, sequence
from ..te.ops.movement import permute
from .network_archive import NetworkCode


def emit_network(network: NetworkCode, *, name: str) -> ObjectCode:
    """The network as one freestanding object whose function `name` takes the inputs and outputs in their order.

    The constants are part of the object, the arena is the function's workspace. Outputs that share memory, that are
    inputs or constants, are copied. Equal networks give equal bytes. ValueError where C does not take `name`;
    TargetError where the processor lacks instructions for a kernel.
    """
    graph = network.graph
    ends = _Ends(graph)
    modules = {module.function: module for module in network.modules}
    constants: dict[str, np.ndarray] = {}
    calls: list[Call] = []
    for number, launch in enumerate(network.launches):
        places: dict[str, Place] = {}
        for parameter, array in launch.constants.items():
            places[parameter] = Constant(f"launch{number}.{parameter}")
            constants[f"launch{number}.{parameter}"] = array
        for parameter, tensor in launch.tensors.items():
            places[parameter] = ends.place(tensor, network.plan.offsets)
        calls.append(Call(module=modules[launch.function], places=places))
    for output, tensor in ends.copies.items():
        copy = _copy(graph.tensors[tensor].shape, network.target, modules)
        if tensor in graph.constants:
            source: Place = Constant(f"output.{output}")
            constants[source.name] = graph.constants[tensor].reshape(copy.parameters[0].shape)
        else:
            source = ends.place(tensor, network.plan.offsets)
        calls.append(Call(module=copy, places={"X": source, "Y": Argument(output)}))
    whole = sequence(
        calls,
        parameters=ends.parameters,
        arena_bytes=network.plan.bytes,
        constants=constants,
        target=network.target,
        function=name,
    )
    return emit_object([*modules.values(), whole], network.target, name=name, exported=[name])


class _Ends:
    """The arrays of the caller, and which tensors lie in them; `copies` are outputs that need a kernel."""

    def __init__(self, graph: FloatGraph) -> None:
        self._roots = view_roots(graph)
        self._arguments: dict[str, str] = {name: name for name in graph.inputs}
        self.copies: dict[str, str] = {}
        self.parameters = [_buffer(graph, name, name) for name in graph.inputs]
        for output in graph.outputs:
            name = output.name
            # A model may hand an input through under its own name.
            while name in [parameter.name for parameter in self.parameters]:
                name += ".out"
            self.parameters.append(_buffer(graph, name, output.tensor))
            root = self._root(output.tensor)
            if root in graph.constants or root in self._arguments:
                self.copies[name] = output.tensor
            else:
                self._arguments[root] = name

    def _root(self, tensor: str) -> str:
        return self._roots.get(tensor, tensor)

    def place(self, tensor: str, offsets: Mapping[str, int]) -> Place:
        """Where a tensor lies that is no constant."""
        argument = self._arguments.get(self._root(tensor))
        return Arena(offsets[tensor]) if argument is None else Argument(argument)


def _buffer(graph: FloatGraph, name: str, tensor: str) -> Buffer:
    held = graph.tensors[tensor]
    return Buffer(name=name, shape=held.storage, dtype=held.dtype)


def _copy(shape: tuple[int, ...], target: CpuTarget, modules: dict[str, Module]) -> Module:
    """The kernel that copies so many elements, made where `modules` lacks it."""
    size = int(np.prod(shape, dtype=np.int64))
    function = f"vdla_copy{size}"
    if function not in modules:
        modules[function] = lower(permute((size,), (0,)), target, function=function)
    return modules[function]
