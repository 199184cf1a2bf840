"""Kernels of pools and element-wise nodes."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from vdla.isa.config import Config

from ...graph.abilities import is_broadcast
from ...graph.graph import Graph, Node
from ...graph.int8_operators import Int8AveragePool, Int8Elementwise, Int8MaxPool, Table
from ...graph.layout import Constant, pack_weight, unpacked
from ...te.blocks import Blocks, Window, ceil_div
from ...te.ops.common import Area, Placement
from ...te.ops.depthwise import Filters, depthwise_conv2d
from ...te.post import Post
from .conv2d import CONV2D
from .depthwise import DEPTHWISE_CONV2D, has_depthwise
from .pool import AVERAGE_POOL, ELEMENTWISE, MAX_POOL
from .template import Details, Expression, Kernel, Source, bound_tensors, identity_parameters, parameters
from .workload import Workload, of_vectors, windowed, workload_of_area

if TYPE_CHECKING:
    from .legalize import Legalized


def max_pool_workload(config: Config, graph: Graph, node: Node, window: Window) -> Workload:
    """The workload of one kernel of a max-pool. At each position a block of channels has `Blocks.outputs` vectors of
    block_out channels, and a max-pool has as many kernels: each computes one of these vectors for all blocks and
    positions.
    """
    batch, channels, height, width = graph.tensors[node.inputs[0]].nchw
    mine = channels_of_vectors(config, channels)
    return windowed(MAX_POOL.name, (batch, mine, height, width), mine, window)


def channels_of_vectors(config: Config, channels: int) -> int:
    """Number of channels in one output vector of each block of a tensor with `channels` channels: all channels if a
    block is one vector.
    """
    blocks = Blocks.of(config)
    return channels if blocks.outputs == 1 else ceil_div(channels, blocks.block) * config.block_out


def kernels_of_vectors(config: Config, kernel: Kernel) -> list[Kernel]:
    """Copies of a kernel, one for each output vector of a block; `kernel` computes the first vector of each block."""
    count = Blocks.of(config).outputs
    if count == 1:
        return [kernel]
    return [
        replace(
            kernel,
            recorded=False,
            offsets={
                name: kernel.offsets.get(name, 0) + vector * config.out_bytes for name in kernel.tensors
            },
        )
        for vector in range(count)
    ]


def max_pool_kernels(config: Config, legalized: Legalized, node: Node, operator: Int8MaxPool) -> list[Kernel]:
    """The kernels of a max-pool node, one for each output vector of a block of channels."""
    workload = max_pool_workload(config, legalized.graph, node, operator.window)
    details = Details(apart=Blocks.of(config).outputs, name=node.name)
    kernel = Kernel(
        workload=workload,
        source=Source(workload=workload, details=details),
        tensors=bound_tensors(node),
        constants={"P": identity_parameters(config, workload.channels, 0)},
    )
    return kernels_of_vectors(config, kernel)


def sizes_of_vectors(config: Config, sizes: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """(batch, channels, height, width) of a tensor when each output vector of a block is counted as a column of its
    own.
    """
    batch, channels, height, width = sizes
    return batch, channels_of_vectors(config, channels), height, width * Blocks.of(config).outputs


def elementwise_kernel(
    config: Config, node: Node, sizes: tuple[int, int, int, int], post: Post, *, planes: bool = False
) -> Kernel:
    """The kernel of an element-wise operator on tensors of `sizes` (batch, channels, height, width): bias and scale
    leave the values unchanged, and `post` does the rest. `planes`: the operand has one vector for each plane.
    """
    sizes = sizes_of_vectors(config, sizes)
    workload = windowed(ELEMENTWISE.name, sizes, sizes[1], Window(kernel=(1, 1)), operand=post.has_operand)
    return Kernel(
        workload=workload,
        source=Source(workload=workload, details=Details(post=post, planes=planes, name=node.name)),
        tensors=bound_tensors(node),
        constants={"P": identity_parameters(config, workload.channels, post.zero_point)},
    )


def elementwise_kernels(
    config: Config, legalized: Legalized, node: Node, operator: Int8Elementwise
) -> list[Kernel]:
    """The kernel of an element-wise node; a list with this one element."""
    graph, combination = legalized.graph, operator.combination
    zero_point = 0 if combination.kind == "add" else combination.zero_point_self
    post, planes = Post(zero_point=zero_point, combination=combination), is_broadcast(graph, node)
    kernel = elementwise_kernel(config, node, graph.tensors[node.inputs[0]].nchw, post, planes=planes)
    return [replace(kernel, recorded=not planes)]


def table_kernels(config: Config, legalized: Legalized, node: Node, operator: Table) -> list[Kernel]:
    """The kernel of a table look-up: it copies the tensor, and the store replaces each value by the table's entry."""
    sizes = legalized.graph.tensors[node.inputs[0]].nchw
    kernel = elementwise_kernel(config, node, sizes, Post(table=True))
    table = Constant(form=unpacked, arrays=(operator.table,))
    return [replace(kernel, constants={**kernel.constants, "T": table}, recorded=False)]


def average_pool_kernels(
    config: Config, legalized: Legalized, node: Node, operator: Int8AveragePool
) -> list[Kernel]:
    """The kernels of an average pool: for each rectangle of outputs whose windows have equal divisors, one kernel or,
    if the store unit sums the windows, one for each output vector of a block of channels.

    If windows fit the accumulators, the store unit sums their elements, unless that is slow (`_apart_is_slow`). In
    other cases the array sums products of the elements with ones.
    """
    graph = legalized.graph
    parts = _areas(operator.divisors)
    sizes = graph.tensors[node.inputs[0]].nchw
    pool = windowed(AVERAGE_POOL.name, sizes, sizes[1], operator.window)
    mine = channels_of_vectors(config, sizes[1])
    narrow = replace(pool, channels=mine, filters=mine)
    kernels = []
    for area, divisor in parts:
        # Tuning records have no entries for a part of an output.
        own = narrow if len(parts) == 1 else workload_of_area(narrow, area)
        if AVERAGE_POOL.fits(config, own) and not _apart_is_slow(config, pool, area):
            kernel, lanes = _stored_average(config, node, operator, narrow, area), mine
        else:
            kernel = _multiplied_average(config, node, operator, pool, area)
            dense = kernel.workload.template == CONV2D.name
            lanes = Blocks.of(config).block if dense else sizes[1]
        constants = {**kernel.constants, "P": _average_parameters(config, operator, lanes, divisor)}
        kernel = replace(kernel, constants=constants, recorded=kernel.recorded and len(parts) == 1)
        stored = kernel.workload.template == AVERAGE_POOL.name
        kernels += kernels_of_vectors(config, kernel) if stored else [kernel]
    return kernels


def _apart_is_slow(config: Config, pool: Workload, area: Area) -> bool:
    """Whether pool kernels take longer for `area` of an average pool than products with unit matrices. False if a block
    of channels is a single output vector.

    If a block has several output vectors, each pool kernel computes only one of them, and the vectors that it loads are
    not adjacent: each is a burst, with `outstanding_reads` bursts in flight. The products read whole blocks, and a unit
    matrix for each position of the window.
    """
    blocks, memory = Blocks.of(config), config.memory
    if blocks.outputs == 1:
        return False
    part = workload_of_area(pool, area)
    positions = ceil_div(part.batch, config.batch) * ceil_div(part.channels, blocks.block)
    inputs = positions * part.height * part.width
    beats = ceil_div(config.out_bytes, memory.bus_bytes)
    each = max(beats, (memory.read_latency + beats) / memory.outstanding_reads)
    taps = prod(part.kernel)
    moved = inputs * config.batch * blocks.block + taps * blocks.block**2
    products = positions * prod(part.window.outputs(part.height, part.width)) * taps * blocks.outputs
    return inputs * blocks.outputs * each > max(products, moved / memory.bus_bytes)


def _details(node: Node, operator: Int8AveragePool, area: Area) -> Details:
    return Details(post=operator.post, pad_value=operator.pad_value, area=area, name=node.name)


def _stored_average(
    config: Config, node: Node, operator: Int8AveragePool, pool: Workload, area: Area
) -> Kernel:
    """The kernel that computes `area` of an average pool's output; the store unit sums the windows in the accumulators.
    `pool`: the workload of the whole pool.
    """
    rows, columns = pool.window.outputs(pool.height, pool.width)
    return Kernel(
        workload=pool if area == (0, 0, rows, columns) else workload_of_area(pool, area),
        source=Source(
            workload=pool,
            details=replace(_details(node, operator, area), apart=Blocks.of(config).outputs),
        ),
        tensors=bound_tensors(node),
        constants={},
    )


def _multiplied_average(
    config: Config, node: Node, operator: Int8AveragePool, pool: Workload, area: Area
) -> Kernel:
    """The kernel that computes `area` of an average pool's output with the multiplier array; `pool`: the workload of
    the whole pool. If the machine has depthwise operations, each window is multiplied by ones. Otherwise each input
    vector is multiplied by the unit matrix, so that the products add up the window.
    """
    block, tensors = Blocks.of(config).block, bound_tensors(node)
    alone = workload_of_area(replace(pool, template=DEPTHWISE_CONV2D.name), area)
    if has_depthwise(config) and DEPTHWISE_CONV2D.fits(config, alone):
        filters = Filters.of(config, pool.window)
        program = depthwise_conv2d(
            blocks=Blocks.of(config),
            convolution=replace(pool.convolution, groups=pool.channels),
            pad_value=operator.pad_value,
            post=operator.post,
            filters=replace(filters, shared=True),
            placement=Placement(area=area),
            name=node.name,
        )
        return Kernel(
            workload=alone,
            source=Expression(program=program, post=operator.post),
            tensors=tensors,
            constants={"W": Constant(form=unpacked, arrays=(filters.ones(config, pool.window),))},
            recorded=False,
        )
    # Each block of channels counts as an image, summed by products with the unit matrix.
    images = ceil_div(pool.batch, config.batch) * ceil_div(pool.channels, block) * config.batch
    dense = of_vectors(
        config, replace(pool, template=CONV2D.name, batch=images, channels=block, filters=block)
    )
    unit = np.tile(np.eye(block, dtype=np.int8)[:, :, None, None], (1, 1, *pool.kernel))
    return Kernel(
        workload=workload_of_area(dense, area),
        source=Source(workload=dense, details=_details(node, operator, area)),
        tensors=tensors,
        constants={"W": Constant(form=pack_weight, arrays=(unit,))},
        recorded=False,
    )


def _average_parameters(config: Config, operator: Int8AveragePool, channels: int, divisor: int) -> Constant:
    bias = np.full(channels, operator.bias, dtype=np.int32)
    scale = dict(operator.scale_by_divisor)[divisor]
    return parameters(config, bias, np.array([scale], dtype=np.float32))


def _areas(divisors: np.ndarray) -> list[tuple[tuple[int, int, int, int], int]]:
    """Cuts the outputs of an average pool into rectangles of equal divisors. `divisors` [OH, OW]: for each output, the
    number by which its window's sum is divided. Returns ((top, left, bottom, right), divisor) of each rectangle.
    """

    def runs(lines: np.ndarray) -> list[tuple[int, int]]:
        changes = np.flatnonzero((lines[1:] != lines[:-1]).any(axis=1)) + 1
        ends = [0, *changes.tolist(), len(lines)]
        return list(pairwise(ends))

    return [
        ((top, left, bottom, right), int(divisors[top, left]))
        for top, bottom in runs(divisors)
        for left, right in runs(divisors.T)
    ]
