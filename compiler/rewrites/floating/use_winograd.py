"""Convolutions with 3 x 3 windows by Winograd's method F(m x m, 3 x 3): input tiles are transformed, matrix products
are computed, and their results are transformed to tiles of the output.

The method needs fewer multiplications, by a factor of (m + 2)**2 / (9 * m**2): 4/9 for m = 2, 1/4 for m = 4. But the
tiles of input, products and weights have more bytes than the tensors that they replace. The target decides whether the
method saves time (`Tiling`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...graph.graph import Graph, Node
from ...graph.operators import Convolution
from ...te.ops.convolution import Convolution as Sizes
from ...te.ops.convolution import suits_winograd

Tiling = Callable[[Sizes, int], int | None]
"""A function that decides whether a convolution uses Winograd's method. Arguments: the sizes of a convolution that
`suits_winograd` accepts, and its block size (channels). Returns the number of outputs along a side of a tile, one of
`te.ops.winograd.OUTPUTS`, or None if the method saves no time.
"""


def use_winograd(graph: Graph, tiling: Tiling) -> Graph:
    """Replaces each convolution that `tiling` chooses by three nodes: `WinogradTiles`, a convolution in groups, and
    `WinogradOutputs`. Two convolutions of one tensor share the `WinogradTiles` if their tile sizes and pads are equal.
    """
    chosen = [_chosen(graph, node, tiling) for node in graph.nodes]
    if not any(chosen):
        return graph
    from .winograd_nodes import WinogradNodes

    state = WinogradNodes(tensors=dict(graph.tensors), constants=dict(graph.constants))
    for node, found in zip(graph.nodes, chosen, strict=True):
        if found is None:
            state.nodes.append(node)
        else:
            state.rewrite(node, *found)
    return replace(graph, nodes=tuple(state.nodes), tensors=state.tensors, constants=state.constants)


def _chosen(graph: Graph, node: Node, tiling: Tiling) -> tuple[Convolution, Sizes, int] | None:
    """Returns (the node's operator, its sizes, the number of outputs along a side of a tile), or None if the node does
    not use Winograd's method.
    """
    operator = node.operator
    if not isinstance(operator, Convolution) or node.data is not None:
        return None
    data, out = graph.tensors[node.inputs[0]], graph.tensors[node.output]
    if operator.transposed or data.block == 1 or data.block != out.block:
        return None
    batch, channels, height, width = data.shape
    sizes = Sizes(
        batch=batch,
        channels=channels,
        height=height,
        width=width,
        filters=out.shape[1],
        window=operator.window,
        groups=operator.groups,
    )
    m = tiling(sizes, data.block) if suits_winograd(sizes) else None
    return None if m is None else (operator, sizes, m)
