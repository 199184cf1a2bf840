"""Dense layers on a GPU: products with constant matrices, which are packed into tiles ahead."""

from __future__ import annotations

from ...codegen.cuda.machine import GpuTarget
from ...graph.graph import Graph, Node
from ...graph.operators import Dense
from ...ir.stmt import Program
from ...schedule import Schedule
from ...te.ops.product import Matrices, product
from ..lowered_node import fused, lowered_node
from . import gemm
from .lowered import LoweredCudaNode
from .tensor_float import for_target
from .workload import workload_of

Knobs = gemm.Knobs
choose_knobs = gemm.choose_knobs


def schedule(target: GpuTarget, program: Program, knobs: Knobs | None = None) -> Schedule:
    """`te.ops.product` with a constant W, scheduled with `knobs` (default: `gemm.choose_knobs`)."""
    return gemm.schedule(target, program, knobs, constants=("W",))


def lower_dense(
    target: GpuTarget, graph: Graph, node: Node, operator: Dense, knobs: Knobs | None = None
) -> LoweredCudaNode:
    """The kernel of a dense layer with its epilogue and fused operators."""
    rows, depth = graph.tensors[node.inputs[0]].shape
    columns = graph.tensors[node.output].shape[1]
    epilogue = operator.epilogue
    sizes = Matrices(rows=rows, depth=depth, columns=columns)
    program = product(sizes, epilogue=epilogue, staged="by depth", name="dense")
    program = for_target(target, program)
    ends = fused(graph, node, program)
    x, w, *rest = node.inputs
    bound = {"X": x, "W": w, "Y": node.output}
    if epilogue.bias:
        bound["B"], *rest = rest
    if epilogue.operand:
        bound["R"] = rest[0]
    template = "dense" if knobs is None else f"dense {knobs}"
    workload = workload_of(gemm.template_of(target, ends.program, ("W",)), ends.program, ("W",))
    return lowered_node(
        graph,
        node,
        template,
        ends,
        lambda t: schedule(t, ends.program, knobs),
        bound,
        workload=workload,
    )
