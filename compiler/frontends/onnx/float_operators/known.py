"""Operators whose output shape depends on input values, which must be known at compilation: Range, ConstantOfShape,
EyeLike, MelWeightMatrix and Tile."""

from __future__ import annotations

import numpy as np

from ....graph.budgets import SMALLER, too_large
from ..attributes import OnnxNode, schema_of
from ..context import GraphContext
from ..steps import FloatSteps
from .logic import element_type


def import_known(context: GraphContext, node: OnnxNode) -> None:
    """Raises an error for the first input of the node that is not a constant. (A node with constant inputs only is
    evaluated earlier and never imported.)
    """
    schema = schema_of(node.op_type, node.domain, context.opset)
    for index in range(len(node.inputs)):
        context.array(node, index, schema.inputs[index].name.replace("_", " "))
    context.refuse(node, "must have an input")


def import_eye(context: GraphContext, node: OnnxNode) -> None:
    """Imports EyeLike as a constant of the input's shape; its dtype is the attribute `dtype` or, by default, the
    input's.
    """
    shape = context.input_shape(node)
    if len(shape) != 2:
        context.refuse(node, f"its input must have two dimensions, not the shape {shape}", "give a matrix")
    number = node.integer("dtype", 0)
    dtype = element_type(context, node, number) if number else context.tensor(node, 0).dtype
    context.bind_array(node, np.eye(*shape, k=node.integer("k", 0)).astype(dtype.numpy))


def tile_steps(s: FloatSteps) -> None:
    """Adds the ONNX nodes that compute a Tile with constant repeats. A Reshape splits each axis into (1, size), an
    Expand enlarges the 1 to the number of repeats, and another Reshape joins both axes.
    """
    shape, repeats = s.shape(0), s.array(1, "repeats")
    if repeats is None or repeats.shape != (len(shape),) or (repeats < 0).any():
        s.refuse(
            f"its repeats {repeats} do not match its input of shape {shape}",
            "give a number of 0 or more for each axis",
        )
    counts = [int(count) for count in repeats]
    wide = [size for axis, count in zip(shape, counts, strict=True) for size in (count, axis)]
    if problem := too_large(tuple(wide), s.dtype(0).bits // 8):
        s.fail(f"its output {problem}", SMALLER)
    split = s.add("Reshape", s.input(0), s.constant([size for axis in shape for size in (1, axis)], np.int64))
    result = [count * size for count, size in zip(counts, shape, strict=True)]
    repeated = s.add("Expand", split, s.constant(wide, np.int64))
    s.done(s.add("Reshape", repeated, s.constant(result, np.int64), allowzero=1))
