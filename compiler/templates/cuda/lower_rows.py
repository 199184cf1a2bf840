"""Nodes of the float graph that reduce rows, and recurrent ones: what they are on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

from ...graph.floating.graph import FloatGraph, Node
from ...graph.floating.operators import LstmSteps, Normalization, Softmax
from ...ir.expr import Const
from ...ir.stmt import Program
from ...ir.visit import loops
from ...target.cuda.architectures import GRID_LIMITS
from ...target.cuda.machine import CudaTarget
from ...te.merge import merge_axes
from ...te.ops.lstm import lstm_steps
from ...te.ops.normalization import normalize
from ...te.ops.reduction import Kind
from ...te.ops.softmax import softmax
from ...te.ops.thread_rows import thread_normalize, thread_reduction, thread_softmax
from ..fused_cpu import shapes_beside
from . import lstm, named, rows
from .lowered import LoweredCudaNode, in_order


def lower_softmax(
    target: CudaTarget, graph: FloatGraph, node: Node, operator: Softmax, knobs: rows.Knobs | None = None
) -> LoweredCudaNode:
    """Softmax along an axis."""
    shape = graph.data_shape(node)
    outer, size, inner = rows.row_shape(shape, operator.axis)
    knobs = knobs or rows.choose_knobs(target, outer * inner, size, beside=inner)
    program = thread_softmax(
        shape,
        operator.axis,
        group=knobs.group,
        lanes=knobs.lanes,
        columns=knobs.columns,
        kept=knobs.kept,
        logarithm=operator.logarithm,
    )
    if _fits(program):
        return in_order(graph, node, program, "rows", named.schedule, flat=False)
    program = softmax(shape, operator.axis, logarithm=operator.logarithm)
    return in_order(graph, node, program, statements=("scale",))


def lower_normalization(
    target: CudaTarget,
    graph: FloatGraph,
    node: Node,
    operator: Normalization,
    knobs: rows.Knobs | None = None,
) -> LoweredCudaNode:
    """Rows by their own mean and variance."""
    shape = graph.data_shape(node)
    lead, size = shape[: operator.axis], prod(shape[operator.axis :])
    outer = lead[0] if operator.by_channel else prod(lead)
    channels = lead[1] if operator.by_channel else 1
    by = "channel" if operator.by_channel else "row"
    bias = len(node.own_inputs) == 3
    knobs = knobs or rows.choose_knobs(target, outer * channels, size)
    program = thread_normalize(
        outer=outer,
        channels=channels,
        size=size,
        epsilon=operator.epsilon,
        by=by,
        bias=bias,
        group=min(knobs.group, channels if operator.by_channel else outer),
        lanes=knobs.lanes,
        kept=knobs.kept,
    )
    if _fits(program):
        return in_order(graph, node, program, "rows", named.schedule, flat=False)
    program = normalize(outer=outer, channels=channels, size=size, epsilon=operator.epsilon, by=by, bias=bias)
    return in_order(graph, node, program)


def lower_reduction(
    target: CudaTarget,
    graph: FloatGraph,
    node: Node,
    kind: Kind,
    axes: Sequence[int],
    knobs: rows.Knobs | None = None,
) -> LoweredCudaNode:
    """Sums, means, greatest values, …"""
    shape = graph.data_shape(node)
    apart = shapes_beside(graph, node, tuple(axes))
    merged = merge_axes(shape, axes, apart) or ((1, False),)
    kept = prod(size for size, reduced in merged if not reduced)
    size, reduced = merged[-1]
    knobs = knobs or rows.choose_reduction_knobs(
        target, kept, prod(shape) // kept, beside=1 if reduced else size
    )
    program = thread_reduction(
        shape,
        axes,
        kind,
        group=knobs.group,
        lanes=knobs.lanes,
        columns=knobs.columns,
        chunks=knobs.chunks,
        beside=apart,
    )
    return in_order(graph, node, program, "rows", named.schedule)


def lower_lstm(
    target: CudaTarget,
    graph: FloatGraph,
    node: Node,
    operator: LstmSteps,
    knobs: lstm.Knobs | None = None,
) -> LoweredCudaNode:
    """An LSTM's steps."""
    _, _, batch, hidden = graph.tensors[node.output].shape
    knobs = knobs or lstm.choose_knobs(
        target, batch=batch, hidden=hidden, directions=len(operator.directions)
    )
    sizes = {"steps": operator.steps, "batch": batch, "hidden": hidden, "directions": operator.directions}
    program = lstm.steps(knobs, **sizes)
    if not _fits(program):
        return in_order(graph, node, lstm_steps(**sizes))
    template = partial(lstm.schedule, knobs=knobs)
    return in_order(graph, node, program, f"lstm {knobs.cells}", template, flat=False)


def _fits(program: Program) -> bool:
    """Whether the grid of a program for named axes is small enough."""
    return all(
        not loop.name.endswith(("block.y", "block.z"))
        or (isinstance(loop.extent, Const) and loop.extent.value <= GRID_LIMITS["y"])
        for loop in loops(program)
    )
