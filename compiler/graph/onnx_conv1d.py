"""Windows over one dimension: a line (N, C, L) becomes an image (N, C, L, 1), the layout of rows of channels as
well."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from .onnx_context import ImportContext, OnnxNode
from .onnx_emit import real_operand
from .onnx_strided_views import line_of, settled
from .onnx_values import Constant, Integer, Pending, QuantizedConstant, Real, Value

PER_AXIS = {"kernel_shape": 1, "strides": 1, "dilations": 1, "output_padding": 0, "output_shape": 1}
"""Attributes with an entry for each dimension of a window, and their entry for an added dimension of size 1."""
WEIGHTS = {"Conv": 1, "ConvTranspose": 1}
"""Index of the input that holds weights, which have the dimensions of the window."""
SIZES = {"Resize": {2: 1.0, 3: 1}}
"""Inputs (by index) with an entry for each dimension of the data, and their entry for an added dimension of size 1."""


def import_on_line(
    context: ImportContext, node: OnnxNode, importer: Callable[[ImportContext, OnnxNode], None]
) -> None:
    """Imports a node with windows over a line as the same node over an image of one column."""
    widened: dict[str, Value] = {node.inputs[0]: _as_image(context, node)}
    if (index := WEIGHTS.get(node.op_type)) is not None:
        weights = context.value(node, index)
        if isinstance(weights, Constant) and weights.array.ndim == 3:
            widened[node.inputs[index]] = Constant(array=weights.array[..., None])
        elif isinstance(weights, QuantizedConstant) and weights.integers.ndim == 3:
            widened[node.inputs[index]] = replace(weights, integers=weights.integers[..., None])
    for index, last in SIZES.get(node.op_type, {}).items():
        sizes = context.array(node, index, "sizes") if context.value(node, index) is not None else None
        if sizes is not None and sizes.size and "axes" not in node.attributes:
            widened[node.inputs[index]] = Constant(array=np.append(sizes, last).astype(sizes.dtype))
    line = {name: context.values[name] for name in widened}
    output = node.outputs[0]
    inferred = context.static_shapes.pop(output, None)
    context.values.update(widened)
    try:
        importer(context, replace(node, attributes=_widened(node.attributes)))
    finally:
        context.values.update(line)
        if inferred is not None and context.static_shapes:
            context.static_shapes[output] = inferred
    value = context.values[output]
    assert isinstance(value, Pending | Integer | Real)
    context.bind(node, replace(value, shape=value.shape[:3]))


def _as_image(context: ImportContext, node: OnnxNode) -> Real | Integer:
    """The first operand, (N, C, L), as (N, C, L, 1)."""
    value = context.value(node, 0)
    if isinstance(value, Integer):
        grid = context.tensors[value.tensor].grid
        real = Real(tensor=value.tensor, shape=value.shape, quantization=grid, view=value.view)
        there = line_of(context, node, settled(context, node, real))
        return replace(value, tensor=there.tensor, shape=there.shape, view=None)
    return line_of(context, node, real_operand(context, node, 0))


def _widened(attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes of a window of one dimension, extended by a dimension of size 1."""
    changed: dict[str, Any] = {}
    for name, entry in PER_AXIS.items():
        if len(given := attributes.get(name, ())) == 1:
            changed[name] = [*given, entry]
    if "axes" in attributes:
        changed["axes"] = [axis % 3 for axis in attributes["axes"]]
    if len(pads := attributes.get("pads", ())) == 2:
        changed["pads"] = [pads[0], 0, pads[1], 0]
    return attributes | changed
