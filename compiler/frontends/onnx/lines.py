"""Windowed operators over one dimension: a line (N, C, L) becomes an image with an added dimension of size 1.

The image of a line (N, C, W) is (N, C, 1, W) in a float graph. In an integer graph the image of (N, C, L) is (N, C, L,
1), which is also how a matrix with C numbers in each of L rows is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from .attributes import OnnxNode
from .context import GraphContext
from .emit import real_operand
from .integer_context import ImportContext
from .known_values import Constant, QuantizedConstant
from .strided_views import contiguous, line_of
from .values import Integer, Pending, Real, Value

PER_AXIS = {"kernel_shape": 1, "strides": 1, "dilations": 1, "output_padding": 0, "output_shape": 1}
"""Attributes with one number for each dimension of a window, and the number to insert for the added dimension of size
1.
"""


def on_planes(
    context: GraphContext, node: OnnxNode, import_node: Callable[[GraphContext, OnnxNode], None]
) -> None:
    """Imports a node on lines (N, C, W) as a node on images (N, C, 1, W), by calling `import_node` with images."""
    data = context.operand(node, 0)
    batch, channels, width = data.shape
    plane = context.view(node, data, (batch, channels, 1, width), output=context.temporary(node, "plane"))
    inputs = [plane, *node.inputs[1:]]
    if node.op_type in ("Conv", "ConvTranspose"):
        weight = context.array(node, 1, "weight")
        if weight is None or weight.ndim != 3:
            shape = None if weight is None else weight.shape
            context.refuse(
                node,
                f"its weights (of shape {shape}) must have three dimensions, as its input of shape {data.shape} has",
            )
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
    """Reads input `index` (scales or sizes) of a Resize of tensors (N, C, length), and converts it for images (N, C, H,
    W). The result has a 1 for the added spatial dimension `at` (0: rows, 1: columns). Returns None if the input is left
    out, or if the attribute `axes` restricts the Resize to some axes.
    """
    given = context.array(node, index, "scales and sizes")
    if given is None or given.size == 0 or "axes" in node.attributes:
        return None
    if given.size != 3:
        context.refuse(node, f"must have three scales or sizes, one for each dimension, not {given.size}")
    return np.insert(given, 2 + at, 1)


def plane_attributes(context: GraphContext, node: OnnxNode, at: int) -> dict[str, Any]:
    """Converts the attributes of a convolution, pool or Resize of tensors (N, C, length) for images (N, C, H, W), in
    which the spatial dimension `at` (0: rows, 1: columns) is added with size 1.
    """

    def beside(values: tuple[int, ...], added: int) -> tuple[int, ...]:
        return (*values[:at], added, *values[at:])

    changed: dict[str, Any] = {}
    for name, added in PER_AXIS.items():
        if name in node.attributes:
            values = node.integers(name, ())
            if len(values) != 1:
                context.fail(
                    node,
                    f"its {name} {values} must be one number, as its input has one spatial dimension",
                    "give one number",
                )
            changed[name] = beside(values, added)
    if "pads" in node.attributes:
        pads = node.integers("pads", ())
        if len(pads) != 2:
            context.fail(
                node,
                f"its pads {pads} must be two numbers, as its input has one spatial dimension",
                "give one pad for each end",
            )
        changed["pads"] = (*beside(pads[:1], 0), *beside(pads[1:], 0))
    if "axes" in node.attributes:
        changed["axes"] = tuple([(0, 1, 3 - at)[axis % 3] for axis in node.integers("axes", ())])
    return node.attributes | changed


WEIGHTS = {"Conv": 1, "ConvTranspose": 1}
"""By operator, the index of the input that holds the weights. Like the data, the weights must get a second spatial
dimension when the operator is imported on images.
"""


def import_on_line(
    context: ImportContext, node: OnnxNode, importer: Callable[[ImportContext, OnnxNode], None]
) -> None:
    """Imports a convolution, pool or Resize of a tensor (N, C, L) as the same operator on an image (N, C, L, 1).
    `importer` imports the operator on images.
    """
    widened: dict[str, Value] = {node.inputs[0]: _as_image(context, node)}
    if (index := WEIGHTS.get(node.op_type)) is not None:
        weights = context.value(node, index)
        if isinstance(weights, Constant) and weights.array.ndim == 3:
            widened[node.inputs[index]] = Constant(array=weights.array[..., None])
        elif isinstance(weights, QuantizedConstant) and weights.integers.ndim == 3:
            widened[node.inputs[index]] = replace(weights, integers=weights.integers[..., None])
        elif not isinstance(weights, Constant | QuantizedConstant):
            context.fail(node, "its weights are not constant", "make the weights an initializer")
    for index in (2, 3) if node.op_type == "Resize" else ():
        if (sizes := plane_sizes(context, node, index, 1)) is not None:
            widened[node.inputs[index]] = Constant(array=sizes)
    line = {name: context.values[name] for name in widened}
    output = node.outputs[0]
    inferred = context.static_shapes.pop(output, None)
    context.values.update(widened)
    try:
        importer(context, replace(node, attributes=plane_attributes(context, node, 1)))
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
        there = line_of(context, node, contiguous(context, node, real))
        return replace(value, tensor=there.tensor, shape=there.shape, view=None)
    return line_of(context, node, real_operand(context, node, 0))
