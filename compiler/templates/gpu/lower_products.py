"""Lowering of matrix products for GPUs: dense layers, whose matrices are constant and packed ahead, and batches."""

from __future__ import annotations

from functools import partial
from math import prod

from ...codegen.cuda.machine import GpuTarget
from ...graph.graph import Graph, Node
from ...graph.operators import Dense
from ...ir.stmt import Program
from ...te.ops.product import Matrices, Types, product
from ..expressions import Expression
from . import gemm, gemv
from .lowered import Kernel, LoweredCudaNode, lower_expression
from .tensor_float import for_target


def lower_dense(target: GpuTarget, graph: Graph, node: Node, operator: Dense) -> LoweredCudaNode:
    """Lowers a dense layer, with its epilogue and fused operators, to a kernel."""
    rows, depth = graph.tensors[node.inputs[0]].shape
    columns = graph.tensors[node.output].shape[1]
    sizes = Matrices(rows=rows, depth=depth, columns=columns, transposed_w=operator.transposed)
    # A weight that is stored for a look-up, too, is not packed. Threads read it along the depth if rows are few.
    packed = () if operator.transposed else ("W",)
    lies = operator.transposed and rows <= gemv.MOST_ROWS
    staged = "as they lie" if lies else "by depth"
    types = _types(graph, node)
    program = product(sizes, types=types, epilogue=operator.epilogue, staged=staged, name="dense")
    return _lowered(target, graph, node, "dense", packed, program)


def lower_matrix_product(target: GpuTarget, graph: Graph, node: Node) -> LoweredCudaNode:
    """The kernel of a matrix product with its fused operators. If all matrices of a batch are multiplied by one common
    matrix, and fused operators read no other tensors, the rows of the batch are joined into one matrix.
    """
    x, w = node.own_inputs
    *batch_x, rows, depth = graph.tensors[x].shape
    *batch_w, _, columns = graph.tensors[w].shape
    beside = [graph.tensors[node.inputs[i]].shape[:-2] for i in node.operands(node.result)]
    if prod(batch_w) == 1 and not beside:
        rows, batch_x, batch_w = prod(batch_x) * rows, [], []
    sizes = Matrices(rows=rows, depth=depth, columns=columns, batch_x=tuple(batch_x), batch_w=tuple(batch_w))
    program = product(sizes, types=_types(graph, node), beside=beside, staged="by depth", name="matmul")
    constants = tuple([p for p, name in (("X", x), ("W", w)) if name in graph.constants])
    return _lowered(target, graph, node, " ".join(["matmul", *constants]), constants, program)


def _types(graph: Graph, node: Node) -> Types:
    """The types of a product: both factors have one type, a float of 16 or 32 bits; sums and results are float32."""
    dtype = graph.tensors[node.inputs[0]].dtype
    return Types(x=dtype, w=dtype)


def _lowered(
    target: GpuTarget,
    graph: Graph,
    node: Node,
    name: str,
    constants: tuple[str, ...],
    program: Program,
) -> LoweredCudaNode:
    kernel = Kernel(
        name=name,
        schedule=partial(gemm.schedule, constants=constants),
        tuned=lambda final: gemm.template_of(target, final, constants),
        flat=False,
        constants=constants,
    )
    return lower_expression(graph, node, Expression(program=for_target(target, program)), kernel)
