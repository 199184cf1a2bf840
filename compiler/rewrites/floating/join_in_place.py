"""Concatenations without a copy: the nodes that compute the inputs write directly into the result.

If all dimensions before the concatenation's axis are 1, each input is a contiguous piece of the result, and can be a
view of the result. If several concatenations read an input, it is placed in the result of the last one. In a chain of
concatenations, each adds a tensor to the previous result; only the last result has memory of its own, and the others
are views of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

from ...graph.graph import Graph, Node, unused, with_tensors
from ...graph.operators import Concatenate, Join, Reshape
from ...graph.storage_plan import ALIGNMENT


def join_in_place(graph: Graph) -> Graph:
    """Replaces concatenations by `Join` nodes. The inputs of a `Join` are computed directly in the memory of its
    result.

    A concatenation is replaced if inputs with at least half of the result's bytes can be computed there. The other
    inputs are copied to the result before the `Join`.
    """
    state = _State(graph=graph, sources=_sources(graph))
    nodes: list[Node] = []
    for node in reversed(graph.nodes):
        if isinstance(node.operator, Concatenate) and node.result is None:
            nodes.extend(reversed(state.joined(node, node.operator.axis)))
        else:
            nodes.append(node)
    return replace(state.graph, nodes=tuple(reversed(nodes))) if state.changed else graph


def _sources(graph: Graph) -> dict[str, str]:
    """For each computed tensor, the tensor whose memory it uses. If the tensor is a view of a whole tensor, this is the
    source of the view; otherwise it is the tensor itself.
    """
    sources: dict[str, str] = {}
    for node in graph.nodes:
        if not isinstance(node.operator, Reshape):
            sources.update({name: name for name in node.outputs})
        elif (source := sources.get(node.inputs[0])) is not None:
            whole = graph.tensors[source].bytes == graph.tensors[node.output].bytes
            if whole and not node.operator.offset:
                sources[node.output] = source
    return sources


@dataclass(slots=True, kw_only=True)
class _State:
    """The graph during the rewrite. Some tensors are computed directly in the result of a concatenation. `places`: for
    each of them, the name of this result, and the tensor's byte offset in it.
    """

    graph: Graph
    sources: dict[str, str]
    places: dict[str, tuple[str, int]] = field(default_factory=dict)
    changed: bool = False

    def joined(self, node: Node, axis: int) -> list[Node]:
        """Replaces a concatenation along `axis`, if inputs with at least half its bytes can be computed directly in the
        output. Returns the new nodes: a `Join`, which marks the inputs as parts of the output's memory, and copies of
        the other inputs. Otherwise returns the concatenation itself.
        """
        tensors = self.graph.tensors
        pieces = [tensors[name] for name in node.inputs]
        sizes = [piece.bytes for piece in pieces]
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        if prod(tensors[node.output].storage[:axis]) != 1 or any(start % ALIGNMENT for start in starts):
            return [node]
        given = [self.places.get(self.sources.get(name, "")) for name in node.inputs]
        if (first := given[0]) is not None and given == [(first[0], first[1] + start) for start in starts]:
            self.places[node.output] = first
            self.changed = True
            return [replace(node, operator=Join(axis=axis, holds=False))]
        free: list[int] = []
        for i, name in enumerate(node.inputs):
            source = self.sources.get(name)
            if source is not None and source not in self.places:
                self.places[source] = (node.output, starts[i])
                free.append(i)
        if 2 * sum(sizes[i] for i in free) < sum(sizes):
            for i in free:
                del self.places[self.sources[node.inputs[i]]]
            return [node]
        self.changed = True
        copies: list[Node] = []
        inputs = list(node.inputs)
        for i in set(range(len(inputs))) - set(free):
            name = unused(f"{node.output}.{i}", self.graph.tensors)
            self.graph = with_tensors(self.graph, replace(pieces[i], name=name))
            copies.append(
                Node(name=name, members=(), operator=Concatenate(axis=axis), inputs=(inputs[i],), output=name)
            )
            inputs[i] = name
            self.places[name] = (node.output, starts[i])
        return [*copies, replace(node, operator=Join(axis=axis, holds=True), inputs=tuple(inputs))]
