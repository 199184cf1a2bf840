"""Lowering of integer nodes on blocks of channels to kernels, with weights, biases and scales in blocks."""

from __future__ import annotations

from collections.abc import Callable
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
from ..expressions import Expression
from ..fused_program import Fused
from ..lowered_node import lowered_node
from .lowered import LoweredCpuNode, scheduled


def lower_int8_node(graph: Graph, node: Node, operator: Int8Operator) -> LoweredCpuNode:
    """The kernel of an integer node of a graph that `rewrites.int8_for_processors` made."""
    if not isinstance(operator, Int8Convolution):
        return _lowered(graph, node, int8_expression(graph, node, operator))
    if is_depthwise(graph, node, operator):
        return _lowered(graph, node, depthwise_expression(graph, node, operator))
    schedule = partial(scheduled, constants=frozenset({"W"}))
    return _lowered(graph, node, _convolution(graph, node, operator), schedule)


def int8_expression(graph: Graph, node: Node, operator: Int8Operator) -> Expression:
    """The tensor expression of an integer node other than a convolution, for processors and GPUs."""
    if isinstance(operator, Quantize | Dequantize):
        return _converted(graph, node, operator)
    from ..int8_expressions import EXPRESSIONS

    if (expression := EXPRESSIONS.get(type(operator))) is None:
        raise AssertionError(f"{node.name}: {node.kind} is for accelerators and has no CPU kernel")
    return expression(graph, node, operator)


def _lowered(
    graph: Graph, node: Node, expression: Expression, schedule: Callable[..., Schedule] = scheduled
) -> LoweredCpuNode:
    """The kernel of a node with this `expression`. `schedule` is called with the target, the program and `parallel`."""
    program = expression.program
    names = [parameter.name for parameter in program.parameters if parameter.name not in expression.arrays]
    bound = dict(zip(names, (*node.inputs, *node.outputs), strict=True))
    own = partial(schedule, program=program, parallel=True)
    return lowered_node(graph, node, program.name, Fused(program=program), own, bound, expression.arrays)


def is_depthwise(graph: Graph, node: Node, operator: Int8Convolution) -> bool:
    """Whether each channel of a convolution's input has one filter of its own."""
    groups = operator.groups
    return groups > 1 and groups == graph.tensors[node.inputs[0]].shape[1] == operator.weight.shape[0]


def _convolution(graph: Graph, node: Node, operator: Int8Convolution) -> Expression:
    """A convolution's expression. Groups that do not fill whole blocks of channels are joined, with zero weights
    between them.
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
        shape, block_in=data.block, block_out=out.block, sums=quantized_sums(operator), name="int8_conv2d"
    )
    weight = np.zeros((groups, blocks_out * out.block, blocks_in * data.block, *window.kernel), np.int8)
    own_in, own_out = channels // operator.groups, filters // operator.groups
    for group in range(operator.groups):
        whole, part = divmod(group, joined)
        rows = slice(part * own_out, (part + 1) * own_out)
        columns = slice(part * own_in, (part + 1) * own_in)
        weight[whole, rows, columns] = operator.weight[group * own_out : (group + 1) * own_out]
    weight = weight.reshape(*weight.shape[:2], blocks_in, data.block, *window.kernel)
    return _sums(operator, program, weight.transpose(0, 1, 2, 4, 5, 3), groups)


def depthwise_expression(graph: Graph, node: Node, operator: Int8Convolution) -> Expression:
    """The tensor expression of a depthwise convolution on blocks of channels, for processors and GPUs."""
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
    program = blocked_depthwise(shape, block=data.block, sums=quantized_sums(operator), name="int8_depthwise")
    weight = operator.weight[:, 0].transpose(1, 2, 0)
    weight = np.pad(weight, ((0, 0), (0, 0), (0, blocks * data.block - channels)))
    return _sums(operator, program, weight)


def quantized_sums(operator: Int8Convolution) -> QuantizedSums:
    """The sums and the post-processing of a convolution of uint8 activations."""
    return QuantizedSums(pad_value=operator.pad_value + UNSIGNED_OFFSET, post=operator.post)


def _sums(operator: Int8Convolution, program: Program, weight: np.ndarray, groups: int = 1) -> Expression:
    """The expression of `program` with the packed `weight`, and biases and scales in whole blocks for each group."""
    shape = next(p.shape for p in program.parameters if p.name == "P")
    filters = operator.weight.shape[0]
    pairs = biases_and_scales(operator).reshape(2, groups, filters // groups)
    pairs = np.pad(pairs, ((0, 0), (0, 0), (0, shape[0] * shape[2] // groups - filters // groups)))
    parameters = pairs.reshape(2, shape[0], shape[2]).transpose(1, 0, 2)
    return Expression(program=program, arrays={"W": weight, "P": np.ascontiguousarray(parameters)})


def biases_and_scales(operator: Int8Convolution) -> np.ndarray:
    """int32 [2, filters]: biases of sums over uint8 activations, and the bits of the float32 scales."""
    scale = np.broadcast_to(np.asarray(operator.scale, np.float32), operator.weight.shape[:1])
    return np.stack([biases_of_unsigned(operator.bias, operator.weight), scale.view(np.int32)])


def _converted(graph: Graph, node: Node, operator: Quantize | Dequantize) -> Expression:
    """The expression that converts between a float tensor in the host's layout and a quantized activation in blocks of
    channels.
    """
    real, quantized, convert = node.output, node.inputs[0], load_activation
    if isinstance(operator, Quantize):
        real, quantized, convert = quantized, real, store_activation
    batch, channels, height, width = graph.tensors[quantized].shape
    program = convert(
        batch=batch,
        channels=channels,
        plane=height * width,
        block=graph.tensors[quantized].block,
        dtype=graph.tensors[real].dtype,
        scale=float(operator.quantization.scale),
        zero_point=operator.quantization.stored_zero_point,
    )
    return Expression(program=program)


def _joined_groups(channels: int, filters: int, groups: int, block_in: int, block_out: int) -> int:
    """The least number of a convolution's groups that together fill whole blocks of channels and filters; all groups if
    no smaller number does.
    """
    for joined in range(1, groups):
        part = groups // joined
        if groups % joined == 0 and not (channels // part % block_in or filters // part % block_out):
            return joined
    return groups
