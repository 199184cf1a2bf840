"""Lowers integer nodes to kernels of GPUs. Their tensors hold all channels of a position in one block."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from ...codegen.cuda.machine import GpuTarget
from ...graph.graph import Graph, Node
from ...graph.int8_convolution import Int8Convolution
from ...graph.int8_operators import Int8AveragePool, Int8Elementwise, Int8MaxPool, Int8Operator, Table
from ...ir.stmt import Copy, Program
from ...ir.visit import walk
from ...schedule import Schedule
from ...te.ops.convolution import Convolution
from ...te.ops.int8_product import channels_last_convolution, int8_product, product_weights
from ..cpu.lower_int8 import (
    biases_and_scales,
    depthwise_expression,
    int8_expression,
    is_depthwise,
    quantized_sums,
)
from ..expressions import Expression
from . import gemm_mma, generic, pool
from .gemm_cost import choose_tile, problem_of
from .lower_moves import ELEMENTS
from .lowered import GENERIC, Kernel, LoweredCudaNode, lower_expression
from .tensor_float import LEAST
from .tile import schedule_tile

_POOL = Kernel(name="pool", schedule=pool.schedule, intermediates=False)
_KERNELS: Mapping[type, Kernel] = MappingProxyType(
    {
        Int8MaxPool: _POOL,
        Int8AveragePool: _POOL,
        Int8Elementwise: ELEMENTS,
        Table: ELEMENTS,
    }
)
"""The kernel of each operator type that has a template of its own; other types use `GENERIC`."""


def lower_int8_node(graph: Graph, node: Node, operator: Int8Operator) -> LoweredCudaNode:
    """The kernels of an integer node of a graph that `rewrites.int8_for_processors` made with `channels_last`."""
    if not isinstance(operator, Int8Convolution):
        expression = int8_expression(graph, node, operator)
        return lower_expression(graph, node, expression, _KERNELS.get(type(operator), GENERIC))
    if is_depthwise(graph, node, operator):
        return lower_expression(graph, node, depthwise_expression(graph, node, operator), _ELEMENTS)
    return _lower_convolution(graph, node, operator)


def _lower_convolution(graph: Graph, node: Node, operator: Int8Convolution) -> LoweredCudaNode:
    """The kernels of a convolution. It is computed as a product of matrices, on tensor cores if the GPU has them. If
    there are several groups, and these have fewer than `LEAST` filters or do not fill the output's block, one thread
    computes each output element.
    """
    data, out = graph.tensors[node.inputs[0]], graph.tensors[node.output]
    batch, channels, height, width = data.shape
    shape = Convolution(
        batch=batch,
        channels=channels,
        height=height,
        width=width,
        filters=out.shape[1],
        window=operator.window,
        groups=operator.groups,
    )
    lanes, sums = (data.block, out.block), quantized_sums(operator)
    pairs = biases_and_scales(operator)
    pairs = np.pad(pairs, ((0, 0), (0, out.block - shape.filters)))
    if shape.groups == 1 or (shape.group_filters >= LEAST and shape.filters == out.block):
        program = int8_product(shape, lanes=lanes, pad_value=sums.pad_value, post=sums.post)
        weight, kernel = product_weights(operator.weight, operator.groups, lanes), _PRODUCT
    else:
        program = channels_last_convolution(shape, lanes=lanes, sums=sums)
        weight = operator.weight.transpose(0, 2, 3, 1)
        weight = np.pad(weight, ((0, out.block - shape.filters), (0, 0), (0, 0), (0, 0)))
        pairs, kernel = pairs[np.newaxis], _ELEMENTS
    expression = Expression(program=program, arrays={"W": weight, "P": pairs})
    return lower_expression(graph, node, expression, kernel)


def _schedule_tiles(target: GpuTarget, program: Program) -> Schedule:
    """Schedules `te.ops.int8_product` on tensor cores or, on GPUs without tensor cores, by `tile`. W is not packed
    ahead: packing would pad W to whole tiles, and two products with equal weights could not share the packed array.
    """
    if target.has("mma"):
        return gemm_mma.schedule(target, program)
    return schedule_tile(program, choose_tile(target, problem_of(program)))


def _schedule_elements(_target: GpuTarget, program: Program) -> Schedule:
    """Schedules `te.ops.blocked_convolution` so that one thread computes each element of the output."""
    s = Schedule(program)
    if any(isinstance(node, Copy) and node.name == "pad" for node in walk(program)):
        s.expand_copy("pad")
        s.compute_inline("pad")
    s.compute_at("conv", "j")
    generic.bind(s, generic.Knobs())
    return s


_PRODUCT = Kernel(name="int8 product", schedule=_schedule_tiles, flat=False)
_ELEMENTS = Kernel(name="int8 sums", schedule=_schedule_elements, intermediates=False)
