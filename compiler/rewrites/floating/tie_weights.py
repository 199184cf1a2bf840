"""Tied embeddings: a look-up and a product with the transposed embedding read the same constant.

Exporters write the product's weight as a transpose of the embedding. The importer evaluates this transpose, which gives
a second constant of the same size. After this pass the product reads the embedding itself.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...graph.graph import Graph, Node
from ...graph.operators import Dense, Gather


def tie_weights(graph: Graph) -> Graph:
    """Makes a `Dense` node read the constant of an embedding (the table of a `Gather`), if its weight is the transpose
    of this constant. The `Dense` then reads the constant as a transposed weight.
    """
    tables = dict.fromkeys(
        node.inputs[0]
        for node in graph.nodes
        if isinstance(node.operator, Gather) and node.data is None and node.inputs[0] in graph.constants
    )
    nodes = tuple([_tied(graph, node, list(tables)) for node in graph.nodes])
    return (
        graph if all(a is b for a, b in zip(nodes, graph.nodes, strict=True)) else replace(graph, nodes=nodes)
    )


def _tied(graph: Graph, node: Node, tables: list[str]) -> Node:
    if not isinstance(node.operator, Dense) or node.operator.transposed:
        return node
    weight = graph.constants[node.inputs[1]]
    for name in tables:
        table = graph.constants[name]
        if table.shape == weight.shape[::-1] and np.array_equal(_bits(table).T, _bits(weight)):
            inputs = (node.inputs[0], name, *node.inputs[2:])
            return replace(node, operator=replace(node.operator, transposed=True), inputs=inputs)
    return node


def _bits(array: np.ndarray) -> np.ndarray:
    """The bits of the array as unsigned integers, so that NaN equals NaN, and 0.0 differs from -0.0."""
    return array.view(np.dtype(f"u{array.dtype.itemsize}"))
