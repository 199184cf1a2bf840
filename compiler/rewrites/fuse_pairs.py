"""Rewrites that merge a node of an integer graph into the node before or after it.

Every rewrite is exact: the new graph computes the same bits (no rounding is dropped, moved or merged). `fuse.fuse` runs
some of the rewrites for every target. The others run only for targets on which they save time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import numpy as np

from ..graph.cost import count_macs
from ..graph.graph import Graph, Node
from ..graph.int8_convolution import Int8Convolution, Interleave
from ..graph.int8_operators import (
    Channels,
    Int8AveragePool,
    Int8Elementwise,
    Int8MaxPool,
    Int8Operator,
    Positions,
    Products,
    Swap,
    Table,
    TransposedProduct,
)
from ..graph.interpret import evaluate
from ..te.blocks import Pair, Window
from ..te.combination import Combination
from .driver import remove_dead


def fuse_clamps(graph: Graph) -> Graph:
    """Fuses each element-wise clamp into the convolution, average pool or element-wise node that computes its input.
    The clamp becomes bounds of that node's output. The input may have no other reader.
    """

    def merge(first: Node, second: Node) -> Node | None:
        if not isinstance(second.operator, Int8Elementwise) or not second.operator.combination.only_clamps:
            return None
        limits = (second.operator.combination.low, second.operator.combination.high)
        match first.operator:
            case Int8Convolution(post=post) | Int8AveragePool(post=post):
                operator = replace(first.operator, post=post.clamped(*limits))
            case Int8Elementwise(combination=combination):
                operator = Int8Elementwise(combination=combination.clamped(*limits))
            case _:
                return None
        return _joined(first, second, operator)

    return _merge_pairs(graph, merge)


def fuse_channels(graph: Graph) -> Graph:
    """Merges chains of Channels nodes (selections of channels): each node then reads the chain's inputs directly."""
    made: dict[str, Node] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        if isinstance(node.operator, Channels):
            node = _from_the_first(node, node.operator, made)
            made[node.output] = node
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes))


def _from_the_first(node: Node, operator: Channels, made: Mapping[str, Node]) -> Node:
    places: list[tuple[str, int]] = []
    for part, channel in operator.sources:
        name = node.inputs[part]
        before = made.get(name)
        if before is not None and isinstance(before.operator, Channels):
            part, channel = before.operator.sources[channel]
            name = before.inputs[part]
        places.append((name, channel))
    inputs = tuple(dict.fromkeys(name for name, _ in places))
    sources = tuple([(inputs.index(name), channel) for name, channel in places])
    return replace(node, operator=Channels(sources=sources), inputs=inputs)


def compose_tables(graph: Graph) -> Graph:
    """Replaces each element-wise node by a look-up table of a tensor x, if every operand of the node is x or the result
    of a look-up table of x. For example, a GELU written node by node becomes one table.

    The new table contains all roundings. Tables with other readers stay in the graph.
    """
    stored = np.arange(-128, 128, dtype=np.int16).astype(np.int8)
    found: dict[str, tuple[str, np.ndarray]] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        if isinstance(node.operator, Table | Int8Elementwise) and any(name in found for name in node.inputs):
            (source, *others) = {found.get(name, (name, stored))[0] for name in node.inputs}
            alike = all(graph.tensors[name].nchw == graph.tensors[node.output].nchw for name in node.inputs)
            if not others and alike:
                values = [found.get(name, (name, stored))[1] for name in node.inputs]
                node = replace(node, operator=Table(table=evaluate(node, values)), inputs=(source,))
        if isinstance(node.operator, Table):
            found[node.output] = node.inputs[0], node.operator.table
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes))


def fuse_tables(graph: Graph) -> Graph:
    """Fuses an element-wise node into a look-up table whose result and input are the node's only inputs. No other node
    may read the table's result. For example, x * sigmoid(x) becomes one table, with both roundings.
    """

    def merge(first: Node, second: Node) -> Node | None:
        if (
            not isinstance(first.operator, Table)
            or graph.tensors[first.output].nchw != graph.tensors[second.output].nchw
        ):
            return None
        stored = np.arange(-128, 128, dtype=np.int16).astype(np.int8)
        values = {first.output: first.operator.table, first.inputs[0]: stored}
        if not isinstance(second.operator, Table | Int8Elementwise) or not {*second.inputs} <= values.keys():
            return None
        table = evaluate(second, [values[name] for name in second.inputs])
        return _joined(first, second, Table(table=table))

    return _merge_pairs(graph, merge)


def fuse_lookups(graph: Graph) -> Graph:
    """Fuses each look-up table into the convolution or product that computes the table's input, so that values are
    looked up while they are stored. Nothing is fused if another node reads the table's input, or if the convolution or
    product has a fused pool or a second operand.

    For accelerators with look-up tables. It must be the last rewrite: no other rewrite merges the resulting nodes.
    """

    def merge(first: Node, second: Node) -> Node | None:
        operator, table = first.operator, second.operator
        if not isinstance(operator, Int8Convolution | Products) or not isinstance(table, Table):
            return None
        if graph.tensors[first.output].nchw != graph.tensors[second.output].nchw:
            return None
        if operator.post.combination is not None or operator.table is not None:
            return None
        if isinstance(operator, Int8Convolution) and operator.pool is not None:
            return None
        looked_up = replace(operator, post=replace(operator.post, table=True), table=table.table)
        return _joined(first, second, looked_up)

    return _merge_pairs(graph, merge)


def fuse_spare_positions(graph: Graph, inputs: Collection[str]) -> Graph:
    """Fuses padding after a 1x1 convolution into the convolution, which then leaves gaps when it stores its result. The
    padding is pixels of arbitrary value at the end of the result, or at the end of each row.

    For accelerators, after all other rewrites. Convolutions that read one of `inputs` are left unchanged.
    """

    def merge(first: Node, second: Node) -> Node | None:
        operator, longer = first.operator, second.operator
        if not isinstance(operator, Int8Convolution) or not isinstance(longer, Positions):
            return None
        if longer.fill is not None or longer.channels is not None or operator.window != Window(kernel=(1, 1)):
            return None
        if operator.post.has_operand or operator.pool is not None or operator.phases is not None:
            return None
        spaced = _spaced(longer.index.reshape(len(longer.index), -1), graph.tensors[first.output].nchw)
        if spaced is None or operator.groups > 1 or first.inputs[0] in inputs:
            return None
        return _joined(first, second, replace(operator, spaced=spaced))

    return _merge_pairs(graph, merge)


def _spaced(index: np.ndarray, shape: tuple[int, int, int, int]) -> Pair | None:
    """Tests whether `index`, int64 (N, positions), only adds gaps. It must list all pixels of each image in order, in
    rows of `columns` pixels, and each row must be extended by -1 to a length of `pitch`. Returns (columns, pitch), or
    None for other indices. `shape`: (N, C, H, W) of the tensor with the pixels.
    """
    batch, _, height, width = shape
    plane, nothing = height * width, np.flatnonzero(index[0] < 0)
    if not nothing.size or len(index) != batch:
        return None
    columns = int(nothing[0])
    if columns == 0 or plane % columns or index.shape[1] % (plane // columns):
        return None
    pitch = index.shape[1] * columns // plane
    places = np.arange(batch * plane).reshape(batch, -1, columns)
    wanted = np.pad(places, ((0, 0), (0, 0), (0, pitch - columns)), constant_values=-1)
    return (columns, pitch) if np.array_equal(wanted.reshape(batch, -1), index) else None


def fuse_swaps(graph: Graph, block: int, *, broadcast: bool = False) -> Graph:
    """Fuses a Swap (exchange of pixels and channels) into the 1x1 convolution that computes its input, if the
    convolution reads whole blocks of `block` pixels. The convolution then writes the exchanged result, and no separate
    kernel moves it.

    For accelerators. With `broadcast` the convolution may have a constant of one value for each channel as its second
    operand.
    """

    def merge(first: Node, second: Node) -> Node | None:
        operator, swap = first.operator, second.operator
        if not isinstance(operator, Int8Convolution) or not isinstance(swap, Swap):
            return None
        _, _, height, width = graph.tensors[first.output].nchw
        _, _, rows, columns = graph.tensors[first.inputs[0]].nchw
        if swap.channels is not None or swap.positions != height * width or rows * columns % block:
            return None
        if not _is_plain_pointwise(operator):
            return None
        if operator.post.has_operand and not (broadcast and _is_plane_constant(graph, first.inputs[1])):
            return None
        return _joined(first, second, TransposedProduct(convolution=operator))

    return _merge_pairs(graph, merge)


def _is_plain_pointwise(operator: Int8Convolution) -> bool:
    """Whether a convolution has a 1x1 window and one group, and none of the following: a pool, phases of a transposed
    convolution, gaps in its output, a look-up table.
    """
    return (
        operator.window == Window(kernel=(1, 1))
        and operator.groups == 1
        and operator.pool is None
        and operator.phases is None
        and operator.spaced is None
        and operator.table is None
    )


def _is_plane_constant(graph: Graph, name: str) -> bool:
    return (
        name in graph.constants
        and graph.tensors[name].nchw[0] == graph.tensors[name].nchw[2] == 1 == (graph.tensors[name].nchw[3])
    )


def fuse_phases(graph: Graph) -> Graph:
    """Fuses the Interleave of a transposed convolution into the convolution that computes its phases, so that the
    convolution's kernels write each output to its final place. There is one phase for each pair of remainders of row
    and column modulo the strides. For accelerators, after `fuse`, which does not handle convolutions with phases.
    """

    def merge(first: Node, second: Node) -> Node | None:
        operator, phases = first.operator, second.operator
        if not isinstance(operator, Int8Convolution) or not isinstance(phases, Interleave):
            return None
        if operator.post.has_operand or operator.pool is not None or operator.phases is not None:
            return None
        return _joined(first, second, replace(operator, phases=phases))

    return _merge_pairs(graph, merge)


def fuse_combines(graph: Graph, planes: Callable[[Node], bool] = lambda node: False) -> Graph:
    """Fuses each element-wise sum, product or rescaling into the convolution or matrix product that computes one of its
    operands. The fused node combines its result with the other operand while it stores the result.

    If convolutions compute both operands, the convolution with more multiplies is fused: a longer computation hides
    more of the time in which the other operand is loaded. Of two convolutions with equally many multiplies, the later
    one is fused. The fused node takes the place of the element-wise node, where the other operand has been computed.
    `planes`: whether the second operand of a given convolution or product may have height and width 1 (one value for
    each channel).
    """
    uses = graph.uses()
    order = {node.output: step for step, node in enumerate(graph.nodes)}
    makers = graph.producers()

    def rank(tensor: str, reader: Node, combination: Combination) -> tuple[int, int]:
        """Rank of the node that computes `tensor`, an operand of `reader`: (multiplies, index of the node), or (-1, -1)
        if this node cannot apply `combination`. Of the nodes that compute the two operands, the one with the higher
        rank is fused.
        """
        maker = makers.get(tensor)
        if maker is None or not isinstance(maker.operator, Int8Convolution | Products) or uses[tensor] != 1:
            return (-1, -1)
        post = maker.operator.post
        if post.combination is not None:
            return (-1, -1)
        whole = graph.tensors[reader.output].nchw
        if graph.tensors[tensor].nchw != whole:
            return (-1, -1)
        if any(graph.tensors[name].nchw != whole for name in reader.inputs) and not planes(maker):
            # Stage B cannot broadcast its operand here.
            return (-1, -1)
        own = combination if reader.inputs[0] == tensor else combination.of_operand()
        if own.kind != "add" and own.zero_point_self != post.zero_point:
            # The hardware has one zero point for the result of stage A and the input of stage B.
            return (-1, -1)
        return (count_macs(graph, maker), order[tensor])

    def merge(first: Node, second: Node) -> Node | None:
        if not isinstance(first.operator, Int8Convolution | Products) or not isinstance(
            second.operator, Int8Elementwise
        ):
            return None
        combination = second.operator.combination
        own = rank(first.output, second, combination)
        position = second.inputs.index(first.output)
        others = [name for i, name in enumerate(second.inputs) if i != position]
        if own < (0, 0) or any(own < rank(other, second, combination) for other in others):
            return None
        combination = combination if position == 0 else combination.of_operand()
        operator = replace(first.operator, post=replace(first.operator.post, combination=combination))
        own_inputs = first.inputs[: 2 if isinstance(first.operator, Products) else 1]
        return replace(_joined(first, second, operator), inputs=(*own_inputs, *others))

    return _merge_pairs(graph, merge)


def fuse_pool(graph: Graph, outputs: Collection[str] | None = None) -> Graph:
    """Fuses each max-pool into the convolution that computes its input: the maximum is then taken before
    requantization. No other node may read this input, and the convolution may have no second operand.

    `outputs`: result tensors of the pools to fuse (None: all). The results stay the same: rounding with a positive
    scale is monotonic, so the maximum of the rounded sums is the rounded maximum.
    """

    def merge(first: Node, second: Node) -> Node | None:
        operator, pool = first.operator, second.operator
        if not isinstance(operator, Int8Convolution) or not isinstance(pool, Int8MaxPool):
            return None
        if operator.post.combination is not None or operator.pool is not None or operator.phases is not None:
            return None
        if outputs is not None and second.output not in outputs:
            return None
        return _joined(first, second, replace(operator, pool=pool.window))

    return remove_dead(_merge_pairs(graph, merge))


def _joined(first: Node, second: Node, operator: Int8Operator) -> Node:
    """One node in place of both: it has the given `operator`, the inputs of `first` and the output of `second`."""
    members = (*first.members, *second.members)
    return replace(first, operator=operator, output=second.output, members=members)


def _merge_pairs(graph: Graph, merge: Callable[[Node, Node], Node | None]) -> Graph:
    """Merges nodes in pairs, in one pass over the graph: a node, and the node that computes one of its operands (its
    producer). No other node may read the operand. `merge`(producer, node) returns the merged node, or None if the two
    cannot be merged.

    The merged node takes the place of the second node, where all its operands have been computed, and stores that
    node's result.
    """
    uses = graph.uses()
    makers: dict[str, Node] = {}
    nodes: dict[str, Node] = {}
    for node in graph.nodes:
        joined: Node | None = None
        for name in node.inputs:
            if name in makers and uses[name] == 1:
                joined = merge(makers[name], node)
                if joined is not None:
                    del nodes[name], makers[name]
                    break
        result = joined or node
        nodes[result.output] = makers[result.output] = result
    return replace(graph, nodes=tuple(nodes.values()))
