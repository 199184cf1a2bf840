"""MaxPool, AveragePool and their global forms in a float model."""

from __future__ import annotations

from ...te.blocks import Pads, Window
from ..graph import Shape
from ..onnx_context import OnnxNode
from ..onnx_windows import pooled_plane
from ..operators import AveragePool, MaxPool
from .onnx_context import FloatContext


def import_max_pool(context: FloatContext, node: OnnxNode) -> None:
    """MaxPool without indices."""
    if any(node.outputs[1:]):
        context.fail(node, "asks for the indices of the maxima", "leave out its second output")
    window, _, shape = _window(context, node)
    context.add(node, MaxPool(window=window), (context.operand(node, 0).name,), shape)


def import_average_pool(context: FloatContext, node: OnnxNode) -> None:
    """AveragePool, with and without its pads in the divisor."""
    window, pads, shape = _window(context, node)
    counted = pads if node.integer("count_include_pad", 0) else (0, 0, 0, 0)
    context.add(node, AveragePool(window=window, counted=counted), (context.operand(node, 0).name,), shape)


def import_global_pool(context: FloatContext, node: OnnxNode) -> None:
    """GlobalAveragePool and GlobalMaxPool: one window over the whole plane."""
    data = context.operand(node, 0)
    height, width = _plane(context, node)
    window = Window(kernel=(height, width))
    operator = (
        MaxPool(window=window)
        if node.op_type == "GlobalMaxPool"
        else AveragePool(window=window, counted=(0, 0, 0, 0))
    )
    context.add(node, operator, (data.name,), (*data.shape[:2], 1, 1))


def _plane(context: FloatContext, node: OnnxNode) -> tuple[int, int]:
    data = context.operand(node, 0)
    if len(data.shape) != 4:
        context.fail(node, f"pools a tensor of shape {data.shape}", "only (N, C, H, W) is supported")
    return data.shape[2], data.shape[3]


def _window(context: FloatContext, node: OnnxNode) -> tuple[Window, Pads, Shape]:
    """The window with ceil_mode's pads worked in, the declared pads, and the output's shape."""
    plane = _plane(context, node)
    sizes = node.integers("kernel_shape", ())
    strides, dilations = node.integers("strides", (1, 1)), node.integers("dilations", (1, 1))
    if any(len(values) != 2 or min(values) < 1 for values in (sizes, strides, dilations)):
        context.fail(
            node,
            f"has kernel {sizes}, strides {strides}, dilations {dilations}",
            "give two of 1 or more each",
        )
    kernel, steps, spread = (sizes[0], sizes[1]), (strides[0], strides[1]), (dilations[0], dilations[1])
    pads, effective, outputs = pooled_plane(context, node, plane, kernel, steps, spread)
    window = Window(kernel=kernel, strides=steps, pads=effective, dilations=spread)
    batch, channels = context.operand(node, 0).shape[:2]
    return window, pads, (batch, channels, *outputs)
