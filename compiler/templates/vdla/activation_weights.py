"""Kernels of 1x1 convolutions whose weights are an activation in its memory layout: products of two activations,
exchanges of channels and positions, and products whose result has channels and positions exchanged.

A block of n channels at n positions has the memory layout of a weight tile: each position is a row. For each input
vector the array therefore computes the values of a block of positions as one vector, which is again the layout of
weight tiles for later products.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from vdla.isa.config import Config

from ...graph.abilities import Abilities, needs
from ...graph.errors import node_error
from ...graph.graph import Node
from ...graph.int8_operators import Products, Swap, TransposedProduct
from ...graph.layout import Constant, pack_operand, unpacked
from ...te.blocks import Blocks, Window
from ...te.ops.common import Spread
from ...te.post import PLAIN
from .conv2d import CONV2D
from .template import Details, Kernel, Source, byte_of, identity_parameters, parameters
from .workload import Workload, windowed

if TYPE_CHECKING:
    from .legalize import Legalized


def product_kernels(config: Config, legalized: Legalized, node: Node, operator: Products) -> list[Kernel]:
    """One kernel for each matrix product (a group of `operator`), in the order of `operator.groups`.

    If `depth` channels do not fill the last block, the additional lanes must not change the sums: in one of the
    factors, `pad_to_blocks` sets these lanes to the zero point. Raises NodeError if the machine cannot multiply two
    activations with these zero points, if the second factor's planes are not whole blocks of positions, or if a group
    does not begin at a block or a weight tile.
    """
    graph = legalized.graph
    sizes = [graph.tensors[name].nchw for name in (*node.inputs[:2], node.output)]
    planes = [height * width for _, _, height, width in sizes]
    _check(config, node, operator, planes[1])
    workload = _workload(operator.depth, operator.rows, operator.columns, operand=operator.post.has_operand)
    source = Source(
        workload=replace(workload, width=planes[0]),
        details=Details(
            post=operator.post,
            area=(0, 0, 1, operator.rows),
            spread=Spread(plane=(1, planes[2]), steps=(1, 1)),
            tiles=planes[1] // config.block_out,
            zero_points=operator.zero_points,
            name=node.name,
        ),
    )
    bias = np.zeros(operator.columns, np.int32)
    constants = {"P": parameters(config, bias, np.full(operator.columns, operator.scale, np.float32))}
    if operator.table is not None:
        constants["T"] = Constant(form=unpacked, arrays=(operator.table,))
    kernels: list[Kernel] = []
    for group in operator.groups:
        offsets = {
            name: byte_of(config, shape, image=group.image, channel=channel, position=position)
            for name, shape, (channel, position) in zip(
                "XWY", sizes, (group.a, group.b, group.output), strict=True
            )
        }
        tensors = {"X": node.inputs[0], "W": node.inputs[1], "Y": node.output}
        if operator.post.has_operand:
            tensors["R"], offsets["R"] = node.inputs[2], offsets["Y"]
        kernels.append(
            Kernel(
                workload=workload,
                source=source,
                tensors=tensors,
                constants=constants,
                recorded=False,
                offsets=offsets,
                series=replace(workload, batch=len(operator.groups), own_weights=True),
            )
        )
    return kernels


def _workload(depth: int, rows: int, columns: int, *, operand: bool = False) -> Workload:
    """The workload of a product of `rows` vectors of `depth` channels with `columns` such vectors. `operand`: whether
    the store combines the result with a second tensor.
    """
    window = Window(kernel=(1, 1))
    return windowed(CONV2D.name, (1, depth, 1, rows), columns, window, operand=operand)


def _check(config: Config, node: Node, operator: Products, plane: int) -> None:
    lanes, where = config.block_out, f"configuration {config.name}"
    _check_machine(config, node, "multiplies two activations")
    if any(operator.zero_points) and not config.has("zero_points"):
        raise node_error(where, node.members[0], node.kind, *needs("zero_points"))
    starts = [place for group in operator.groups for place in (group.a[0], *group.b, group.output[0])]
    if any(size % lanes for size in (plane, *starts)):
        raise node_error(
            where,
            node.members[0],
            node.kind,
            f"its matrices of {operator.depth} channels and {operator.columns} columns do not all begin at multiples "
            f"of {lanes} channels",
            f"use multiples of {lanes} channels and columns",
        )


def _check_machine(config: Config, node: Node, action: str) -> None:
    """Raises NodeError, which names the node's `action`, unless activations can be weights on the machine: the machine
    must compute one image at a time, with equal sizes of input and output blocks.
    """
    if not Abilities.of(config).products:
        raise node_error(
            f"configuration {config.name}",
            node.members[0],
            node.kind,
            f"{action}, which is not possible with batch = {config.batch}, block_in = {config.block_in} and block_out "
            f"= {config.block_out}",
            "set batch to 1, and block_in and block_out to the same value",
        )


def transpose_kernels(config: Config, legalized: Legalized, node: Node, operator: Swap) -> list[Kernel]:
    """The kernels that exchange channels and positions of a tensor, by products of the unit matrix with the tensor as
    weights: one kernel for each block of channels of each image. The first channel that is exchanged must begin a
    block.

    Raises NodeError unless the machine computes one image at a time, with equal sizes of input and output blocks.
    """
    graph = legalized.graph
    lanes = Blocks.of(config).block
    _check_machine(config, node, "exchanges channels and positions")
    shapes = [graph.tensors[name].nchw for name in (node.inputs[0], node.output)]
    batch = shapes[0][0]
    first, channels = operator.channels or (0, shapes[0][1])
    unit, parts = np.eye(lanes, dtype=np.int8), range(0, channels, lanes)
    kernels: list[Kernel] = []
    for image in range(batch):
        for channel in parts:
            count = min(lanes, channels - channel)
            workload = _workload(lanes, count, operator.positions)
            details = Details(
                post=PLAIN,
                area=(0, 0, 1, count),
                spread=Spread(plane=(1, channels), steps=(1, 1)),
                name=node.name,
            )
            kernels.append(
                Kernel(
                    workload=workload,
                    source=Source(workload=workload, details=details),
                    tensors={"W": node.inputs[0], "Y": node.output},
                    constants={
                        "X": Constant(form=unpacked, arrays=(unit[:count],)),
                        "P": identity_parameters(config, operator.positions, 0),
                    },
                    recorded=False,
                    series=replace(workload, batch=batch * len(parts)),
                    offsets={
                        "W": byte_of(config, shapes[0], image=image, channel=first + channel),
                        "Y": byte_of(config, shapes[1], image=image, position=channel),
                    },
                )
            )
    return kernels


def transposed_products(
    config: Config, legalized: Legalized, node: Node, operator: TransposedProduct
) -> list[Kernel]:
    """The kernels of a transposed product, a convolution whose result has channels and positions exchanged: one kernel
    for each image. The activations are the weights, and the constant filters are laid out as positions of an
    activation.

    A plane of the input must consist of whole blocks of positions; the last positions may be padding. If the operator
    combines its result with a second operand, the operand is a constant with one value for each filter.
    """
    graph = legalized.graph
    lanes, convolution = config.block_out, operator.convolution
    batch, channels, height, width = graph.tensors[node.inputs[0]].nchw
    plane, filters = height * width, len(convolution.weight)
    positions = plane if convolution.taken is None else convolution.taken
    post = convolution.post
    workload = replace(_workload(channels, filters, positions, operand=post.has_operand), turned=True)
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
    tensors = {"W": node.inputs[0], "Y": node.output}
    return [
        Kernel(
            workload=workload,
            source=Source(workload=workload, details=details),
            tensors=tensors,
            constants=constants,
            recorded=False,
            offsets={
                name: byte_of(config, graph.tensors[tensor].nchw, image=image)
                for name, tensor in tensors.items()
            },
            series=replace(workload, batch=batch, own_weights=True) if batch > 1 else None,
        )
        for image in range(batch)
    ]
