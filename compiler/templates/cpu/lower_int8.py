"""Lowering of integer nodes on blocks of channels to kernels, with weights, biases and scales in blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from vdla.isa.arithmetic import UNSIGNED_OFFSET

from ...graph.graph import Graph, Node
from ...graph.int8_convolution import Int8Convolution
from ...graph.int8_operators import Dequantize, Int8Operator, Quantize
from ...ir.stmt import Program
from ...schedule import Schedule
from ...te.blocks import ceil_div
from ...te.ops.blocked_convolution import QuantizedSums, blocked_convolution, blocked_depthwise
from ...te.ops.convolution import Convolution
from ...te.ops.quantization import biases_of_unsigned, load_activation, store_activation
from ..fused_program import Fused
from ..lowered_node import lowered_node
from .lowered import LoweredCpuNode, scheduled


def lower_int8_node(graph: Graph, node: Node, operator: Int8Operator) -> LoweredCpuNode:
    """The kernel of an integer node of a graph that `graph.int8_for_processors` made."""
    match operator:
        case Int8Convolution(groups=groups, weight=weight):
            if groups > 1 and groups == graph.tensors[node.inputs[0]].shape[1] == weight.shape[0]:
                return _depthwise(graph, node, operator)
            return _convolution(graph, node, operator)
        case Quantize():
            return _quantize(graph, node, operator)
        case Dequantize():
            return _dequantize(graph, node, operator)
    from .lower_int8_others import LOWERED

    if (lower := LOWERED.get(type(operator))) is None:
        raise AssertionError(f"{node.name}: {node.kind} is imported for accelerators alone")
    return lower(graph, node, operator)


def lowered_int8(
    node: Node,
    program: Program,
    graph: Graph,
    inputs: Mapping[str, str],
    constants: Mapping[str, np.ndarray] | None = None,
    schedule: Callable[..., Schedule] = scheduled,
) -> LoweredCpuNode:
    """The kernel of a node with the expression `program`; `inputs` maps parameters to tensors and constants of the
    graph, parameter Y is the output.

    `schedule` is called with the target, the program and `parallel`.
    """
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
    ).in_one_row()
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
    schedule = partial(scheduled, constants=frozenset({"W"}))
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
    schedule: Callable[..., Schedule] = scheduled,
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
    return lowered_int8(node, program, graph, inputs, constants, schedule)


def _quantize(graph: Graph, node: Node, operator: Quantize) -> LoweredCpuNode:
    """The kernel that converts a float tensor in the host's layout to a uint8 activation in blocks of channels."""
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
    return lowered_int8(node, program, graph, {"X": node.inputs[0]})


def _dequantize(graph: Graph, node: Node, operator: Dequantize) -> LoweredCpuNode:
    """The kernel that converts a quantized activation to a float tensor in the host's layout."""
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
    return lowered_int8(node, program, graph, {"X": node.inputs[0]})


def _joined_groups(channels: int, filters: int, groups: int, block_in: int, block_out: int) -> int:
    """The least number of a convolution's groups that together fill whole blocks of channels and filters; all groups if
    no smaller number does.
    """
    for joined in range(1, groups):
        part = groups // joined
        if groups % joined == 0 and not (channels // part % block_in or filters // part % block_out):
            return joined
    return groups
