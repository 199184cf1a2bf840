"""Matrix products of one row (one token of attention over many positions) that sum over the positions of their second
factor in place.

GEMM sums over channels, so for a sum over positions the second factor must be stored again with channels and positions
exchanged, and loaded once more. Depthwise products (DEPTHWISE, TAPS) sum over positions, lane by lane, and read the
factor as it is. Each element of the first factor is then a weight of all lanes: `Repeated` stores these weights.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vdla.isa.config import Config

from ...graph.graph import Graph, Node, unused
from ...graph.int8_operators import PositionSums, Products, Repeated, Swap
from ...graph.layout import pack_weight
from ...rewrites.driver import remove_dead
from ...te.blocks import Blocks, Window
from ...te.ops.common import Spread
from ...te.post import PLAIN
from .conv2d import CONV2D
from .depthwise import DEPTHWISE_CONV2D, has_depthwise
from .legalize import Legalized, Machine
from .template import Constant, Details, Kernel, Source, byte_of, identity_parameters, parameters
from .workload import Workload, windowed


def sum_positions(graph: Graph, machine: Machine) -> Graph:
    """Replaces products of one row that read the result of a Swap (exchange of channels and positions) by the nodes
    `Repeated` and `PositionSums`, which read the Swap's input. A product is replaced if this moves fewer bytes and the
    machine can compute the new nodes.
    """
    config = machine.config
    if not has_depthwise(config):
        return graph
    makers, tensors, nodes = graph.producers(), dict(graph.tensors), list[Node]()
    names = {node.name for node in graph.nodes}
    for node in graph.nodes:
        swap = makers.get(node.inputs[1]) if isinstance(node.operator, Products) else None
        if swap is not None and _takes(config, graph, node, swap):
            products, factor = node.operator, tensors[node.inputs[0]]
            assert isinstance(products, Products)
            lanes, name = Blocks.of(config).block, unused(f"{node.name}.repeated", tensors)
            tensors[name] = replace(factor, name=name, shape=(1, lanes, factor.size, 1))
            own = unused(f"{node.name}.repeated", names)
            names.add(own)
            nodes.append(
                replace(
                    node, name=own, operator=Repeated(channels=lanes), inputs=node.inputs[:1], output=name
                )
            )
            operator = PositionSums(products=products)
            node = replace(node, operator=operator, inputs=(name, swap.inputs[0]))
        nodes.append(node)
    if len(nodes) == len(graph.nodes):
        return graph
    return remove_dead(replace(graph, nodes=tuple(nodes), tensors=tensors))


def _takes(config: Config, graph: Graph, node: Node, swap: Node) -> bool:
    """Whether the products `node`, whose second factor the node `swap` computes, become sums over positions. Both
    factors must consist of whole blocks and of whole images, and the repeated elements of the first factor must take
    fewer bytes than the exchanged second factor.
    """
    products, lanes = node.operator, Blocks.of(config).block
    if not isinstance(products, Products) or not isinstance(swap.operator, Swap):
        return False
    batch, depth, _, _ = graph.tensors[node.inputs[0]].nchw
    _, channels, height, width = graph.tensors[swap.inputs[0]].nchw
    groups = products.groups
    starts = [place for group in groups for place in (group.b[1], group.output[0])]
    whole = (
        batch == products.rows == 1
        and products.depth == depth == height * width == swap.operator.positions
        and swap.operator.channels is None
        and products.table is None
        and not products.post.has_operand
        and all(group.a[0] == group.b[0] == 0 for group in groups)
        and not any(size % lanes for size in (depth, products.columns, *starts))
    )
    if not whole or graph.tensors[node.inputs[0]].size * lanes >= depth * channels:
        return False
    return DEPTHWISE_CONV2D.fits(config, _workload(config, products))


def _workload(config: Config, products: Products) -> Workload:
    """The workload of one product: a depthwise convolution in which each block of columns is a row of an image, and the
    window is as wide as the image.
    """
    lanes = Blocks.of(config).block
    image = (1, lanes, products.columns // lanes, products.depth)
    return windowed(DEPTHWISE_CONV2D.name, image, lanes, Window(kernel=(1, products.depth)))


def repeated_kernels(config: Config, legalized: Legalized, node: Node, operator: Repeated) -> list[Kernel]:
    """The kernel that repeats each element of a tensor in all lanes of a vector: a 1x1 convolution of each block of
    channels. The filters of its output block number i have the weight 1 for channel i, and 0 for all other channels.
    """
    lanes = operator.channels
    _, channels, height, width = legalized.graph.tensors[node.inputs[0]].nchw
    blocks, pixels = channels // lanes, height * width
    workload = windowed(CONV2D.name, (1, lanes, blocks, pixels), lanes * lanes, Window(kernel=(1, 1)))
    details = Details(
        post=PLAIN,
        area=(0, 0, blocks, pixels),
        spread=Spread(plane=(1, pixels * channels), steps=(0, channels), pitch=lanes, adjacent=True),
        name=node.name,
    )
    weight = np.repeat(np.eye(lanes, dtype=np.int8), lanes, axis=0).reshape(lanes * lanes, lanes, 1, 1)
    return [
        Kernel(
            workload=workload,
            source=Source(workload=workload, details=details),
            tensors={"X": node.inputs[0], "Y": node.output},
            constants={
                "W": Constant(form=pack_weight, arrays=(weight,)),
                "P": identity_parameters(config, lanes * lanes, 0),
            },
            recorded=False,
        )
    ]


def position_sum_kernels(
    config: Config, legalized: Legalized, node: Node, operator: PositionSums
) -> list[Kernel]:
    """One kernel for each matrix product, in the order of the products' groups (`_workload`)."""
    graph, products, lanes = legalized.graph, operator.products, Blocks.of(config).block
    repeated, values, result = (graph.tensors[name].nchw for name in (*node.inputs, node.output))
    plane = result[2] * result[3]
    workload, rows = _workload(config, products), products.columns // lanes
    details = Details(
        post=products.post,
        area=(0, 0, rows, 1),
        spread=Spread(plane=(1, rows * plane), steps=(0, 1), pitch=plane),
        zero_points=(products.zero_points[1], products.zero_points[0]),
        name=node.name,
    )
    scale = np.full(lanes, products.scale, np.float32)
    return [
        Kernel(
            workload=workload,
            source=Source(workload=workload, details=details),
            tensors={"X": node.inputs[1], "W": node.inputs[0], "Y": node.output},
            constants={"P": parameters(config, np.zeros(lanes, np.int32), scale)},
            recorded=False,
            offsets={
                "X": byte_of(config, values, channel=group.b[1]),
                "W": byte_of(config, repeated, position=group.a[1] * products.depth),
                "Y": byte_of(config, result, channel=group.output[0], position=group.output[1]),
            },
        )
        for group in products.groups
    ]
