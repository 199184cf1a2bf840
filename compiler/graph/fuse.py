"""Fusion: what the store pipeline does on the way out stops being a node of its own.

Every rewrite is exact: the fused graph computes the same bits as the unfused one (no rounding is dropped,
moved or merged). `fuse` runs the rewrites to a fixed point; `fuse_pool` is apart, since whether a maximum
over unrounded sums pays is the target's decision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TypeVar

import numpy as np

from .cost import count_macs
from .graph import (
    AveragePool,
    Combine,
    Convolution,
    Elementwise,
    Graph,
    MaxPool,
    Node,
    Pool,
    Requantize,
    Table,
    Tensor,
    oriented,
    reads,
)
from .interpret import evaluate

Stage = TypeVar("Stage", Requantize, Combine)


def fuse(graph: Graph) -> Graph:
    """Clamps into the node before them, stage B into convolutions; drops dead nodes; flattens model
    inputs."""
    graph = flatten_inputs(remove_dead(graph))
    while True:
        fused = fuse_combines(fuse_tables(fuse_clamps(graph)))
        if len(fused.nodes) == len(graph.nodes):
            return remove_dead(fused)
        graph = fused


def remove_dead(graph: Graph) -> Graph:
    """Without nodes, tensors and constants that no output depends on. Inputs stay."""
    live = {output.tensor for output in graph.outputs}
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if node.output in live:
            kept.append(node)
            live.update(reads(node))
    live.update(graph_input.tensor for graph_input in graph.inputs)
    return replace(
        graph,
        nodes=tuple(reversed(kept)),
        tensors={name: tensor for name, tensor in graph.tensors.items() if name in live},
        constants={name: array for name, array in graph.constants.items() if name in live},
    )


def flatten_inputs(graph: Graph) -> Graph:
    """A model input that only whole-plane convolutions read becomes (N, K): the host hands over the same
    bytes."""
    outputs = {output.tensor for output in graph.outputs}
    for graph_input in graph.inputs:
        tensor = graph.tensors[graph_input.tensor]
        readers = [node for node in graph.nodes if tensor.name in reads(node)]
        dense = [node for node in readers if isinstance(node, Convolution) and _covers(node, tensor)]
        if (
            len(tensor.shape) != 4
            or tensor.nchw[2:] == (1, 1)
            or tensor.name in outputs
            or len(dense) != len(readers)
        ):
            continue
        batch, size = tensor.shape[0], tensor.size // tensor.shape[0]
        flat = {id(node): replace(node, weight=node.weight.reshape(-1, size, 1, 1)) for node in dense}
        graph = replace(
            graph,
            nodes=tuple(flat.get(id(node), node) for node in graph.nodes),
            tensors={**graph.tensors, tensor.name: replace(tensor, shape=(batch, size))},
        )
    return graph


def _covers(node: Convolution, tensor: Tensor) -> bool:
    whole = node.weight.shape[1:] == tensor.nchw[1:] and node.groups == 1 and not any(node.pads)
    return (
        whole and node.data == tensor.name and (node.combine is None or node.combine.operand != tensor.name)
    )


def fuse_clamps(graph: Graph) -> Graph:
    """An element-wise clamp becomes bounds of the only node that feeds it."""

    def merge(first: Node, second: Node) -> Node | None:
        if not isinstance(second, Elementwise) or not second.combine.only_clamps:
            return None
        low, high = second.combine.low, second.combine.high
        members = (*first.members, *second.members)
        match first:
            case Convolution(combine=Combine() as combine):
                return replace(
                    first, output=second.output, members=members, combine=_clamped(combine, low, high)
                )
            case Convolution(requantize=stage) | AveragePool(requantize=stage):
                return replace(
                    first, output=second.output, members=members, requantize=_clamped(stage, low, high)
                )
            case Elementwise(combine=combine):
                return replace(
                    first, output=second.output, members=members, combine=_clamped(combine, low, high)
                )
            case _:
                return None

    return _merge_pairs(graph, merge)


def _clamped(stage: Stage, low: int, high: int) -> Stage:
    return replace(stage, low=min(max(stage.low, low), high), high=min(max(stage.high, low), high))


def fuse_tables(graph: Graph) -> Graph:
    """What follows a table and depends on nothing but what the table depends on becomes part of it.

    Such is x * sigmoid(x), with both roundings."""

    def merge(first: Node, second: Node) -> Node | None:
        if (
            not isinstance(first, Table)
            or graph.tensors[first.output].nchw != graph.tensors[second.output].nchw
        ):
            return None
        stored = np.arange(-128, 128, dtype=np.int16).astype(np.int8)
        values = {first.output: first.table, first.data: stored}
        if not isinstance(second, Table | Elementwise) or not {*reads(second)} <= values.keys():
            return None
        table = evaluate(second, [values[name] for name in reads(second)])
        return replace(first, output=second.output, members=(*first.members, *second.members), table=table)

    return _merge_pairs(graph, merge)


def fuse_combines(graph: Graph) -> Graph:
    """An element-wise sum, product or rescaling becomes stage B of the convolution that feeds it.

    Where convolutions feed both operands the one with more multiplies takes it, the later one of equals:
    the longer the array works on a tile, the more of the operand's reading it hides. The joined node stands
    where the element-wise one stood, so the other operand exists.
    """
    uses = use_counts(graph)
    order = {node.output: step for step, node in enumerate(graph.nodes)}
    makers = {node.output: node for node in graph.nodes}

    def rank(tensor: str | None, reader: Elementwise) -> tuple[int, int]:
        """How well the producer of an operand could take the reader; (-1, -1): not at all."""
        maker = makers.get(tensor) if tensor is not None else None
        if not isinstance(maker, Convolution) or maker.combine is not None or uses[maker.output] != 1:
            return (-1, -1)
        if len({graph.tensors[name].nchw for name in (*reads(reader), reader.output)}) > 1:
            # Nothing is broadcast on the way out.
            return (-1, -1)
        combine = _oriented(reader, maker.output)
        if combine.kind != "add" and combine.zero_point_self != maker.requantize.zero_point:
            # The hardware has one zero point for the result of stage A and the input of stage B.
            return (-1, -1)
        return (count_macs(graph, maker), order[maker.output])

    def merge(first: Node, second: Node) -> Node | None:
        if not isinstance(first, Convolution) or not isinstance(second, Elementwise):
            return None
        other = second.b if second.a == first.output else second.a
        own = rank(first.output, second)
        if own < (0, 0) or own < rank(other, second):
            return None
        members = (*first.members, *second.members)
        return replace(first, output=second.output, members=members, combine=_oriented(second, first.output))

    return _merge_pairs(graph, merge)


def _oriented(node: Elementwise, tensor: str) -> Combine:
    """The node's stage B with `tensor`, one of its two operands, as self."""
    return node.combine if node.a == tensor else oriented(node.combine, node.a)


def fuse_pool(graph: Graph, outputs: Collection[str] | None = None) -> Graph:
    """A max-pool that alone reads a convolution without stage B moves before its stage A.

    `outputs` are those of the pools that do (None: all).

    Rounding to a positive scale is monotone, so the maximum of the rounded sums is the rounded maximum.
    """

    def merge(first: Node, second: Node) -> Node | None:
        if not isinstance(first, Convolution) or first.combine is not None or first.pool is not None:
            return None
        if not isinstance(second, MaxPool) or (outputs is not None and second.output not in outputs):
            return None
        pool = Pool(kernel=second.kernel, strides=second.strides, pads=second.pads)
        return replace(first, output=second.output, members=(*first.members, *second.members), pool=pool)

    return remove_dead(_merge_pairs(graph, merge))


def use_counts(graph: Graph) -> Counter[str]:
    """How often each tensor is read, model outputs included."""
    uses = Counter(name for node in graph.nodes for name in reads(node))
    uses.update(output.tensor for output in graph.outputs)
    return uses


def _merge_pairs(graph: Graph, merge: Callable[[Node, Node], Node | None]) -> Graph:
    """One walk that joins a node with the producer of an operand that nothing else reads.

    The joined node stands where the reader stood, so all its operands exist. Its stored result is the
    reader's.
    """
    uses = use_counts(graph)
    makers: dict[str, Node] = {}
    nodes: dict[str, Node] = {}
    for node in graph.nodes:
        joined: Node | None = None
        for name in reads(node):
            if name in makers and uses[name] == 1:
                joined = merge(makers[name], node)
                if joined is not None:
                    del nodes[name], makers[name]
                    break
        result = joined or node
        nodes[result.output] = makers[result.output] = result
    return replace(graph, nodes=tuple(nodes.values()))
