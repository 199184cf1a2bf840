"""Batch normalization: into the weights of the convolution or matrix product before it, else one multiply-add."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...te.scalars import argument
from .graph import FloatGraph, Node, Tensor, unused_name, with_tensors
from .operators import BatchNormalization, Convolution, Dense, Elementwise


def fold_batch_norm(graph: FloatGraph) -> FloatGraph:
    """W * scale and bias * scale + shift, in float64 and rounded once, where nothing else reads the sums before.

    A normalization that remains, behind a pool for example, becomes an element-wise multiplication and addition.
    """
    uses, producers = graph.uses(), graph.producers()
    nodes: dict[str, Node] = {}
    for node in graph.nodes:
        if not isinstance(node.operator, BatchNormalization):
            nodes[node.output] = node
            continue
        data, scale, shift = node.inputs
        # The node before may have been folded into already, under its new output's name.
        before = nodes.get(data)
        if before is not None and uses[data] == 1 and _is_plain_sum(before) and data in producers:
            del nodes[data]
            graph, folded = _folded(graph, before, node)
            nodes[node.output] = folded
        else:
            graph, nodes[node.output] = _multiply_add(graph, node, data, scale, shift)
    return replace(graph, nodes=tuple(nodes.values()))


def _is_plain_sum(node: Node) -> bool:
    operator = node.operator
    if not isinstance(operator, Convolution | Dense):
        return False
    epilogue = operator.epilogue
    return not epilogue.operand and epilogue.activation == "none" and epilogue.tail is None


def _folded(graph: FloatGraph, before: Node, node: Node) -> tuple[FloatGraph, Node]:
    operator = before.operator
    assert isinstance(operator, Convolution | Dense)
    scale, shift = (graph.constants[name].astype(np.float64) for name in node.inputs[1:])
    weight = graph.constants[before.inputs[1]].astype(np.float64)
    weight = weight * (scale.reshape(-1, 1, 1, 1) if isinstance(operator, Convolution) else scale)
    bias = shift
    if operator.epilogue.bias:
        bias = shift + graph.constants[before.inputs[2]].astype(np.float64) * scale
    names: list[str] = []
    for suffix, array in (("weight", weight), ("bias", bias)):
        name = unused_name(graph, f"{node.output}.{suffix}")
        graph = with_tensors(graph, Tensor(name=name, shape=array.shape))
        graph = replace(graph, constants={**graph.constants, name: array.astype(np.float32)})
        names.append(name)
    folded = Node(
        name=before.name,
        members=(*before.members, *node.members),
        operator=replace(operator, epilogue=replace(operator.epilogue, bias=True)),
        inputs=(before.inputs[0], *names),
        output=node.output,
    )
    return graph, folded


def _multiply_add(
    graph: FloatGraph, node: Node, data: str, scale: str, shift: str
) -> tuple[FloatGraph, Node]:
    rank = len(graph.tensors[data].shape)
    names: list[str] = []
    for constant in (scale, shift):
        array = graph.constants[constant].reshape(1, -1, *[1] * (rank - 2))
        name = unused_name(graph, f"{constant}.channels")
        graph = with_tensors(graph, Tensor(name=name, shape=array.shape))
        graph = replace(graph, constants={**graph.constants, name: array})
        names.append(name)
    body = argument(0) * argument(1) + argument(2)
    return graph, replace(node, operator=Elementwise(body=body), inputs=(data, *names))
