"""Lowers nodes that only move elements (permutations, concatenations, slices, padding) to GPU kernels. A permutation
can move tiles through shared memory; all other moves are scheduled element by element, like element-wise operators.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...codegen.cuda.machine import GpuTarget
from ...graph.graph import Graph, Node
from ...graph.operators import Concatenate, Remap
from ...ir.types import DType
from ...te.ops.joined import joined_concat, joined_remap
from ...te.ops.movement import concat, permute
from ...te.ops.tiled_permute import tiled_permute
from ..expressions import Expression, moved_type
from . import elementwise, movement
from .lowered import Kernel, LoweredCudaNode, lower_expression

MOST_JOINED = 8
"""Largest number of tensors that one kernel concatenates. It is small because each thread compares its output index
with the range of each tensor. If more tensors are concatenated, a separate kernel copies each.
"""
ELEMENTS = Kernel(name="elementwise", schedule=elementwise.schedule)
"""The kernel for programs that the template `elementwise` computes element by element."""
TUNED_ELEMENTS = Kernel(name="elementwise", schedule=elementwise.schedule, tuned="elementwise_cuda")


def lower_permutation(target: GpuTarget, graph: Graph, node: Node, axes: Sequence[int]) -> LoweredCudaNode:
    """Lowers a permutation of axes (output axis d is input axis `axes`[d]) to a kernel. Only float32 elements are moved
    in tiles.
    """
    shape, dtype = graph.data_shape(node), moved_type(graph, node)
    rows = movement.tile_rows(target, shape, axes) if dtype is DType.FLOAT32 else None
    if rows is None:
        program = permute(shape, axes, dtype=dtype)
        return lower_expression(graph, node, Expression(program=program), TUNED_ELEMENTS)
    tiles = Kernel(name="tiles", schedule=movement.schedule_tiles, flat=False)
    return lower_expression(graph, node, Expression(program=tiled_permute(shape, axes, rows=rows)), tiles)


def concatenation(graph: Graph, operator: Concatenate, node: Node) -> Expression:
    """The tensor expression of a node that concatenates tensors."""
    shapes = [graph.tensors[name].shape for name in node.own_inputs]
    joined = joined_concat if len(shapes) <= MOST_JOINED else concat
    return Expression(program=joined(shapes, operator.axis, dtype=moved_type(graph, node)))


def remapping(graph: Graph, operator: Remap, node: Node) -> Expression:
    """The expression of an operator that slices, pads or repeats a tensor."""
    dtype = moved_type(graph, node)
    program, tables = joined_remap(graph.data_shape(node), operator.runs, fill=operator.fill, dtype=dtype)
    return Expression(program=program, arrays=tables)
