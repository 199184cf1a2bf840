"""Nodes of the graph whose elements are computed each by itself, pools and moves: what they are on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

import numpy as np

from ...graph.graph import Graph, Node
from ...graph.operators import AveragePool, Gather, MaxPool, Remap, Resize
from ...ir.expr import Expr
from ...target.cuda.machine import CudaTarget
from ...te.ops.float_elementwise import float_elementwise
from ...te.ops.float_pool import float_pool
from ...te.ops.joined import joined_concat, joined_remap
from ...te.ops.movement import concat, gather
from ...te.ops.relayout import relayout
from ...te.ops.resize import axis_table, resize
from ..cpu.fused import Fused, storage_beside
from . import elementwise, movement, pool
from .flat import flattened
from .lowered import LoweredCudaNode, in_order, lowered
from .workload import workload_of

MOST_JOINED = 8
"""Tensors that one kernel concatenates: a thread compares its place with so many; of more, each has its own kernel."""


def lower_elementwise(
    graph: Graph, node: Node, body: Expr, knobs: elementwise.Knobs | None = None
) -> LoweredCudaNode:
    """An expression of the inputs' elements."""
    out = graph.tensors[node.output]
    rank = len(out.storage)
    shapes = [storage_beside(graph.tensors[name], rank, out.block) for name in node.inputs]
    plain = float_elementwise(shapes, body)
    names = [p.name for p in plain.parameters]
    program = flattened(plain)
    return lowered(
        graph,
        node,
        "elementwise",
        Fused(program=program),
        lambda target: elementwise.schedule(target, program, knobs),
        dict(zip(names, (*node.inputs, node.output), strict=True)),
        workload=workload_of("elementwise_cuda", program),
    )


def lower_pool(
    graph: Graph,
    node: Node,
    operator: MaxPool | AveragePool,
    knobs: pool.Knobs | None = None,
) -> LoweredCudaNode:
    """A pool over windows."""
    batch, channels, height, width = graph.data_shape(node)
    program = float_pool(
        outer=batch * channels,
        height=height,
        width=width,
        lanes=1,
        window=operator.window,
        kind="max" if isinstance(operator, MaxPool) else "average",
        counted=operator.counted if isinstance(operator, AveragePool) else (0, 0, 0, 0),
    )
    template = partial(pool.schedule, knobs=knobs)
    return in_order(graph, node, program, "pool", template, intermediates=False, tuned="pool_cuda")


def lower_permutation(
    target: CudaTarget,
    graph: Graph,
    node: Node,
    axes: Sequence[int],
    knobs: movement.Knobs | None = None,
) -> LoweredCudaNode:
    """Axes in another order."""
    shape = graph.data_shape(node)
    knobs = knobs or movement.choose_knobs(target, shape, axes)
    program = movement.permutation(shape, axes, knobs)
    if knobs.rows is None:
        return in_order(graph, node, program, "elementwise", elementwise.schedule, tuned="elementwise_cuda")
    return in_order(graph, node, program, "tiles", movement.schedule_tiles, flat=False)


def lower_concatenation(
    graph: Graph, node: Node, axis: int, knobs: elementwise.Knobs | None = None
) -> LoweredCudaNode:
    """Tensors one behind the other."""
    shapes = [graph.tensors[name].shape for name in node.own_inputs]
    program = joined_concat(shapes, axis) if len(shapes) <= MOST_JOINED else concat(shapes, axis)
    template = partial(elementwise.schedule, knobs=knobs)
    return in_order(graph, node, program, "elementwise", template, tuned="elementwise_cuda")


def lower_remap(
    graph: Graph, node: Node, operator: Remap, knobs: elementwise.Knobs | None = None
) -> LoweredCudaNode:
    """Slices, pads, tiles."""
    program, tables = joined_remap(graph.data_shape(node), operator.runs, fill=operator.fill)
    return in_order(
        graph, node, program, "elementwise", partial(elementwise.schedule, knobs=knobs), arrays=tables
    )


def lower_gather(
    graph: Graph, node: Node, operator: Gather, knobs: elementwise.Knobs | None = None
) -> LoweredCudaNode:
    """Elements of an axis by their constant numbers."""
    program = gather(graph.data_shape(node), operator.axis, len(operator.indices))
    indices = {"I": np.array(operator.indices, np.int64)}
    return in_order(
        graph, node, program, "elementwise", partial(elementwise.schedule, knobs=knobs), arrays=indices
    )


def lower_resize(
    graph: Graph, node: Node, operator: Resize, knobs: elementwise.Knobs | None = None
) -> LoweredCudaNode:
    """Images at other sizes."""
    *outer, height, width = graph.data_shape(node)
    outputs = graph.tensors[node.output].shape[2:]
    program = resize(
        outer=prod(outer),
        height=height,
        width=width,
        lanes=1,
        outputs=(outputs[0], outputs[1]),
        mode=operator.mode,
    )
    tables: dict[str, np.ndarray] = {}
    for axis, size, count, scale in zip("RC", (height, width), outputs, operator.scales, strict=True):
        table = axis_table(
            size,
            count,
            scale=scale,
            mode=operator.mode,
            coordinates=operator.coordinates,
            rounding=operator.rounding,
        )
        tables[f"{axis}I"] = table.first
        if operator.mode == "linear":
            tables[f"{axis}W"] = table.weight
    return in_order(
        graph, node, program, "elementwise", partial(elementwise.schedule, knobs=knobs), arrays=tables
    )


def lower_relayout(graph: Graph, node: Node, knobs: elementwise.Knobs | None = None) -> LoweredCudaNode:
    """Channels in other blocks, which graphs for GPUs have no use for."""
    data, out = graph.tensors[node.inputs[0]], graph.tensors[node.output]
    batch, channels, *plane = data.shape
    program = relayout(
        batch=batch, channels=channels, plane=prod(plane), block_in=data.block, block_out=out.block
    )
    return in_order(graph, node, program, "elementwise", partial(elementwise.schedule, knobs=knobs))
