"""Lowering of float convolutions for GPUs: chooses the method, and provides weights, epilogues and fused operators."""

from __future__ import annotations

from dataclasses import replace
from math import inf, prod

import numpy as np

from ...codegen.cuda.machine import GpuTarget
from ...graph.graph import Graph, Node
from ...graph.operators import Convolution
from ...ir.types import HALVES
from ...rewrites.floating.assign_layouts import is_depthwise
from ...te.ops.blocked_convolution import FloatSums, blocked_depthwise
from ...te.ops.convolution import suits_winograd
from ...te.ops.direct_conv2d import direct_conv2d
from ...te.ops.gemm_convolution import gemm_convolution, phase_products
from ...te.ops.winograd import transformed_weights, winograd_conv2d
from ..expressions import Expression, convolution_of
from . import conv2d, conv2d_direct, conv_transpose, depthwise, winograd
from .lowered import Kernel, LoweredCudaNode, lower_expression
from .tensor_float import for_target
from .workload import CudaTemplate


def lower_convolution(target: GpuTarget, graph: Graph, node: Node, operator: Convolution) -> LoweredCudaNode:
    """The kernels of any convolution, by the method that is expected to be the fastest."""
    if is_depthwise(operator, graph.tensors[node.inputs[1]]):
        return lower_depthwise(graph, node, operator)
    if operator.transposed:
        return lower_conv_transpose(graph, node, operator)
    if graph.tensors[node.inputs[0]].dtype in HALVES:
        return lower_conv2d(target, graph, node, operator)
    direct = lower_direct_conv2d(graph, node, operator) if operator.groups == 1 else None
    others = [conv2d_direct.seconds_of(target, direct.program)] if direct is not None else []
    if (chosen := winograd.choose(target, convolution_of(graph, node, operator), others)) is not None:
        return lower_winograd(graph, node, operator, chosen)
    if direct is not None and conv2d_direct.is_faster(target, direct.program):
        return direct
    return lower_conv2d(target, graph, node, operator)


def lower_convolution_methods(
    target: GpuTarget, graph: Graph, node: Node, operator: Convolution
) -> tuple[LoweredCudaNode, ...]:
    """The kernels of a convolution by several methods, all equally accurate. The first is the result of
    `lower_convolution`.
    """
    default = lower_convolution(target, graph, node, operator)
    alone = operator.transposed or graph.tensors[node.inputs[0]].dtype in HALVES
    if alone or is_depthwise(operator, graph.tensors[node.inputs[1]]):
        return (default,)
    others = [lower_conv2d(target, graph, node, operator)]
    if operator.groups == 1:
        direct = lower_direct_conv2d(graph, node, operator)
        if conv2d_direct.seconds_of(target, direct.program) < inf:
            others.append(direct)
    if suits_winograd(convolution_of(graph, node, operator)):
        for m in winograd.exact_outputs(convolution_of(graph, node, operator)):
            others.append(lower_winograd(graph, node, operator, winograd.Knobs(m=m)))
    return (default, *[other for other in others if other.workload != default.workload])


def lower_conv2d(target: GpuTarget, graph: Graph, node: Node, operator: Convolution) -> LoweredCudaNode:
    """The kernel of a convolution as a matrix product. Tensor cores multiply factors of 16 bits and, if `target` allows
    it (`tensor_float`), float32 factors.
    """
    shape = convolution_of(graph, node, operator)
    block = conv2d.channel_block(shape.group_channels)
    dtype = graph.tensors[node.inputs[0]].dtype
    plain = gemm_convolution(shape, block=block, epilogue=operator.epilogue, dtype=dtype)
    program = for_target(target, plain)
    (product,) = phase_products(shape, block)
    arrays = {"W": product.pack(_weights(graph, node, operator))}
    kernel = Kernel(
        name="conv2d",
        schedule=conv2d.schedule,
        tuned=lambda final: conv2d.template_of(target, final),
        constants=("W",),
    )
    return _lowered(graph, node, Expression(program=program, arrays=arrays), kernel)


def lower_direct_conv2d(graph: Graph, node: Node, operator: Convolution) -> LoweredCudaNode:
    """The kernel of a convolution by the direct method: the input keeps its shape in shared memory. Raises ValueError
    for several groups.
    """
    shape = convolution_of(graph, node, operator)
    program = direct_conv2d(shape, epilogue=operator.epilogue)
    weights = graph.constants[node.inputs[1]]
    arrays = {"W": weights.transpose(1, 2, 3, 0).reshape(shape.channels, -1, len(weights))}
    kernel = Kernel(name="conv2d_direct", schedule=conv2d_direct.schedule, tuned="conv2d_direct_cuda")
    return _lowered(graph, node, Expression(program=program, arrays=arrays), kernel)


def lower_winograd(graph: Graph, node: Node, operator: Convolution, knobs: winograd.Knobs) -> LoweredCudaNode:
    """The kernels of a convolution by Winograd's method, with weights that are transformed ahead. Raises TypeError for
    a convolution that `suits_winograd` rejects: not 3 x 3, strided, dilated, transposed, or with several groups.
    """
    shape = convolution_of(graph, node, operator)
    if not suits_winograd(shape):
        raise TypeError(
            f"{knobs!r} do not apply to this convolution: Winograd's method needs 3 x 3 taps and stride 1"
        )
    program = winograd_conv2d(shape, knobs.m, epilogue=operator.epilogue)
    arrays = {"W": transformed_weights(graph.constants[node.inputs[1]], knobs.m)}
    kernel = Kernel(
        name=f"winograd {knobs}",
        schedule=lambda target, final: winograd.schedule(target, final, knobs),
        tuned="winograd_cuda",
    )
    return _lowered(graph, node, Expression(program=program, arrays=arrays), kernel)


def lower_conv_transpose(graph: Graph, node: Node, operator: Convolution) -> LoweredCudaNode:
    """Lowers a transposed convolution to kernels that compute it as matrix products."""
    shape = convolution_of(graph, node, operator)
    weights = _weights(graph, node, operator)
    block = conv2d.channel_block(shape.group_channels)
    program = gemm_convolution(shape, block=block, epilogue=operator.epilogue)
    products = phase_products(shape, block)
    arrays = {f"W{part.tag}": part.pack(weights) for part in products if part.depth is not None}
    # If no output has a tap there is no product to tile.
    tuned: CudaTemplate | None = "conv_transpose_cuda" if arrays else None
    kernel = Kernel(name="conv_transpose", schedule=conv_transpose.schedule, tuned=tuned)
    return _lowered(graph, node, Expression(program=program, arrays=arrays), kernel)


def lower_depthwise(graph: Graph, node: Node, operator: Convolution) -> LoweredCudaNode:
    """Lowers a depthwise convolution to a kernel."""
    window = operator.window
    sums = FloatSums(epilogue=operator.epilogue, dtype=graph.tensors[node.inputs[0]].dtype)
    program = blocked_depthwise(convolution_of(graph, node, operator), block=1, sums=sums)
    arrays = {"W": graph.constants[node.inputs[1]][:, 0].transpose(1, 2, 0)}
    kernel = Kernel(
        name=f"depthwise {window}",
        schedule=lambda target, final: depthwise.schedule(target, final, window),
        tuned="depthwise_cuda" if prod(window.kernel) <= depthwise.MOST_TAPS else None,
        window=window,
    )
    return _lowered(graph, node, Expression(program=program, arrays=arrays), kernel)


def _weights(graph: Graph, node: Node, operator: Convolution) -> np.ndarray:
    """The weights as [groups, filters of a group, channels of a group, KH, KW]."""
    weights = graph.constants[node.inputs[1]]
    return weights.reshape(operator.groups, -1, *weights.shape[1:])


def _lowered(graph: Graph, node: Node, expression: Expression, kernel: Kernel) -> LoweredCudaNode:
    """The lowered node of a convolution with this `expression`. Its parameters are X, the expression's own arrays, B
    and R if the epilogue has a bias and a second operand, and Y.
    """
    data, _, *rest = node.own_inputs
    return lower_expression(graph, node, expression, replace(kernel, flat=False), (data, *rest))
