"""Chooses each tensor's memory layout: blocks of channels between convolutions and pools, row-major at the graph's
inputs and outputs, with few changes of layout.

Convolutions write blocks and read any layout; element-wise operators and pools keep the blocks of their input. A change
of layout is a `Relayout` node, made once for all readers, or a view if the bytes keep their order. A block of one
channel is the row-major ("plain") layout.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from ...graph.graph import Graph, Node, Tensor, unused
from ...graph.operators import (
    AveragePool,
    Concatenate,
    Convolution,
    Elementwise,
    MaxPool,
    Relayout,
    Reshape,
    Resize,
)
from ...ir.expr import Expr


def assign_layouts(graph: Graph, lanes: int) -> Graph:
    """Chooses a layout for each tensor, for vectors of `lanes` elements, and adds the nodes that change layouts."""
    state = State(graph=graph, tensors=dict(graph.tensors), constants=dict(graph.constants))
    for node in graph.nodes:
        _place(state, node, lanes)
    outputs = tuple(replace(output, tensor=state.in_blocks(output.tensor, 1)) for output in graph.outputs)
    return replace(
        graph, nodes=tuple(state.nodes), tensors=state.tensors, constants=state.constants, outputs=outputs
    )


def channel_block(channels: int, lanes: int) -> int:
    """The block size of a tensor of `channels`: `lanes`, or all channels if there are fewer."""
    return min(channels, lanes)


def whole_block(channels: int, lanes: int) -> int:
    """The greatest block size of at most `lanes` that divides `channels`."""
    return max(d for d in range(1, min(channels, lanes) + 1) if channels % d == 0)


def is_depthwise(operator: Convolution, weight: Tensor) -> bool:
    """Whether a convolution has several channels with exactly one filter each, and is not transposed."""
    one_each = operator.groups == weight.shape[0] and weight.shape[1] == 1
    return one_each and operator.groups > 1 and not operator.transposed


def in_blocks(array: np.ndarray, block: int) -> np.ndarray:
    """A row-major array (N, C, ...) as (N, ceil(C / block), ..., block), with zeros beyond C; unchanged for block 1."""
    if block == 1:
        return array
    batch, channels, *rest = array.shape
    # Padding by nothing would copy.
    beyond = -channels % block
    padded = np.pad(array, [(0, 0), (0, beyond), *[(0, 0)] * len(rest)]) if beyond else array
    cut = padded.reshape(batch, -1, block, *rest)
    return np.ascontiguousarray(np.moveaxis(cut, 2, -1))


@dataclass(slots=True, kw_only=True)
class State:
    """The new graph under construction. `versions`: for each tensor and block size, the tensor that holds the same
    elements in that layout.
    """

    graph: Graph
    tensors: dict[str, Tensor]
    constants: dict[str, np.ndarray]
    nodes: list[Node] = field(default_factory=list)
    versions: dict[tuple[str, int], str] = field(default_factory=dict)

    def in_blocks(self, name: str, block: int) -> str:
        """The name of a tensor with the elements of tensor `name` in blocks of `block` channels. If there is no such
        tensor yet, adds a packed constant or a node that changes the layout.
        """
        tensor = self.tensors[name]
        if tensor.block == block:
            return name
        if (name, block) in self.versions:
            return self.versions[name, block]
        version = replace(tensor, name=unused(f"{name}.c{block}", self.tensors), block=block)
        self.tensors[version.name] = version
        self.versions[name, block] = version.name
        if name in self.constants:
            self.constants[version.name] = in_blocks(self.constants[name], block)
        else:
            operator = Reshape() if _same_order(tensor, version) else Relayout()
            self.nodes.append(
                Node(name=version.name, members=(), operator=operator, inputs=(name,), output=version.name)
            )
        return version.name

    def emit(self, node: Node, inputs: tuple[str, ...], block: int) -> None:
        """Adds `node` with the given `inputs`; its output has the layout with blocks of `block` channels."""
        self.tensors[node.output] = replace(self.tensors[node.output], block=block)
        self.nodes.append(replace(node, inputs=inputs))


def _same_order(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors of one shape have their elements in the same order in memory, in their two layouts."""
    _, channels, *rest = a.shape
    single = math.prod(rest) == 1
    whole = [t.block == 1 or channels % t.block == 0 for t in (a, b)]
    return single and all(whole)


def _place(state: State, node: Node, lanes: int) -> None:
    match node.operator:
        case Convolution() as operator:
            _place_convolution(state, node, operator, lanes)
        case MaxPool() | AveragePool() | Resize() | Elementwise() | Concatenate():
            from .place_layouts import place

            place(state, node)
        case _:
            state.emit(node, tuple(state.in_blocks(name, 1) for name in node.inputs), 1)


def _place_convolution(state: State, node: Node, operator: Convolution, lanes: int) -> None:
    data, weight = state.tensors[node.inputs[0]], state.tensors[node.inputs[1]]
    channels, filters = data.shape[1], weight.shape[0]
    if is_depthwise(operator, weight):
        block_in = block_out = channel_block(channels, lanes)
    elif operator.groups == 1:
        block_out = whole_block(filters, lanes) if operator.transposed else channel_block(filters, lanes)
        # Fewer channels than lanes keep their layout: a change would cost more than it saves.
        block_in = lanes if data.block == 1 and channels >= lanes else data.block
    else:
        # No block may hold channels of two groups.
        block_out = math.gcd(filters // operator.groups, lanes)
        inside = channels // operator.groups
        block_in = data.block if inside % data.block == 0 else math.gcd(inside, lanes)
    inputs = [state.in_blocks(node.inputs[0], block_in), *node.inputs[1:]]
    if operator.epilogue.operand:
        operand = 2 + operator.epilogue.bias
        inputs[operand] = state.in_blocks(inputs[operand], block_out)
    state.emit(node, with_operands(state, node, tuple(inputs), node.result, block_out), block_out)


def with_operands(
    state: State, node: Node, inputs: tuple[str, ...], body: Expr | None, block: int
) -> tuple[str, ...]:
    """The inputs of `node`, in layouts with which it can compute its output in blocks of `block` channels. Each input
    that the expression `body` reads is replaced by a tensor with the same elements in such a layout.
    """
    placed = list(inputs)
    output = state.tensors[node.output]
    for i in node.operands(body):
        from .place_layouts import adopt, operand_in_blocks

        wanted = operand_in_blocks(state, state.tensors[inputs[i]], output, block)
        assert wanted is not None, f"fusion gave {node.name} an operand that cannot be stored in blocks"
        placed[i] = adopt(state, wanted)
    return tuple(placed)
