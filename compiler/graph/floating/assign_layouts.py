"""Layouts: channels in blocks between convolutions and pools, row-major at the graph's ends, with few changes of
layout.

Convolutions write blocks and read any layout; element-wise operators and pools keep the blocks of their input. A change
of layout is a `Relayout` node, made once for all readers, or a view if the bytes keep their order. Block 1 is the
row-major ("plain") layout.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ...ir.expr import Expr
from ..graph import Graph, Node, Tensor, unused
from ..operators import AveragePool, Concatenate, Convolution, Elementwise, MaxPool, Relayout, Reshape, Resize


def assign_layouts(graph: Graph, lanes: int) -> Graph:
    """The graph with a layout for each tensor, for vectors of `lanes` elements, and the nodes that change layouts."""
    state = _State(graph=graph, tensors=dict(graph.tensors), constants=dict(graph.constants))
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
    """Whether each channel of the convolution has exactly one filter."""
    one_each = operator.groups == weight.shape[0] and weight.shape[1] == 1
    return one_each and operator.groups > 1 and not operator.transposed


def in_blocks(array: np.ndarray, block: int) -> np.ndarray:
    """A row-major array (N, C, ...) in the blocked layout (N, ceil(C / block), ..., block), with zeros beyond C."""
    if block == 1:
        return array
    batch, channels, *rest = array.shape
    # Padding by nothing would copy.
    beyond = -channels % block
    padded = np.pad(array, [(0, 0), (0, beyond), *[(0, 0)] * len(rest)]) if beyond else array
    cut = padded.reshape(batch, -1, block, *rest)
    return np.ascontiguousarray(np.moveaxis(cut, 2, -1))


@dataclass(slots=True, kw_only=True)
class _State:
    """The graph so far. `versions`: for each (tensor, block), the tensor that holds the same elements in that
    layout.
    """

    graph: Graph
    tensors: dict[str, Tensor]
    constants: dict[str, np.ndarray]
    nodes: list[Node] = field(default_factory=list)
    versions: dict[tuple[str, int], str] = field(default_factory=dict)

    def in_blocks(self, name: str, block: int) -> str:
        """The name of tensor `name` in blocks of `block`; if there is no such version yet, adds the constant or the
        node that makes it.
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
        """Adds the node with these inputs; `block` is the block size of its output."""
        self.tensors[node.output] = replace(self.tensors[node.output], block=block)
        self.nodes.append(replace(node, inputs=inputs))


def _same_order(a: Tensor, b: Tensor) -> bool:
    """Whether two layouts of one shape put its elements in the same order in memory."""
    _, channels, *rest = a.shape
    single = math.prod(rest) == 1
    whole = [t.block == 1 or channels % t.block == 0 for t in (a, b)]
    return single and all(whole)


def _place(state: _State, node: Node, lanes: int) -> None:
    operator = node.operator
    match operator:
        case Convolution():
            _place_convolution(state, node, operator, lanes)
        case Resize() if _grows_for_plain_readers(state, node):
            # The input is smaller than the output: a change of layout before the resize moves fewer bytes.
            inputs = (state.in_blocks(node.inputs[0], 1), *node.inputs[1:])
            state.emit(node, _with_operands(state, node, inputs, node.result, 1), 1)
        case MaxPool() | AveragePool() | Resize():
            _place_pool(state, node)
        case Elementwise():
            _place_elementwise(state, node, operator)
        case Concatenate(axis=axis):
            _place_concatenation(state, node, axis)
        case _:
            state.emit(node, tuple(state.in_blocks(name, 1) for name in node.inputs), 1)


def _place_convolution(state: _State, node: Node, operator: Convolution, lanes: int) -> None:
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
    state.emit(node, _with_operands(state, node, tuple(inputs), node.result, block_out), block_out)


def _grows_for_plain_readers(state: _State, node: Node) -> bool:
    """Whether a node's output is larger than its input, and no reader of the output can read blocks."""
    tensors = state.graph.tensors
    if math.prod(tensors[node.output].shape) <= math.prod(tensors[node.inputs[0]].shape):
        return False
    keep = Convolution | MaxPool | AveragePool | Resize | Elementwise | Concatenate
    readers = [other for other in state.graph.nodes if node.output in other.inputs]
    return not any(isinstance(reader.operator, keep) for reader in readers)


def _place_pool(state: _State, node: Node) -> None:
    """Places a pool or resize in the blocks of its input; if several inputs are fused, in the largest block size among
    them.
    """
    shape = state.graph.data_shape(node)
    read = [state.tensors[node.inputs[i]] for i in node.operands(node.data)] or [
        state.tensors[node.inputs[0]]
    ]
    block = max(tensor.block for tensor in read if tensor.shape == shape)
    inputs = _with_operands(state, node, node.inputs, node.data, block)
    state.emit(node, _with_operands(state, node, inputs, node.result, block), block)


def _place_concatenation(state: _State, node: Node, axis: int) -> None:
    """Places a concatenation in the block size of most inputs if every input fills whole blocks, else row-major."""
    own = [state.tensors[name] for name in node.own_inputs]
    output = state.tensors[node.output]
    block = _joined_block(state, own, axis)
    beside = [
        _operand_in_blocks(state, state.tensors[node.inputs[i]], output, block)
        for i in node.operands(node.result)
    ]
    if None in beside or (block > 1 and node.result is not None and output.shape[1] % block):
        block = 1
    read = {tensor.name for tensor in own}
    inputs = tuple([state.in_blocks(name, block) if name in read else name for name in node.inputs])
    state.emit(node, _with_operands(state, node, inputs, node.result, block), block)


def _joined_block(state: _State, tensors: Sequence[Tensor], axis: int) -> int:
    """The block size that most elements of the inputs have; 1 if an input before the last would not fill whole
    blocks.
    """
    if len(tensors[0].shape) < 3:
        return 1
    counts: Counter[int] = Counter()
    for tensor in tensors:
        counts[1 if tensor.name in state.constants else tensor.block] += math.prod(tensor.shape)
    block = max(counts, key=lambda size: (counts[size], size))
    if axis == 1 and any(tensor.shape[1] % block for tensor in tensors[:-1]):
        return 1
    return block


def _with_operands(
    state: _State, node: Node, inputs: tuple[str, ...], body: Expr | None, block: int
) -> tuple[str, ...]:
    """`inputs`, in which each tensor that `body` reads is replaced by its version that matches an output in blocks of
    `block`.
    """
    placed = list(inputs)
    output = state.tensors[node.output]
    for i in node.operands(body):
        wanted = _operand_in_blocks(state, state.tensors[inputs[i]], output, block)
        assert wanted is not None, f"fusion gave {node.name} an operand that has no form in blocks"
        placed[i] = _adopt(state, wanted)
    return tuple(placed)


def _place_elementwise(state: _State, node: Node, operator: Elementwise) -> None:
    output = state.tensors[node.output]
    tensors = [state.tensors[name] for name in node.inputs]
    blocks = {tensor.block for tensor in tensors if tensor.shape == output.shape}
    block = max(blocks, default=1)
    if block > 1:
        placed = [_operand_in_blocks(state, tensor, output, block) for tensor in tensors]
        if None not in placed and _keeps_zeros(state, operator, tensors, output, block):
            names = tuple(_adopt(state, tensor) for tensor in placed if tensor is not None)
            state.emit(node, names, block)
            return
    state.emit(node, tuple(state.in_blocks(name, 1) for name in node.inputs), 1)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A tensor and the block size in which it is to be read. `aligned`: its shape extended to the output's rank
    (constants only).
    """

    name: str
    block: int
    aligned: tuple[int, ...] | None = None


def _operand_in_blocks(state: _State, tensor: Tensor, output: Tensor, block: int) -> _Wanted | None:
    """The layout in which an input can be read together with an output in blocks of `block`; None if there is none."""
    rank = len(output.shape)
    aligned = (1,) * (rank - len(tensor.shape)) + tensor.shape
    if block == 1 or aligned[1] == 1:
        # One value for all channels broadcasts along blocks and lanes.
        return _Wanted(tensor.name, 1)
    if aligned == tensor.shape:
        return _Wanted(tensor.name, block)
    if tensor.name in state.constants:
        return _Wanted(tensor.name, block, aligned)
    return None


def _adopt(state: _State, wanted: _Wanted) -> str:
    if wanted.aligned is None:
        return state.in_blocks(wanted.name, wanted.block)
    key = (wanted.name, wanted.block)
    if key not in state.versions:
        name = f"{wanted.name}.c{wanted.block}"
        while name in state.tensors:
            name += "'"
        dtype = state.tensors[wanted.name].dtype
        state.tensors[name] = Tensor(name=name, shape=wanted.aligned, block=wanted.block, dtype=dtype)
        state.constants[name] = in_blocks(state.constants[wanted.name].reshape(wanted.aligned), wanted.block)
        state.versions[key] = name
    return state.versions[key]


def _keeps_zeros(
    state: _State, operator: Elementwise, tensors: list[Tensor], output: Tensor, block: int
) -> bool:
    """Whether the lanes of the output's last block that hold no channel are zeros, if these lanes of each input are
    zeros.
    """
    if output.shape[1] % block == 0:
        return True
    arrays: dict[str, np.ndarray] = {}
    for i, tensor in enumerate(tensors):
        rank = len(output.shape)
        aligned = (1,) * (rank - len(tensor.shape)) + tensor.shape
        if aligned[1] != 1:
            number = np.zeros(1, np.float32)
        elif tensor.name in state.constants and np.unique(state.constants[tensor.name]).size == 1:
            number = state.constants[tensor.name].reshape(-1)[:1]
        else:
            return False
        arrays[f"X{i}"] = number
    from ...ir.interp import interpret
    from ...te.functions import FUNCTIONS
    from ...te.ops.float_elementwise import float_elementwise

    program = float_elementwise([(1,)] * len(tensors), operator.body)
    return bool(interpret(program, arrays, functions=FUNCTIONS)["Y"].item() == 0)
