"""Lowering of a graph node to a processor's kernel: tensor expression, schedule, constant arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from types import MappingProxyType

from ...codegen.cpu.machine import CpuTarget
from ...graph.graph import Graph, Node
from ...graph.operators import (
    AveragePool,
    BatchNormalization,
    Concatenate,
    Convolution,
    Dense,
    Elementwise,
    Gather,
    Join,
    LstmSteps,
    MatrixProduct,
    MaxPool,
    Normalization,
    Permute,
    RecurrentSteps,
    Reduction,
    Relayout,
    Remap,
    Reshape,
    Resize,
    Softmax,
    WinogradOutputs,
    WinogradTiles,
)
from ...rewrites.floating.assign_layouts import is_depthwise
from ...schedule import Schedule
from ...te.ops.product import Matrices, product
from ..expressions import Expression, computed, expression_of
from ..fused_program import fused_expression
from ..lowered_node import lowered_node
from .loops import row_partials
from .lower_sums import lower_convolution, lower_dense, lower_depthwise
from .lowered import LoweredCpuNode, scheduled, sketched
from .workload import Operator as SketchedOperator

KERNELS: Mapping[type, str] = MappingProxyType(
    {
        # Sketch rules cannot tile the steps of recurrent layers.
        LstmSteps: "recurrent:schedule",
        RecurrentSteps: "recurrent:schedule",
        WinogradTiles: "winograd:schedule_tiles",
        WinogradOutputs: "winograd:schedule_outputs",
    }
)
"""Schedules of operators without knobs, as FILE:FUNCTION; the file is imported only when a network has such an
operator.
"""
_SKETCHED: Mapping[type, SketchedOperator | None] = MappingProxyType(
    {
        MatrixProduct: "matmul",
        Softmax: "softmax",
        Normalization: "normalization",
        Reduction: "reduction",
        MaxPool: "pool",
        AveragePool: "pool",
        Elementwise: "elementwise",
        # Data movement has no knobs worth tuning.
        **dict.fromkeys((Permute, Concatenate, Remap, Gather, Relayout, Resize)),
    }
)
"""Names, in workloads, of operators whose knobs come from sketch rules (rules that generate schedules); None for
operators that are not tuned. All other operators that have an expression are "generic".
"""


def lower_node(target: CpuTarget, graph: Graph, node: Node) -> LoweredCpuNode | None:
    """The kernel of a node with float tensors (`lower_int8` lowers integer nodes); None for a view, which computes
    nothing.
    """
    operator = computed(graph, node)
    match operator:
        case Reshape() | Join():
            return None
        case BatchNormalization():
            raise ValueError(
                f"{node.name}: batch normalizations must be replaced by the graph's passes before code generation"
            )
        case Convolution():
            if is_depthwise(operator, graph.tensors[node.inputs[1]]):
                return lower_depthwise(graph, node, operator)
            return lower_convolution(graph, node, operator)
        case Dense():
            return lower_dense(graph, node, operator)
    place, tuned = KERNELS.get(type(operator)), _SKETCHED.get(type(operator), "generic")
    if isinstance(operator, MatrixProduct):
        expression = _matrix_product(graph, node)
    else:
        expression = expression_of(graph, node, width=row_partials(target))
    schedule = scheduled
    if place is not None:
        schedule, tuned = schedule_at(place), None
    ends, bound = fused_expression(graph, node, expression)
    own = partial(schedule, program=ends.program, parallel=True)
    lowered = lowered_node(graph, node, type(operator).__name__, ends, own, bound, expression.arrays)
    return lowered if tuned is None else sketched(lowered, tuned)


def schedule_at(place: str) -> Callable[..., Schedule]:
    """The schedule function that `place`, an entry of `KERNELS`, names as FILE:FUNCTION."""
    file, _, name = place.partition(":")
    return getattr(import_module(f"{__package__}.{file}"), name)


def _matrix_product(graph: Graph, node: Node) -> Expression:
    a, b = (graph.tensors[name].shape for name in node.own_inputs)
    beside = [graph.tensors[node.inputs[i]].shape[:-2] for i in node.operands(node.result)]
    # The template needs at least one batch dimension.
    sizes = Matrices(batch_x=a[:-2] or (1,), batch_w=b[:-2], rows=a[-2], depth=a[-1], columns=b[-1])
    return Expression(program=product(sizes, beside=beside, name="matmul"))
