"""Batches of matrix products on a GPU, with both factors known at run time only."""

from __future__ import annotations

from math import prod

from ...codegen.cuda.machine import GpuTarget
from ...graph.graph import Graph, Node
from ...te.ops.product import Matrices, product
from ..lowered_node import fused, lowered_node
from . import gemm
from .lowered import LoweredCudaNode
from .tensor_float import for_target
from .workload import workload_of

Knobs = gemm.Knobs
choose_knobs = gemm.choose_knobs
schedule = gemm.schedule


def lower_matrix_product(
    target: GpuTarget, graph: Graph, node: Node, knobs: Knobs | None = None
) -> LoweredCudaNode:
    """The kernel of a product with its fused operators; the rows of all matrices that are multiplied by one common
    matrix are joined into one matrix.
    """
    x, w = node.own_inputs
    *batch_x, rows, depth = graph.tensors[x].shape
    *batch_w, _, columns = graph.tensors[w].shape
    beside = [graph.tensors[node.inputs[i]].shape[:-2] for i in node.operands(node.result)]
    if prod(batch_w) == 1 and not beside:
        rows, batch_x, batch_w = prod(batch_x) * rows, [], []
    sizes = Matrices(rows=rows, depth=depth, columns=columns, batch_x=tuple(batch_x), batch_w=tuple(batch_w))
    program = product(sizes, beside=beside, staged="by depth", name="matmul")
    program = for_target(target, program)
    ends = fused(graph, node, program)
    constants = [p for p, name in (("X", x), ("W", w)) if name in graph.constants]
    return lowered_node(
        graph,
        node,
        " ".join(["matmul", *constants, *([] if knobs is None else [str(knobs)])]),
        ends,
        lambda t: gemm.schedule(t, ends.program, knobs, constants=constants),
        {"X": x, "W": w, "Y": node.output},
        workload=workload_of(gemm.template_of(target, ends.program, constants), ends.program, constants),
    )
