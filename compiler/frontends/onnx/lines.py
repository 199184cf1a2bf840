"""Windowed operators over one dimension: a line (N, C, L) becomes an image with an added dimension of size 1.

The image of a line (N, C, W) is (N, C, 1, W) in a float graph. In an integer graph the image of (N, C, L) is (N, C, L,
1). A matrix of L rows with C numbers each is stored in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ...graph.graph import Tensor
from .attributes import OnnxNode
from .context import GraphContext
from .emit import real_operand
from .integer_context import ImportContext
from .values import Integer, Pending, Real

PER_AXIS = {
    "kernel_shape": 1,
    "strides": 1,
    "dilations": 1,
    "output_padding": 0,
    "output_shape": 1,
    "pads": 0,
}
"""Attributes with numbers for each dimension of a window, and the number to insert for the added dimension of size 1.
"""


def on_planes(
    context: GraphContext, node: OnnxNode, import_node: Callable[[GraphContext, OnnxNode], None]
) -> None:
    """Imports a node on lines (N, C, W) into a float graph, by calling `import_node` with a node on images (N, C, 1,
    W).
    """
    result = context.temporary(node, "planes")
    import_node(context, replace(_on_image(context, node, 0), outputs=(result, *node.outputs[1:])))
    rows = context.tensors[result].shape
    context.view(node, context.tensors[result], (*rows[:2], *rows[3:]))


def import_on_line(
    context: ImportContext, node: OnnxNode, import_node: Callable[[ImportContext, OnnxNode], None]
) -> None:
    """Imports a node on lines (N, C, L) into an integer graph, by calling `import_node` with a node on images (N, C, L,
    1).
    """
    if not isinstance(context.value(node, 0), Integer):
        real_operand(context, node, 0, viewed=True)
    output, known = node.outputs[0], {*context.values}
    inferred = context.static_shapes.pop(output, None)
    try:
        import_node(context, _on_image(context, node, 1))
    finally:
        for name in context.values.keys() - known - {output}:
            del context.values[name]
        if inferred is not None and context.static_shapes:
            context.static_shapes[output] = inferred
    value = context.values[output]
    assert isinstance(value, Pending | Integer | Real)
    context.bind(node, replace(value, shape=value.shape[:3]))


def _on_image(context: GraphContext, node: OnnxNode, at: int) -> OnnxNode:
    """The convolution, pool or Resize `node` of a line (N, C, length), as a node of an image. The image has an added
    spatial dimension `at` (0: rows, 1: columns) of size 1.
    """

    def beside(sizes: tuple[int, ...]) -> tuple[int, ...]:
        return (*sizes[: 2 + at], 1, *sizes[2 + at :])

    data, inputs = context.operand(node, 0), list(node.inputs)
    inputs[0] = context.view(node, data, beside(data.shape), output=context.temporary(node, "plane"))
    weight = context.array(node, 1, "weight") if node.op_type in ("Conv", "ConvTranspose") else None
    if weight is not None and weight.ndim == 3:
        given = Tensor(name=context.resolve(node.inputs[1]), shape=weight.shape)
        inputs[1] = context.view(node, given, beside(weight.shape), output=node.inputs[1])
    for index in range(2, len(inputs)) if node.op_type == "Resize" else ():
        if (wide := _plane_sizes(context, node, index, at)) is not None:
            inputs[index] = context.store(node.inputs[index], wide)
    return replace(node, inputs=tuple(inputs), attributes=_plane_attributes(context, node, at))


def _plane_sizes(context: GraphContext, node: OnnxNode, index: int, at: int) -> np.ndarray | None:
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


def _plane_attributes(context: GraphContext, node: OnnxNode, at: int) -> dict[str, Any]:
    """Converts the attributes of a convolution, pool or Resize of tensors (N, C, length), for images (N, C, H, W). The
    images have an added spatial dimension `at` (0: rows, 1: columns) of size 1.
    """
    changed: dict[str, Any] = {}
    for name, added in PER_AXIS.items():
        if name in node.attributes:
            values, count = node.integers(name, ()), 2 if name == "pads" else 1
            if len(values) != count:
                context.fail(
                    node,
                    f"its {name} {values} must be {count} in number, as its input has one spatial dimension",
                    "give one number, or one pad for each end",
                )
            pairs = [(added, value) if at == 0 else (value, added) for value in values]
            changed[name] = tuple(number for pair in pairs for number in pair)
    if "axes" in node.attributes:
        changed["axes"] = tuple([(0, 1, 3 - at)[axis % 3] for axis in node.integers("axes", ())])
    return node.attributes | changed
