"""Fusion by operator class: element-wise operators join the kernel that computes their argument or reads their result.

The rules are the TVM paper's (OSDI 2018, section 3). Injective (element-wise) operators join each other. Operators that
compute tiles or rows (convolutions, products, pools, reductions, moves) also compute the injective operators that read
their results. Reductions and moves also compute the injective operators whose results they read. No other node may read
the tensor between the two nodes. One exception: a cheap operator, which costs no more than reading its result, is
copied into each reader. In the order of nodes, a fused node takes the place of its last member, where all its inputs
are computed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from math import prod

from ...graph.graph import Graph, Node
from ...graph.operators import (
    Elementwise,
    Remap,
    Reshape,
)
from ...ir.expr import Call
from ...ir.types import HALVES, DType
from ...ir.visit import walk_expr
from .fuse_pairs import inlined, with_result


def fuse(graph: Graph, *, halves: bool = False) -> Graph:
    """Fuses nodes until no rule applies. An element-wise node is fused into the node that computes one of its
    arguments, if possible, else into its only reader. If neither is possible, a copy of a cheap node (`_is_cheap`) is
    fused into every reader.

    `halves`: kernels that compute in float32 can store 16-bit floats.
    """
    pairs = _Pairs((DType.FLOAT32, *HALVES) if halves else (DType.FLOAT32,))
    views = any(isinstance(node.operator, Remap | Reshape) for node in graph.nodes)
    while True:
        before = graph
        if views:
            from .move_views import move_views

            while (moved := move_views(graph)) is not graph:
                graph = moved
        for rule in (_behind_producer, _into_reader, _into_all_readers):
            while (fused := rule(graph, pairs)) is not graph:
                graph = fused
        if graph is before:
            return graph


class _Pairs:
    """Cache of fused pairs of nodes; the entry of two nodes that cannot be fused is None. After each fusion the rules
    start again and try most pairs again.

    A fusion depends on the two nodes, and on shapes and dtypes of tensors, which stay the same while a graph is fused.
    `stored`: dtypes in which float32 kernels can store results.
    """

    def __init__(self, stored: Collection[DType]) -> None:
        self._stored = stored
        self._known: dict[tuple[str, int, int], tuple[Node, Node, Node | None]] = {}

    def with_result(self, graph: Graph, before: Node, node: Node) -> Node | None:
        """Fuses the element-wise `node` into `before`, the node that computes its input. Returns the fused node, or
        None if the nodes cannot be fused. The result is cached."""
        return self._joined("result", before, node, lambda: with_result(graph, before, node, self._stored))

    def inlined(self, graph: Graph, node: Node, before: Node) -> Node | None:
        """Fuses the element-wise `before` into its reader `node`, which then computes each element of `before` when it
        needs it. Returns the fused node, or None if the nodes cannot be fused. The result is cached."""
        return self._joined("inlined", node, before, lambda: inlined(graph, node, before))

    def _joined(self, how: str, first: Node, second: Node, join: Callable[[], Node | None]) -> Node | None:
        # The entry holds both nodes, so that their ids are not given to new objects.
        key = (how, id(first), id(second))
        if key not in self._known:
            self._known[key] = (first, second, join())
        return self._known[key][2]


def _behind_producer(graph: Graph, pairs: _Pairs) -> Graph:
    """Rule: fuses element-wise nodes into the producers of their arguments. Returns `graph` itself if none fits."""
    uses, producers = graph.uses(), graph.producers()
    position = {node.output: i for i, node in enumerate(graph.nodes)}
    nodes = dict(enumerate(graph.nodes))
    for i, node in enumerate(graph.nodes):
        while (joined := _joined_producer(graph, node, pairs, uses, producers, position)) is not None:
            fused, before = joined
            uses.subtract([*node.inputs, *before.inputs])
            uses.update(fused.inputs)
            producers[fused.output] = fused
            del nodes[position[before.output]]
            nodes[i] = node = fused
    return graph if len(nodes) == len(graph.nodes) else replace(graph, nodes=tuple(nodes.values()))


def _joined_producer(
    graph: Graph,
    node: Node,
    pairs: _Pairs,
    uses: Mapping[str, int],
    producers: Mapping[str, Node],
    position: Mapping[str, int],
) -> tuple[Node, Node] | None:
    """Fuses an element-wise node with the producer of one of its arguments. Returns (fused node, producer), or None if
    no producer can be fused. `uses`: reads of each tensor. `producers`, `position`: nodes and node indices by output.
    """
    if not isinstance(node.operator, Elementwise):
        return None
    # Latest producer first: an Add of two convolutions joins the later one, so the earlier result waits less
    # long.
    for source in sorted(set(node.inputs), key=lambda name: -position.get(name, -1)):
        before = producers.get(source)
        if before is None or uses[source] != node.inputs.count(source):
            continue
        if graph.tensors[source].shape != graph.tensors[node.output].shape:
            continue
        if isinstance(before.operator, Elementwise):
            fused = pairs.inlined(graph, node, before)
        else:
            fused = pairs.with_result(graph, before, node)
        if fused is not None:
            return fused, before
    return None


def _into_reader(graph: Graph, pairs: _Pairs) -> Graph:
    """Rule: fuses element-wise nodes into their only readers. Returns `graph` itself if none fits."""
    uses, producers = graph.uses(), graph.producers()
    position = {node.output: i for i, node in enumerate(graph.nodes)}
    nodes = dict(enumerate(graph.nodes))
    for i, node in enumerate(graph.nodes):
        while (joined := _joined_reader(graph, node, pairs, uses, producers)) is not None:
            fused, before = joined
            uses.subtract([*node.inputs, *before.inputs])
            uses.update(fused.inputs)
            producers.update(dict.fromkeys(fused.outputs, fused))
            del nodes[position[before.output]]
            nodes[i] = node = fused
    return graph if len(nodes) == len(graph.nodes) else replace(graph, nodes=tuple(nodes.values()))


def _joined_reader(
    graph: Graph, node: Node, pairs: _Pairs, uses: Mapping[str, int], producers: Mapping[str, Node]
) -> tuple[Node, Node] | None:
    """Fuses `node` with an element-wise node whose output only `node` reads. Returns (fused node, element-wise node),
    or None if there is no pair to fuse. `uses`: number of reads of each tensor; `producers`: node that computes each
    tensor."""
    for source in dict.fromkeys(node.inputs):
        before = producers.get(source)
        if before is None or not isinstance(before.operator, Elementwise):
            continue
        if uses[source] == node.inputs.count(source):
            fused = pairs.inlined(graph, node, before)
            if fused is not None:
                return fused, before
    return None


def _into_all_readers(graph: Graph, pairs: _Pairs) -> Graph:
    """Rule: copies an element-wise node into each of its readers. Takes the first node that can join all its readers
    and is cheap: recomputing an element is no more work than reading it (`_is_cheap`). Returns `graph` itself if none
    fits.
    """
    uses, readers_of = graph.uses(), graph.readers()
    for before in graph.nodes:
        if not isinstance(before.operator, Elementwise) or not _is_cheap(graph, before):
            continue
        readers = readers_of.get(before.output, [])
        if uses[before.output] != sum(node.inputs.count(before.output) for node in readers):
            continue
        fused: dict[int, Node] = {}
        for node in readers:
            if (joined := pairs.inlined(graph, node, before)) is None:
                break
            fused[id(node)] = joined
        else:
            return _replaced(graph, fused, before)
    return graph


def _replaced(graph: Graph, fused: Mapping[int, Node], gone: Node) -> Graph:
    """The graph without `gone`; `fused` maps ids of nodes to their replacements."""
    nodes = tuple(fused.get(id(node), node) for node in graph.nodes if node is not gone)
    return replace(graph, nodes=nodes)


def _is_cheap(graph: Graph, node: Node) -> bool:
    """Whether recomputing an element of the node's result costs no more than reading it: the node calls no function,
    and at most one of its inputs is larger than 1/8 of the result.
    """
    assert isinstance(node.operator, Elementwise)
    if any(isinstance(e, Call) for e in walk_expr(node.operator.body)):
        return False
    size = prod(graph.tensors[node.output].shape)
    return sum(prod(graph.tensors[name].shape) * 8 > size for name in node.inputs) <= 1
