"""Kernels of softmax and of normalizations over channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vdla.isa.config import Config
from vdla.isa.rows import planes_of

from ...graph.graph import Node
from ...graph.int8_operators import Rows
from ...graph.layout import Constant, unpacked
from ...te.blocks import Window
from ...te.ops.rows import Shares
from .rows import ROWS, row_programs
from .template import Kernel, bound_tensors, parameters
from .tile_template import TiledExpression
from .workload import windowed

if TYPE_CHECKING:
    from .legalize import Legalized


def row_kernels(config: Config, legalized: Legalized, node: Node, operator: Rows) -> list[Kernel]:
    """The kernel of a softmax or a normalization."""
    graph = legalized.graph
    sizes = graph.tensors[node.inputs[0]].nchw
    channels = sizes[1]
    shares = shares_of(operator, channels)
    workload = windowed(ROWS.name, sizes, channels, Window(kernel=(1, 1)), operand=shares.own)
    build = row_programs(config, workload, operator.post, node.name, shares, operator.plane)
    constants = {"P": row_parameters(config, operator, channels)}
    if operator.entries is not None:
        constants["T"] = Constant(form=unpacked, arrays=(planes_of(operator.entries).reshape(-1),))
    return [
        Kernel(
            workload=workload,
            source=TiledExpression.of(config, workload, build, operator.post),
            tensors=bound_tensors(node),
            constants=constants,
            recorded=False,
        )
    ]


def shares_of(operator: Rows, channels: int) -> Shares:
    """The argument `shares` of the tensor expression `te.ops.rows.rows`: the kind and the parameters of a softmax or
    normalization (`operator`) over `channels` channels.
    """
    return Shares(
        look_up=operator.entries is not None,
        length=channels,
        own=len(operator.bias) > 1,
        zero_point=operator.zero_point,
        centre=operator.centre,
        epsilon=operator.epsilon[0],
        epsilon_shift=operator.epsilon[1],
    )


def row_parameters(config: Config, operator: Rows, channels: int) -> Constant:
    """Post-processing parameters of a softmax or normalization: for each channel its own, or a single block of
    parameters if all channels have the same.
    """
    lanes = channels if len(operator.bias) > 1 else config.block_out
    bias, scale = (np.broadcast_to(part, (lanes,)) for part in (operator.bias, operator.scale))
    return parameters(config, bias.copy(), scale.copy())
