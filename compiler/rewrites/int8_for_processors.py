"""Rewrites an integer graph for processors and GPUs. Activations are in blocks of channels. Nodes convert inputs and
outputs; on accelerators the host converts them.

Activations are uint8 (stored value + 128), because dot product instructions multiply unsigned by signed bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from vdla.isa.arithmetic import UNSIGNED_OFFSET

from ..graph.geometry import permutation_of
from ..graph.graph import Graph, GraphInput, GraphOutput, Node, Tensor, plain_input, plain_output, unused
from ..graph.host import load_output
from ..graph.int8_operators import Channels, Dequantize, Quantize
from ..graph.operators import Permute
from ..ir.types import DType

BLOCKS = (4, 8, 16)
"""Possible numbers of channels in a block, each a multiple of the depth of a dot product instruction."""


def block_of(channels: int, lanes: int) -> int:
    """Chooses the number of channels in a block of a tensor's memory layout. It is the smallest of `BLOCKS` that holds
    all channels, but at most `lanes`, the number of int32 sums in a vector. (With fewer than 4 lanes it is 4.)"""
    possible = [block for block in BLOCKS if block <= max(lanes, BLOCKS[0])]
    return next((block for block in possible if channels <= block), possible[-1])


def for_processors(graph: Graph, block: Callable[[int], int]) -> Graph:
    """The graph for processors or GPUs; its inputs and outputs have the model's shapes and dtypes. `block` is a
    function: it maps a tensor's number of channels to the number of channels in a block of the tensor's memory layout.

    Raises ValueError for a convolution with a fused pool (`fuse_pool` is for other targets), and for an output that is
    neither a whole tensor nor its transposition."""
    state = _State(graph, block)
    for entry in graph.inputs:
        state.add_input(entry)
    for node in graph.nodes:
        if getattr(node.operator, "pool", None) is not None:
            raise ValueError(
                f"{node.name} already has a fused pool; call `for_processors` before `fuse_pool`"
            )
    middle = len(state.nodes)
    outputs = tuple([state.add_output(output) for output in graph.outputs])
    for name in graph.constants:
        state.add_constant(graph.tensors[name])
    state.nodes[middle:middle] = [
        replace(
            node,
            inputs=tuple([state.names[name] for name in node.inputs]),
            output=state.names[node.output],
        )
        for node in map(_without_unused_inputs, graph.nodes)
    ]
    return Graph(
        name=graph.name,
        inputs=tuple([plain_input(state.tensors[entry.name]) for entry in graph.inputs]),
        outputs=outputs,
        nodes=tuple(state.nodes),
        tensors=state.tensors,
        constants=state.constants,
    )


def _without_unused_inputs(node: Node) -> Node:
    """Removes unused inputs from a Channels node: the inputs from which no channel is selected. (A loop over such an
    input would be empty.) Returns any other node unchanged."""
    operator = node.operator
    if not isinstance(operator, Channels):
        return node
    used = sorted({part for part, _ in operator.sources})
    sources = tuple([(used.index(part), channel) for part, channel in operator.sources])
    inputs = tuple([node.inputs[part] for part in used])
    return replace(node, operator=replace(operator, sources=sources), inputs=inputs)


def converted_inputs(graph: Graph) -> frozenset[str]:
    """Names of the float32 model inputs that `graph` quantizes. They may not hold NaN, which has no integer."""
    makers = graph.producers()
    found: set[str] = set()
    for node in graph.nodes:
        name = node.inputs[0] if node.inputs else ""
        if isinstance(node.operator, Quantize) and graph.tensors[name].dtype is DType.FLOAT32:
            found.add(makers[name].inputs[0] if name in makers else name)
    return frozenset(found)


class _State:
    """The graph for processors under construction. `names`: the new name of each tensor of the integer graph."""

    def __init__(self, graph: Graph, block: Callable[[int], int]) -> None:
        self.graph = graph
        self.block = block
        self.nodes: list[Node] = []
        self.constants: dict[str, np.ndarray] = {}
        self.tensors = {
            entry.name: Tensor(name=entry.name, shape=entry.shape, dtype=entry.dtype)
            for entry in graph.inputs
        }
        self.names: dict[str, str] = {}
        for tensor in graph.tensors.values():
            if tensor.name not in graph.constants:
                self.names[tensor.name] = self._activation(tensor)

    def _activation(self, tensor: Tensor) -> str:
        block = self.block(tensor.nchw[1])
        return self._declare(replace(tensor, shape=tensor.nchw, dtype=DType.UINT8, block=block))

    def _declare(self, tensor: Tensor) -> str:
        name = unused(tensor.name, self.tensors)
        self.tensors[name] = replace(tensor, name=name)
        return name

    def add_input(self, entry: GraphInput) -> None:
        """Adds the nodes that convert a model input to an activation: Permute if needed, then Quantize."""
        source = entry.name
        if (axes := entry.permutation) is not None:
            given = self.tensors[source]
            shape = tuple([given.shape[axis] for axis in axes])
            name = self._declare(replace(given, name=f"{source} (permuted)", shape=shape))
            permute = Permute(axes=axes)
            self.nodes.append(Node(name=name, members=(), operator=permute, inputs=(source,), output=name))
            source = name
        operator = Quantize(quantization=self.graph.tensors[entry.tensor].grid)
        stored = self.names[entry.tensor]
        name = f"{entry.name} (stored)"
        self.nodes.append(Node(name=name, members=(), operator=operator, inputs=(source,), output=stored))

    def add_output(self, output: GraphOutput) -> GraphOutput:
        """Adds the nodes that convert a stored tensor to a model output: Dequantize, Permute if needed. Returns it."""
        name = self._declare(Tensor(name=output.name, shape=output.shape, dtype=output.dtype))
        if output.tensor in self.graph.constants:
            self.constants[name] = load_output(output, self.graph.constants[output.tensor])
        else:
            grid = output.quantization or self.graph.tensors[output.tensor].grid
            stored, loaded = self.names[output.tensor], name
            axes = None if output.view is None else permutation_of(output.view)
            if output.view is not None and axes is None:
                raise ValueError(
                    f"output {output.name} must be a whole tensor, in stored order or transposed; its view is neither"
                )
            if axes is not None:
                before = tuple([output.shape[axes.index(axis)] for axis in range(len(axes))])
                loaded = self._declare(
                    Tensor(name=f"{output.name} (as stored)", shape=before, dtype=output.dtype)
                )
            self.nodes.append(
                Node(
                    name=f"{output.name} (loaded)",
                    members=(),
                    operator=Dequantize(quantization=grid),
                    inputs=(stored,),
                    output=loaded,
                )
            )
            if axes is not None:
                permute = Permute(axes=axes)
                self.nodes.append(
                    Node(name=name, members=(), operator=permute, inputs=(loaded,), output=name)
                )
        return plain_output(output.name, self.tensors[name])

    def add_constant(self, tensor: Tensor) -> None:
        """Adds a constant operand as uint8 in blocks of channels."""
        name = self.names[tensor.name] = self._activation(tensor)
        batch, channels, height, width = tensor.nchw
        block = self.tensors[name].block
        values = (self.graph.constants[tensor.name].astype(np.int16) + UNSIGNED_OFFSET).astype(np.uint8)
        values = values.reshape(batch, channels, height * width)
        values = np.pad(values, ((0, 0), (0, -channels % block), (0, 0)))
        values = values.reshape(batch, -1, block, height * width).transpose(0, 1, 3, 2)
        self.constants[name] = np.ascontiguousarray(values).reshape(self.tensors[name].storage)
