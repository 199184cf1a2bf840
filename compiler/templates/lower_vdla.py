"""From a graph node to lowered kernels: tensor expression, template, passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from vdla.isa.config import Config

from ..graph.graph import (
    AveragePool,
    Combine,
    Convolution,
    Elementwise,
    Graph,
    MaxPool,
    Node,
    Pool,
    Requantize,
)
from ..graph.layout import (
    Layout,
    dense_groups,
    pack_depthwise_weight,
    pack_parameters,
    pack_patch_weight,
    pack_weight,
)
from ..ir.printer import format_node
from ..passes.interleave_virtual_threads import interleave_virtual_threads
from ..passes.pipeline import Pass, run_pipeline
from ..passes.split_copies import split_copies
from ..schedule import Schedule
from ..target.vdla.link import LoweredKernel, LoweredLayer
from ..te.blocks import Blocks, Window
from ..te.ops import (
    average_pool,
    conv2d,
    depthwise_conv2d,
    elementwise,
    max_pool,
    patch_conv2d,
    patch_conv2d_pool,
)
from ..te.ops.rolling_pool import ring_of
from ..te.post import Combination, Post
from . import conv2d_vdla, depthwise_vdla, patch_conv2d_vdla, pool_vdla, rolling_pool_vdla
from .tiling import NoTileError

Dump = Callable[[str, str], None]


def pipeline(config: Config, virtual_threads: int) -> tuple[Pass, ...]:
    """The passes from a scheduled program to one that emission takes."""
    capacity = {
        "inp": config.inp_depth,
        "wgt": config.wgt_depth,
        "acc": config.acc_depth,
        "par": config.par_depth,
    }
    return (
        Pass("split-copies", split_copies),
        Pass(
            "interleave-virtual-threads",
            partial(interleave_virtual_threads, threads=virtual_threads, capacity=capacity),
        ),
    )


def lower_node(
    config: Config,
    graph: Graph,
    layouts: dict[str, Layout],
    node: Node,
    *,
    virtual_threads: int,
    check: bool = False,
    dump: Dump | None = None,
) -> LoweredLayer:
    """The kernels that compute `node`; with `check` the program is verified after every pass."""
    kernels = []
    for schedule, tensors, constants in _kernels(config, graph, layouts, node, virtual_threads):
        if dump is not None:
            dump("scheduled", format_node(schedule.program) + "\n")
        program = run_pipeline(schedule.program, pipeline(config, virtual_threads), check=check, dump=dump)
        kernels.append(LoweredKernel(program, tensors, constants))
    return LoweredLayer(node.name, tuple(kernels))


_Kernel = tuple[Schedule, dict[str, str], dict[str, np.ndarray]]


def _kernels(
    config: Config, graph: Graph, layouts: dict[str, Layout], node: Node, virtual_threads: int
) -> list[_Kernel]:
    match node:
        case Convolution():
            return [_convolution(config, graph, layouts, node, virtual_threads)]
        case MaxPool():
            return [_max_pool(config, graph, node, virtual_threads)]
        case AveragePool():
            return _average_pools(config, graph, node, virtual_threads)
        case Elementwise():
            return [_elementwise(config, graph, node, virtual_threads)]


def _post(requantize: Requantize, combine: Combine | None) -> Post:
    return Post(
        zero_point=requantize.zero_point,
        low=requantize.low,
        high=requantize.high,
        combination=None if combine is None else _combination(combine),
    )


def _combination(combine: Combine) -> Combination:
    return Combination(
        kind=combine.kind,
        ratio_self=float(combine.ratio_self),
        ratio_operand=float(combine.ratio_operand),
        offset=float(combine.offset),
        zero_point_self=combine.zero_point_self,
        zero_point_operand=combine.zero_point_operand,
        zero_point=combine.zero_point,
        unsigned=combine.unsigned,
        swap=combine.swap,
        low=combine.low,
        high=combine.high,
    )


def _bound(node_data: str, output: str, combine: Combine | None) -> dict[str, str]:
    tensors = {"X": node_data, "Y": output}
    if combine is not None and combine.operand is not None:
        tensors["R"] = combine.operand
    return tensors


def _convolution(
    config: Config, graph: Graph, layouts: dict[str, Layout], node: Convolution, virtual_threads: int
) -> _Kernel:
    batch, channels, height, width = graph.tensors[node.data].nchw
    filters = node.weight.shape[0]
    post = _post(node.requantize, node.combine)
    window = Window(
        kernel=(node.weight.shape[2], node.weight.shape[3]),
        strides=node.strides,
        pads=node.pads,
        dilations=node.dilations,
    )
    pool = None
    if node.pool is not None:
        pool = Window(kernel=node.pool.kernel, strides=node.pool.strides, pads=node.pool.pads)
    tensors = _bound(node.data, node.output, node.combine)
    constants = {"P": pack_parameters(config, node.bias, node.requantize.scale)}
    common = {
        "blocks": Blocks.of(config),
        "batch": batch,
        "channels": channels,
        "height": height,
        "width": width,
        "window": window,
        "pad_value": node.pad_value,
        "post": post,
        "name": node.name,
    }
    if layouts[node.data] == "interleaved" and pool is not None:
        constants["W"] = pack_patch_weight(config, node.weight)
        rolling = _rolling(config, graph, node, virtual_threads)
        if rolling is None:
            raise ValueError(f"{node.name}: the pool was fused into a convolution that cannot take it")
        return rolling, tensors, constants
    if layouts[node.data] == "interleaved":
        constants["W"] = pack_patch_weight(config, node.weight)
        schedule = patch_conv2d_vdla.schedule(
            config, patch_conv2d(filters=filters, **common), window, post, virtual_threads
        )
        return schedule, tensors, constants
    if node.groups == channels == filters and channels > 1 and config.has("depthwise") and node.pool is None:
        constants["W"] = pack_depthwise_weight(config, node.weight[:, 0])
        schedule = depthwise_vdla.schedule(config, depthwise_conv2d(**common), window, post, virtual_threads)
        return schedule, tensors, constants
    constants["W"] = pack_weight(config, dense_groups(node.weight, node.groups))
    program = conv2d(filters=filters, pool=pool, **common)
    return conv2d_vdla.schedule(config, program, window, post, virtual_threads), tensors, constants


def takes_pool(
    config: Config, graph: Graph, layouts: dict[str, Layout], node: Convolution, pool: MaxPool
) -> bool:
    """Whether the max-pool behind a convolution can be computed with it, rows kept in a ring."""
    if layouts[node.data] != "interleaved" or node.combine is not None:
        return False
    fused = replace(node, pool=Pool(kernel=pool.kernel, strides=pool.strides, pads=pool.pads))
    return _rolling(config, graph, fused, 2) is not None


def _rolling(config: Config, graph: Graph, node: Convolution, virtual_threads: int) -> Schedule | None:
    """The schedule of a patch convolution with its pool, or None where no ring of accumulator rows works."""
    assert node.pool is not None
    batch, channels, height, width = graph.tensors[node.data].nchw
    window = Window(kernel=(node.weight.shape[2], node.weight.shape[3]), strides=node.strides, pads=node.pads)
    pool = Window(kernel=node.pool.kernel, strides=node.pool.strides, pads=node.pool.pads)
    filters = node.weight.shape[0]
    rows, columns = window.outputs(height, width)
    ring = ring_of(pool, rows, columns, -(-filters // config.block_out), config.par_depth, config.acc_depth)
    if ring is None:
        return None
    post = _post(node.requantize, None)
    program = patch_conv2d_pool(
        blocks=Blocks.of(config),
        batch=batch,
        channels=channels,
        height=height,
        width=width,
        filters=filters,
        window=window,
        pool=pool,
        ring=ring,
        pad_value=node.pad_value,
        post=post,
        name=node.name,
    )
    if not rolling_pool_vdla.weights_fit(config, program, ring, virtual_threads):
        return None
    used = min(columns, ring.width - pool.pads[1])
    try:
        return rolling_pool_vdla.schedule(config, program, used, pool.kernel, post, virtual_threads)
    except NoTileError:
        return None


def _max_pool(config: Config, graph: Graph, node: MaxPool, virtual_threads: int) -> _Kernel:
    batch, channels, height, width = graph.tensors[node.data].nchw
    post = Post()
    program = max_pool(
        blocks=Blocks.of(config),
        batch=batch,
        channels=channels,
        height=height,
        width=width,
        window=Window(kernel=node.kernel, strides=node.strides, pads=node.pads),
        post=post,
        name=node.name,
    )
    constants = {"P": _identity(config, channels, 0)}
    schedule = pool_vdla.schedule(config, program, post, node.kernel, node.strides, "max", virtual_threads)
    return schedule, {"X": node.data, "Y": node.output}, constants


def _identity(config: Config, channels: int, zero_point: int) -> np.ndarray:
    """Parameters with which stage A hands its int8 value on: bias -zero_point, scale 1."""
    return pack_parameters(
        config, np.full(channels, -zero_point, dtype=np.int32), np.ones(1, dtype=np.float32)
    )


def _average_pools(config: Config, graph: Graph, node: AveragePool, virtual_threads: int) -> list[_Kernel]:
    """One kernel for each part of the output whose windows count equally many positions."""
    batch, channels, height, width = graph.tensors[node.data].nchw
    post = _post(node.requantize, None)
    bias = np.full(channels, node.bias, dtype=np.int32)
    scales = dict(node.scale_by_divisor)
    kernels = []
    for area, divisor in _areas(node.divisors):
        program = average_pool(
            blocks=Blocks.of(config),
            batch=batch,
            channels=channels,
            height=height,
            width=width,
            window=Window(kernel=node.kernel, strides=node.strides, pads=node.pads),
            pad_value=node.pad_value,
            post=post,
            area=area,
            name=node.name,
        )
        constants = {"P": pack_parameters(config, bias, np.array([scales[divisor]], dtype=np.float32))}
        schedule = pool_vdla.schedule(
            config, program, post, node.kernel, node.strides, "add", virtual_threads
        )
        kernels.append((schedule, {"X": node.data, "Y": node.output}, constants))
    return kernels


def _areas(divisors: np.ndarray) -> list[tuple[tuple[int, int, int, int], int]]:
    """Rectangles (top, left, bottom, right) of equal divisor that cover (OH, OW) `divisors`, with their divisor."""

    def runs(lines: np.ndarray) -> list[tuple[int, int]]:
        changes = np.flatnonzero((lines[1:] != lines[:-1]).any(axis=1)) + 1
        ends = [0, *changes.tolist(), len(lines)]
        return list(zip(ends[:-1], ends[1:], strict=True))

    return [
        ((top, left, bottom, right), int(divisors[top, left]))
        for top, bottom in runs(divisors)
        for left, right in runs(divisors.T)
    ]


def _elementwise(config: Config, graph: Graph, node: Elementwise, virtual_threads: int) -> _Kernel:
    batch, channels, height, width = graph.tensors[node.a].nchw
    combination = _combination(node.combine)
    zero_point = 0 if combination.kind == "add" else combination.zero_point_self
    post = Post(zero_point=zero_point, combination=combination)
    program = elementwise(
        blocks=Blocks.of(config),
        batch=batch,
        channels=channels,
        height=height,
        width=width,
        post=post,
        name=node.name,
    )
    constants = {"P": _identity(config, channels, zero_point)}
    schedule = pool_vdla.schedule(config, program, post, (1, 1), (1, 1), "max", virtual_threads)
    return schedule, _bound(node.a, node.output, node.combine), constants
