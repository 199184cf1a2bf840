"""Kernels that exchange channels and positions: products of the unit matrix with activations as weights.

A block of channels at as many positions is a tile of weights as it lies in memory: each position is a row. Multiplied
with the unit matrix it gives, for each channel, the values of those positions as a vector.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from vdla.isa.config import Config

from ...graph.constants import Constant, unpacked
from ...graph.errors import node_error
from ...graph.graph import Graph, Node, Tensor
from ...graph.int8_operators import Positions, Swap
from ...graph.names import unused
from ...te.blocks import Blocks, Window, ceil_div
from ...te.ops.common import Spread
from ...te.post import PLAIN
from .conv2d import CONV2D
from .template import Details, Kernel, Source, identity_parameters
from .workload import windowed


def whole_blocks_of_positions(graph: Graph, config: Config) -> Graph:
    """The graph in which every tensor whose positions become channels has whole blocks of them."""
    block = Blocks.of(config).block
    nodes: list[Node] = []
    tensors = dict(graph.tensors)
    for node in graph.nodes:
        batch, channels, height, width = tensors[node.inputs[0]].nchw if node.inputs else (1, 1, 1, 1)
        if isinstance(node.operator, Swap) and height * width % block:
            places = np.arange(batch * height * width).reshape(batch, -1)
            index = np.pad(places, ((0, 0), (0, -places.shape[1] % block)), constant_values=-1)
            filled = Tensor(
                name=unused(f"{node.output}.filled", tensors),
                shape=(batch, channels, index.shape[1], 1),
                dtype=tensors[node.output].dtype,
                quantization=tensors[node.output].quantization,
            )
            tensors[filled.name] = filled
            name = unused(f"{node.name}.filled", {item.name for item in graph.nodes})
            operator = Positions(index=index[..., None])
            nodes.append(replace(node, name=name, operator=operator, output=filled.name))
            node = replace(node, inputs=(filled.name,))
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes), tensors=tensors)


def swap_kernels(config: Config, graph: Graph, node: Node) -> list[Kernel]:
    """One kernel for each block of channels of each image."""
    lanes, blocks = Blocks.of(config).block, Blocks.of(config)
    if config.batch > 1 or blocks.inputs > 1 or blocks.outputs > 1:
        raise node_error(
            f"configuration {config.name}",
            node.members[0],
            node.kind,
            f"exchanges channels and positions, not with batch = {config.batch}, block_in = {config.block_in} and "
            f"block_out = {config.block_out}",
            "make batch 1, and the blocks equal",
        )
    batch, channels, height, width = graph.tensors[node.inputs[0]].nchw
    positions, unit = height * width, np.eye(lanes, dtype=np.int8)
    kernels: list[Kernel] = []
    for image in range(batch):
        for block in range(ceil_div(channels, lanes)):
            count = min(lanes, channels - block * lanes)
            workload = windowed(CONV2D.name, (1, lanes, 1, count), positions, Window(kernel=(1, 1)))
            details = Details(
                post=PLAIN,
                area=(0, 0, 1, count),
                spread=Spread(plane=(1, channels), steps=(1, 1)),
                name=node.name,
            )
            tile = image * ceil_div(channels, lanes) + block
            first = image * ceil_div(positions, lanes) * channels + block * lanes
            kernels.append(
                Kernel(
                    workload=workload,
                    source=Source(workload=workload, details=details),
                    tensors={"W": node.inputs[0], "Y": node.output},
                    constants={
                        "X": Constant(form=unpacked, arrays=(unit[:count],)),
                        "P": identity_parameters(config, positions, 0),
                    },
                    recorded=False,
                    offsets={"W": tile * positions * lanes, "Y": first * lanes},
                )
            )
    return kernels
