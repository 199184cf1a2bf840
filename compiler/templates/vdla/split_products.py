"""Splits a convolution by output channels if different nodes read different channels of its output.

In attention layers, queries, keys and values are often computed as one product, and one or two of the three are then
scaled through a table look-up. After the split, the store that writes the scaled part applies the table itself. Without
the split, separate nodes would read these channels again and write them once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from ...graph.graph import Graph, Node, unused
from ...graph.int8_convolution import Int8Convolution
from ...graph.int8_operators import Positions, Products, Swap, Table
from ...rewrites.row_padding import reads_whole_blocks
from ...te.blocks import Blocks, Pair, ceil_div

if TYPE_CHECKING:
    from .legalize import Machine


def split_products(graph: Graph, machine: Machine) -> Graph:
    """The graph with convolutions split between whole blocks of channels, if a table look-up reads a part of their
    channels; channels without readers are dropped.

    If the machine can transpose products, channels that are read by a Swap (exchange of channels and positions) become
    a convolution of their own, provided that the positions fill whole blocks or can be padded to whole blocks.
    """
    block = Blocks.of(machine.config).block
    readers, makers = graph.readers(), graph.producers()
    kept = {output.tensor for output in graph.outputs}
    tensors, changed = dict(graph.tensors), dict[int, list[Node]]()
    # The current form of each node, by its index: readers of a split tensor get new inputs.
    place = {id(node): number for number, node in enumerate(graph.nodes)}
    current = dict(enumerate(graph.nodes))
    for number, node in enumerate(graph.nodes):
        if not _is_plain(node.operator) or node.output in kept:
            continue
        mine = readers.get(node.output, [])
        ranges = [_range(graph, node.output, reader, readers, kept, block) for reader in mine]
        whole = machine.abilities.products and reads_whole_blocks(graph, node, makers, readers, block)
        alone = [
            isinstance(reader.operator, Table) or (whole and isinstance(reader.operator, Swap))
            for reader in mine
        ]
        parts = _parts(alone, [item for item in ranges if item is not None])
        if None in ranges or parts is None:
            continue
        made: list[Node] = []
        for low, high in parts:
            part = _part(node, low, high)
            name = unused(f"{node.output}.{low}", tensors)
            shape = graph.tensors[node.output].shape
            tensors[name] = replace(tensors[node.output], name=name, shape=(shape[0], high - low, *shape[2:]))
            made.append(replace(part, name=f"{node.name}.{low}", output=name))
        changed[number] = made
        for reader, wanted in zip(mine, ranges, strict=True):
            assert wanted is not None
            (part, low) = next(
                (item, part[0])
                for item, part in zip(made, parts, strict=True)
                if part[0] <= wanted[0] and wanted[1] <= part[1]
            )
            own = place[id(reader)]
            narrow = _rebased(current[own], node.output, part.output, low, tensors[part.output].shape[1])
            current[own] = narrow
            if isinstance(narrow.operator, Table):
                shape = tensors[part.output].shape
                name = unused(f"{narrow.output}.{low}", tensors)
                tensors[name] = replace(tensors[narrow.output], name=name, shape=shape)
                for after in readers[narrow.output]:
                    there = place[id(after)]
                    current[there] = _rebased(current[there], narrow.output, name, low, shape[1])
                current[own] = replace(narrow, output=name)
    if not changed:
        return graph
    nodes = [item for number in range(len(graph.nodes)) for item in changed.get(number, [current[number]])]
    return replace(graph, nodes=tuple(nodes), tensors=tensors)


def _is_plain(operator: object) -> bool:
    return (
        isinstance(operator, Int8Convolution)
        and operator.groups == 1
        and operator.post.combination is None
        and operator.pool is None
        and operator.phases is None
        and operator.table is None
    )


def _range(
    graph: Graph, name: str, reader: Node, readers: dict[str, list[Node]], kept: set[str], block: int
) -> Pair | None:
    """Channels (low, high) of tensor `name`, in whole blocks of `block` channels, that `reader` uses, directly or after
    a table look-up. None if the reader uses all channels, or cannot read a part of them. `readers`: by tensor name, the
    nodes that read the tensor. `kept`: tensors that stay whole.
    """
    channels = graph.tensors[name].nchw[1]
    ranges: list[Pair] = []
    match reader.operator:
        case Table():
            after = readers.get(reader.output, [])
            of = [
                None
                if isinstance(item.operator, Table)
                else _range(graph, reader.output, item, readers, kept, block)
                for item in after
            ]
            if reader.output in kept or not of or None in of:
                return None
            ranges = [item for item in of if item is not None]
        case Products(groups=groups, depth=depth):
            if name in reader.inputs[2:]:
                return None
            for side, source in enumerate(reader.inputs[:2]):
                if source == name:
                    first = [(group.a, group.b)[side][0] for group in groups]
                    ranges.append((min(first), max(first) + depth))
        case Positions(channels=taken) | Swap(channels=taken):
            first, count = taken or (0, channels)
            ranges = [(first, first + count)]
        case _:
            return None
    low = min(low for low, _ in ranges) // block * block
    high = min(ceil_div(max(high for _, high in ranges), block) * block, channels)
    return None if (low, high) == (0, channels) else (low, high)


def _parts(alone: Sequence[bool], ranges: Sequence[Pair]) -> list[Pair] | None:
    """The channel ranges (low, high) into which a convolution is split. `ranges`: the channels that each reader of the
    convolution uses. `alone`: for each reader, whether its range becomes a part of its own. Overlapping ranges of the
    other readers are united.

    None if no reader gets a part of its own, or if parts overlap.
    """
    if len(alone) != len(ranges):
        return None
    tables = {item for own, item in zip(alone, ranges, strict=True) if own}
    others = sorted(item for own, item in zip(alone, ranges, strict=True) if not own)
    joined: list[Pair] = []
    for low, high in others:
        if joined and low < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    parts = sorted({*tables, *joined})
    apart = all(before[1] <= after[0] for before, after in pairwise(parts))
    return parts if tables and apart and len(tables) == sum(alone) else None


def _part(node: Node, low: int, high: int) -> Node:
    operator = node.operator
    assert isinstance(operator, Int8Convolution)
    part = replace(
        operator,
        weight=operator.weight[low:high],
        bias=operator.bias[low:high],
        scale=operator.scale if np.size(operator.scale) == 1 else operator.scale[low:high],
        share=operator.share * (high - low) / len(operator.weight),
    )
    return replace(node, operator=part)


def _rebased(node: Node, old: str, new: str, low: int, channels: int) -> Node:
    """A reader of tensor `old`, changed to read `new` instead, which holds `channels` channels of `old` from channel
    `low` on.
    """
    operator = node.operator
    match operator:
        case Products(groups=groups):
            sides = [source == old for source in node.inputs[:2]]
            groups = tuple(
                [
                    replace(
                        group,
                        a=(group.a[0] - low * sides[0], group.a[1]),
                        b=(group.b[0] - low * sides[1], group.b[1]),
                    )
                    for group in groups
                ]
            )
            operator = replace(operator, groups=groups)
        case Positions(channels=taken) | Swap(channels=taken):
            assert taken is not None
            some = (taken[0] - low, taken[1])
            operator = replace(operator, channels=None if some == (0, channels) else some)
        case _:
            pass
    inputs = tuple([new if source == old else source for source in node.inputs])
    return replace(node, operator=operator, inputs=inputs)
