"""Pools that round their sizes up, where ONNX's shape inference counts a last window that lies in the pad alone.

ONNX drops that window since opset 19, and ONNX Runtime at every opset, but inference does not: all shapes behind such a
pool are wrong. Here pads at the end take the place of `ceil_mode` in it, which mean the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
from onnx import helper

from .geometry import window_extent

POOLS = ("MaxPool", "AveragePool", "LpPool")


def write_ceilings(model: onnx.ModelProto, infer: Callable[[onnx.ModelProto], onnx.ModelProto]) -> None:
    """Changes those pools of `model` whose sizes `infer`, ONNX's inference, would get wrong."""
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
                # What lies behind has other sizes than those that whoever wrote the file may have inferred.
                _forget_shapes(model.graph)
                waiting = waiting[waiting.index(node) + 1 :]
                break
        else:
            return


def _whole_pads(node: onnx.NodeProto, shape: list[int]) -> list[int] | None:
    """The pads that give with whole windows what `ceil_mode` gives; None where inference knows that, or nobody does."""
    plane, kernel = shape[2:], _attribute(node, "kernel_shape", [])
    rank = len(plane)
    ones = [1] * rank
    strides, dilations = _attribute(node, "strides", ones), _attribute(node, "dilations", ones)
    pads = _attribute(node, "pads", [0] * (2 * rank))
    sizes = (kernel, strides, dilations, pads[rank:])
    if not rank or min(plane) < 1 or any(len(given) != rank for given in sizes) or min(strides) < 1:
        return None
    # Pads that count would count more.
    if _attribute(node, "auto_pad", b"NOTSET") != b"NOTSET" or _attribute(node, "count_include_pad", 0):
        return None
    ends, dropped = list(pads[rank:]), False
    for axis in range(rank):
        before, extent = plane[axis] + pads[axis], window_extent(kernel[axis], dilations[axis])
        outputs = -(-(before + ends[axis] - extent) // strides[axis]) + 1
        if (outputs - 1) * strides[axis] >= before:
            outputs, dropped = outputs - 1, True
        ends[axis] = max(0, (outputs - 1) * strides[axis] + extent - before)
    return [*pads[:rank], *ends] if dropped else None


def _forget_shapes(graph: onnx.GraphProto) -> None:
    del graph.value_info[:]
    for info in graph.output:
        info.type.tensor_type.ClearField("shape")


def _attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    return next(
        (helper.get_attribute_value(entry) for entry in node.attribute if entry.name == name), default
    )
