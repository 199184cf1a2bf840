"""Convolutions and pools of a float model that no template has: any number of dimensions, and weights that are no
constants."""

from __future__ import annotations

from math import prod

import numpy as np

from ...te import scalars
from ...te.ops.movement import pad_runs
from ...te.ops.plain_windows import Spacing, plain_convolution, plain_pool, plain_transposed
from ...te.scalars import argument
from ..geometry import Windows, average_divisors
from ..graph import Shape
from ..onnx_attributes import OnnxNode
from ..onnx_context import GraphContext
from ..onnx_window_attributes import convolution_groups, pool_windows, read_windows, transposed_pads
from ..operators import Computed, Elementwise, Remap
from .onnx_pointwise import add_elementwise


def import_plain_convolution(context: GraphContext, node: OnnxNode) -> None:
    """Imports Conv."""
    data, weight = context.operand(node, 0), context.operand(node, 1)
    groups = convolution_groups(context, node, data.shape, weight.shape)
    windows = read_windows(context, node, data.shape[2:], weight.shape[2:])
    padded, sizes = _padded(context, node, data.name, windows, 0.0)
    own = (weight.shape[0] // groups, *weight.shape[1:])
    try:
        program = plain_convolution(data.shape[0], groups, own, sizes, _spacing(windows))
    except ValueError as error:
        context.refuse(node, str(error))
    shape = (data.shape[0], weight.shape[0], *program.parameters[-1].shape[3:])
    _finish(context, node, Computed(program=program), (padded, weight.name), shape)


def import_plain_transposed(context: GraphContext, node: OnnxNode) -> None:
    """Imports ConvTranspose."""
    data, weight = context.operand(node, 0), context.operand(node, 1)
    groups = convolution_groups(context, node, data.shape, weight.shape, transposed=True)
    sizes, kernel = data.shape[2:], weight.shape[2:]
    before, after, extra = transposed_pads(context, node, sizes, kernel)
    strides, dilations = (node.integers(name, (1,) * len(sizes)) for name in ("strides", "dilations"))
    outputs = [
        s * (i - 1) + e + (k - 1) * d + 1 - b - a
        for s, i, e, k, d, b, a in zip(strides, sizes, extra, kernel, dilations, before, after, strict=True)
    ]
    if min(outputs) < 1:
        context.refuse(node, f"has outputs of {outputs} and pads {before}")
    own = (weight.shape[0] // groups, *weight.shape[1:])
    spacing = Spacing(strides=strides, dilations=dilations)
    program = plain_transposed(data.shape[0], groups, own, sizes, spacing, before, tuple(outputs))
    shape = (data.shape[0], weight.shape[1] * groups, *outputs)
    _finish(context, node, Computed(program=program), (data.name, weight.name), shape)


def import_plain_pool(context: GraphContext, node: OnnxNode) -> None:
    """Imports MaxPool without indices, AveragePool and LpPool."""
    data = context.operand(node, 0)
    if len(data.shape) < 3:
        context.refuse(node, f"pools a tensor of shape {data.shape}", "give it (N, C, ...)")
    windows, declared = pool_windows(context, node, data.shape[2:])
    greatest = node.op_type == "MaxPool"
    power = float(node.integer("p", 2)) if node.op_type == "LpPool" else 0.0
    name = data.name
    if power:
        body = (
            scalars.general_power(scalars.absolute(argument(0)), power)
            if power > 1
            else scalars.absolute(argument(0))
        )
        body = argument(0) * argument(0) if power == 2 else body
        name = context.add(
            node, Elementwise(body=body), (name,), data.shape, output=context.temporary(node, "power")
        )
    padded, sizes = _padded(context, node, name, windows, float("-inf") if greatest else 0.0)
    try:
        program = plain_pool(
            prod(data.shape[:2]), sizes, windows.kernel, _spacing(windows), "max" if greatest else "add"
        )
    except ValueError as error:
        context.refuse(node, str(error))
    shape = (*data.shape[:2], *program.parameters[-1].shape[1:])
    if greatest:
        context.add(node, Computed(program=program), (padded,), shape)
        return
    total = context.add(
        node, Computed(program=program), (padded,), shape, output=context.temporary(node, "sum")
    )
    if power:
        body = scalars.sqrt(argument(0)) if power == 2 else scalars.general_power(argument(0), 1 / power)
        context.add(node, Elementwise(body=body if power > 1 else argument(0) + 0.0), (total,), shape)
        return
    counted = bool(node.integer("count_include_pad", 0))
    divisors = average_divisors(data.shape[2:], windows, declared, counted).astype(np.float32)
    counts = context.store(context.temporary(node, "counts"), divisors)
    add_elementwise(context, node, scalars.divide(argument(0), argument(1)), [total, counts])


def _spacing(windows: Windows) -> Spacing:
    return Spacing(strides=windows.strides, dilations=windows.dilations)


def _padded(
    context: GraphContext, node: OnnxNode, name: str, windows: Windows, fill: float
) -> tuple[str, Shape]:
    """Name of the padded data, and the sizes of their spatial dimensions."""
    shape = context.tensors[name].shape
    rank = len(shape) - 2
    ends = [(0, 0), (0, 0), *zip(windows.pads[:rank], windows.pads[rank:], strict=True)]
    sizes = tuple([before + n + behind for n, (before, behind) in zip(shape, ends, strict=True)][2:])
    if sizes == shape[2:]:
        return name, sizes
    runs = [pad_runs(n, before, behind) for n, (before, behind) in zip(shape, ends, strict=True)]
    output = context.temporary(node, "padded")
    operator = Remap(runs=tuple(runs), fill=fill)
    return context.add(node, operator, (name,), (*shape[:2], *sizes), output=output), sizes


def _finish(
    context: GraphContext, node: OnnxNode, operator: Computed, inputs: tuple[str, str], shape: Shape
) -> None:
    """Adds the node that computes the sums, and the addition of the bias if there is one."""
    if len(node.inputs) < 3 or not node.inputs[2]:
        context.add(node, operator, inputs, shape)
        return
    bias = context.operand(node, 2)
    if bias.shape != (shape[1],):
        context.refuse(node, f"has a bias of shape {bias.shape}", f"give ({shape[1]},)")
    total = context.add(node, operator, inputs, shape, output=context.temporary(node, "sum"))
    column = context.view(
        node, bias, (shape[1], *(1,) * (len(shape) - 2)), output=context.temporary(node, "bias")
    )
    add_elementwise(context, node, argument(0) + argument(1), [total, column])
