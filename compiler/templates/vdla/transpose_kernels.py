"""Kernels that exchange channels and positions: products of the unit matrix with activations as weights.

A block of n channels at n positions has the memory layout of a weight tile: each position is a row. Its product with
the unit matrix is, for each channel, a vector of the values at these positions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from vdla.isa.config import Config

from ...graph.abilities import Abilities
from ...graph.errors import node_error
from ...graph.graph import Node
from ...graph.int8_operators import Swap
from ...graph.layout import Constant, unpacked
from ...te.blocks import Blocks, Window, ceil_div
from ...te.ops.common import Spread
from ...te.post import PLAIN
from .conv2d import CONV2D
from .template import Details, Kernel, Source, identity_parameters
from .workload import windowed

if TYPE_CHECKING:
    from .legalize import Legalized


def transpose_kernels(config: Config, legalized: Legalized, node: Node, operator: Swap) -> list[Kernel]:
    """The kernels that exchange channels and positions of a tensor: one kernel for each block of channels of each
    image. The first channel that is exchanged must begin a block.

    Raises NodeError unless the machine computes one image at a time, with equal sizes of input and output blocks.
    """
    graph = legalized.graph
    lanes = Blocks.of(config).block
    if not Abilities.of(config).products:
        raise node_error(
            f"configuration {config.name}",
            node.members[0],
            node.kind,
            f"exchanges channels and positions, which is not possible with batch = {config.batch}, "
            f"block_in = {config.block_in} and block_out = {config.block_out}",
            "set batch to 1, and block_in and block_out to the same value",
        )
    batch, all_channels, height, width = graph.tensors[node.inputs[0]].nchw
    first, channels = operator.channels or (0, all_channels)
    positions, unit = operator.positions, np.eye(lanes, dtype=np.int8)
    tiles = ceil_div(height * width, lanes)
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
            tile = (image * ceil_div(all_channels, lanes) + first // lanes + block) * tiles
            begin = image * ceil_div(positions, lanes) * channels + block * lanes
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
                    series=replace(workload, batch=batch * ceil_div(channels, lanes)),
                    offsets={"W": tile * lanes * lanes, "Y": begin * lanes},
                )
            )
    return kernels
