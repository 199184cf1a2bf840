"""Chooses layouts (row-major, or blocks of channels) for pools, resizes, concatenations and element-wise operators."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...graph.graph import Node, Tensor
from ...graph.operators import AveragePool, Concatenate, Convolution, Elementwise, MaxPool, Resize
from .assign_layouts import State, in_blocks, with_operands


def place(state: State, node: Node) -> None:
    """Chooses the layouts of a pool, resize, concatenation or element-wise node, and adds the node to the new graph."""
    match node.operator:
        case Resize() if _grows_for_plain_readers(state, node):
            # The input is smaller than the output: a change of layout before the resize moves fewer bytes.
            inputs = (state.in_blocks(node.inputs[0], 1), *node.inputs[1:])
            state.emit(node, with_operands(state, node, inputs, node.result, 1), 1)
        case Elementwise() as operator:
            _place_elementwise(state, node, operator)
        case Concatenate(axis=axis):
            _place_concatenation(state, node, axis)
        case _:
            _place_pool(state, node)


def _place_pool(state: State, node: Node) -> None:
    """Adds a pooling or resize node to the graph with layouts. Its output gets the same block size (channels per block)
    as its input. If the node fuses an expression of several inputs, the output gets the largest block size among them.
    """
    shape = state.graph.data_shape(node)
    read = [state.tensors[node.inputs[i]] for i in node.operands(node.data)] or [
        state.tensors[node.inputs[0]]
    ]
    block = max(tensor.block for tensor in read if tensor.shape == shape)
    inputs = with_operands(state, node, node.inputs, node.data, block)
    state.emit(node, with_operands(state, node, inputs, node.result, block), block)


def _place_concatenation(state: State, node: Node, axis: int) -> None:
    """Adds a concatenation along `axis` in the blocks that `_joined_block` chooses, or in row-major layout if an
    operand of its fused expression cannot be read in these blocks.
    """
    own = [state.tensors[name] for name in node.own_inputs]
    output = state.tensors[node.output]
    block = _joined_block(state, own, axis)
    beside = [
        operand_in_blocks(state, state.tensors[node.inputs[i]], output, block)
        for i in node.operands(node.result)
    ]
    if None in beside or (block > 1 and node.result is not None and output.shape[1] % block):
        block = 1
    read = {tensor.name for tensor in own}
    inputs = tuple([state.in_blocks(name, block) if name in read else name for name in node.inputs])
    state.emit(node, with_operands(state, node, inputs, node.result, block), block)


def _joined_block(state: State, tensors: Sequence[Tensor], axis: int) -> int:
    """The block size (channels of a block) for a concatenation of `tensors` along `axis`: the size that most elements
    of the tensors have. 1 (row-major) if channels are joined and an input before the last one does not fill whole
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


def _place_elementwise(state: State, node: Node, operator: Elementwise) -> None:
    output = state.tensors[node.output]
    tensors = [state.tensors[name] for name in node.inputs]
    blocks = {tensor.block for tensor in tensors if tensor.shape == output.shape}
    block = max(blocks, default=1)
    if block > 1:
        placed = [operand_in_blocks(state, tensor, output, block) for tensor in tensors]
        if None not in placed and _keeps_zeros(state, operator, tensors, output, block):
            names = tuple(adopt(state, tensor) for tensor in placed if tensor is not None)
            state.emit(node, names, block)
            return
    state.emit(node, tuple(state.in_blocks(name, 1) for name in node.inputs), 1)


def _keeps_zeros(
    state: State, operator: Elementwise, tensors: list[Tensor], output: Tensor, block: int
) -> bool:
    """Whether an element-wise operator keeps the zeros that pad the last block of channels. This is so if the output is
    zero wherever all inputs with channels are zero. Returns False if an input without channels is not a constant of
    equal elements.
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


def _grows_for_plain_readers(state: State, node: Node) -> bool:
    """Whether a node's output is larger than its input, and every reader of the output needs the row-major ("plain")
    layout.
    """
    tensors = state.graph.tensors
    if math.prod(tensors[node.output].shape) <= math.prod(tensors[node.inputs[0]].shape):
        return False
    keep = Convolution | MaxPool | AveragePool | Resize | Elementwise | Concatenate
    readers = [other for other in state.graph.nodes if node.output in other.inputs]
    return not any(isinstance(reader.operator, keep) for reader in readers)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """An input tensor `name` of a node, and the block size (channels of a block) in which the node should read the
    tensor. `aligned`: the shape of a constant that has fewer dimensions than the node's output, with added leading
    dimensions of 1.
    """

    name: str
    block: int
    aligned: tuple[int, ...] | None = None


def operand_in_blocks(state: State, tensor: Tensor, output: Tensor, block: int) -> _Wanted | None:
    """The layout in which a node with several inputs can read `tensor`, while it computes `output` in blocks of `block`
    channels. Returns None if there is no such layout.
    """
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


def adopt(state: State, wanted: _Wanted) -> str:
    """Returns the name of the tensor in the layout `wanted`. If the new graph does not have this tensor yet, a node
    that changes the layout is added, or a constant is stored in the new layout.
    """
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
