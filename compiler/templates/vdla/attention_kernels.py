"""Attention fusion: the products of queries and keys, their softmax, and the products of the softmax's results with
values become one kernel. Scores and shares (the softmax's results) stay on the chip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from vdla.isa.config import Config
from vdla.isa.rows import planes_of

from ...codegen.vdla.placement import ChainBuffer
from ...graph.graph import Graph, Node
from ...graph.int8_operators import Attention, Group, Products, Rows
from ...graph.layout import Constant, pack_parameters, unpacked
from ...te.blocks import Pair, Window, ceil_div
from ...te.ops.rows import Shares
from .attention import ATTENTION
from .attention_program import Arithmetic, AttentionShape, Stack, attention_program
from .conv2d import CONV2D
from .rows import ROWS
from .template import Kernel
from .tile_template import TiledExpression, estimated
from .workload import Workload, windowed

if TYPE_CHECKING:
    from .legalize import Legalized, Machine

Places = Sequence[tuple[int, int, int]]
"""Start of each matrix in a stack of matrices: (image, channel, position)."""


def fuse_attention(graph: Graph, machine: Machine) -> Graph:
    """The graph with chains replaced by Attention nodes. A chain consists of products of queries and keys, their
    softmax, and products with values. A chain is replaced if the Attention node's kernel fits the machine and the cost
    model expects this kernel to take fewer cycles.

    The machine must have the extension `rows`, a chain memory (on-chip memory for tensors between layers), and an array
    that can multiply two activations.
    """
    uses, makers = graph.uses(), graph.producers()
    joined: dict[str, Node] = {}
    gone: set[str] = set()
    for node in graph.nodes:
        found = _chain_of(node, makers)
        if found is None or any(uses[item.output] != 1 for item in found[:2]):
            continue
        operator = _attention(machine.config, graph, *found)
        if operator is None:
            continue
        members = tuple(dict.fromkeys([name for item in found for name in item.members]))
        first = found[0]
        inputs = (*first.inputs, node.inputs[1])
        joined[node.output] = replace(node, operator=operator, inputs=inputs, members=members)
        gone |= {item.output for item in found[:2]}
    nodes = [joined.get(node.output, node) for node in graph.nodes if node.output not in gone]
    tensors = {name: tensor for name, tensor in graph.tensors.items() if name not in gone}
    return replace(graph, nodes=tuple(nodes), tensors=tensors) if joined else graph


def _chain_of(last: Node, makers: dict[str, Node]) -> tuple[Node, Node, Node] | None:
    """The nodes (scores, softmax, context) of a chain that ends in `last`; None if `last` ends no such chain.
    `makers`: by tensor name, the node that computes the tensor.
    """
    if not isinstance(last.operator, Products):
        return None
    shares = makers.get(last.inputs[0])
    if shares is None or not isinstance(shares.operator, Rows) or shares.output in last.inputs[1:]:
        return None
    scores = makers.get(shares.inputs[0])
    if scores is None or not isinstance(scores.operator, Products):
        return None
    return scores, shares, last


def _attention(config: Config, graph: Graph, first: Node, between: Node, last: Node) -> Attention | None:
    """The operator Attention that replaces three nodes: scores, softmax, and product with the values. None if the last
    node does not multiply each matrix of the softmax by one matrix of values, if a node's arithmetic has no place in
    the fused operator, or if the fused operator does not fit the machine or is not faster.
    """
    scores, shares, context = first.operator, between.operator, last.operator
    assert isinstance(scores, Products) and isinstance(shares, Rows) and isinstance(context, Products)
    if context.table is not None or any(item.post.combination is not None for item in (scores, context)):
        return None
    if any((*scores.zero_points, *context.zero_points)) and not config.has("zero_points"):
        return None
    if shares.entries is None or len(shares.bias) > 1 or len(np.atleast_1d(shares.scale)) > 1:
        return None
    channels = graph.tensors[first.output].nchw[1]
    if not scores.columns == context.depth == channels or scores.rows != context.rows:
        return None
    by_place = {(group.image, group.a): group for group in context.groups}
    ordered = [by_place.get((group.image, group.output)) for group in scores.groups]
    of_context = [group for group in ordered if group is not None]
    if len(of_context) != len(scores.groups) or len(by_place) != len(context.groups) != len(ordered):
        return None
    if len({group.output[0] for group in scores.groups}) > 1:
        return None
    operator = Attention(scores=scores, shares=shares, context=replace(context, groups=tuple(of_context)))
    shape = _shape(config, graph, (*first.inputs, last.inputs[1]), last.output, operator)
    if shape is None or not ATTENTION.fits(config, workload := _workload(shape)):
        return None
    return operator if _pays(config, workload) else None


def _pays(config: Config, workload: Workload) -> bool:
    """Whether the cost model expects one fused kernel to take fewer cycles than separate kernels for the products of
    queries and keys, the softmax, and the products with values.

    One kernel may be slower, because the store unit's instructions for a tile wait for each other.
    """
    one = Window(kernel=(1, 1))
    count, depth, rows, keys = workload.sizes
    scores, context = (
        replace(windowed(CONV2D.name, (count, channels, 1, rows), filters, one), own_weights=True)
        for channels, filters in ((depth, keys), (keys, workload.filters))
    )
    shares = windowed(ROWS.name, (1, keys, count * rows, 1), keys, one)
    return estimated(config, workload) < sum(estimated(config, item) for item in (scores, shares, context))


def attention_kernels(config: Config, legalized: Legalized, node: Node, operator: Attention) -> list[Kernel]:
    """The kernel of an Attention node (made by `fuse_attention`)."""
    graph = legalized.graph
    shape = _shape(config, graph, node.inputs, node.output, operator)
    if shape is None:
        raise ValueError(
            f"{node.name}: the joined matrices are at addresses that three nested loops cannot generate"
        )
    scores, shares, context = operator.scores, operator.shares, operator.context
    arithmetic = Arithmetic(
        scores=scores.post,
        shares=Shares(look_up=True, length=scores.columns, own=False),
        shared=shares.post,
        context=context.post,
        zero_points=(scores.zero_points, context.zero_points),
    )
    lanes = config.block_out
    of_stores: list[tuple[int, np.float32]] = [
        (0, scores.scale),
        (int(shares.bias[0]), np.atleast_1d(shares.scale)[0]),
        (0, context.scale),
    ]
    bias = np.repeat(np.array([item for item, _ in of_stores], np.int32), lanes)
    scale = np.repeat(np.array([item for _, item in of_stores], np.float32), lanes)
    assert shares.entries is not None
    constants = {
        "P": pack_parameters(config, bias, scale),
        "U": np.eye(lanes, dtype=np.int8)[None],
        "T": planes_of(shares.entries).reshape(-1),
    }
    if scores.table is not None:
        constants["L"] = scores.table
    workload = _workload(shape)
    build = partial(attention_program, config, shape, arithmetic, node.name)
    return [
        Kernel(
            workload=workload,
            source=TiledExpression.of(config, workload, build),
            tensors={
                **dict(zip("QKV", node.inputs, strict=True)),
                "Y": node.output,
                **dict(zip("SH", _kept(node), strict=True)),
            },
            constants={name: Constant(form=unpacked, arrays=(array,)) for name, array in constants.items()},
            recorded=False,
        )
    ]


def kept_places(config: Config, node: Node) -> dict[str, ChainBuffer]:
    """Places in the chain memory (on-chip memory for tensors between layers) of an attention node's scores and softmax
    outputs, by tensor name; each has one half of the chain memory.
    """
    half = config.chain_buffer_bytes // 2 // config.chain_word_bytes * config.chain_word_bytes
    return {name: ChainBuffer(half * number) for number, name in enumerate(_kept(node))}


def _kept(node: Node) -> tuple[str, str]:
    return f"{node.output} scores", f"{node.output} shares"


def _workload(shape: AttentionShape) -> Workload:
    sizes = (int(np.prod(shape.loops)), shape.depth, shape.rows, shape.keys)
    return windowed(ATTENTION.name, sizes, shape.width, Window(kernel=(1, 1)))


def _shape(
    config: Config, graph: Graph, inputs: Sequence[str], output: str, operator: Attention
) -> AttentionShape | None:
    """The sizes of an attention, with the loops that visit the matrices of its tensors in memory. `inputs`: names of
    the tensors of queries, keys and values; `output`: name of the result. None if a matrix does not begin at a block
    boundary, or if the matrices' places in memory cannot be described by three nested loops.
    """
    scores, context = operator.scores, operator.context

    def places(groups: Sequence[Group], side: str) -> Places:
        return [(group.image, *getattr(group, side)) for group in groups]

    of_tensors = [
        (inputs[0], places(scores.groups, "a")),
        (inputs[1], places(scores.groups, "b")),
        (inputs[2], places(context.groups, "b")),
        (output, places(context.groups, "output")),
    ]
    made = [_blocks(config, graph.tensors[name].nchw, at) for name, at in of_tensors]
    lanes = config.block_out
    if any(channel % lanes for _, at in of_tensors for _, channel, _ in at):
        return None
    # Tiles of weights are blocks of positions.
    if any(size[1] % lanes or (at[:, 1] % lanes).any() for size, at in made[1:3]):
        return None
    loops = _loops(np.concatenate([at for _, at in made], axis=1))
    if loops is None:
        return None
    stacks = [
        Stack(
            size=size,
            first=_pair(at[0]),
            steps=tuple([_pair(steps[2 * number : 2 * number + 2]) for _, steps in loops]),
        )
        for number, (size, at) in enumerate(made)
    ]
    stack = partial(stacks.__getitem__)
    return AttentionShape(
        loops=tuple([extent for extent, _ in loops]),
        rows=scores.rows,
        depth=scores.depth,
        keys=scores.columns,
        width=context.columns,
        queries_in=stack(0),
        keys_in=stack(1),
        values_in=stack(2),
        context_in=stack(3),
    )


def _pair(values: np.ndarray) -> Pair:
    return int(values[0]), int(values[1])


def _blocks(config: Config, shape: tuple[int, int, int, int], places: Places) -> tuple[Pair, np.ndarray]:
    """Size of a tensor of NCHW `shape` as (blocks of channels of all images, positions of a plane), and the start of
    each matrix of `places` as such a pair of indices: int64 (matrices, 2).
    """
    images, channels, height, width = shape
    count = ceil_div(channels, config.block_out)
    at = [(image * count + channel // config.block_out, position) for image, channel, position in places]
    return (images * count, height * width), np.array(at, np.int64)


def _loops(places: np.ndarray) -> list[tuple[int, np.ndarray]] | None:
    """Loops that visit the rows of int64 `places` (starts of matrices) in order, beginning at the first: at most three,
    outermost first, as (extent, step that each iteration adds to the start); None if three loops do not suffice.
    """
    found: list[tuple[int, np.ndarray]] = []
    while len(places) > 1:
        if len(found) == 3:
            return None
        step = places[1] - places[0]
        along = (places == places[0] + np.arange(len(places))[:, None] * step).all(axis=1)
        extent = len(places) if along.all() else int(np.argmin(along))
        inner = places.reshape(-1, extent, places.shape[1]) if len(places) % extent == 0 else None
        if inner is None or (inner != inner[:, :1] + np.arange(extent)[:, None] * step).any():
            return None
        found.insert(0, (extent, step))
        places = inner[:, 0]
    return found
