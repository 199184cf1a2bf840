"""Pads tensors of a graph to whole blocks (a block is as many channels or positions as the accelerator's vectors have
lanes). A tensor whose positions become weights or channels of a product gets whole blocks of positions. If a product
sums over a partly used block of channels, the unused lanes of one factor get its zero point, so that they add 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from vdla.isa.config import Config

from ...graph.errors import node_error
from ...graph.graph import Graph, Node, unused
from ...graph.int8_convolution import Int8Convolution
from ...graph.int8_operators import Group, Int8Operator, Positions, Products, Rows, Swap
from ...te.blocks import Blocks, Pair, Window
from ...te.post import Post

if TYPE_CHECKING:
    from .legalize import Machine


class _Rewrite:
    """A graph under construction: its nodes in order, its tensors, and the node that produces each tensor."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._names = {node.name for node in graph.nodes}
        self.nodes: list[Node] = []
        self.tensors = dict(graph.tensors)
        self.makers: dict[str, Node] = {}
        self._made: dict[tuple[str, str, Pair], str] = {}

    def add(self, node: Node) -> None:
        self.nodes.append(node)
        self.makers[node.output] = node

    def copy(
        self,
        reader: Node,
        source: str,
        suffix: str,
        operator: Int8Operator,
        shape: Sequence[int],
        taken: Pair,
    ) -> str:
        """Adds a node that applies `operator` to the channels `taken` (first, number) of tensor `source`; returns the
        name of the node's result, which has the shape `shape`. The new node has all other fields of `reader`, the node
        that will read the result; `suffix` ends the names of node and result. Calls with equal `source`, `suffix` and
        `taken` share one result.
        """
        key = (source, suffix, taken)
        if key not in self._made:
            name = unused(f"{source}.{suffix}", self.tensors)
            self.tensors[name] = replace(self.tensors[source], name=name, shape=tuple(shape))
            own = unused(f"{reader.name}.{suffix}", self._names)
            self._names.add(own)
            self.add(replace(reader, name=own, operator=operator, inputs=(source,), output=name))
            self._made[key] = name
        return self._made[key]

    def graph(self) -> Graph:
        return replace(self._graph, nodes=tuple(self.nodes), tensors=self.tensors)


def pad_to_blocks(graph: Graph, machine: Machine) -> Graph:
    """The graph with padded tensors, for products of activations. If the positions of a tensor are used as weights or
    as channels, their number is rounded up to whole blocks. If a product sums over a block of channels that is partly
    used, one factor holds its zero point in the unused lanes, so that these lanes add 0.

    Raises NodeError for products whose last block of channels also holds channels of other products.
    """
    config, rewrite = machine.config, _Rewrite(graph)
    block = Blocks.of(config).block
    for node in graph.nodes:
        match node.operator:
            case Swap() as operator:
                node = _swapped(rewrite, node, operator, block)
            case Products() as operator:
                node, operator = _multiplied(rewrite, node, operator, block)
                if operator.depth % block:
                    node = _summed(rewrite, node, operator, config, block)
            case _:
                pass
        rewrite.add(node)
    return rewrite.graph()


def _filled(rewrite: _Rewrite, node: Node, source: str, block: int, taken: Pair) -> str:
    """Copies the channels `taken` (first, number) of tensor `source` and pads each plane with positions to a multiple
    of `block` positions; returns the copy's name.

    The added positions do not change the results of `node`. Where positions become columns of a product, the added
    columns are unused. Where positions are summed over, the added terms are zero: the other factor of each term holds
    its zero point.
    """
    tensor = rewrite.tensors[source]
    batch, channels, height, width = tensor.nchw
    places = np.arange(batch * height * width).reshape(batch, -1)
    index = np.pad(places, ((0, 0), (0, -places.shape[1] % block)), constant_values=-1)
    some = None if taken == (0, channels) else taken
    operator = Positions(index=index[..., None], fill=None, channels=some)
    return rewrite.copy(node, source, "filled", operator, (batch, taken[1], index.shape[1], 1), taken)


def _swapped(rewrite: _Rewrite, node: Node, operator: Swap, block: int) -> Node:
    _, channels, height, width = rewrite.tensors[node.inputs[0]].nchw
    if height * width % block == 0:
        return node
    taken = operator.channels or (0, channels)
    source = _filled(rewrite, node, node.inputs[0], block, taken)
    return replace(node, inputs=(source,), operator=replace(operator, channels=None))


def _multiplied(rewrite: _Rewrite, node: Node, operator: Products, block: int) -> tuple[Node, Products]:
    _, _, height, width = rewrite.tensors[node.inputs[1]].nchw
    starts = [group.b[0] for group in operator.groups]
    if height * width % block == 0 or any(start % block for start in starts):
        return node, operator
    low, high = min(starts), max(starts) + operator.depth
    source = _filled(rewrite, node, node.inputs[1], block, (low, high - low))
    groups = tuple([replace(group, b=(group.b[0] - low, group.b[1])) for group in operator.groups])
    operator = replace(operator, groups=groups)
    return replace(node, inputs=(node.inputs[0], source, *node.inputs[2:]), operator=operator), operator


def _summed(rewrite: _Rewrite, node: Node, operator: Products, config: Config, block: int) -> Node:
    """The product `node`, changed so that spare lanes (lanes of the last block without a channel) add nothing to its
    sum. If the spare lanes of one factor already hold that factor's zero point, the node stays unchanged. Otherwise one
    factor is replaced by a copy whose spare lanes hold the zero point.

    Raises NodeError if, in both factors, the last block (of `block` channels) also holds channels of another product.
    """
    factors = node.inputs[:2]
    ends = [[_channel(group, side) + operator.depth for group in operator.groups] for side in range(2)]
    alone = [set(end) == {rewrite.tensors[name].nchw[1]} for end, name in zip(ends, factors, strict=True)]
    for side, name in enumerate(factors):
        if alone[side] and spare_lanes(rewrite, name) == operator.zero_points[side]:
            return node
    if True not in alone:
        raise node_error(
            f"configuration {config.name}",
            node.members[0],
            node.kind,
            f"each of its products has {operator.depth} channels, which do not fill whole blocks of {block} channels, "
            "so two products would share a block",
            f"use a multiple of {block} channels",
        )
    side = alone.index(True)
    tensor, zero = rewrite.tensors[node.inputs[side]], operator.zero_points[side]
    channels = tensor.nchw[1]
    operator_of_copy = Int8Convolution(
        weight=np.eye(channels, dtype=np.int8).reshape(channels, channels, 1, 1),
        bias=np.full(channels, -zero, np.int32),
        scale=np.ones(1, np.float32),
        window=Window(kernel=(1, 1)),
        pad_value=zero,
        post=Post(zero_point=zero),
        share=0.0,
    )
    inputs = list(node.inputs)
    inputs[side] = rewrite.copy(node, tensor.name, "alone", operator_of_copy, tensor.shape, (0, channels))
    return replace(node, inputs=tuple(inputs))


def _channel(group: Group, side: int) -> int:
    return (group.a, group.b)[side][0]


def spare_lanes(rewrite: _Rewrite, name: str) -> int | None:
    """The int8 value in the spare lanes (lanes without a channel) of the last block of tensor `name`; None if unknown.

    The value follows from the node that produces the tensor. For example, weights and bias of a convolution are 0 in
    spare lanes, so the output there is the zero point, clamped to the output's range.
    """
    maker = rewrite.makers.get(name)
    match None if maker is None else maker.operator:
        case Int8Convolution(groups=1, pool=None, phases=None, post=post, table=table) if (
            post.combination is None
        ):
            value = min(max(post.zero_point, post.low), post.high)
            return value if table is None else int(table[value + 128])
        case Rows(post=post, entries=entries, bias=bias) if entries is None or not bias.any():
            return min(max(post.zero_point, post.low), post.high)
        case Positions(fill=fill, channels=taken):
            assert maker is not None
            source = maker.inputs[0]
            if len(maker.inputs) > 1 or (taken is not None and sum(taken) < rewrite.tensors[source].nchw[1]):
                return None
            value = spare_lanes(rewrite, source)
            return value if value == fill else None
        case _:
            return None
