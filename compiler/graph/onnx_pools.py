"""Pools over two dimensions, for integer and float graphs."""

from __future__ import annotations

from ..te.blocks import Window
from .onnx_context import GraphContext
from .onnx_node import OnnxNode
from .onnx_window_attributes import pool_window
from .operators import AveragePool, MaxPool


def import_max_pool(context: GraphContext, node: OnnxNode) -> None:
    """Imports MaxPool without indices."""
    data = context.operand(node, 0)
    window, _, shape = pool_window(context, node, data.shape)
    context.add(node, MaxPool(window=window), (data.name,), shape)


def import_average_pool(context: GraphContext, node: OnnxNode) -> None:
    """Imports AveragePool; the divisor counts pads with `count_include_pad`."""
    data = context.operand(node, 0)
    window, pads, shape = pool_window(context, node, data.shape)
    counted = pads if node.integer("count_include_pad", 0) else (0, 0, 0, 0)
    context.add(node, AveragePool(window=window, counted=counted), (data.name,), shape)


def import_global_pool(context: GraphContext, node: OnnxNode) -> None:
    """Imports GlobalAveragePool and GlobalMaxPool: one window over the whole image."""
    data = context.operand(node, 0)
    if len(data.shape) != 4:
        context.fail(node, f"pools a tensor of shape {data.shape}", "only (N, C, H, W) is supported")
    _, _, height, width = data.shape
    window = Window(kernel=(height, width))
    operator = (
        MaxPool(window=window)
        if node.op_type == "GlobalMaxPool"
        else AveragePool(window=window, counted=(0, 0, 0, 0))
    )
    context.add(node, operator, (data.name,), (*data.shape[:2], 1, 1))
