"""Kernels of convolutions: the choice of the template, and the weights in that template's layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vdla.isa.config import Config

from ...graph.graph import Graph, Node
from ...graph.int8_convolution import Int8Convolution
from ...graph.layout import Constant, Layout, pack_weight, unpacked
from ...graph.special_weights import (
    pack_depthwise_weight,
    pack_patch_weight,
    pack_spread_weight,
    pack_taps_weight,
)
from ...te.blocks import Blocks, Window, ceil_div
from .conv2d import CONV2D
from .depthwise import DEPTHWISE_CONV2D, has_depthwise, taps_of
from .patch_conv2d import PATCH_CONV2D
from .patch_layouts import tiled_layout
from .rolling_pool import PATCH_CONV2D_POOL, RollingShape
from .template import Details, Kernel, Source, bound_tensors, parameters
from .workload import Workload, filled_up, of_vectors, windowed

if TYPE_CHECKING:
    from .legalize import Legalized


def convolution_kernels(
    config: Config, legalized: Legalized, node: Node, operator: Int8Convolution
) -> Sequence[Kernel]:
    """The kernels of a convolution, in order. There are several if it has groups, or if its positions (pixels) are
    strided in memory (fields `phases`, `spaced`, `taken` of the operator).
    """
    graph, layout = legalized.graph, legalized.layouts[node.inputs[0]]
    if operator.phases is not None:
        from .convolution_parts import phase_kernels

        return phase_kernels(config, graph, node, operator, operator.phases)
    if (operator.spaced, operator.taken) != (None, None):
        from .convolution_parts import spaced_kernel

        return (spaced_kernel(config, graph, node, operator),)
    if operator.groups > 1:
        from .convolution_parts import grouped_kernels

        if several := grouped_kernels(config, graph, node, operator):
            return several
    return (convolution_kernel(config, graph, layout, node, operator),)


def convolution_kernel(
    config: Config, graph: Graph, layout: Layout, node: Node, operator: Int8Convolution
) -> Kernel:
    """The kernel of a convolution whose input has the memory layout `layout`."""
    workload, weight = _form(config, graph, layout, node, operator)
    planes = (
        operator.post.has_operand and graph.tensors[node.inputs[1]].nchw != graph.tensors[node.output].nchw
    )
    return operator_kernel(config, node, operator, workload, weight, planes=planes)


def operator_kernel(
    config: Config,
    node: Node,
    operator: Int8Convolution,
    workload: Workload,
    weight: Constant,
    **details: Any,
) -> Kernel:
    """The kernel of a convolution with this workload, and weights packed for it. `details`: fields of `Details` that
    neither the operator nor the node gives.
    """
    constants = {"P": parameters(config, operator.bias, operator.scale), "W": weight}
    if operator.table is not None:
        constants["T"] = Constant(form=unpacked, arrays=(operator.table,))
    own = Details(post=operator.post, pad_value=operator.pad_value, name=node.name, **details)
    return Kernel(
        workload=workload,
        source=Source(workload=workload, details=own),
        tensors=bound_tensors(node),
        constants=constants,
    )


def _form(
    config: Config, graph: Graph, layout: Layout, node: Node, operator: Int8Convolution
) -> tuple[Workload, Constant]:
    """The workload of a convolution, and its weights packed for that workload's template."""
    if operator.pool is not None or layout == "interleaved":
        if operator.pool is None:
            workload = patch_workload(graph, node, operator)
            patches = tiled_layout(config, workload)
        else:
            workload = pooled_workload(config, graph, node, operator, operator.pool)
            patches = RollingShape.of(config, workload).layout
        cut = np.array(
            [patches.apart, patches.count, patches.columns, workload.strides[0], workload.strides[1]]
        )
        return workload, Constant(form=pack_patch_weight, arrays=(operator.weight, cut))
    workload = convolution_workload(graph, node, operator)
    blocked, weight = blocked_form(config, workload, operator)
    if (
        blocked.template == CONV2D.name
        and workload.kernel == (workload.height, workload.width) != (1, 1)
        and not any(workload.pads)
    ):
        # For a window that covers its input, positions become channels, and the reduction can be cut
        # anywhere.
        blocks = Blocks.of(config)
        vectors = ceil_div(workload.channels, blocks.block) * blocks.inputs * workload.height * workload.width
        sizes = (workload.batch, vectors * config.block_in, 1, 1)
        whole = Window(kernel=(1, 1))
        return windowed(CONV2D.name, sizes, workload.filters, whole, operand=workload.operand), weight
    return blocked, weight


def blocked_form(config: Config, workload: Workload, operator: Int8Convolution) -> tuple[Workload, Constant]:
    """Workload and packed weights of a convolution on blocks of channels: depthwise if possible, else a conv2d."""
    blocks = Blocks.of(config)
    if operator.groups == workload.channels == workload.filters > 1 and has_depthwise(config):
        alone = replace(workload, template=DEPTHWISE_CONV2D.name)
        # A depthwise layer that does not fit may fit as a dense layer with many zero weights, which need no
        # row index.
        if DEPTHWISE_CONV2D.fits(config, alone):
            own = operator.weight[:, 0]
            if taps_of(config, alone.window) is None:
                return alone, Constant(form=pack_depthwise_weight, arrays=(own,))
            dilation = np.array([alone.dilations[1]])
            return alone, Constant(form=pack_taps_weight, arrays=(own, dilation))
    weight = Constant(form=pack_weight, arrays=(operator.weight,))
    dilation = workload.dilations[1] if blocks.inputs > 1 else 1
    if operator.groups > 1 or dilation > 1:
        spread = np.array([operator.groups, dilation])
        weight = Constant(form=pack_spread_weight, arrays=(operator.weight, spread))
    return of_vectors(config, workload), weight


def convolution_workload(graph: Graph, node: Node, operator: Int8Convolution) -> Workload:
    """The conv2d workload of a convolution, as if it had no groups and no max-pool fused with it."""
    sizes, filters = graph.tensors[node.inputs[0]].nchw, operator.weight.shape[0]
    return windowed(CONV2D.name, sizes, filters, operator.window, operand=operator.post.has_operand)


def patch_workload(graph: Graph, node: Node, operator: Int8Convolution) -> Workload:
    """The patch_conv2d workload of a convolution on an interleaved image; a max-pool fused with it is left out."""
    workload = convolution_workload(graph, node, operator)
    return replace(workload, template=PATCH_CONV2D.name)


def pooled_workload(
    config: Config, graph: Graph, node: Node, operator: Int8Convolution, pool: Window
) -> Workload:
    """The patch_conv2d_pool workload of a convolution on an interleaved image and its max-pool."""
    return replace(
        patch_workload(graph, node, operator),
        template=PATCH_CONV2D_POOL.name,
        filters=filled_up(config, operator.weight.shape[0]),
        pool_kernel=pool.kernel,
        pool_strides=pool.strides,
        pool_pads=pool.pads,
    )
