"""Inputs and outputs of compiled networks as ports, and the check of input arrays, for all targets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from ..codegen.cpu.errors import KernelArgumentError
from ..graph.graph import Graph, GraphInput, GraphOutput
from ..graph.host import arrays_by_name
from ..ir.expr import Buffer
from .executable import Port
from .readable import CompiledKernels


def input_ports(graph: Graph) -> tuple[Port, ...]:
    """The inputs as ports, each once: an input that is quantized in two ways is two tensors of the graph."""
    return tuple({entry.name: _port(entry) for entry in graph.inputs}.values())


def output_ports(graph: Graph) -> tuple[Port, ...]:
    """The outputs as ports."""
    return tuple([_port(output) for output in graph.outputs])


def parameter_port(parameter: Buffer) -> Port:
    """The port of a kernel's parameter, for a kernel that is a network by itself."""
    return Port(name=parameter.name, dtype=parameter.dtype.numpy, shape=parameter.shape)


def _port(end: GraphInput | GraphOutput) -> Port:
    return Port(name=end.name, dtype=end.dtype.numpy, shape=end.shape)


class GraphNetwork(CompiledKernels):
    """Base class of networks that compute `graph`: name, inputs and outputs."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.inputs = input_ports(graph)
        self.outputs = output_ports(graph)

    @property
    def name(self) -> str:
        """The model's own name."""
        return self.graph.name

    @property
    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        """The inputs' shapes by name."""
        return {port.name: port.shape for port in self.inputs}

    @property
    def input_types(self) -> dict[str, np.dtype]:
        """The inputs' types by name: float32, in quantized networks int8 and uint8 too."""
        return {port.name: port.dtype for port in self.inputs}


def check_inputs(
    name: str, inputs: Sequence[Port], arrays: Mapping[str, np.ndarray], quantized: Collection[str] = ()
) -> None:
    """Raises KernelArgumentError unless each input has an array of its shape and type, without NaN for `quantized`
    inputs.

    `name` is the network or kernel in messages. Raises InputError if `arrays` is no mapping of arrays.
    """
    arrays = arrays_by_name(arrays)
    known = [port.name for port in inputs]
    if unknown := sorted(arrays.keys() - known):
        raise KernelArgumentError(f"{name} has no input {unknown[0]!r}; it has {', '.join(known)}")
    for port in inputs:
        if port.name not in arrays:
            raise KernelArgumentError(f"{name}: no array was given for input {port.name!r}")
        array = arrays[port.name]
        if array.dtype != port.dtype:
            raise KernelArgumentError(
                f"input {port.name!r} must be {port.dtype}, not {array.dtype}; convert it with .astype"
            )
        if array.shape != port.shape:
            raise KernelArgumentError(f"input {port.name!r} must have shape {port.shape}, not {array.shape}")
        # The minimum is NaN if any element is.
        if port.name in quantized and array.size and np.isnan(array.min()):
            raise KernelArgumentError(
                f"input {port.name!r} holds NaN, which has no quantized value; clean the input data first"
            )
