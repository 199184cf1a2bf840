"""Moves the addition of a constant from the result of a concatenation (along rows or columns) to the concatenation's
inputs. The kernel that computes an input can then add the constant while it stores its result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..graph.graph import Graph, Node, Tensor, unused
from ..graph.int8_convolution import Int8Convolution
from ..graph.int8_operators import Int8Elementwise, Positions, Products


def divide_sums(graph: Graph) -> Graph:
    """Replaces concat(a, b, ...) + constant by concat(a + part, b + part, ...), if the concatenation is along rows or
    columns. Each part is the piece of the constant that belongs to the pixels of one input. Returns the new graph.

    A concatenation is replaced if most of its pixels come from one convolution or matrix product, which can add its
    part while it stores its result. For accelerators, before `fuse_combines`.
    """
    uses, makers = graph.uses(), graph.producers()
    tensors, constants = dict(graph.tensors), dict(graph.constants)
    taken, nodes = {node.name for node in graph.nodes}, list[Node]()
    gone: set[str] = set()
    for node in graph.nodes:
        found = _concatenation_to_split(graph, node, makers, uses)
        if found is None:
            nodes.append(node)
            continue
        joined, side, places = found
        parts: list[str] = []
        values = constants[node.inputs[1 - side]].reshape(*graph.tensors[node.output].nchw[:2], -1)
        for part, at in zip(joined.inputs, places, strict=True):
            shape = graph.tensors[part].nchw
            own = _named(tensors, replace(tensors[node.inputs[1 - side]], shape=shape), f"{part}.constant")
            constants[own] = np.ascontiguousarray(values[:, :, at]).reshape(shape)
            out = _named(tensors, replace(tensors[node.output], shape=shape), f"{node.output}.{len(parts)}")
            inputs = (part, own) if side == 0 else (own, part)
            name = unused(f"{node.name}.{len(parts)}", taken)
            taken.add(name)
            nodes.append(replace(node, name=name, inputs=inputs, output=out))
            parts.append(out)
        nodes.append(replace(joined, inputs=tuple(parts), output=node.output))
        gone.add(joined.output)
    if not gone:
        return graph
    nodes = [node for node in nodes if node.output not in gone]
    tensors = {name: tensor for name, tensor in tensors.items() if name not in gone}
    return replace(graph, nodes=tuple(nodes), tensors=tensors, constants=constants)


def _named(tensors: dict[str, Tensor], tensor: Tensor, name: str) -> str:
    """Adds a copy of `tensor` to `tensors` under an unused name derived from `name`; returns that name."""
    name = unused(name, tensors)
    tensors[name] = replace(tensor, name=name)
    return name


def _concatenation_to_split(
    graph: Graph, node: Node, makers: Mapping[str, Node], uses: Mapping[str, int]
) -> tuple[Node, int, list[np.ndarray]] | None:
    """Tests whether `node` adds a constant to a concatenation along rows or columns, and whether it is faster to add
    the constant to the concatenation's inputs. Returns None if not.

    Otherwise returns (concatenation node, index of its result among the inputs of `node`, pixels). The list `pixels`
    has an array for each input of the concatenation: the output pixels that the input fills. `makers`: nodes by result;
    `uses`: number of readers by tensor.
    """
    if not isinstance(node.operator, Int8Elementwise) or node.operator.combination.kind != "add":
        return None
    side = 0 if node.inputs[1] in graph.constants else 1
    joined = makers.get(node.inputs[side])
    shape = graph.tensors[node.output].nchw
    if joined is None or node.inputs[1 - side] not in graph.constants or uses[joined.output] != 1:
        return None
    if any(graph.tensors[name].nchw != shape for name in node.inputs) or shape[0] > 1:
        return None
    places = _part_positions(graph, joined)
    if places is None:
        return None
    largest = max(range(len(places)), key=lambda part: len(places[part]))
    maker = makers.get(joined.inputs[largest])
    if maker is None or not isinstance(operator := maker.operator, Int8Convolution | Products):
        return None
    free = operator.post.combination is None and uses[maker.output] == 1
    return (joined, side, places) if free and 2 * len(places[largest]) > shape[2] * shape[3] else None


def _part_positions(graph: Graph, node: Node) -> list[np.ndarray] | None:
    """For each input of a concatenation along rows or columns, the row-major indices of the output pixels that the
    input fills, in the order of the input's pixels. Returns None for any other node.
    """
    operator = node.operator
    if (
        not isinstance(operator, Positions)
        or operator.channels is not None
        or len(set(node.inputs)) < len(node.inputs)
    ):
        return None
    index, first, found = operator.index.reshape(-1), 0, list[np.ndarray]()
    for name in node.inputs:
        batch, _, height, width = graph.tensors[name].nchw
        end = first + batch * height * width
        at = np.flatnonzero((first <= index) & (index < end))
        if not np.array_equal(index[at], np.arange(first, end)):
            return None
        found.append(at)
        first = end
    return found if first == len(index) else None
