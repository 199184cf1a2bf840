"""Adds padding pixels at the end of a tensor's planes, so that a later exchange of channels and pixels reads whole
blocks of pixels. The node that computes the tensor skips the padding when it stores its result, so no copy is needed.
Only accelerators need the padding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..graph.graph import Graph, Node
from ..graph.int8_convolution import Int8Convolution
from ..graph.int8_operators import Rows, Swap
from ..te.blocks import Window, ceil_div

EXCHANGE = 4
"""Estimated cost of an exchange of channels and pixels, in cycles for each vector. The exchange is computed as a matrix
product. It occupies the bus twice as long as a load or store of a vector, because its result is stored.
"""


def leave_room(graph: Graph, block: int) -> Graph:
    """Looks for a convolution that is followed by a Swap (exchange of pixels and channels), and pads the convolution's
    input to whole blocks of `block` pixels. This is done if the node that computes the input can leave a gap when it
    stores its result.

    The padding is arbitrary, and other readers of the input read only the pixels before the padding.
    """
    makers, readers = graph.producers(), graph.readers()
    wide: dict[str, int] = {}
    for node in graph.nodes:
        maker = makers.get(node.inputs[0]) if isinstance(node.operator, Swap) else None
        if maker is not None and has_room(graph, maker.inputs[0], makers, readers, block):
            height, width = graph.tensors[maker.inputs[0]].nchw[2:]
            wide[maker.inputs[0]] = ceil_div(height * width, block) * block
    if not wide:
        return graph
    tensors = dict(graph.tensors)
    for name, plane in wide.items():
        batch, channels, _, _ = tensors[name].nchw
        tensors[name] = replace(tensors[name], shape=(batch, channels, plane, 1))
    nodes: list[Node] = []
    for node in graph.nodes:
        operator = node.operator
        if node.inputs[0] in wide and isinstance(operator, Int8Convolution):
            height, width = graph.tensors[node.inputs[0]].nchw[2:]
            operator = replace(operator, taken=height * width)
        if node.output in wide:
            height, width = graph.tensors[node.output].nchw[2:]
            if isinstance(operator, Int8Convolution):
                operator = replace(operator, spaced=(height * width, wide[node.output]))
            elif isinstance(operator, Rows):
                operator = replace(operator, plane=wide[node.output])
        nodes.append(replace(node, operator=operator))
    return replace(graph, nodes=tuple(nodes), tensors=tensors)


def has_room(
    graph: Graph, name: str, makers: Mapping[str, Node], readers: Mapping[str, list[Node]], block: int
) -> bool:
    """Whether padding pixels can be added to the tensor `name`, up to whole blocks of `block` pixels. The node that
    computes the tensor must write pixel by pixel, and all readers must be 1x1 convolutions. Returns False if the tensor
    already has whole blocks, or if the convolutions would spend more cycles on the padding than an exchange of the
    tensor's channels and pixels takes. `makers`, `readers`: nodes by tensor.
    """
    maker, (_, channels, height, width) = makers.get(name), graph.tensors[name].nchw
    if maker is None or height * width % block == 0 or name in {item.tensor for item in graph.outputs}:
        return False
    plane = ceil_div(height * width, block) * block
    if (plane - height * width) * ceil_div(channels, block) > EXCHANGE * plane:
        return False
    if not isinstance(maker.operator, Rows) and not _moves_nothing(maker):
        return False
    return all(_moves_nothing(node) and node.inputs == (name,) for node in readers.get(name, []))


def reads_whole_blocks(
    graph: Graph, node: Node, makers: Mapping[str, Node], readers: Mapping[str, list[Node]], block: int
) -> bool:
    """Whether a 1x1 convolution reads whole blocks of `block` positions (pixels). A convolution whose input
    `leave_room` can pad to whole blocks counts, too. `makers`, `readers`: nodes by tensor.
    """
    _, _, height, width = graph.tensors[node.inputs[0]].nchw
    return height * width % block == 0 or has_room(graph, node.inputs[0], makers, readers, block)


def _moves_nothing(node: Node) -> bool:
    """Whether a node is a 1x1 convolution that reads every pixel, stores each result at the pixel it has read, and has
    neither a pool nor a second operand.
    """
    operator = node.operator
    return (
        isinstance(operator, Int8Convolution)
        and operator.window == Window(kernel=(1, 1))
        and operator.groups == 1
        and operator.pool is None
        and operator.phases is None
        and operator.spaced is None
        and operator.taken is None
        and not operator.post.has_operand
    )
