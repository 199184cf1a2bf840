"""A whole compiled network as one C function: an object file that includes its weights, with a header and a driver
program; or a shared library.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..codegen.cpu.ahead_of_time import ObjectCode
from ..codegen.cpu.machine import CpuTarget
from ..codegen.cpu.module import Module, lower
from ..codegen.cpu.one_object import emit_object
from ..codegen.cpu.sequence import Arena, Argument, Call, Constant, Place, sequence
from ..graph.graph import Graph, Tensor
from ..graph.storage_plan import find_views
from ..ir.expr import Buffer
from ..te.ops.movement import permute
from .network_archive import NetworkCode


def emit_network(network: NetworkCode, *, name: str) -> ObjectCode:
    """The network as one freestanding object. Its function `name` takes first the inputs, then the outputs, both in the
    model's order.

    The constants are part of the object; the arena is the function's workspace. The function copies outputs that share
    memory, and outputs that are inputs or constants. Equal networks give equal bytes. Raises ValueError if `name` is
    not a valid name in C, TargetError if the processor lacks instructions for a kernel.
    """
    graph = network.graph
    interface = _Interface(graph)
    modules = {module.function: module for module in network.modules}
    constants: dict[str, np.ndarray] = {}
    calls: list[Call] = []
    for number, launch in enumerate(network.launches):
        places: dict[str, Place] = {}
        for parameter, array in launch.constants.items():
            places[parameter] = Constant(f"launch{number}.{parameter}")
            constants[f"launch{number}.{parameter}"] = array
        for parameter, tensor in launch.tensors.items():
            places[parameter] = interface.place(tensor, network.plan.offsets)
        calls.append(Call(module=modules[launch.kernel], places=places))
    for output, tensor in interface.copies.items():
        copy = _copy(graph.tensors[tensor], network.target, modules)
        if tensor in graph.constants:
            source: Place = Constant(f"output.{output}")
            constants[source.name] = graph.constants[tensor].reshape(copy.parameters[0].shape)
        else:
            source = interface.place(tensor, network.plan.offsets)
        calls.append(Call(module=copy, places={"X": source, "Y": Argument(output)}))
    whole = sequence(
        calls,
        parameters=interface.parameters,
        arena_bytes=network.plan.bytes,
        constants=constants,
        target=network.target,
        function=name,
    )
    return emit_object([*modules.values(), whole], network.target, name=name, exported=[name])


class _Interface:
    """The arrays that a caller passes to a network's C function.

    `parameters`: one array for each input and output. Kernels work directly on the caller's arrays where possible.
    `copies`: for each output for which this is not possible, the tensor that must be copied to it at the end.
    """

    def __init__(self, graph: Graph) -> None:
        self._views = find_views(graph)
        self._arguments: dict[str, str] = {name: name for name in graph.input_names}
        self.copies: dict[str, str] = {}
        self.parameters = [_buffer(graph, name, name) for name in graph.input_names]
        for output in graph.outputs:
            name = output.name
            # A model may return an input under the input's own name.
            while name in [parameter.name for parameter in self.parameters]:
                name += ".out"
            self.parameters.append(_buffer(graph, name, output.tensor))
            root, _ = self._root(output.tensor)
            whole = (
                root not in graph.constants
                and graph.tensors[root].bytes == graph.tensors[output.tensor].bytes
            )
            if whole and root not in self._arguments:
                self._arguments[root] = name
            else:
                self.copies[name] = output.tensor

    def _root(self, tensor: str) -> tuple[str, int]:
        """Finds the tensor whose memory holds `tensor`: returns its name, and the byte offset of `tensor` in the
        memory. A tensor that is not a view has its own memory.
        """
        view = self._views.get(tensor)
        return (tensor, 0) if view is None else (view.root, view.start)

    def place(self, tensor: str, offsets: Mapping[str, int]) -> Place:
        """The place of a tensor that is not a constant: in a caller's array or in the arena. `offsets`: byte offsets of
        the network's tensors in the arena.
        """
        root, start = self._root(tensor)
        argument = self._arguments.get(root)
        return Arena(offsets[tensor]) if argument is None else Argument(argument, start)


def _buffer(graph: Graph, name: str, tensor: str) -> Buffer:
    held = graph.tensors[tensor]
    return Buffer(name=name, shape=held.storage, dtype=held.dtype)


def _copy(tensor: Tensor, target: CpuTarget, modules: dict[str, Module]) -> Module:
    """The kernel that copies a tensor of this size and type. If `modules` (kernels by function name) has no such
    kernel, it is made for `target` and added.
    """
    size = int(np.prod(tensor.shape, dtype=np.int64))
    function = f"vdla_copy{size}_{tensor.dtype}"
    if function not in modules:
        modules[function] = lower(permute((size,), (0,), dtype=tensor.dtype), target, function=function)
    return modules[function]
