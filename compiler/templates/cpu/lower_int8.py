"""From the integer graph to kernels for processors, which convert what the host hands in and reads as well."""

from __future__ import annotations

from dataclasses import dataclass

from ...graph import graph as integer
from ...graph.floating.graph import FloatGraph, GraphOutput, Tensor
from ...graph.host import load_output
from ...ir.types import DType
from ...target.cpu.machine import CpuTarget
from ...te.ops.movement import permute
from ...te.ops.quantization import load_activation, store_activation
from ..lowered_node import LoweredStep
from . import movement as movement_cpu
from . import quantization as quantization_cpu
from .int8_network import Int8Network
from .lower_int8_nodes import lower_node


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoweredGraph:
    """`graph` has the tensors, as they lie, and what the host hands in and reads, `steps` what computes them in order.

    `quantized` are the names of the inputs that may hold no NaN.
    """

    graph: FloatGraph
    steps: tuple[LoweredStep[CpuTarget], ...]
    quantized: frozenset[str]


def lower_integer_graph(graph: integer.Graph, lanes: int) -> LoweredGraph:
    """All nodes of an integer graph, whose convolutions have no pool in them (`fuse_pool` is for other targets).

    `lanes` is how many int32 sums a vector of the target holds.
    """
    network = Int8Network(graph, lanes)
    for entry in graph.inputs:
        _input(network, entry)
    for node in graph.nodes:
        lower_node(network, node)
    for output in graph.outputs:
        _output(network, output)
    return LoweredGraph(
        graph=FloatGraph(
            name=graph.name,
            inputs=tuple([entry.name for entry in graph.inputs]),
            outputs=tuple(network.outputs),
            nodes=(),
            tensors=network.tensors,
            constants=network.results,
        ),
        steps=tuple(network.steps),
        quantized=frozenset(entry.name for entry in graph.inputs if entry.dtype == "float32"),
    )


def _input(network: Int8Network, entry: integer.GraphInput) -> None:
    """What the host hands over, as an activation."""
    tensor = network.graph.tensors[entry.tensor]
    source, dtype = entry.name, DType(entry.dtype)
    if entry.permutation is not None:
        source = _permuted(network, source, entry.permutation)
    batch, channels, height, width = tensor.nchw
    program = store_activation(
        batch=batch,
        channels=channels,
        plane=height * width,
        block=network.block(channels),
        dtype=dtype,
        scale=float(tensor.quantization.scale),
        zero_point=tensor.quantization.stored_zero_point,
    )
    network.add(
        f"{entry.name} (stored)",
        "Quantize",
        (),
        program,
        lambda target: quantization_cpu.schedule_store(target, program, parallel=True),
        {"X": source, "Y": network.names[tensor.name]},
    )


def _output(network: Int8Network, output: integer.GraphOutput) -> None:
    """A tensor as the host reads it."""
    tensor, dtype = network.graph.tensors[output.tensor], DType(output.dtype)
    name = network.unused(output.name)
    network.tensors[name] = Tensor(name=name, shape=output.shape, dtype=dtype)
    network.outputs.append(GraphOutput(name=output.name, tensor=name))
    if output.tensor in network.graph.constants:
        network.results[name] = load_output(output, network.graph.constants[output.tensor])
        return
    batch, channels, height, width = tensor.nchw
    program = load_activation(
        batch=batch,
        channels=channels,
        plane=height * width,
        block=network.block(channels),
        dtype=dtype,
        scale=float(output.quantization.scale),
        zero_point=output.quantization.stored_zero_point,
    )
    network.add(
        f"{output.name} (loaded)",
        "Dequantize",
        (),
        program,
        lambda target: quantization_cpu.schedule_load(target, program, parallel=True),
        {"X": network.names[tensor.name], "Y": name},
    )


def _permuted(network: Int8Network, source: str, axes: tuple[int, ...]) -> str:
    """What the host hands over, with its axes in the graph's order."""
    given = network.tensors[source]
    name = network.unused(f"{source} (permuted)")
    shape = tuple([given.shape[axis] for axis in axes])
    network.tensors[name] = Tensor(name=name, shape=shape, dtype=given.dtype)
    program = permute(given.shape, axes, dtype=given.dtype)
    network.add(
        name,
        "Permute",
        (),
        program,
        lambda target: movement_cpu.schedule_permutation(target, program, parallel=True),
        {"X": source, "Y": name},
    )
    return name
