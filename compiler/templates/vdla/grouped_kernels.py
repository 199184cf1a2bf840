"""Kernels of grouped convolutions. A run is a number of successive groups whose channels fill whole blocks of the input
and of the output; each run has one kernel.

The kernel is a dense convolution: weights between channels of different groups are zeros, which the array multiplies.
Channels of different runs are not multiplied.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd, lcm

import numpy as np

from vdla.isa.config import Config

from ...graph.graph import Graph, Node
from ...graph.int8_convolution import Int8Convolution
from ...graph.layout import Constant, unpacked
from ...te.blocks import Blocks, ceil_div
from .conv2d import CONV2D
from .convolution_kernels import blocked_form
from .template import Details, Kernel, Source, bound_tensors, parameters
from .workload import Workload, windowed


def grouped_kernels(config: Config, graph: Graph, node: Node, operator: Int8Convolution) -> list[Kernel]:
    """The kernels of a grouped convolution. Consecutive groups are combined until their input and output channels fill
    whole blocks. There is one kernel for each such combination of groups and for each batch of `config.batch` images.

    Returns an empty list if one combination contains all groups, or if the convolution is depthwise and the machine has
    the extension `depthwise`.
    """
    batch, channels, height, width = graph.tensors[node.inputs[0]].nchw
    filters, inside = operator.weight.shape[:2]
    groups, block = operator.groups, Blocks.of(config).block
    if groups == channels == filters and config.has("depthwise"):
        return []
    outside = filters // groups
    together = lcm(block // gcd(block, inside), block // gcd(block, outside))
    if together >= groups:
        return []
    kernels: list[Kernel] = []
    plane = config.batch * block
    sizes = (plane * height * width, plane * int(np.prod(operator.window.outputs(height, width))))
    scale = np.broadcast_to(operator.scale, (filters,))
    for image in range(0, batch, config.batch):
        for first in range(0, groups, together):
            count = min(together, groups - first)
            rows = slice(first * outside, (first + count) * outside)
            part = replace(
                operator,
                weight=operator.weight[rows],
                bias=operator.bias[rows],
                scale=scale[rows],
                groups=count,
            )
            shape = (min(config.batch, batch - image), count * inside, height, width)
            workload = windowed(
                CONV2D.name, shape, count * outside, operator.window, operand=operator.post.has_operand
            )
            begins = [
                (image // config.batch * ceil_div(all_of, block) + first * each // block) * size
                for all_of, each, size in zip((channels, filters), (inside, outside), sizes, strict=True)
            ]
            kernels.append(_kernel(config, node, part, workload, (begins[0], begins[1])))
    recorded = len({kernel.workload for kernel in kernels}) == 1
    return [replace(kernel, recorded=recorded) for kernel in kernels]


def _kernel(
    config: Config, node: Node, operator: Int8Convolution, workload: Workload, begins: tuple[int, int]
) -> Kernel:
    """The kernel of a run of groups; `begins`: the bytes of input and output at which the run's channels begin."""
    form, weight = blocked_form(config, workload, operator)
    constants = {"P": parameters(config, operator.bias, operator.scale), "W": weight}
    if operator.table is not None:
        constants["T"] = Constant(form=unpacked, arrays=(operator.table,))
    tensors = bound_tensors(node)
    return Kernel(
        workload=form,
        source=Source(
            workload=form,
            details=Details(post=operator.post, pad_value=operator.pad_value, name=node.name),
        ),
        tensors=tensors,
        constants=constants,
        offsets={name: begins[0] if name == "X" else begins[1] for name in tensors},
    )
