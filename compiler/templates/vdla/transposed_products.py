"""Kernels of transposed products: convolutions whose results have channels and positions exchanged. The kernel obtains
such a result by using the activations as weights and the weights as activations.

A block of n channels at n positions has the memory layout of a weight tile: each position is a row. The constant
filters are laid out as the positions of an activation. For each filter the array then computes the values of a block of
positions as one vector, which is the layout of weight tiles for later products.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from vdla.isa.config import Config

from ...graph.graph import Node
from ...graph.int8_operators import TransposedProduct
from ...graph.layout import Constant, pack_operand
from ...te.blocks import Window, ceil_div
from .conv2d import CONV2D
from .template import Details, Kernel, Source, parameters
from .workload import windowed

if TYPE_CHECKING:
    from .legalize import Legalized


def transposed_products(
    config: Config, legalized: Legalized, node: Node, operator: TransposedProduct
) -> list[Kernel]:
    """The kernels of a transposed product, a convolution whose result has channels and positions exchanged: one kernel
    for each image.

    A plane of the input must consist of whole blocks of positions, of which the last may be padding. If the operator
    combines its result with a second operand, the operand is a constant with one value for each filter.
    """
    graph = legalized.graph
    lanes, convolution = config.block_out, operator.convolution
    batch, channels, height, width = graph.tensors[node.inputs[0]].nchw
    plane, filters = height * width, len(convolution.weight)
    positions = plane if convolution.taken is None else convolution.taken
    post = convolution.post
    workload = windowed(
        CONV2D.name,
        (1, channels, 1, filters),
        positions,
        Window(kernel=(1, 1)),
        operand=post.has_operand,
    )
    workload = replace(workload, turned=True)
    details = Details(post=post, tiles=plane // lanes, name=node.name)
    of_lanes = [
        np.repeat(np.broadcast_to(part, (filters,)), lanes) for part in (convolution.bias, convolution.scale)
    ]
    constants = {
        "X": Constant(
            form=pack_operand, arrays=(convolution.weight.reshape(filters, channels).T[None, :, None],)
        ),
        "P": parameters(config, *of_lanes),
    }
    if post.has_operand:
        of_filters = graph.constants[node.inputs[1]].reshape(1, 1, 1, filters)
        constants["R"] = Constant(form=pack_operand, arrays=(np.repeat(of_filters, lanes, axis=1),))
    return [
        Kernel(
            workload=workload,
            source=Source(workload=workload, details=details),
            tensors={"W": node.inputs[0], "Y": node.output},
            constants=constants,
            recorded=False,
            offsets={
                "W": image * ceil_div(channels, lanes) * plane * lanes,
                "Y": image * ceil_div(positions, lanes) * lanes * filters,
            },
            series=replace(workload, batch=batch, own_weights=True) if batch > 1 else None,
        )
        for image in range(batch)
    ]
