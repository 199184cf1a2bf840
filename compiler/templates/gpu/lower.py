"""Lowering of a graph node to a program for a GPU: tensor expression, template, constant arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from ...codegen.cuda.machine import GpuTarget
from ...graph.graph import Graph, Node
from ...graph.int8_operators import Int8Operator
from ...graph.operators import (
    AveragePool,
    Concatenate,
    Convolution,
    Dense,
    DotProductAttention,
    Elementwise,
    Gather,
    LstmSteps,
    MatrixProduct,
    MaxPool,
    Normalization,
    Permute,
    Reduction,
    Relayout,
    Remap,
    Resize,
    Softmax,
)
from ..columns import Values
from ..expressions import computed, expression_of, has_expression
from ..lowered_node import kernel_key
from . import pool, rows_space
from .lower_convolutions import lower_convolution, lower_convolution_methods
from .lower_moves import (
    ELEMENTS,
    TUNED_ELEMENTS,
    concatenation,
    lower_permutation,
    remapping,
)
from .lower_products import lower_dense, lower_matrix_product
from .lower_rows import lower_lstm, lower_normalization, lower_reduction, lower_softmax
from .lowered import GENERIC, Kernel, LoweredCudaNode, lower_expression
from .rows import Knobs
from .table import GPU
from .workload import CudaTemplate

_OTHERS: Mapping[str, CudaTemplate] = {"gemv_cuda": "gemm_cuda", "gemm_wgmma_cuda": "gemm_mma_cuda"}
"""For a template of matrix products, another template for the same products: tiles (`gemm_cuda`) also compute products
of few rows, and mma can replace wgmma.
"""

_KERNELS: Mapping[type, Kernel] = MappingProxyType(
    {
        MaxPool: Kernel(name="pool", schedule=pool.schedule, tuned="pool_cuda", intermediates=False),
        AveragePool: Kernel(name="pool", schedule=pool.schedule, tuned="pool_cuda", intermediates=False),
        Elementwise: TUNED_ELEMENTS,
        Gather: ELEMENTS,
        Resize: ELEMENTS,
        Relayout: ELEMENTS,
    }
)
"""The kernel (schedule and template) of each operator type that has an expression in `templates.expressions`; operator
types that are missing here use `GENERIC`.
"""


def lower_cuda_node(
    target: GpuTarget, graph: Graph, node: Node, row_knobs: Knobs | None = None
) -> LoweredCudaNode | None:
    """The kernels of a node, for graphs whose float tensors are row-major; None for operators without a kernel.

    `row_knobs`: the knobs of a softmax, normalization or reduction, on which its program depends (None: defaults). The
    knobs of other operators only change schedules.
    """
    operator = computed(graph, node)
    if isinstance(operator, Int8Operator):
        from .lower_int8 import lower_int8_node

        return lower_int8_node(graph, node, operator)
    match operator:
        case Convolution():
            return lower_convolution(target, graph, node, operator)
        case Dense():
            return lower_dense(target, graph, node, operator)
        case MatrixProduct():
            return lower_matrix_product(target, graph, node)
        case DotProductAttention():
            from .lower_attention import lower_attention

            return lower_attention(target, graph, node)
        case LstmSteps():
            return lower_lstm(target, graph, node, operator)
        case Softmax():
            return lower_softmax(target, graph, node, operator, row_knobs)
        case Normalization():
            return lower_normalization(target, graph, node, operator, row_knobs)
        case Reduction(kind=kind, axes=axes):
            return lower_reduction(target, graph, node, kind, axes, row_knobs)
        case Permute(axes=axes):
            return lower_permutation(target, graph, node, axes)
        case Concatenate():
            return lower_expression(graph, node, concatenation(graph, operator, node), TUNED_ELEMENTS)
        case Remap():
            return lower_expression(graph, node, remapping(graph, operator, node), ELEMENTS)
    if not has_expression(operator):
        return None
    kernel = _KERNELS.get(type(operator), GENERIC)
    return lower_expression(graph, node, expression_of(graph, node), kernel)


def lower_methods(target: GpuTarget, graph: Graph, node: Node) -> tuple[LoweredCudaNode, ...]:
    """A node lowered by each method (template) that can compute the node as accurately as `lower_cuda_node`, whose
    result comes first. A tuner may choose among these methods. Empty if `lower_cuda_node` returns None.
    """
    if isinstance(node.operator, Convolution):
        return lower_convolution_methods(target, graph, node, node.operator)
    default = lower_cuda_node(target, graph, node)
    if default is None:
        return ()
    other = None if default.workload is None else _OTHERS.get(default.workload.template)
    if default.workload is None or other is None:
        return (default,)
    workload = replace(default.workload, template=other)
    return default, replace(
        default,
        key=kernel_key(other, workload.expression),
        schedule=lambda t: GPU.schedule(t, workload),
        workload=workload,
    )


def lower_recorded(
    target: GpuTarget, graph: Graph, lowered: LoweredCudaNode, values: Values
) -> LoweredCudaNode:
    """The node `lowered` with a new schedule, which uses the knob `values` from a tuning record. The values are a point
    of the search space of the node's workload.
    """
    workload = lowered.workload
    assert workload is not None
    if workload.rows is None:
        return replace(lowered, schedule=lambda t: GPU.schedule(t, workload, values))
    # The operator's knobs change the program, so the node is lowered again with them.
    knobs = rows_space.TUNED.knobs_at(workload, values)
    found = lower_cuda_node(target, graph, lowered.node, knobs)
    assert found is not None
    return found
