"""One-dimensional convolutions, pools and resizes of a float model: two-dimensional operators on images of one row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..onnx_attributes import OnnxNode
from ..onnx_context import GraphContext

PER_AXIS = {"kernel_shape": 1, "strides": 1, "dilations": 1, "output_padding": 0, "output_shape": 1}
"""Attributes with a number for each dimension of a window, and their number for an added dimension of size 1."""


def on_planes(
    context: GraphContext, node: OnnxNode, import_node: Callable[[GraphContext, OnnxNode], None]
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
            context.refuse(node, f"has weights {shape} for data {data.shape}")
        inputs[1] = context.store(node.inputs[1], weight[:, :, None, :])
    if node.op_type == "Resize":
        for index in range(2, len(inputs)):
            if (wide := plane_sizes(context, node, index, 0)) is not None:
                inputs[index] = context.store(node.inputs[index], wide)
    result = context.temporary(node, "planes")
    attributes, outputs = plane_attributes(context, node, 0), (result, *node.outputs[1:])
    import_node(context, replace(node, inputs=tuple(inputs), outputs=outputs, attributes=attributes))
    rows = context.tensors[result].shape
    context.view(node, context.tensors[result], (*rows[:2], *rows[3:]))


def plane_sizes(context: GraphContext, node: OnnxNode, index: int, at: int) -> np.ndarray | None:
    """Scales or sizes of a Resize of a line with a 1 for the dimension that `plane_attributes` adds; None where they
    are left out or are for `axes`."""
    given = context.array(node, index, "scales and sizes")
    if given is None or given.size == 0 or "axes" in node.attributes:
        return None
    if given.size != 3:
        context.refuse(node, f"has {given.size} scales or sizes for three dimensions")
    return np.insert(given, 2 + at, 1)


def plane_attributes(context: GraphContext, node: OnnxNode, at: int) -> dict[str, Any]:
    """The attributes of a window over a line as those of a window over a plane, of which dimension `at` (0: rows, 1:
    columns) has size 1."""

    def beside(values: tuple[int, ...], added: int) -> tuple[int, ...]:
        return (*values[:at], added, *values[at:])

    changed: dict[str, Any] = {}
    for name, added in PER_AXIS.items():
        if name in node.attributes:
            values = node.integers(name, ())
            if len(values) != 1:
                context.fail(node, f"has {name} {values} for one dimension", "give one number")
            changed[name] = beside(values, added)
    if "pads" in node.attributes:
        pads = node.integers("pads", ())
        if len(pads) != 2:
            context.fail(node, f"has pads {pads} for one dimension", "give one for each end")
        changed["pads"] = (*beside(pads[:1], 0), *beside(pads[1:], 0))
    if "axes" in node.attributes:
        changed["axes"] = tuple([(0, 1, 3 - at)[axis % 3] for axis in node.integers("axes", ())])
    return node.attributes | changed
