"""Concatenation without copies: each part is written directly into the memory of the concatenated tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from vdla.isa.config import Config

from ...graph.graph import Graph, Node
from ...graph.int8_operators import Channels, Swap
from ...te.blocks import Blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """Place of a tensor inside the concatenated tensor named `tensor`: the first block of channels (`block`) and the
    byte `offset` at which it begins.
    """

    tensor: str
    block: int
    offset: int


def joined_tensors(graph: Graph, config: Config) -> Mapping[str, Inside]:
    """Tensors that need no copy when they are concatenated: the node that computes such a tensor writes it directly to
    a place inside the concatenated tensor. Maps the tensor's name to this place. Other nodes may also read the tensor.

    A tensor qualifies if a node computes it, if it is no output of the graph, if no Swap reads it, if all its channels
    fill whole blocks of the concatenated tensor in their order, and if it has at most `config.batch` images.
    """
    if not graph.nodes or graph.tensors[graph.nodes[0].output].nchw[0] > config.batch:
        return {}
    kept = {item.tensor for item in (*graph.inputs, *graph.outputs)} | graph.constants.keys()
    # Swap reads its input as weight tiles, which start at multiples of their size.
    kept |= {node.inputs[0] for node in graph.nodes if isinstance(node.operator, Swap)}
    found: dict[str, Inside] = {}
    for node in graph.nodes:
        if isinstance(node.operator, Channels) and graph.tensors[node.output].nchw[0] <= config.batch:
            for name, block in _whole_parts(graph, node, node.operator, Blocks.of(config).block):
                if name not in kept and name not in found:
                    _, _, height, width = graph.tensors[node.output].nchw
                    size = prod((height, width, config.batch, Blocks.of(config).block))
                    found[name] = Inside(tensor=node.output, block=block, offset=block * size)
    return found


def _whole_parts(graph: Graph, node: Node, operator: Channels, lanes: int) -> list[tuple[str, int]]:
    """The inputs of a concatenation that can be written directly into the output, as (input, first block of the
    output). All channels of the input appear in the output in their order and once. The blocks of the output that hold
    them contain no channels of other inputs. `lanes`: channels of a block.
    """
    places: dict[int, list[tuple[int, int]]] = {}
    for place, (part, channel) in enumerate(operator.sources):
        places.setdefault(part, []).append((place, channel))
    found: list[tuple[str, int]] = []
    for part, taken in places.items():
        name = node.inputs[part]
        channels, first = graph.tensors[name].nchw[1], taken[0][0]
        last = first + channels
        whole = taken == [(first + channel, channel) for channel in range(channels)]
        apart = first % lanes == 0 and (channels % lanes == 0 or last == len(operator.sources))
        if whole and apart and node.inputs.count(name) == 1:
            found.append((name, first // lanes))
    return found
