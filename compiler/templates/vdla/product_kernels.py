"""Kernels of products of two activations: 1x1 convolutions whose weights are an activation in its memory layout.

A block of n channels at n positions is a weight tile: each position is a row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from vdla.isa.config import Config

from ...graph.abilities import needs
from ...graph.errors import node_error
from ...graph.graph import Node
from ...graph.int8_operators import Products
from ...graph.layout import Constant, unpacked
from ...te.blocks import Window, ceil_div
from ...te.ops.common import Spread
from .conv2d import CONV2D
from .template import Details, Kernel, Source, parameters
from .workload import windowed

if TYPE_CHECKING:
    from .legalize import Legalized


def product_kernels(config: Config, legalized: Legalized, node: Node, operator: Products) -> list[Kernel]:
    """One kernel for each matrix product (a group of `operator`), in the order of `operator.groups`.

    If `depth` channels do not fill the last block, the additional lanes must not change the sums: in one of the
    factors, `pad_to_blocks` sets these lanes to the zero point. Raises NodeError for a group whose first channel is not
    the first of a block or a weight tile.
    """
    graph = legalized.graph
    lanes = config.block_out
    sizes = [graph.tensors[name].nchw for name in (*node.inputs[:2], node.output)]
    planes = [height * width for _, _, height, width in sizes]
    _check(config, node, operator, planes[1])
    blocks = [ceil_div(channels, lanes) for _, channels, _, _ in sizes]
    workload = windowed(
        CONV2D.name,
        (1, operator.depth, 1, operator.rows),
        operator.columns,
        Window(kernel=(1, 1)),
        operand=operator.post.has_operand,
    )
    source = Source(
        workload=replace(workload, width=planes[0]),
        details=Details(
            post=operator.post,
            area=(0, 0, 1, operator.rows),
            spread=Spread(plane=(1, planes[2]), steps=(1, 1)),
            tiles=planes[1] // lanes,
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
            name: ((group.image * count + channel // lanes) * plane + position) * lanes
            for name, count, plane, (channel, position) in zip(
                ("X", "W", "Y"), blocks, planes, (group.a, group.b, group.output), strict=True
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


def _check(config: Config, node: Node, operator: Products, plane: int) -> None:
    lanes, where = config.block_out, f"configuration {config.name}"
    if config.batch > 1 or config.block_in != lanes:
        raise node_error(
            where,
            node.members[0],
            node.kind,
            f"multiplies two activations, which is not possible with batch = {config.batch}, "
            f"block_in = {config.block_in} and block_out = {lanes}",
            "set batch to 1, and block_in and block_out to the same value",
        )
    if any(operator.zero_points) and not config.has("zero_points"):
        raise node_error(where, node.members[0], node.kind, *needs("zero_points"))
    starts = [place for group in operator.groups for place in (group.a[0], *group.b, group.output[0])]
    if any(size % lanes for size in (plane, *starts)):
        raise node_error(
            where,
            node.members[0],
            node.kind,
            f"products of {operator.depth} channels and {operator.columns} columns do not begin at multiples of "
            f"{lanes}",
            f"use multiples of {lanes} channels and columns",
        )
