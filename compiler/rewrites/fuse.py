"""Fusion: some operators can be computed by the store unit while it stores a result. They are merged into the node that
computes the result.

Every rewrite is exact: the fused graph computes the same bits as the unfused one (no rounding is dropped, moved or
merged). `fuse` runs the rewrites for every target to a fixed point; the rewrites are in `fuse_pairs`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..graph.graph import Graph, Node, Tensor
from ..graph.int8_convolution import Int8Convolution
from ..graph.int8_operators import Channels, Int8Elementwise, Positions, Table
from .driver import Rewrite, remove_dead, run_rewrites
from .fuse_pairs import compose_tables, fuse_channels, fuse_clamps, fuse_combines, fuse_tables


def fuse(graph: Graph) -> Graph:
    """Applies the rewrites that all targets use; returns the new graph.

    A clamp becomes output bounds of the node before it. An element-wise sum or product of a convolution's result and
    another operand is fused with the convolution, which computes the sum or product while it stores its result. A
    concatenation along rows or columns may come between the two nodes. Two look-up tables in succession become one
    table. Dead nodes are removed, and model inputs are flattened (`flatten_inputs`)."""
    graph = run_rewrites(flatten_inputs(remove_dead(graph)), ONCE, None)
    while True:
        fused = run_rewrites(graph, REPEATED, None)
        if len(fused.nodes) == len(graph.nodes):
            return remove_dead(fused)
        graph = fused


def flatten_inputs(graph: Graph) -> Graph:
    """Reshapes a model input to (N, K) if only convolutions with a window over the whole input read it. The order of
    its elements stays the same.
    """
    outputs = {output.tensor for output in graph.outputs}
    for graph_input in graph.inputs:
        tensor = graph.tensors[graph_input.tensor]
        readers = [node for node in graph.nodes if tensor.name in node.inputs]
        dense = [
            (node, operator)
            for node in readers
            if isinstance(operator := node.operator, Int8Convolution) and _covers(node, operator, tensor)
        ]
        if (
            len(tensor.shape) != 4
            or tensor.nchw[2:] == (1, 1)
            or tensor.name in outputs
            or len(dense) != len(readers)
        ):
            continue
        batch, size = tensor.shape[0], tensor.size // tensor.shape[0]
        flat = {id(node): replace(node, operator=_flattened(operator, size)) for node, operator in dense}
        graph = replace(
            graph,
            nodes=tuple(flat.get(id(node), node) for node in graph.nodes),
            tensors={**graph.tensors, tensor.name: replace(tensor, shape=(batch, size))},
        )
    return graph


def _covers(node: Node, operator: Int8Convolution, tensor: Tensor) -> bool:
    whole = operator.weight.shape[1:] == tensor.nchw[1:] and operator.groups == 1
    return (
        whole
        and not any(operator.window.pads)
        and node.inputs[0] == tensor.name
        and tensor.name not in node.inputs[1:]
    )


def _flattened(operator: Int8Convolution, size: int) -> Int8Convolution:
    window = replace(operator.window, kernel=(1, 1))
    return replace(operator, weight=operator.weight.reshape(-1, size, 1, 1), window=window)


def _divide_sums(graph: Graph) -> Graph:
    from .divide_sums import divide_sums

    return divide_sums(graph)


def _row(name: str, function: Callable[[Graph], Graph], *roots: type) -> Rewrite[None]:
    return Rewrite(name=name, function=lambda graph, _: function(graph), roots=roots)


ONCE = (
    _row("channels of channels", fuse_channels, Channels),
    _row("tables of tables", compose_tables, Table),
    _row("dead nodes", remove_dead, Channels, Table),
    _row("sums of joined positions", _divide_sums, Positions),
)
"""Rewrites of `fuse` that run once, before all others."""

REPEATED = (
    _row("clamps", fuse_clamps, Int8Elementwise),
    _row("tables", fuse_tables, Table),
    _row("stage B", fuse_combines, Int8Elementwise),
)
"""Rewrites of `fuse` that run until no node is merged."""
