"""From a graph node to lowered kernels: tensor expression, template, passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from vdla.isa.config import Config

from ...graph.graph import (
    AveragePool,
    Channels,
    Convolution,
    Elementwise,
    Graph,
    Interleave,
    MaxPool,
    Node,
    Pool,
    Table,
)
from ...graph.layout import (
    Layout,
    dense_groups,
    pack_depthwise_weight,
    pack_parameters,
    pack_patch_weight,
    pack_weight,
)
from ...ir.printer import format_node
from ...ir.stmt import Program
from ...passes.interleave_virtual_threads import interleave_virtual_threads
from ...passes.pipeline import Pass, run_pipeline
from ...passes.split_copies import split_copies
from ...target.vdla.link import LoweredKernel, LoweredLayer
from ...target.vdla.machine import scratchpad_depths
from ...te.blocks import Window
from . import patch_conv2d as patch_conv2d_vdla
from . import rolling_pool as rolling_pool_vdla
from .kernel import Choice, Choose, Kernel, kernel_of
from .lower_pools import lower_average_pool, lower_elementwise, lower_max_pool
from .stages import bound_tensors, post_of
from .tiling import MOST_WINDOW, Copies, NoTileError
from .workload import Workload, program_of, ring_of_workload, windowed

Dump = Callable[[str, str], None]


def pipeline(config: Config, virtual_threads: int, copies: Copies | None = None) -> tuple[Pass, ...]:
    """The passes from a scheduled program to one that emission takes; `copies` of buffers, where knobs say so."""
    capacity = scratchpad_depths(config)
    return (
        Pass("split-copies", split_copies),
        Pass(
            "interleave-virtual-threads",
            partial(
                interleave_virtual_threads,
                threads=virtual_threads if copies is None else copies.by_scope(virtual_threads),
                capacity=capacity,
            ),
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
    choose: Choose | None = None,
) -> LoweredLayer:
    """The kernels that compute `node`; with `check` the program is verified after every pass.

    `choose` sets the knobs of the workloads that it knows; templates choose for the others.
    """
    kernels = []
    choice = Choice(virtual_threads=virtual_threads, choose=choose, node=node.name)
    for kernel in _kernels(config, graph, layouts, node, choice):
        if dump is not None:
            dump("scheduled", format_node(kernel.schedule.program) + "\n")
        passes = pipeline(config, virtual_threads, kernel.copies)
        program = run_pipeline(kernel.schedule.program, passes, check=check, dump=dump)
        kernels.append(LoweredKernel(program, kernel.tensors, kernel.constants))
    return LoweredLayer(node.name, tuple(kernels))


def _kernels(
    config: Config, graph: Graph, layouts: dict[str, Layout], node: Node, choice: Choice
) -> list[Kernel]:
    match node:
        case Convolution():
            return [_convolution(config, graph, layouts, node, choice)]
        case MaxPool():
            return [lower_max_pool(config, graph, node, choice)]
        case AveragePool():
            return lower_average_pool(config, graph, node, choice)
        case Elementwise():
            return [lower_elementwise(config, graph, node, choice)]
        case Table() | Channels() | Interleave():
            raise ValueError(f"{node.name} is for processors: import the model without them")


def _convolution(
    config: Config, graph: Graph, layouts: dict[str, Layout], node: Convolution, choice: Choice
) -> Kernel:
    workload, post = _workload(graph, node), post_of(node.requantize, node.combine)
    tensors = bound_tensors(node.data, node.output, node.combine)
    parameters = pack_parameters(config, node.bias, node.requantize.scale)

    def kernel(workload: Workload, weight: np.ndarray) -> Kernel:
        program = _program(config, workload, node)
        constants = {"P": parameters, "W": weight}
        return kernel_of(config, workload, program, post, choice, tensors, constants)

    if node.pool is not None:
        rolling = _rolling(config, graph, node, choice.virtual_threads)
        if rolling is None or layouts[node.data] != "interleaved":
            raise ValueError(f"{node.name}: the pool was fused into a convolution that cannot take it")
        constants = {"P": parameters, "W": pack_patch_weight(config, node.weight)}
        return kernel_of(config, *rolling, post, choice, tensors, constants)
    if layouts[node.data] == "interleaved":
        return kernel(replace(workload, template="patch_conv2d"), pack_patch_weight(config, node.weight))
    if node.groups == workload.channels == workload.filters > 1 and config.has("depthwise"):
        alone = replace(workload, template="depthwise_conv2d")
        try:
            return kernel(alone, pack_depthwise_weight(config, node.weight[:, 0]))
        except NoTileError:
            pass  # As a convolution with many zeros it may still fit: its weights need no row index.
    weight = pack_weight(config, dense_groups(node.weight, node.groups))
    if workload.kernel == (workload.height, workload.width) != (1, 1) and not any(workload.pads):
        # A window that covers its input: its positions are further channels, and the reduction can be cut anywhere.
        weight = weight.reshape(weight.shape[0], -1, 1, 1, config.block_out, config.block_in)
        sizes = (workload.batch, weight.shape[1] * config.block_in, 1, 1)
        whole = Window(kernel=(1, 1))
        workload = windowed("conv2d", sizes, workload.filters, whole, operand=workload.operand)
    return kernel(workload, weight)


def _workload(graph: Graph, node: Convolution) -> Workload:
    """What a convolution without its pool is to the tuner."""
    window = Window(
        kernel=(node.weight.shape[2], node.weight.shape[3]),
        strides=node.strides,
        pads=node.pads,
        dilations=node.dilations,
    )
    operand = post_of(node.requantize, node.combine).has_operand
    sizes = graph.tensors[node.data].nchw
    return windowed("conv2d", sizes, node.weight.shape[0], window, operand=operand)


def _program(config: Config, workload: Workload, node: Convolution) -> Program:
    """The tensor expression of a convolution, seen as `workload`."""
    post = post_of(node.requantize, node.combine)
    return program_of(config, workload, post=post, pad_value=node.pad_value, name=node.name)


def takes_patches(config: Config, graph: Graph, node: Convolution) -> bool:
    """Whether patches of a first convolution, and the weights for a whole one, fit the scratchpads."""
    workload = replace(_workload(graph, node), template="patch_conv2d")
    program = _program(config, workload, node)
    try:
        patch_conv2d_vdla.choose_knobs(config, program, workload.window, 1)
    except NoTileError:
        return False
    return True


def takes_pool(
    config: Config,
    graph: Graph,
    layouts: dict[str, Layout],
    node: Convolution,
    pool: MaxPool,
    virtual_threads: int,
) -> bool:
    """Whether the max-pool behind a convolution can be computed with it, rows kept in a ring."""
    if layouts[node.data] != "interleaved" or node.combine is not None:
        return False
    fused = replace(node, pool=Pool(kernel=pool.kernel, strides=pool.strides, pads=pool.pads))
    return _rolling(config, graph, fused, virtual_threads) is not None


def _rolling(
    config: Config, graph: Graph, node: Convolution, virtual_threads: int
) -> tuple[Workload, Program] | None:
    """A patch convolution with its pool, or None where no ring of accumulator rows works."""
    assert node.pool is not None
    workload = replace(
        _workload(graph, node),
        template="patch_conv2d_pool",
        pool_kernel=node.pool.kernel,
        pool_strides=node.pool.strides,
        pool_pads=node.pool.pads,
    )
    ring = ring_of_workload(config, workload)
    if ring is None or max(workload.pool_kernel) > MOST_WINDOW:
        return None
    program = _program(config, workload, node)
    if not rolling_pool_vdla.weights_fit(config, program, ring, virtual_threads):
        return None
    columns = workload.window.outputs(workload.height, workload.width)[1]
    used = rolling_pool_vdla.used_columns(ring, columns, workload.pool)
    try:
        rolling_pool_vdla.choose_columns(config, program, used, virtual_threads)
    except NoTileError:
        return None
    return workload, program
