"""Kernels of convolutions that are computed in parts: groups of channels, and outputs that are strided in their tensor
(for example the phases of transposed convolutions).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import gcd, lcm

import numpy as np

from vdla.isa.config import Config

from ...graph.graph import Graph, Node, with_tensors
from ...graph.int8_convolution import Int8Convolution, Interleave
from ...te.blocks import Blocks, Window
from ...te.ops.common import Area, Spread
from .conv2d import CONV2D
from .convolution_kernels import blocked_form, convolution_workload, operator_kernel
from .template import Kernel, bound_tensors, byte_of
from .workload import windowed, workload_of_area


def grouped_kernels(config: Config, graph: Graph, node: Node, operator: Int8Convolution) -> list[Kernel]:
    """The kernels of a grouped convolution. Consecutive groups are combined until their input and output channels fill
    whole blocks. There is one kernel for each such combination of groups and for each batch of `config.batch` images.
    The kernel is a dense convolution: weights between channels of different groups are zeros, which the array
    multiplies. Channels of different combinations are not multiplied.

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
    tensors = bound_tensors(node)
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
            form, weight = blocked_form(config, workload, part)
            offsets = {
                name: byte_of(
                    config,
                    graph.tensors[tensor].nchw,
                    image=image,
                    channel=first * (inside if name == "X" else outside),
                )
                for name, tensor in tensors.items()
            }
            kernel = operator_kernel(config, node, part, form, weight)
            kernels.append(replace(kernel, offsets=offsets))
    recorded = len({kernel.workload for kernel in kernels}) == 1
    return [replace(kernel, recorded=recorded) for kernel in kernels]


def part_kernel(
    config: Config,
    graph: Graph,
    node: Node,
    operator: Int8Convolution,
    area: Area,
    spread: Spread,
    starts: Mapping[str, int],
) -> Kernel:
    """The kernel of an `area` of a convolution's outputs, written to the node's output with the strides `spread`.

    `starts`: for each parameter of the program (X, Y ...), the position in a plane of its tensor from which the kernel
    reads or writes; 0 for parameters that are missing here.
    """
    whole, weight = blocked_form(config, convolution_workload(graph, node, operator), operator)
    position = config.batch * Blocks.of(config).block
    return replace(
        operator_kernel(config, node, operator, whole, weight, area=area, spread=spread),
        workload=workload_of_area(whole, area),
        recorded=False,
        offsets={name: start * position for name, start in starts.items()},
    )


def spaced_kernel(config: Config, graph: Graph, node: Node, operator: Int8Convolution) -> Kernel:
    """The kernel of a 1x1 convolution that reads only some positions (`taken`) or writes rows apart from each other
    (`spaced`).
    """
    source = graph.tensors[node.inputs[0]]
    batch, channels, height, width = source.nchw
    taken = height * width if operator.taken is None else operator.taken
    columns, pitch = (taken, taken) if operator.spaced is None else operator.spaced
    rows = taken // columns
    # A 1x1 convolution may view positions as any rows. The rest of `taken` may not fill rows: use a single
    # row.
    sizes = (rows, columns) if operator.taken is None else (1, height * width)
    lines = with_tensors(graph, replace(source, shape=(batch, channels, *sizes)))
    spread = Spread(plane=(1, rows * pitch), steps=(0, 1), pitch=pitch)
    return part_kernel(config, lines, node, operator, (0, 0, rows, columns), spread, {})


def phase_kernels(
    config: Config, graph: Graph, node: Node, operator: Int8Convolution, phases: Interleave
) -> list[Kernel]:
    """The kernels of a transposed convolution, one for each phase (outputs that use the same weights); none for empty
    phases.
    """
    filters, height, width = phases.outputs
    kernels: list[Kernel] = []
    for y in range(phases.factors[0]):
        for x in range(phases.factors[1]):
            rows, columns = (_phase_range(phases, axis, phase) for axis, phase in enumerate((y, x)))
            if rows is None or columns is None:
                continue
            first = (y * phases.factors[1] + x) * phases.stride
            # Leading taps of the window that this phase lacks are zeros: skip them.
            taps = max(1, phases.taps(0)[y]), max(1, phases.taps(1)[x])
            skipped = [size - own for size, own in zip(operator.window.kernel, taps, strict=True)]
            top, left, bottom, right = operator.window.pads
            of_phase = slice(first, first + filters)
            part = replace(
                operator,
                weight=operator.weight[of_phase, :, skipped[0] :, skipped[1] :],
                bias=operator.bias[of_phase],
                scale=operator.scale[of_phase],
                window=Window(kernel=taps, pads=(top - skipped[0], left - skipped[1], bottom, right)),
                phases=None,
            )
            area = (rows[0], columns[0], rows[1], columns[1])
            spread = Spread(plane=(height, width), steps=phases.factors)
            starts = {"Y": rows[2] * width + columns[2]}
            kernels.append(part_kernel(config, graph, node, part, area, spread, starts))
    return kernels


def _phase_range(phases: Interleave, axis: int, phase: int) -> tuple[int, int, int] | None:
    """The rows of `phase` (one of the convolutions that together compute a transposed convolution) that are inside the
    output: (first row, row after the last row, output row to which the first row belongs). Columns instead of rows for
    `axis` 1.

    None if the phase has no output along `axis`.
    """
    outputs = [place for place, own in enumerate(phases.remainders(axis)) if own == phase]
    if not outputs:
        return None
    first, last = (
        (place + phases.before[axis]) // phases.factors[axis] for place in (outputs[0], outputs[-1])
    )
    return first, last + 1, outputs[0]
