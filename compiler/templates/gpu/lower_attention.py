"""Lowering of an attention for GPUs."""

from __future__ import annotations

from ...codegen.cuda.machine import GpuTarget
from ...graph.floating.fuse_attention import sizes_of
from ...graph.graph import Graph, Node
from ...te.ops.attention_tile import Tile
from ..expressions import Expression
from .attention import choose_tile, program_of, schedule
from .lowered import Kernel, LoweredCudaNode, lower_expression


def lower_attention(target: GpuTarget, graph: Graph, node: Node, tile: Tile | None = None) -> LoweredCudaNode:
    """The kernel of an attention that `attention.fits`."""
    sizes = sizes_of(graph, node)
    chosen = tile or choose_tile(target, sizes)
    assert chosen is not None
    kernel = Kernel(name=f"attention {chosen}", schedule=lambda t, p, _: schedule(t, p, chosen), flat=False)
    return lower_expression(graph, node, Expression(program=program_of(target, sizes, chosen)), kernel)
