"""One-dimensional convolutions, pools and resizes of a float model: two-dimensional operators on images of one row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..onnx_context import OnnxNode
from .onnx_context import FloatContext

_FIRST = {"kernel_shape": 1, "strides": 1, "dilations": 1, "output_padding": 0, "output_shape": 1}
"""Values of attributes with one number per dimension, for the dimension of size 1 (the row)."""


def on_planes(
    context: FloatContext, node: OnnxNode, import_node: Callable[[FloatContext, OnnxNode], None]
) -> None:
    """Imports a node on data (N, C, W) by `import_node`, which takes (N, C, H, W), as (N, C, 1, W)."""
    data = context.operand(node, 0)
    batch, channels, width = data.shape
    plane = context.view(node, data, (batch, channels, 1, width), output=context.temporary(node, "plane"))
    inputs = [plane, *node.inputs[1:]]
    if node.op_type in ("Conv", "ConvTranspose"):
        weight = context.array(node, 1, "weight")
        if weight is None or weight.ndim != 3:
            shape = None if weight is None else weight.shape
            context.refuse(node, f"has weights {shape} for data {data.shape}", "export the model again")
        inputs[1] = context.store(node.inputs[1], weight[:, :, None, :])
    if node.op_type == "Resize":
        inputs[2:] = [_sizes(context, node, index) for index in range(2, len(inputs))]
    result = context.temporary(node, "planes")
    wide = replace(
        node,
        inputs=tuple(inputs),
        outputs=(result, *node.outputs[1:]),
        attributes=_attributes(context, node),
    )
    import_node(context, wide)
    rows = context.tensors[result].shape
    context.view(node, context.tensors[result], (*rows[:2], *rows[3:]))


def _sizes(context: FloatContext, node: OnnxNode, index: int) -> str:
    """Name of the scales or sizes of a Resize, with a 1 inserted for the row if they are given for all dimensions."""
    given = context.array(node, index, "scales and sizes")
    if given is None or given.size == 0 or "axes" in node.attributes:
        return node.inputs[index]
    if given.size != 3:
        context.refuse(
            node, f"has {given.size} scales or sizes for three dimensions", "export the model again"
        )
    return context.store(node.inputs[index], np.insert(given, 2, 1))


def _attributes(context: FloatContext, node: OnnxNode) -> dict[str, Any]:
    changed: dict[str, Any] = {}
    for name, first in _FIRST.items():
        if name in node.attributes:
            values = node.integers(name, ())
            if len(values) != 1:
                context.fail(node, f"has {name} {values} for one dimension", "give one number")
            changed[name] = (first, *values)
    if "pads" in node.attributes:
        pads = node.integers("pads", ())
        if len(pads) != 2:
            context.fail(node, f"has pads {pads} for one dimension", "give one for each end")
        changed["pads"] = (0, pads[0], 0, pads[1])
    if "axes" in node.attributes:
        changed["axes"] = tuple([(0, 1, 3)[axis % 3] for axis in node.integers("axes", ())])
    return node.attributes | changed
