"""Lowering of row operators (softmax, normalizations, reductions) and LSTM for GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...codegen.cuda.architectures import GRID_LIMITS
from ...codegen.cuda.machine import GpuTarget
from ...graph.graph import Graph, Node
from ...graph.operators import LstmSteps, Normalization, Softmax
from ...ir.expr import Const
from ...ir.stmt import Program
from ...ir.visit import loops
from ...te.merge import Shape
from ...te.ops.reduction import Kind
from ..expressions import Expression, expression_of, normalization_sizes, shapes_beside
from . import bind_by_name, lstm, rows
from .lowered import Kernel, LoweredCudaNode, lower_expression
from .row_operator import RowOperator
from .workload import workload_of_rows


def lower_softmax(
    target: GpuTarget, graph: Graph, node: Node, operator: Softmax, knobs: rows.Knobs | None = None
) -> LoweredCudaNode:
    """Lowers a softmax along an axis to kernels; `knobs` None: default knobs."""
    shape = graph.data_shape(node)
    of_rows = RowOperator(
        operator="log_softmax" if operator.logarithm else "softmax",
        shape=shape,
        axes=(operator.axis % len(shape),),
    )
    return _of_rows(target, graph, node, of_rows, knobs)


def lower_normalization(
    target: GpuTarget,
    graph: Graph,
    node: Node,
    operator: Normalization,
    knobs: rows.Knobs | None = None,
) -> LoweredCudaNode:
    """Lowers a LayerNormalization or InstanceNormalization to kernels; `knobs` None: default knobs."""
    of_rows = RowOperator(
        operator="channel_normalization" if operator.by_channel else "row_normalization",
        shape=normalization_sizes(graph, node, operator),
        axes=(2,),
        bias=len(node.own_inputs) == 3,
        epsilon=operator.epsilon,
    )
    return _of_rows(target, graph, node, of_rows, knobs)


def lower_reduction(
    target: GpuTarget,
    graph: Graph,
    node: Node,
    kind: Kind,
    axes: Sequence[int],
    knobs: rows.Knobs | None = None,
) -> LoweredCudaNode:
    """Lowers a sum, mean, maximum or other reduction (`kind`) over `axes` to kernels; `knobs` None: default knobs."""
    shape = graph.data_shape(node)
    apart = shapes_beside(graph, node, tuple(axes))
    of_rows = RowOperator(operator=kind, shape=shape, axes=tuple([axis % len(shape) for axis in axes]))
    return _of_rows(target, graph, node, of_rows, knobs, apart)


def lower_lstm(target: GpuTarget, graph: Graph, node: Node, operator: LstmSteps) -> LoweredCudaNode:
    """Lowers the steps of an LSTM to kernels, one for each time step. If a kernel's grid is too large for CUDA,
    `generic` schedules the operator instead.
    """
    _, _, batch, hidden = graph.tensors[node.output].shape
    knobs = lstm.choose_knobs(target, batch=batch, hidden=hidden, directions=len(operator.directions))
    sizes = {"steps": operator.steps, "batch": batch, "hidden": hidden, "directions": operator.directions}
    program = lstm.steps(knobs, **sizes)
    if not _fits(program):
        return lower_expression(graph, node, expression_of(graph, node))
    kernel = Kernel(
        name=f"lstm {knobs.cells} {knobs}", schedule=lambda t, p: lstm.schedule(t, p, knobs), flat=False
    )
    return lower_expression(graph, node, Expression(program=program), kernel)


def _of_rows(
    target: GpuTarget,
    graph: Graph,
    node: Node,
    operator: RowOperator,
    knobs: rows.Knobs | None,
    beside: Sequence[Shape] = (),
) -> LoweredCudaNode:
    """The kernels of a row operator, which reduces or normalizes rows. `knobs` say how many threads share a row (None:
    default knobs). If the grid of a softmax or normalization is too large for CUDA, `generic` schedules the operator
    instead.

    `beside`: for a reduction, shapes of other tensors that fused operators read.
    """
    program = operator.program(target, knobs or operator.choose_knobs(target, beside), beside)
    if not operator.is_reduction and not _fits(program):
        return lower_expression(graph, node, expression_of(graph, node))
    kernel = Kernel(name="rows", schedule=bind_by_name.schedule, flat=operator.is_reduction)
    lowered = lower_expression(graph, node, Expression(program=program), kernel)
    return replace(lowered, workload=workload_of_rows(operator))


def _fits(program: Program) -> bool:
    """Whether the number of blocks along y and z is within CUDA's limits. The program's loops over blocks are named
    after the axes of the grid.
    """
    return all(
        not loop.name.endswith(("block.y", "block.z"))
        or (isinstance(loop.extent, Const) and loop.extent.value <= GRID_LIMITS["y"])
        for loop in loops(program)
    )
