"""What the host hands to a compiled network: checked at the door, whatever runs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from ..graph.graph import Graph, GraphInput, GraphOutput
from ..target.cpu.errors import KernelArgumentError
from .executable import Port


class GraphInputs(Protocol):
    """A network of kernels, as far as its inputs go."""

    @property
    def graph(self) -> Graph:
        """The fused graph."""
        ...

    @property
    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        """The inputs' shapes by name."""
        ...

    @property
    def input_types(self) -> dict[str, np.dtype]:
        """The inputs' types by name."""
        ...


def input_shapes(graph: Graph) -> dict[str, tuple[int, ...]]:
    """The inputs' shapes by name."""
    return {name: graph.tensors[name].shape for name in graph.input_names}


def input_ports(graph: Graph) -> tuple[Port, ...]:
    """The inputs."""
    return tuple([_port(entry) for entry in graph.inputs])


def output_ports(graph: Graph) -> tuple[Port, ...]:
    """The outputs."""
    return tuple([_port(output) for output in graph.outputs])


def _port(end: GraphInput | GraphOutput) -> Port:
    return Port(name=end.name, dtype=end.dtype.numpy, shape=end.shape)


def input_types(graph: Graph) -> dict[str, np.dtype]:
    """The inputs' types by name."""
    return {name: graph.tensors[name].dtype.numpy for name in graph.input_names}


def check_inputs(graph: Graph, inputs: Mapping[str, np.ndarray], quantized: frozenset[str]) -> None:
    """KernelArgumentError unless there is one array an input, of its shape and type; of `quantized` without NaN."""
    shapes, types = input_shapes(graph), input_types(graph)
    if unknown := sorted(inputs.keys() - shapes.keys()):
        raise KernelArgumentError(f"{graph.name} has no input {unknown[0]!r}; it has {', '.join(shapes)}")
    for name, shape in shapes.items():
        if name not in inputs:
            raise KernelArgumentError(f"{graph.name}: no array was given for input {name!r}")
        array: object = inputs[name]
        if not isinstance(array, np.ndarray):
            raise KernelArgumentError(f"input {name!r} must be a numpy array, not {type(array).__name__}")
        if array.dtype != types[name]:
            raise KernelArgumentError(
                f"input {name!r} must be {types[name]}, not {array.dtype}; convert it with .astype"
            )
        if array.shape != shape:
            raise KernelArgumentError(f"input {name!r} must have shape {shape}, not {array.shape}")
        # The least element is NaN where any is.
        if name in quantized and array.size and np.isnan(array.min()):
            raise KernelArgumentError(
                f"input {name!r} holds NaN, which has no quantized value; clean the input data first"
            )
