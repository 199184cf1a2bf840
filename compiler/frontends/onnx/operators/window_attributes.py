"""Reads the attributes of nodes with windows (convolutions and pools), for integer and float graphs: kernels, strides,
dilations, pads and output shapes. Also imports Conv over two dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....graph.geometry import Windows, automatic_pads
from ....graph.graph import Tensor
from ....graph.operators import Convolution
from ....te.blocks import Window
from ....te.ops.sums import Epilogue
from ..attributes import OnnxNode
from ..context import GraphContext

PerDimension = tuple[int, ...]

AUTOMATIC = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


def check_image(context: GraphContext, node: OnnxNode, data: Sequence[int]) -> None:
    """Raises NodeError for data whose shape, `data`, is no image (N, C, H, W)."""
    if len(data) != 4:
        context.fail(
            node,
            f"its input of shape {data} must have four dimensions",
            "use two spatial dimensions, in a tensor (N, C, H, W)",
        )


def convolution_groups(
    context: GraphContext,
    node: OnnxNode,
    data: Sequence[int],
    weight: Sequence[int],
    *,
    transposed: bool = False,
) -> int:
    """Number of groups of a Conv or (`transposed`) ConvTranspose in any number of dimensions. Raises InvalidNodeError
    if `data` and `weight`, the shapes of both, do not match."""
    if len(data) != len(weight) or len(data) < 3:
        context.refuse(
            node,
            f"its weights of shape {tuple(weight)} and its input of shape {tuple(data)} must have the same number of "
            "dimensions, at least three",
        )
    groups = node.integer("group", 1)
    if groups < 1 or weight[0] % groups or (weight[0] if transposed else weight[1] * groups) != data[1]:
        context.refuse(
            node,
            f"its weights of shape {tuple(weight)} in {groups} groups do not match its input, which has {data[1]} "
            "channels",
        )
    return groups


def read_windows(
    context: GraphContext,
    node: OnnxNode,
    sizes: Sequence[int],
    kernel: PerDimension,
    *,
    declared: bool = False,
) -> Windows:
    """Reads the windows of a convolution or pool from the node's attributes: strides, dilations and pads. `sizes`:
    spatial sizes of the input; `kernel`: size of a window. With `declared` the pads are those of the attribute `pads`,
    even if the node has the attribute `auto_pad`."""
    rank = len(sizes)
    strides, dilations = (node.integers(name, (1,) * rank) for name in ("strides", "dilations"))
    auto, pads = node.text("auto_pad", "NOTSET"), node.integers("pads", (0,) * (2 * rank))
    if (given := node.integers("kernel_shape", kernel)) != kernel:
        context.refuse(node, f"its kernel_shape {given} does not match its weights, whose kernel is {kernel}")
    if auto not in AUTOMATIC:
        context.refuse(
            node, f"its auto_pad '{auto}' is unknown", f"use {', '.join(AUTOMATIC[:-1])} or {AUTOMATIC[-1]}"
        )
    counts = [len(kernel), len(strides), len(dilations), len(pads) / 2]
    if counts != [rank] * 4 or min((*kernel, *strides, *dilations)) < 1 or min(pads) < 0:
        context.refuse(
            node,
            f"its kernel {kernel}, strides {strides}, dilations {dilations} or pads {pads} do not match its {rank} "
            "spatial dimensions",
            "give a number of 1 or more for each dimension, and two pads of 0 or more",
        )
    if auto != "NOTSET" and not declared:
        pads = automatic_pads(auto, sizes, kernel, strides, dilations)
    return Windows(kernel=kernel, strides=strides, dilations=dilations, pads=pads)


def on_plane(windows: Windows) -> Window:
    """`windows` over two dimensions, in the form of the class `Window`, which has exactly two."""
    top, left, bottom, right = windows.pads
    return Window(
        kernel=(windows.kernel[0], windows.kernel[1]),
        strides=(windows.strides[0], windows.strides[1]),
        pads=(top, left, bottom, right),
        dilations=(windows.dilations[0], windows.dilations[1]),
    )


def import_convolution(context: GraphContext, node: OnnxNode) -> None:
    """Imports Conv of two spatial dimensions with constant weights."""
    data, weight = context.operand(node, 0), context.operand(node, 1)
    groups = convolution_groups(context, node, data.shape, weight.shape)
    check_image(context, node, data.shape)
    batch, _, height, width = data.shape
    window = on_plane(read_windows(context, node, (height, width), weight.shape[2:]))
    try:
        plane = window.outputs(height, width)
    except ValueError as error:
        context.fail(node, f"{error} of its input {height} x {width}", "use a larger input")
    bias = bias_names(context, node, weight.shape[0])
    operator = Convolution(window=window, groups=groups, epilogue=Epilogue(bias=bool(bias)))
    context.add(node, operator, (data.name, weight.name, *bias), (batch, weight.shape[0], *plane))


def bias_names(context: GraphContext, node: OnnxNode, filters: int) -> tuple[str, ...]:
    """The name of the constant bias of a node with `filters` filters, as a tuple; empty if the bias is left out."""
    if not any(node.inputs[2:]):
        return ()
    if not context.is_constant(node, 2):
        # Fails, and tells which inputs of the model decide the values.
        context.array(node, 2, "bias")
    return (bias_tensor(context, node, filters).name,)


def bias_tensor(context: GraphContext, node: OnnxNode, filters: int) -> Tensor:
    """The bias of a node with `filters` filters; raises NodeError unless its shape is (`filters`,)."""
    bias = context.operand(node, 2)
    if bias.shape != (filters,):
        context.fail(
            node,
            f"its bias of shape {bias.shape} must have one value for each of its {filters} filters",
            f"give the shape ({filters},)",
        )
    return bias
