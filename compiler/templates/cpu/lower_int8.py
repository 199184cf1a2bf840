"""Lowering of integer nodes on blocks of channels to kernels, with weights, biases and scales in blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import prod

import numpy as np

from vdla.isa.arithmetic import UNSIGNED_OFFSET

from ...graph.graph import Graph, Node, Tensor
from ...graph.int8_operators import (
    Attention,
    Channels,
    Dequantize,
    Int8AveragePool,
    Int8Convolution,
    Int8Elementwise,
    Int8MaxPool,
    Int8Operator,
    Interleave,
    Normed,
    Positions,
    Products,
    Quantize,
    Resample,
    Rows,
    Swap,
    Table,
    TransposedProduct,
)
from ...ir.stmt import Program
from ...ir.types import DType
from ...schedule import Schedule
from ...te.blocks import Window, ceil_div
from ...te.ops.blocked_convolution import QuantizedSums, blocked_convolution, blocked_depthwise
from ...te.ops.convolution import Convolution
from ...te.ops.float_elementwise import float_elementwise
from ...te.ops.int8_channels import (
    Part,
    channel_places,
    int8_blocks,
    int8_channels,
    int8_interleave,
    int8_table,
    whole_runs,
)
from ...te.ops.int8_pool import int8_average_pool, int8_max_pool
from ...te.ops.int8_positions import int8_positions, int8_resample, int8_swap
from ...te.ops.quantization import biases_of_unsigned, held, load_activation, store_activation, stored_value
from ...te.post import Combination, combined
from ...te.scalars import argument
from ..lowered_node import Fused, lowered_node
from . import conv2d_int8 as conv2d_int8_cpu
from .conv2d_knobs import flattened
from .lowered import LoweredCpuNode


def lower_int8_node(graph: Graph, node: Node, operator: Int8Operator) -> LoweredCpuNode:
    """The kernel of an integer node of a graph that `graph.int8_for_processors` made."""
    match operator:
        case Int8Convolution(groups=groups, weight=weight):
            if groups > 1 and groups == graph.tensors[node.inputs[0]].shape[1] == weight.shape[0]:
                return _depthwise(graph, node, operator)
            return _convolution(graph, node, operator)
        case Int8MaxPool(window=window):
            return _max_pool(graph, node, window)
        case Int8AveragePool():
            return _average_pool(graph, node, operator)
        case Int8Elementwise(combination=combination):
            return _elementwise(graph, node, combination)
        case Table(table=table):
            return _table(graph, node, table)
        case Channels():
            return _channels(graph, node, operator)
        case Interleave():
            return _interleave(graph, node, operator)
        case Positions():
            return _positions(graph, node, operator)
        case Resample():
            return _resample(graph, node, operator)
        case Swap():
            return _swap(graph, node)
        case Quantize():
            return _quantize(graph, node, operator)
        case Dequantize():
            return _dequantize(graph, node, operator)
        case Rows() | Products() | TransposedProduct() | Attention() | Normed():
            raise AssertionError(f"{node.name}: {node.kind} is imported for accelerators alone")


def _lowered(
    node: Node,
    program: Program,
    graph: Graph,
    inputs: Mapping[str, str],
    constants: Mapping[str, np.ndarray] | None = None,
    schedule: Callable[..., Schedule] | None = None,
) -> LoweredCpuNode:
    """The kernel of a node; `inputs` maps parameters to tensors and constants of the graph, Y is the output.

    `schedule` (default: `sketches.scheduled`) is called with the target, the program and `parallel`.
    """
    if schedule is None:
        from .sketches import scheduled as schedule

    own = partial(schedule, program=program, parallel=True)
    bound = {"Y": node.output, **inputs}
    return lowered_node(graph, node, program.name, Fused(program=program), own, bound, constants)


def _convolution(graph: Graph, node: Node, operator: Int8Convolution) -> LoweredCpuNode:
    """A convolution's kernel. Groups that do not fill whole blocks of channels are joined, with zero weights between
    them.
    """
    data, out = graph.tensors[node.inputs[0]], graph.tensors[node.output]
    batch, channels, height, width = data.shape
    filters = operator.weight.shape[0]
    joined = _joined_groups(channels, filters, operator.groups, data.block, out.block)
    groups = operator.groups // joined
    window = operator.window
    height, width = flattened(window, height, width)
    blocks_in = ceil_div(channels // groups, data.block)
    blocks_out = ceil_div(filters // groups, out.block)
    shape = Convolution(
        batch=batch,
        channels=groups * blocks_in * data.block,
        height=height,
        width=width,
        filters=groups * blocks_out * out.block,
        window=window,
        groups=groups,
    )
    program = blocked_convolution(
        shape, block_in=data.block, block_out=out.block, sums=_quantized_sums(operator), name="int8_conv2d"
    )
    weight = np.zeros((groups, blocks_out * out.block, blocks_in * data.block, *window.kernel), np.int8)
    own_in, own_out = channels // operator.groups, filters // operator.groups
    for group in range(operator.groups):
        whole, part = divmod(group, joined)
        rows = slice(part * own_out, (part + 1) * own_out)
        columns = slice(part * own_in, (part + 1) * own_in)
        weight[whole, rows, columns] = operator.weight[group * own_out : (group + 1) * own_out]
    weight = weight.reshape(*weight.shape[:2], blocks_in, data.block, *window.kernel)
    schedule = partial(conv2d_int8_cpu.schedule, window=window)
    return _sums(graph, node, operator, program, weight.transpose(0, 1, 2, 4, 5, 3), groups, schedule)


def _depthwise(graph: Graph, node: Node, operator: Int8Convolution) -> LoweredCpuNode:
    """A depthwise convolution's kernel."""
    data = graph.tensors[node.inputs[0]]
    batch, channels, height, width = data.shape
    blocks = ceil_div(channels, data.block)
    shape = Convolution(
        batch=batch,
        channels=blocks * data.block,
        height=height,
        width=width,
        filters=blocks * data.block,
        window=operator.window,
        groups=blocks * data.block,
    )
    program = blocked_depthwise(
        shape, block=data.block, sums=_quantized_sums(operator), name="int8_depthwise"
    )
    weight = operator.weight[:, 0].transpose(1, 2, 0)
    weight = np.pad(weight, ((0, 0), (0, 0), (0, blocks * data.block - channels)))
    return _sums(graph, node, operator, program, weight)


def _quantized_sums(operator: Int8Convolution) -> QuantizedSums:
    return QuantizedSums(pad_value=operator.pad_value + UNSIGNED_OFFSET, post=operator.post)


def _sums(
    graph: Graph,
    node: Node,
    operator: Int8Convolution,
    program: Program,
    weight: np.ndarray,
    groups: int = 1,
    schedule: Callable[..., Schedule] | None = None,
) -> LoweredCpuNode:
    """A convolution's kernel, with its biases and scales arranged in blocks."""
    shape = next(p.shape for p in program.parameters if p.name == "P")
    filters = operator.weight.shape[0]
    scale = np.broadcast_to(np.asarray(operator.scale, np.float32), (filters,))
    pairs = np.stack([biases_of_unsigned(operator.bias, operator.weight), scale.view(np.int32)])
    pairs = pairs.reshape(2, groups, filters // groups)
    pairs = np.pad(pairs, ((0, 0), (0, 0), (0, shape[0] * shape[2] // groups - filters // groups)))
    parameters = pairs.reshape(2, shape[0], shape[2]).transpose(1, 0, 2)
    constants = {"W": weight, "P": np.ascontiguousarray(parameters)}
    inputs = dict(zip("XR", node.inputs, strict=False))
    return _lowered(node, program, graph, inputs, constants, schedule)


def _max_pool(graph: Graph, node: Node, window: Window) -> LoweredCpuNode:
    """A max-pool's kernel."""
    batch, blocks, height, width, lanes = graph.tensors[node.inputs[0]].storage
    program = int8_max_pool((batch * blocks, height, width, lanes), window)
    return _pool(graph, node, program)


def _average_pool(graph: Graph, node: Node, operator: Int8AveragePool) -> LoweredCpuNode:
    """An average pool's kernel; each average is scaled by the number of positions that its window counts."""
    batch, blocks, height, width, lanes = graph.tensors[node.inputs[0]].storage
    window = operator.window
    program = int8_average_pool(
        (batch * blocks, height, width, lanes),
        window,
        pad_value=operator.pad_value + UNSIGNED_OFFSET,
        bias=operator.bias - UNSIGNED_OFFSET * prod(window.kernel),
        post=operator.post,
    )
    return _pool(graph, node, program, {"S": operator.scales})


def _pool(
    graph: Graph,
    node: Node,
    program: Program,
    constants: Mapping[str, np.ndarray] | None = None,
) -> LoweredCpuNode:
    """The kernel of a pool's program."""
    return _lowered(node, program, graph, {"X": node.inputs[0]}, constants)


def _elementwise(graph: Graph, node: Node, combination: Combination) -> LoweredCpuNode:
    """The kernel of an element-wise combination (stage B), on whole blocks."""
    values = [stored_value(argument(position, DType.UINT8)) for position in range(len(node.inputs))]
    body = held(combined(values[0], values[1] if len(values) > 1 else None, combination))
    batch, blocks, height, width, block = graph.tensors[node.output].storage
    shapes = [(batch * blocks * height * width * block,)] * len(values)
    planes = [graph.tensors[name].shape[2:] for name in node.inputs]
    if len(set(planes)) > 1:
        shapes = [(batch * blocks, prod(plane), block) for plane in planes]
    program = float_elementwise(shapes, body, name="int8_elementwise")
    return _lowered(node, program, graph, _numbered(node))


def _numbered(node: Node) -> dict[str, str]:
    return {f"X{position}": name for position, name in enumerate(node.inputs)}


def _table(graph: Graph, node: Node, table: np.ndarray) -> LoweredCpuNode:
    """The kernel of a table look-up, on whole blocks, lanes without a channel included: nothing reads their results."""
    program = int8_table(size=prod(graph.tensors[node.output].storage))
    values = (table.astype(np.int16) + UNSIGNED_OFFSET).astype(np.uint8)
    return _lowered(node, program, graph, {"X": node.inputs[0]}, {"T": values})


def _channels(graph: Graph, node: Node, operator: Channels) -> LoweredCpuNode:
    """The kernel of a channel move: of whole blocks if possible, else of one channel after the other."""
    tensors = [graph.tensors[name] for name in node.inputs]
    out = graph.tensors[node.output]
    batch, channels, height, width = out.shape
    parts = [_part(tensor) for tensor in tensors]
    counts = [tensor.shape[1] for tensor in tensors]
    runs = whole_runs(operator.sources, counts, [tensor.block for tensor in tensors], out.block)
    if runs is not None:
        program = int8_blocks(batch=batch, plane=height * width, parts=parts, runs=runs)
        return _lowered(node, program, graph, _numbered(node))
    places = channel_places(operator.sources, len(parts))
    program = int8_channels(
        batch=batch,
        plane=height * width,
        parts=parts,
        counts=[table.shape[1] for table in places],
        channels=channels,
        block=out.block,
    )
    tables = {f"I{i}": table for i, table in enumerate(places)}
    return _lowered(node, program, graph, _numbered(node), tables)


def _part(tensor: Tensor) -> Part:
    return Part(blocks=tensor.storage[1], block=tensor.block)


def _interleave(graph: Graph, node: Node, operator: Interleave) -> LoweredCpuNode:
    """The kernel that interleaves rows and columns of a transposed convolution's phases."""
    data, out = graph.tensors[node.inputs[0]], graph.tensors[node.output]
    program = int8_interleave(
        data.storage,
        out.storage,
        factors=operator.factors,
        before=operator.before,
        stride=operator.stride,
    )
    return _lowered(node, program, graph, {"X": node.inputs[0]})


def _positions(graph: Graph, node: Node, operator: Positions) -> LoweredCpuNode:
    """The kernel that moves positions of all channels."""
    parts = [graph.tensors[name].storage for name in node.inputs]
    fill = (operator.fill or 0) + UNSIGNED_OFFSET
    program = int8_positions(parts, graph.tensors[node.output].storage, fill=fill)
    index = {"I": operator.index.reshape(-1).astype(np.int64)}
    return _lowered(node, program, graph, _numbered(node), index)


def _swap(graph: Graph, node: Node) -> LoweredCpuNode:
    """The kernel that exchanges positions and channels."""
    program = int8_swap(graph.tensors[node.inputs[0]].storage, graph.tensors[node.output].storage)
    return _lowered(node, program, graph, {"X": node.inputs[0]})


def _resample(graph: Graph, node: Node, operator: Resample) -> LoweredCpuNode:
    """The kernel that interpolates rows or columns between neighbours."""
    batch, blocks, height, width, block = graph.tensors[node.inputs[0]].storage
    shape = (batch * blocks, height, width * block)
    if operator.axis == 1:
        shape = (batch * blocks * height, width, block)
    total = int(operator.weight[0].astype(np.int64).sum())
    program = int8_resample(
        shape,
        operator.weight.shape,
        bias=operator.bias - UNSIGNED_OFFSET * total,
        scale=float(operator.scale),
        post=operator.post,
    )
    constants = {"F": operator.first.astype(np.int64), "W": operator.weight.astype(np.int32)}
    return _lowered(node, program, graph, {"X": node.inputs[0]}, constants)


def _quantize(graph: Graph, node: Node, operator: Quantize) -> LoweredCpuNode:
    """The kernel that quantizes a tensor of the host to a blocked uint8 activation."""
    out = graph.tensors[node.output]
    batch, channels, height, width = out.shape
    program = store_activation(
        batch=batch,
        channels=channels,
        plane=height * width,
        block=out.block,
        dtype=graph.tensors[node.inputs[0]].dtype,
        scale=float(operator.quantization.scale),
        zero_point=operator.quantization.stored_zero_point,
    )
    return _lowered(node, program, graph, {"X": node.inputs[0]})


def _dequantize(graph: Graph, node: Node, operator: Dequantize) -> LoweredCpuNode:
    """The kernel that dequantizes an activation to a tensor of the host."""
    data = graph.tensors[node.inputs[0]]
    batch, channels, height, width = data.shape
    program = load_activation(
        batch=batch,
        channels=channels,
        plane=height * width,
        block=data.block,
        dtype=graph.tensors[node.output].dtype,
        scale=float(operator.quantization.scale),
        zero_point=operator.quantization.stored_zero_point,
    )
    return _lowered(node, program, graph, {"X": node.inputs[0]})


def _joined_groups(channels: int, filters: int, groups: int, block_in: int, block_out: int) -> int:
    """The least number of groups such that their joined channels and filters fill whole blocks; all groups if there is
    none.
    """
    for joined in range(1, groups):
        part = groups // joined
        if groups % joined == 0 and not (channels // part % block_in or filters // part % block_out):
            return joined
    return groups
