"""Lowering of attention nodes for GPUs: one kernel for each node."""

from __future__ import annotations

from ...codegen.cuda.machine import GpuTarget
from ...graph.attention import sizes_of
from ...graph.graph import Graph, Node
from ...ir.types import HALVES
from ...te.ops.attention_sizes import Attention
from ..expressions import Expression
from . import attention
from .lowered import Kernel, LoweredCudaNode, lower_expression


def lower_attention(target: GpuTarget, graph: Graph, node: Node) -> LoweredCudaNode:
    """The kernel of an attention: on tensor cores (`attention_mma`) for 16-bit floats, otherwise on CUDA cores
    (`attention`). The module's function `fits` must have accepted the attention.
    """
    sizes = sizes_of(graph, node)
    if sizes.dtype in HALVES:
        return _on_tensor_cores(target, graph, node, sizes)
    chosen = attention.choose_tile(target, sizes)
    assert chosen is not None
    kernel = Kernel(
        name=f"attention {chosen}", schedule=lambda t, p: attention.schedule(t, p, chosen), flat=False
    )
    program = attention.program_of(target, sizes, chosen)
    return lower_expression(graph, node, Expression(program=program), kernel)


def _on_tensor_cores(target: GpuTarget, graph: Graph, node: Node, sizes: Attention) -> LoweredCudaNode:
    from ...te.ops.attention_halves import attention_halves
    from . import attention_mma

    chosen = attention_mma.choose_tile(target, sizes)
    assert chosen is not None
    kernel = Kernel(
        name=f"attention_mma {chosen}",
        schedule=lambda t, p: attention_mma.schedule(t, p, sizes, chosen),
        flat=False,
    )
    program = attention_halves(sizes, chosen)
    return lower_expression(graph, node, Expression(program=program), kernel)
