"""Fusion of 1x1 convolutions with the normalization of their result into one kernel."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from vdla.isa.config import Config

from ...graph.graph import Graph, Node
from ...graph.int8_convolution import Int8Convolution
from ...graph.int8_operators import Normed, Rows
from ...graph.layout import Constant, pack_weight, unpacked
from ...te.blocks import Window, ceil_div
from .conv2d import CONV2D
from .normed import NORMALIZATION, NORMED
from .normed_program import NormedShape, normed_program
from .row_kernels import row_parameters, shares_of
from .rows import ROWS
from .template import Kernel, parameters
from .tile_template import TiledExpression, estimated
from .workload import Workload, windowed

if TYPE_CHECKING:
    from .legalize import Legalized, Machine

FEWEST_TILES = 5
"""Fewest tiles of a fused product: with fewer, the exposed first tile and last normalization outweigh the gain."""
GAIN = 0.99
"""A normalization is fused into its product only if the fused kernel's estimated cycles (with its last normalization in
full) are less than GAIN times those of the separate kernels.
"""
SINGLE = Window(kernel=(1, 1))


def fuse_norms(graph: Graph, machine: Machine) -> Graph:
    """The graph with each normalization fused into the preceding convolution, if both fit the machine and the cost
    model expects a gain. Convolutions that read an input in the host's layout (`machine.interleaved`) stay separate.
    The machine must have the extension `rows`, batch 1, and block_in equal to block_out.
    """
    makers = graph.producers()
    joined: dict[str, Node] = {}
    gone: set[str] = set()
    for node in graph.nodes:
        maker = makers.get(node.inputs[0])
        if maker is None or not isinstance(rows := node.operator, Rows) or maker.output in gone:
            continue
        operator = maker.operator
        if not isinstance(operator, Int8Convolution) or not _joins(machine, graph, maker, operator, rows):
            continue
        joined[maker.output] = replace(
            maker,
            operator=Normed(convolution=operator, rows=rows),
            members=tuple(dict.fromkeys((*maker.members, *node.members))),
            output=node.output,
            more_outputs=(maker.output,),
        )
        gone |= {maker.output, node.output}
    if not joined:
        return graph
    removed = {node.output for node in joined.values()}
    nodes = [joined.get(node.output, node) for node in graph.nodes if node.output not in removed]
    return replace(graph, nodes=tuple(nodes))


def _joins(machine: Machine, graph: Graph, node: Node, operator: Int8Convolution, rows: Rows) -> bool:
    """Whether a convolution and the normalization of its result can become one kernel, and the cost model expects that
    kernel to be faster.
    """
    moved = (operator.pool, operator.phases, operator.spaced, operator.taken)
    if operator.window != SINGLE or operator.groups > 1 or moved != (None,) * 4:
        return False
    if node.inputs[0] in machine.interleaved or rows.entries is not None or len(rows.bias) == 1:
        return False
    out, data = graph.tensors[node.output], graph.tensors[node.inputs[0]]
    if any(graph.tensors[name].nchw != out.nchw for name in node.inputs[1:]):
        return False
    # A small input is better chained: a separate kernel can read it in the chain memory.
    if data.size <= machine.config.chain_buffer_bytes:
        return False
    workload = _workload(graph, node, operator)
    return NORMED.fits(machine.config, workload) and _pays(machine.config, workload)


def _workload(graph: Graph, node: Node, operator: Int8Convolution) -> Workload:
    sizes, filters = graph.tensors[node.inputs[0]].nchw, len(operator.weight)
    return windowed(NORMED.name, sizes, filters, SINGLE, operand=operator.post.has_operand)


def _pays(config: Config, workload: Workload) -> bool:
    batch, _, height, width = workload.sizes
    product = replace(workload, template=CONV2D.name)
    norm = windowed(
        ROWS.name, (batch, workload.filters, height, width), workload.filters, SINGLE, operand=True
    )
    positions = batch * height * width
    if positions < config.whole_tile_bytes / config.memory.bus_bytes:
        # Loading weights takes longer than computing: the bus is the bottleneck.
        return False
    tile = NORMED.default_for(config, workload, 2)["rows"]
    if batch * ceil_div(height * width, tile) < FEWEST_TILES:
        return False
    # The next layer may wait for the last normalization: count its cycles in full.
    one = estimated(config, workload) + estimated(config, workload, NORMALIZATION)
    return one < GAIN * (estimated(config, product) + estimated(config, norm))


def normed_kernels(config: Config, legalized: Legalized, node: Node, operator: Normed) -> list[Kernel]:
    """The kernel of a Normed node (made by `fuse_norms`)."""
    graph = legalized.graph
    convolution, rows, (made,) = operator.convolution, operator.rows, node.more_outputs
    batch, channels, height, width = graph.tensors[node.inputs[0]].nchw
    filters, lanes = len(convolution.weight), config.block_out
    shape = NormedShape(
        images=batch,
        positions=height * width,
        plane=height * width if rows.plane is None else rows.plane,
        channels=channels,
        filters=filters,
    )
    workload, post = _workload(graph, node, convolution), convolution.post
    build = partial(normed_program, config, shape, post, shares_of(rows, filters), rows.post, node.name)
    constants = {
        "W": Constant(form=pack_weight, arrays=(convolution.weight,)),
        "P": parameters(config, convolution.bias, convolution.scale),
        "N": row_parameters(config, rows, filters),
        "U": Constant(form=unpacked, arrays=(np.eye(lanes, dtype=np.int8)[None],)),
    }
    if convolution.table is not None:
        constants["L"] = Constant(form=unpacked, arrays=(convolution.table,))
    return [
        Kernel(
            workload=workload,
            source=TiledExpression.of(config, workload, build, post),
            tensors={
                "X": node.inputs[0],
                **({"R": node.inputs[1]} if post.has_operand else {}),
                "Y": made,
                "Z": node.output,
            },
            constants=constants,
            recorded=False,
        )
    ]
