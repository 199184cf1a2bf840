"""Pools with `ceil_mode` for which ONNX's shape inference counts a last window that is entirely in the pad.

ONNX drops that window since opset 19, and ONNX Runtime at every opset, but inference does not: all shapes after such a
pool are wrong. This file replaces `ceil_mode` by equivalent pads at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
from onnx import helper

from ..te.blocks import ceil_div
from .geometry import ceiling_pads, window_extent

POOLS = ("MaxPool", "AveragePool", "LpPool")


def write_ceilings(model: onnx.ModelProto, infer: Callable[[onnx.ModelProto], onnx.ModelProto]) -> None:
    """Replaces `ceil_mode` by pads in the pools of `model` whose sizes ONNX's inference (`infer`) would get wrong."""
    waiting = [
        node for node in model.graph.node if node.op_type in POOLS and _attribute(node, "ceil_mode", 0)
    ]
    while waiting:
        graph = infer(model).graph
        shapes = {
            info.name: [dimension.dim_value for dimension in info.type.tensor_type.shape.dim]
            for info in (*graph.input, *graph.value_info)
        }
        for node in waiting:
            pads = _whole_pads(node, shapes.get(node.input[0], []))
            if pads is not None:
                kept = [entry for entry in node.attribute if entry.name not in ("ceil_mode", "pads")]
                del node.attribute[:]
                node.attribute.extend([*kept, helper.make_attribute("pads", pads)])
                # Shapes that the file declares after this pool may have been inferred with the wrong size.
                _forget_shapes(model.graph)
                waiting = waiting[waiting.index(node) + 1 :]
                break
        else:
            return


def _whole_pads(node: onnx.NodeProto, shape: list[int]) -> list[int] | None:
    """Pads with which whole windows give the same outputs as `ceil_mode`; None if inference is right without them, or
    if they have no equivalent."""
    plane, kernel = shape[2:], _attribute(node, "kernel_shape", [])
    rank = len(plane)
    ones = [1] * rank
    strides, dilations = _attribute(node, "strides", ones), _attribute(node, "dilations", ones)
    pads = _attribute(node, "pads", [0] * (2 * rank))
    sizes = (kernel, strides, dilations, pads[rank:])
    if not rank or min(plane) < 1 or any(len(given) != rank for given in sizes) or min(strides) < 1:
        return None
    # With count_include_pad the new pads would enter the averages.
    if _attribute(node, "auto_pad", b"NOTSET") != b"NOTSET" or _attribute(node, "count_include_pad", 0):
        return None
    extents = [window_extent(k, d) for k, d in zip(kernel, dilations, strict=True)]
    whole = ceiling_pads(plane, extents, strides, pads)
    # Inference rounds the number of windows up, and drops none.
    spaces = [size + sum(pads[axis::rank]) - extents[axis] for axis, size in enumerate(plane)]
    kept = [size + sum(whole[axis::rank]) - extents[axis] for axis, size in enumerate(plane)]
    dropped = any(k // s < ceil_div(n, s) for k, n, s in zip(kept, spaces, strides, strict=True))
    return list(whole) if dropped else None


def _forget_shapes(graph: onnx.GraphProto) -> None:
    del graph.value_info[:]
    for info in graph.output:
        info.type.tensor_type.ClearField("shape")


def _attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    return next(
        (helper.get_attribute_value(entry) for entry in node.attribute if entry.name == name), default
    )
