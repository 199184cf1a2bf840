"""Operators decomposed into simpler ONNX operators. For each of them ONNX defines no function body, or a body that this
importer cannot use.
"""

from __future__ import annotations

from math import prod

import numpy as np
from onnx import TensorProto, numpy_helper

from ....graph.budgets import SMALLER, too_large
from ..attributes import OnnxNode, schema_of
from ..axes import reduced_axes, reduced_shape, softmax_axis
from ..context import GraphContext
from ..steps import FloatSteps
from .logic import element_type
from .normalizations import moments

MOST_NEIGHBOURS = 256
"""Largest `size` of LRN, the number of channels in its sum; each of these channels becomes a Slice node."""


def has_variables(context: GraphContext, node: OnnxNode) -> bool:
    """Whether an input after the first is missing or not constant."""
    return not all(context.is_constant(node, i) for i in range(1, len(node.inputs)))


def lp_normalization_steps(s: FloatSteps) -> None:
    """Adds the ONNX nodes that compute LpNormalization: x / norm along one axis, 0 where the norm is 0."""
    p = s.node.integer("p", 2)
    if p not in (1, 2):
        s.refuse(f"its norm p = {p} is not supported", "use p = 1 or p = 2")
    norm = s.add(f"ReduceL{p}", s.input(0), s.axes(s.node.integer("axis", -1)), keepdims=1)
    zero = s.add("Equal", norm, s.like(0))
    safe = s.add("Where", zero, s.like(1), norm)
    s.done(s.add("Where", zero, s.like(0), s.add("Div", s.input(0), safe)))


def mean_steps(s: FloatSteps) -> None:
    """Adds the ONNX nodes that compute Mean: the sum of all inputs divided by their number."""
    s.done(s.add("Div", s.add("Sum", *s.node.inputs), s.like(len(s.node.inputs))))


def batch_normalization_steps(s: FloatSteps) -> None:
    """Adds the ONNX nodes that compute BatchNormalization in inference form, for parameters that are no constants."""
    if any(s.node.outputs[1:]) or s.node.integer("training_mode", 0):
        s.refuse("is in training mode", "export the model for inference")
    column = s.constant([-1, *[1] * (len(s.shape(0)) - 2)], np.int64)
    scale, shift, mean, variance = (s.add("Reshape", s.input(i), column) for i in range(1, 5))
    epsilon = s.like(float(s.node.attributes.get("epsilon", 1e-5)))
    root = s.add("Sqrt", s.add("Add", variance, epsilon))
    normal = s.add("Div", s.add("Sub", s.input(0), mean), root)
    s.done(s.add("Add", s.add("Mul", normal, scale), shift))


def instance_normalization_steps(s: FloatSteps) -> None:
    """Adds the ONNX nodes that compute InstanceNormalization, for scale and bias that are no constants."""
    rank = len(s.shape(0))
    axes, column = s.axes(*range(2, rank)), s.constant([-1, *[1] * (rank - 2)], np.int64)
    scale, shift = (s.add("Reshape", s.input(i), column) for i in (1, 2))
    _, distance, variance = moments(s, s.input(0), axes)
    root = s.add("Sqrt", s.add("Add", variance, s.like(float(s.node.attributes.get("epsilon", 1e-5)))))
    s.done(s.add("Add", s.add("Mul", s.add("Div", distance, root), scale), shift))


def local_response_steps(s: FloatSteps) -> None:
    """Adds the ONNX nodes that compute LRN: x / (bias + alpha / size * sum of squares of `size` neighbouring channels)
    ** beta.
    """
    size, rank = s.node.integer("size", 1), len(s.shape(0))
    if rank < 2:
        s.refuse(f"its input of shape {s.shape(0)} has no channel axis", "give a tensor (N, C, ...)")
    channels = s.shape(0)[1]
    if not 1 <= size <= MOST_NEIGHBOURS:
        s.fail(f"its size is {size:,} channels and must be 1 to {MOST_NEIGHBOURS:,}", "use another size")
    before = (size - 1) // 2
    pads = [0] * (2 * rank)
    pads[1], pads[rank + 1] = before, size - 1 - before
    squares = s.add("Mul", s.input(0), s.input(0))
    padded = s.add("Pad", squares, s.constant(pads, np.int64))
    parts = [s.add("Slice", padded, s.axes(i), s.axes(i + channels), s.axes(1)) for i in range(size)]
    total = s.add("Sum", *parts) if size > 1 else parts[0]
    alpha, beta, bias = (
        float(s.node.attributes.get(k, v)) for k, v in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))
    )
    mean = s.add("Add", s.add("Mul", total, s.like(alpha / size)), s.like(bias))
    s.done(s.add("Div", s.input(0), s.add("Pow", mean, s.constant(beta, np.float32))))


def reverse_sequence_steps(s: FloatSteps) -> None:
    """Adds the ONNX nodes that compute ReverseSequence: the first `length` elements of each batch entry in reverse
    order.
    """
    shape, time, batch = s.shape(0), s.node.integer("time_axis", 0), s.node.integer("batch_axis", 1)
    if {time, batch} != {0, 1}:
        s.refuse(
            f"its time axis ({time}) and batch axis ({batch}) must be the axes 0 and 1",
            "make one of them 0 and the other 1",
        )
    along = [1] * len(shape)
    along[time] = shape[time]
    step = s.constant(np.arange(shape[time]).reshape(along), np.int64)
    column = [1] * len(shape)
    column[batch] = -1
    length = s.add("Reshape", s.input(1), s.constant(column, np.int64))
    back = s.add("Sub", s.add("Sub", length, s.constant(1, np.int64)), step)
    chosen = s.add("Where", s.add("Less", step, length), back, step)
    wide = s.add("Expand", chosen, s.constant(shape, np.int64))
    s.done(s.add("GatherElements", s.input(0), wide, axis=time))


def hardmax_steps(s: FloatSteps) -> None:
    """Adds the ONNX nodes that compute Hardmax: 1 at the first greatest element along an axis, 0 elsewhere."""
    shape, x = s.shape(0), s.input(0) if s.half_type() else s.context.operand(s.node, 0).name
    axis, alone = softmax_axis(s.context, s.node, shape)
    size = shape[axis] if alone else prod(shape[axis:])
    if not alone:
        x, axis = s.add("Reshape", x, s.axes(prod(shape[:axis]), size)), 1
    index = s.add("ArgMax", x, axis=axis, keepdims=0)
    values = s.constant([0, 1], s.dtype(0).numpy)
    hot = s.add("OneHot", index, s.constant(size, np.int64), values, axis=axis)
    s.done(hot if alone else s.add("Reshape", hot, s.axes(*shape)))


def trilu_steps(s: FloatSteps) -> None:
    """Adds the ONNX nodes that compute Trilu: elements outside of the upper or the lower triangle become 0. With
    `upper` these are the elements below diagonal k, otherwise the elements above diagonal k.
    """
    shape, upper = s.shape(0), s.node.integer("upper", 1)
    if len(shape) < 2:
        s.refuse(f"its input of shape {shape} must have at least two dimensions")
    rows, columns = shape[-2:]
    diagonals = np.arange(columns) - np.arange(rows)[:, None]
    if s.input(1) and not s.is_constant(1):
        k, places = s.add("Reshape", s.input(1), s.axes()), s.constant(diagonals, np.int64)
        kept = s.add("LessOrEqual", *((k, places) if upper else (places, k)))
    else:
        k = int(s.number(1, "diagonal k", 0))
        kept = s.constant(diagonals >= k if upper else diagonals <= k, np.bool_)
    s.done(s.add("Where", kept, s.input(0), s.add("CastLike", s.constant(0, np.int32), s.input(0))))


def logarithm_steps(s: FloatSteps) -> None:
    """Adds the ONNX nodes that compute ReduceLogSum or ReduceLogSumExp. ReduceLogSumExp subtracts the greatest element
    before Exp, to avoid overflow. 16-bit floats are computed in float32 and rounded once.
    """
    half, exponents = s.half_type(), s.node.op_type == "ReduceLogSumExp"
    made = s.add("Cast", s.input(0), to=TensorProto.FLOAT) if half else s.context.operand(s.node, 0).name
    axes = reduced_axes(s.context, s.node, s.shape(0))
    if axes is None:
        made = made if exponents else s.add("Log", made)
    else:
        along, shift = s.axes(*axes), ""
        if exponents:
            # An infinite maximum is not subtracted (inf - inf is NaN): with 0 in its place the result is that maximum.
            most, zero = s.add("ReduceMax", made, along, keepdims=1), s.constant(0, np.float32)
            shift = s.add("Where", s.add("Equal", s.add("Sub", most, most), zero), most, zero)
            made = s.add("Exp", s.add("Sub", made, shift))
        made = s.add("Log", s.add("ReduceSum", made, along, keepdims=1))
        made = s.add("Add", made, shift) if shift else made
        made = s.add("Reshape", made, s.axes(*reduced_shape(s.node, s.shape(0), axes)))
    s.done(s.add("CastLike", made, s.input(0)) if half else made)


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


def eye_steps(s: FloatSteps) -> None:
    """Replaces EyeLike by a constant with the shape of the input. The constant's dtype is the attribute `dtype` or,
    without this attribute, the dtype of the input.
    """
    shape, number = s.shape(0), s.node.integer("dtype", 0)
    if len(shape) != 2:
        s.refuse(f"its input must have two dimensions, not the shape {shape}", "give a matrix")
    dtype = element_type(s.context, s.node, number) if number else s.dtype(0)
    value = numpy_helper.from_array(np.eye(*shape, k=s.node.integer("k", 0)).astype(dtype.numpy))
    s.add("Constant", output=s.node.outputs[0], value=value)


def known_steps(s: FloatSteps) -> None:
    """Raises NodeError if an input of a Range, ConstantOfShape or MelWeightMatrix is not a constant: the inputs' values
    determine the result's shape. (A node with constant inputs only is evaluated before.)
    """
    schema = schema_of(s.node.op_type, s.node.domain, s.context.opset)
    for index in range(len(s.node.inputs)):
        s.array(index, schema.inputs[index].name.replace("_", " "))
    s.refuse("must have an input")
