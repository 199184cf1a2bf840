"""Moves views that separate two operators which could be fused: contiguous slices become views, and element-wise
operators are moved before views.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from ...graph.graph import Graph, Node, Shape, Tensor, unused, with_tensors
from ...graph.operators import Elementwise, Remap, Reshape
from ...graph.storage_plan import ALIGNMENT
from ...te.merge import spread
from ..driver import remove_dead


def move_views(graph: Graph) -> Graph:
    """Replaces f(view(x)) by view(f(x)) for each element-wise operator f, so that operators which can be fused follow
    each other without reshapes in between. Also replaces a contiguous slice that starts on a cache line by a view.

    If f has other inputs, each of them is viewed in x's shape, too. f is not moved if the shape of another input makes
    this impossible. It is also not moved if another input needs a view and is computed after x. (Otherwise an f of two
    tensors with different shapes would be moved before one view and then before the other, without end.)
    """
    uses = graph.uses()
    nodes: list[Node] = []
    views: dict[str, str] = {}
    ages: dict[str, int] = {}
    changed = False

    def append(node: Node) -> None:
        # A view counts as old as its source; inputs and constants (-1) are older than all nodes.
        looks = isinstance(node.operator, Reshape)
        ages.update(dict.fromkeys(node.outputs, ages.get(node.inputs[0], -1) if looks else len(nodes)))
        nodes.append(node)

    for node in graph.nodes:
        operator = node.operator
        if isinstance(operator, Remap) and (offset := _slice_offset(graph, node, operator)) is not None:
            node = replace(node, operator=Reshape(offset=offset))
            changed = True
        if isinstance(operator, Elementwise):
            candidates = [
                name
                for name in dict.fromkeys(node.inputs)
                if name in views
                and uses[name] == node.inputs.count(name)
                and graph.tensors[name].shape == graph.tensors[node.output].shape
            ]
            attempts = (_before_view(graph, node, views, source, ages) for source in candidates)
            moved = next((attempt for attempt in attempts if attempt is not None), None)
            if moved is not None:
                graph, before, node = moved
                for other in before:
                    append(other)
                changed = True
        if isinstance(node.operator, Reshape) and not node.operator.offset:
            source = node.inputs[0]
            whole = prod(graph.tensors[source].shape) == prod(graph.tensors[node.output].shape)
            if whole and source not in graph.constants:
                views[node.output] = source
        append(node)
    return remove_dead(replace(graph, nodes=tuple(nodes))) if changed else graph


def _slice_offset(graph: Graph, node: Node, operator: Remap) -> int | None:
    """Offset, in elements, of a contiguous slice that can become a view. Returns None if the slice is not contiguous or
    does not start on a cache line, or if an element-wise expression is fused with the node. Also returns None if the
    input is a constant, because views exist only in the memory of activations.
    """
    if node.data is not None or node.result is not None or node.inputs[0] in graph.constants:
        return None
    shape = graph.tensors[node.inputs[0]].shape
    offset, whole = 0, True
    for size, of_axis, step in zip(
        reversed(shape), reversed(operator.runs), reversed(_strides(shape)), strict=True
    ):
        run = of_axis[0]
        if len(of_axis) > 1 or run.first is None or (run.step != 1 and run.count > 1):
            return None
        # A contiguous slice has one position on each axis outside the innermost axis that is cut.
        if not whole and run.count > 1:
            return None
        whole = whole and run.count == size
        offset += run.first * step
    element = graph.tensors[node.inputs[0]].dtype.bits // 8
    return None if offset * element % ALIGNMENT else offset


def _strides(shape: Shape) -> Shape:
    return tuple([prod(shape[d + 1 :]) for d in range(len(shape))])


def _before_view(
    graph: Graph, node: Node, views: Mapping[str, str], view: str, ages: Mapping[str, int]
) -> tuple[Graph, list[Node], Node] | None:
    """Moves an element-wise `node` before `view`, one of its inputs. Returns three things: the graph with new tensors,
    the nodes that compute the result in the shape of the view's source, and a view of this result in the node's shape.
    Returns None if another input of `node` cannot be read in the source's shape.

    `views`: the source of each view. `ages`: for each tensor, the index of the node that computes it.
    """
    source = views[view]
    full, shape = graph.tensors[view].shape, graph.tensors[source].shape
    inputs: list[str] = []
    before: list[Node] = []
    for name in node.inputs:
        if name == view:
            inputs.append(source)
            continue
        try:
            wanted = spread(graph.tensors[name].shape, full, shape)
        except ValueError:
            return None
        if wanted == graph.tensors[name].shape:
            inputs.append(name)
        elif name in views and graph.tensors[views[name]].shape == wanted:
            inputs.append(views[name])
        else:
            viewed = unused(f"{name}.view", graph.tensors)
            graph = with_tensors(graph, Tensor(name=viewed, shape=wanted, dtype=graph.tensors[name].dtype))
            if name in graph.constants:
                array = graph.constants[name].reshape(wanted)
                graph = replace(graph, constants={**graph.constants, viewed: array})
            elif ages.get(name, -1) >= ages.get(source, -1):
                return None
            else:
                before.append(
                    Node(name=viewed, members=(), operator=Reshape(), inputs=(name,), output=viewed)
                )
            inputs.append(viewed)
    output = unused(f"{node.output}.{node.name}", graph.tensors)
    graph = with_tensors(graph, Tensor(name=output, shape=shape, dtype=graph.tensors[node.output].dtype))
    before.append(replace(node, inputs=tuple(inputs), output=output))
    after = Node(
        name=f"{node.name}.view", members=(), operator=Reshape(), inputs=(output,), output=node.output
    )
    return graph, before, after
