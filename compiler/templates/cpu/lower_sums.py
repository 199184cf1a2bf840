"""Lowering of the graph's convolutions and matrix products to programs, with their weights and epilogues."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ...graph.graph import Graph, Node
from ...graph.operators import Convolution, Dense
from ...schedule import Schedule
from ...te.ops.blocked_convolution import FloatSums, blocked_convolution, blocked_depthwise
from ...te.ops.product import Matrices, product
from ...te.ops.sums import Epilogue
from ..expressions import Expression, convolution_of
from ..fused_program import fused
from ..lowered_node import lowered_node
from .lowered import LoweredCpuNode, scheduled, sketched


def lower_convolution(graph: Graph, node: Node, operator: Convolution) -> LoweredCpuNode:
    """The kernel of a convolution or transposed convolution, with weights in blocks of filters."""
    data, out = graph.tensors[node.inputs[0]], graph.tensors[node.output]
    shape = convolution_of(graph, node, operator).in_one_row()
    filters, groups = shape.filters, shape.groups
    sums = FloatSums(epilogue=operator.epilogue)
    program = blocked_convolution(shape, block_in=data.block, block_out=out.block, sums=sums)
    shapes = {b.name: b.shape for b in program.parameters}
    weight = graph.constants[node.inputs[1]]
    arrays = {"W": _extended(weight.reshape(groups, filters // groups, *weight.shape[1:]), shapes["W"])}
    if operator.epilogue.bias:
        arrays["B"] = _extended(graph.constants[node.inputs[2]].reshape(groups, -1), shapes["B"])
    inside = filters // groups
    expression = Expression(
        program=program,
        arrays=arrays,
        inside=None if inside % out.block == 0 else lambda at: at[2] * out.block + at[5] < inside,
    )
    schedule = partial(scheduled, constants=frozenset({"W"}), parallel=True)
    lowered = _sum(graph, node, operator.epilogue, expression, schedule)
    return sketched(lowered, "conv_transpose" if operator.transposed else "conv2d")


def lower_depthwise(graph: Graph, node: Node, operator: Convolution) -> LoweredCpuNode:
    """Lowers a depthwise convolution node to a kernel: program, weights in blocks of channels, schedule."""
    data = graph.tensors[node.inputs[0]]
    channels = data.shape[1]
    program = blocked_depthwise(
        convolution_of(graph, node, operator), block=data.block, sums=FloatSums(epilogue=operator.epilogue)
    )
    shapes = {b.name: b.shape for b in program.parameters}
    weight = graph.constants[node.inputs[1]][:, 0].transpose(1, 2, 0)
    arrays = {"W": _extended(weight, shapes["W"])}
    if operator.epilogue.bias:
        arrays["B"] = _extended(graph.constants[node.inputs[2]], shapes["B"])
    block = data.block
    expression = Expression(
        program=program,
        arrays=arrays,
        inside=None if channels % block == 0 else lambda at: at[1] * block + at[4] < channels,
    )
    schedule = partial(scheduled, parallel=True)
    return sketched(_sum(graph, node, operator.epilogue, expression, schedule), "depthwise")


def lower_dense(graph: Graph, node: Node, operator: Dense) -> LoweredCpuNode:
    """The kernel of a product with a constant matrix."""
    rows, depth = graph.tensors[node.inputs[0]].shape
    columns = graph.tensors[node.output].shape[1]
    program = product(Matrices(rows=rows, depth=depth, columns=columns), epilogue=operator.epilogue)
    arrays = {"W": graph.constants[node.inputs[1]]}
    if operator.epilogue.bias:
        arrays["B"] = graph.constants[node.inputs[2]]
    schedule = partial(scheduled, constants=frozenset({"W"}), parallel=True)
    lowered = _sum(graph, node, operator.epilogue, Expression(program=program, arrays=arrays), schedule)
    return sketched(lowered, "dense")


def _sum(
    graph: Graph,
    node: Node,
    epilogue: Epilogue,
    expression: Expression,
    schedule: Callable[..., Schedule],
) -> LoweredCpuNode:
    """The kernel, scheduled by `schedule`, of a sum of products (`expression`), its `epilogue` and fused operators."""
    ends = fused(graph, node, expression.program, inside=expression.inside)
    bound = {"X": node.inputs[0], "Y": node.output}
    if epilogue.operand:
        bound["R"] = node.inputs[2 + epilogue.bias]
    key, arrays = expression.program.name, expression.arrays
    own = partial(schedule, program=ends.program)
    return lowered_node(graph, node, key, ends, own, bound, arrays)


def _extended(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """`array` padded with zeros at the end of every axis, to `shape`."""
    return np.pad(array, [(0, size - old) for old, size in zip(array.shape, shape, strict=True)])
