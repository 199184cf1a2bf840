"""From pools and element-wise nodes to schedules."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
from vdla.isa.config import Config

from ...graph.graph import AveragePool, Elementwise, Graph, MaxPool
from ...graph.layout import pack_parameters, pack_weight
from ...te.blocks import Blocks, Window, ceil_div
from ...te.ops import conv2d, depthwise_conv2d
from ...te.ops.common import Area
from ...te.post import Post
from . import conv2d as conv2d_vdla
from . import depthwise as depthwise_vdla
from .kernel import Choice, Kernel, kernel_of
from .stages import bound_tensors, combination_of, post_of
from .tiling import NoTileError
from .workload import program_of, windowed


def lower_max_pool(config: Config, graph: Graph, node: MaxPool, choice: Choice) -> Kernel:
    """A max-pool: one kernel. Raises NoTileError."""
    sizes = graph.tensors[node.data].nchw
    workload = windowed("max_pool", sizes, sizes[1], _window(node))
    program = program_of(config, workload, name=node.name)
    constants = {"P": _identity(config, workload.channels, 0)}
    tensors = {"X": node.data, "Y": node.output}
    return kernel_of(config, workload, program, workload.post, choice, tensors, constants)


def _identity(config: Config, channels: int, zero_point: int) -> np.ndarray:
    """Parameters with which stage A hands its int8 value on: bias -zero_point, scale 1."""
    return pack_parameters(
        config, np.full(channels, -zero_point, dtype=np.int32), np.ones(1, dtype=np.float32)
    )


def max_pool_fits(config: Config, graph: Graph, node: MaxPool) -> bool:
    """Whether the accumulators hold at least one window of a max-pool."""
    try:
        lower_max_pool(config, graph, node, Choice(virtual_threads=1))
    except NoTileError:
        return False
    return True


def lower_average_pool(config: Config, graph: Graph, node: AveragePool, choice: Choice) -> list[Kernel]:
    """One kernel for each part of the output whose windows count equally many positions. Raises NoTileError.

    The store unit sums windows that the accumulators hold; larger ones become products with ones, which the array can
    sum piece by piece.
    """
    kernels = []
    for area, divisor in _areas(node.divisors):
        try:
            kernels.append(_stored_average(config, graph, node, choice, area, divisor))
        except NoTileError:
            kernels.append(_multiplied_average(config, graph, node, choice, area, divisor))
    return kernels


def _stored_average(
    config: Config, graph: Graph, node: AveragePool, choice: Choice, area: Area, divisor: int
) -> Kernel:
    sizes, post = graph.tensors[node.data].nchw, post_of(node.requantize, None)
    workload = windowed("average_pool", sizes, sizes[1], _window(node))
    program = program_of(config, workload, post=post, pad_value=node.pad_value, area=area, name=node.name)
    # A part of the output is a kernel of its own kind, of which records know nothing.
    choice = choice if len(_areas(node.divisors)) == 1 else replace(choice, choose=None)
    constants = {"P": _average_parameters(config, node, workload.channels, divisor)}
    tensors = {"X": node.data, "Y": node.output}
    return kernel_of(config, workload, program, post, choice, tensors, constants)


def _multiplied_average(
    config: Config, graph: Graph, node: AveragePool, choice: Choice, area: Area, divisor: int
) -> Kernel:
    batch, channels, height, width = graph.tensors[node.data].nchw
    block, window = config.block_out, _window(node)
    common = {
        "blocks": Blocks.of(config),
        "height": height,
        "width": width,
        "window": window,
        "pad_value": node.pad_value,
        "post": post_of(node.requantize, None),
        "area": area,
        "name": node.name,
    }
    tensors = {"X": node.data, "Y": node.output}
    if config.has("depthwise"):
        program = depthwise_conv2d(batch=batch, channels=channels, shared_weights=True, **common)
        constants = {
            "P": _average_parameters(config, node, channels, divisor),
            "W": np.ones((1, 1, block, block), dtype=np.int8),
        }
        try:
            schedule = depthwise_vdla.schedule(
                config, program, window, common["post"], choice.virtual_threads
            )
        except NoTileError:
            pass  # Ordinary products need no row index for their weights.
        else:
            return Kernel(schedule=schedule, tensors=tensors, constants=constants)
    # Every block of channels is an image of its own, summed by products with the unit matrix.
    images = ceil_div(batch, config.batch) * ceil_div(channels, block) * config.batch
    program = conv2d(batch=images, channels=block, filters=block, **common)
    unit = np.tile(np.eye(block, dtype=np.int8)[:, :, None, None], (1, 1, *node.kernel))
    constants = {
        "P": _average_parameters(config, node, block, divisor),
        "W": pack_weight(config, unit),
    }
    schedule = conv2d_vdla.schedule(config, program, window, common["post"], choice.virtual_threads)
    return Kernel(schedule=schedule, tensors=tensors, constants=constants)


def _window(node: MaxPool | AveragePool) -> Window:
    return Window(kernel=node.kernel, strides=node.strides, pads=node.pads)


def _average_parameters(config: Config, node: AveragePool, channels: int, divisor: int) -> np.ndarray:
    bias = np.full(channels, node.bias, dtype=np.int32)
    scale = dict(node.scale_by_divisor)[divisor]
    return pack_parameters(config, bias, np.array([scale], dtype=np.float32))


def _areas(divisors: np.ndarray) -> list[tuple[tuple[int, int, int, int], int]]:
    """Rectangles (top, left, bottom, right) of equal divisor that cover (OH, OW) `divisors`, with their divisor."""

    def runs(lines: np.ndarray) -> list[tuple[int, int]]:
        changes = np.flatnonzero((lines[1:] != lines[:-1]).any(axis=1)) + 1
        ends = [0, *changes.tolist(), len(lines)]
        return list(pairwise(ends))

    return [
        ((top, left, bottom, right), int(divisors[top, left]))
        for top, bottom in runs(divisors)
        for left, right in runs(divisors.T)
    ]


def lower_elementwise(config: Config, graph: Graph, node: Elementwise, choice: Choice) -> Kernel:
    """An element-wise node: one kernel. Raises NoTileError."""
    sizes = graph.tensors[node.a].nchw
    combination = combination_of(node.combine)
    zero_point = 0 if combination.kind == "add" else combination.zero_point_self
    post = Post(zero_point=zero_point, combination=combination)
    workload = windowed("elementwise", sizes, sizes[1], Window(kernel=(1, 1)), operand=post.has_operand)
    program = program_of(config, workload, post=post, name=node.name)
    constants = {"P": _identity(config, workload.channels, zero_point)}
    tensors = bound_tensors(node.a, node.output, node.combine)
    return kernel_of(config, workload, program, post, choice, tensors, constants)
