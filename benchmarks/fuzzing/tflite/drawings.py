"""Drawings of TFLite's operators: for each operator of the frontend's table, a function that adds a random node of this
operator to a graph. Tensors are indices into the list of the model's tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import tflite

from .builder import TfliteBuilder, UnfitError
from .moves import (
    batch_to_space,
    blocks,
    broadcast,
    concatenated,
    cut,
    expanded,
    gather,
    packed,
    pad,
    reshape,
    reverse,
    shaped,
    space_to_batch,
    split,
    split_by_sizes,
    squeezed,
    strided,
    tiled,
    transpose,
    unpacked,
)

Drawing = Callable[[TfliteBuilder], None]

SAME, VALID = 0, 1
ACTIVATIONS = (0, 0, 0, 1, 2, 3)
"""Fused activation functions to draw from, by their codes in TFLite: 0 none, 1 RELU, 2 RELU_N1_TO_1, 3 RELU6."""
BYTES = ("int8", "uint8", "float32")
SIGNED = ("int8", "float32")
SCALED = ("int8", "uint8", "int16", "float32")
FLOATS = ("float32",)


def _window(
    b: TfliteBuilder, plane: Sequence[int], *, greatest: int = 4, dilated: bool = False
) -> dict[str, Any]:
    """Random kernel, strides, dilations and padding, by name, for an image with the rows and columns `plane`. A kernel
    has at most `greatest` rows and columns. `dilated`: dilations may be above 1. Raises UnfitError if the padding is
    VALID and the dilated kernel is larger than the image.
    """
    draw = b.draw
    kernel = [1 + draw.below(min(greatest, size)) for size in plane]
    strides = [draw.of((1, 1, 1, 2, 3)) for _ in plane]
    dilations = [1, 1]
    padding = draw.of((SAME, VALID))
    if dilated and draw.chance(0.25):
        strides, dilations = [1, 1], [1 + draw.below(3) for _ in plane]
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    if padding == VALID and any(span > size for span, size in zip(spans, plane, strict=True)):
        raise UnfitError("the window is larger than the image")
    return {"kernel": kernel, "strides": strides, "dilations": dilations, "padding": padding}


def _weights(b: TfliteBuilder, data: int, shape: tuple[int, ...], axis: int | None) -> int:
    """Adds random weights of `shape` for the activation `data`; returns them. Quantized weights have one scale, or one
    for each index along `axis` (None: one scale).
    """
    draw, dtype = b.draw, b.dtype(data)
    if dtype.kind == "f" and b.form != "hybrid":
        return b.model.constant(draw.rng.normal(0, 0.4, shape).astype(np.float32))
    if dtype == np.uint8:
        zero = 128 if draw.chance(0.5) else 96 + draw.below(64)
        return b.model.constant(draw.rng.integers(0, 256, shape, dtype=np.uint8), 0.0041, zero)
    # LiteRT's hybrid depthwise kernel reads a scale for each channel without a check.
    every = axis == 3 and dtype.kind == "f"
    count = shape[axis] if axis is not None and (every or draw.chance(0.7)) else 1
    scales = np.exp(draw.rng.uniform(np.log(0.001), np.log(0.02), count)).astype(np.float32)
    integers = draw.rng.integers(-127, 128, shape).astype(np.int8)
    return b.model.constant(integers, scales, np.zeros(count, np.int64), axis or 0)


def _bias(b: TfliteBuilder, data: int, weights: int, count: int, *, needed: bool = False) -> list[int]:
    """Adds a random bias of `count` elements for the product of `data` and `weights`; returns [bias]. At random, unless
    a bias is `needed`, there is none, and the list is empty.
    """
    if not needed and b.draw.chance(0.2):
        return []
    source = b.model.tensors[data]
    if source["scale"] is None:
        return [b.model.constant(b.draw.rng.normal(0, 0.5, count).astype(np.float32))]
    step = np.float32(source["scale"]) * b.model.tensors[weights]["scale"]
    dtype = np.int64 if source["dtype"] == np.int16 else np.int32
    integers = b.draw.rng.integers(-4000, 4000, count).astype(dtype)
    return [b.model.constant(integers, step, np.zeros(len(step), np.int64))]


def convolution(b: TfliteBuilder) -> None:
    """Adds a random CONV_2D to the graph."""
    data = b.activation((4,), kinds=SCALED)
    _, height, width, channels = b.shape(data)
    window = _window(b, (height, width), dilated=True)
    groups = 1
    if b.form == "float" and b.draw.chance(0.15):
        groups = b.draw.of([n for n in (1, 2, 3, 4) if channels % n == 0])
    outputs = groups * (1 + b.draw.below(8))
    weights = _weights(b, data, (outputs, *window["kernel"], channels // groups), 0)
    _convolved(b, "CONV_2D", "Conv2D", window, [data, weights, *_bias(b, data, weights, outputs)])


def depthwise(b: TfliteBuilder) -> None:
    """Adds a random DEPTHWISE_CONV_2D to the graph."""
    data = b.activation((4,), kinds=SCALED)
    _, height, width, channels = b.shape(data)
    window = _window(b, (height, width), dilated=True)
    window["strides"] = [window["strides"][0]] * 2  # LiteRT's kernels need equal strides.
    multiplier = b.draw.of((1, 1, 2, 3))
    weights = _weights(b, data, (1, *window["kernel"], channels * multiplier), 3)
    # LiteRT's kernels read a bias without a check.
    inputs = [data, weights, *_bias(b, data, weights, channels * multiplier, needed=True)]
    _convolved(b, "DEPTHWISE_CONV_2D", "DepthwiseConv2D", window, inputs, DepthMultiplier=multiplier)


def _convolved(
    b: TfliteBuilder, kind: str, options: str, window: Mapping[str, Any], inputs: Sequence[int], **fields: Any
) -> None:
    (height, width), (down, right) = window["strides"], window["dilations"]
    b.node(
        kind, inputs, options, Padding=window["padding"], StrideH=height, StrideW=width, DilationHFactor=down,
        DilationWFactor=right, FusedActivationFunction=b.draw.of(ACTIVATIONS), **fields,
    )  # fmt: skip


def transposed(b: TfliteBuilder) -> None:
    """Adds a random TRANSPOSE_CONV to the graph."""
    data = b.activation((4,), kinds=SCALED if b.form != "hybrid" else ("int8",))
    batch, height, width, channels = b.shape(data)
    kernel, padding = [1 + b.draw.below(4) for _ in range(2)], b.draw.of((SAME, VALID))
    strides = [1 + b.draw.below(3) for _ in range(2)]
    outputs = 1 + b.draw.below(6)
    weights = _weights(b, data, (outputs, *kernel, channels), 0)
    sizes = [
        n * s if padding == SAME else (n - 1) * s + k
        for n, s, k in zip((height, width), strides, kernel, strict=True)
    ]
    if padding == SAME:  # any size that SAME reduces to the data's
        sizes = [n - b.draw.below(s) for n, s in zip(sizes, strides, strict=True)]
    inputs = [b.integers([batch, *sizes, outputs]), weights, data, *_bias(b, data, weights, outputs)]
    b.node(
        "TRANSPOSE_CONV", inputs, "TransposeConv", Padding=padding, StrideH=strides[0], StrideW=strides[1],
        FusedActivationFunction=b.draw.of((0, 0, 1, 3)),
    )  # fmt: skip


def pool(b: TfliteBuilder, kind: str) -> None:
    """Adds a random AVERAGE_POOL_2D or MAX_POOL_2D, as `kind` says, to the graph."""
    data = b.activation((4,), kinds=SCALED)
    window = _window(b, b.shape(data)[1:3], greatest=9)
    (rows, columns), (height, width) = window["strides"], window["kernel"]
    b.node(
        kind, [data], "Pool2D", grid="same", Padding=window["padding"], StrideH=rows, StrideW=columns,
        FilterHeight=height, FilterWidth=width, FusedActivationFunction=b.draw.of(ACTIVATIONS),
    )  # fmt: skip


def resize(b: TfliteBuilder, kind: str) -> None:
    """Adds a random RESIZE_BILINEAR or RESIZE_NEAREST_NEIGHBOR, as `kind` says, to the graph."""
    data = b.activation((4,), kinds=SCALED)
    options = "ResizeBilinear" if kind == "RESIZE_BILINEAR" else "ResizeNearestNeighbor"
    align, half = b.draw.of(((False, False), (False, True), (True, False)))
    size = [1 + b.draw.below(14) for _ in range(2)]
    if b.draw.chance(0.4):
        size = [2 * n for n in b.shape(data)[1:3]]
    b.node(kind, [data, b.integers(size)], options, grid="same", AlignCorners=align, HalfPixelCenters=half)


def connected(b: TfliteBuilder) -> None:
    """Adds a random FULLY_CONNECTED of a matrix, or of a tensor of three or four dimensions, flattened or not."""
    data = b.activation((2, 2, 3, 4), kinds=SCALED)
    shape, outputs = b.shape(data), 1 + b.draw.below(9)
    columns = int(np.prod(shape[1:])) if len(shape) == 4 and b.draw.chance(0.4) else shape[-1]
    keep = columns == shape[-1] and b.draw.chance(0.5)
    weights = _weights(b, data, (outputs, columns), 0 if b.dtype(data) in (np.int8, np.int16) else None)
    inputs = [data, weights, *(_bias(b, data, weights, outputs) or [-1])]
    activation = b.draw.of(ACTIVATIONS)
    b.node("FULLY_CONNECTED", inputs, "FullyConnected", KeepNumDims=keep, FusedActivationFunction=activation)


def matrix_product(b: TfliteBuilder) -> None:
    """Adds a random BATCH_MATMUL of two activations."""
    data = b.activation((2, 3, 3, 4), kinds=("int8", "int16", "float32"))
    shape, left, right = b.shape(data), b.draw.chance(0.25), b.draw.chance(0.4)
    inner, columns = shape[-2] if left else shape[-1], 1 + b.draw.below(7)
    other = (*shape[:-2], *((columns, inner) if right else (inner, columns)))
    same = [i for i in b.arrays if i != data and b.shape(i) == other and b.dtype(i) == b.dtype(data)]
    factor = b.draw.of(same) if same else b.input(other, b.dtype(data))
    b.node("BATCH_MATMUL", [data, factor], "BatchMatMul", AdjX=left, AdjY=right)


def pair(b: TfliteBuilder, kind: str) -> None:
    """Adds a random operator `kind` (ADD, SUB or MUL). Its operands are an activation, and another activation or a
    constant; the shapes broadcast.
    """
    first = b.activation(kinds=SCALED)
    operands = [first, _partner(b, first)]
    if b.draw.chance(0.3):
        operands.reverse()
    b.node(kind, operands, kind.title(), FusedActivationFunction=b.draw.of(ACTIVATIONS))


def squared_difference(b: TfliteBuilder) -> None:
    """Adds a random SQUARED_DIFFERENCE to the graph."""
    first = b.activation(kinds=SIGNED)
    second = _partner(b, first)
    scales = [b.model.tensors[index]["scale"] for index in (first, second)]
    # LiteRT ends the process if the scale of the result is far too small.
    grid = "free" if scales[0] is None else (float(max(scales)[0] ** 2 * b.draw.of((100, 150, 240))), -128)
    b.node("SQUARED_DIFFERENCE", [first, second], "SquaredDifference", grid=grid)


def _partner(b: TfliteBuilder, first: int, *, same: bool = False, constant: float = 0.3) -> int:
    """Returns a second operand for an operator: a tensor of the element type of `first` whose shape broadcasts with it.
    It is a constant with probability `constant`, else an activation. With `same`, it also has the scale and zero point
    of `first`.
    """
    shape = b.shape(first)
    kind = b.same_grid(first) if same else b.same_kind(first)

    def fits(index: int) -> bool:
        try:
            size = np.prod(np.broadcast_shapes(shape, b.shape(index)))
        except ValueError:
            return False
        return kind(index) and bool(size <= 1500)

    if b.draw.chance(constant):
        return b.like(first, _part(b, shape), same=same)
    found = [index for index in b.arrays if fits(index)]
    if found and b.draw.chance(0.8):
        return b.draw.of(found)
    made = b.input(_part(b, shape), b.dtype(first))
    if same and b.quantized(first):
        tensor = b.model.tensors[first]
        b.model.tensors[made].update(scale=tensor["scale"], zero=tensor["zero"])
    return made


def _part(b: TfliteBuilder, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A random shape that broadcasts to `shape`: the same shape, only its last size, a single element, or `shape` with
    some sizes replaced by 1.
    """
    match b.draw.below(5):
        case 0 | 1:
            return shape
        case 2:
            return shape[-1:]
        case 3:
            return () if b.draw.chance(0.5) else (1,) * len(shape)
        case _:
            return tuple(1 if b.draw.chance(0.5) else n for n in shape)


def extreme_pair(b: TfliteBuilder, kind: str) -> None:
    """Adds a random MAXIMUM or MINIMUM, as `kind` says; operands and result have the same scale and zero point."""
    first = b.activation(kinds=SCALED)
    b.node(kind, [first, _partner(b, first, same=True)], "MaximumMinimum", grid="same")


def divided(b: TfliteBuilder) -> None:
    """Adds a random DIV by numbers from 0.5 to 2."""
    first = b.activation(kinds=FLOATS)
    divisor = b.draw.rng.uniform(0.5, 2, _part(b, b.shape(first))).astype(np.float32)
    b.node("DIV", [first, b.model.constant(divisor)], "Div", FusedActivationFunction=b.draw.of(ACTIVATIONS))


def powered(b: TfliteBuilder) -> None:
    """Adds a random POW with a constant exponent; the base is the square of an activation and so is not negative."""
    (square,) = b.node("SQUARE", [b.activation(kinds=FLOATS)], "Square")
    b.node("POW", [square, b.model.constant(np.float32(b.draw.of((0.5, 1.5, 2.0, 1.7))))], "Pow")


def positive(b: TfliteBuilder, kind: str) -> None:
    """Adds the operator `kind` (LOG, SQRT or RSQRT). Its operand is the square of an activation plus 0.1, which is
    positive.
    """
    (square,) = b.node("SQUARE", [b.activation(kinds=FLOATS)], "Square")
    (more,) = b.node("ADD", [square, b.model.constant(np.float32(0.1))], "Add")
    b.node(kind, [more])


def summed(b: TfliteBuilder) -> None:
    """Adds a random ADD_N of tensors of one shape."""
    first = b.activation(kinds=FLOATS)
    same = [i for i in b.arrays if b.shape(i) == b.shape(first) and b.dtype(i) == np.float32]
    b.node("ADD_N", [first, *(b.draw.of(same) for _ in range(1 + b.draw.below(3)))], "AddN")


def rectified(b: TfliteBuilder) -> None:
    """Adds a random PRELU with a constant slope for each channel."""
    data = b.activation((3, 4), kinds=BYTES)
    shape = (*(1 for _ in b.shape(data)[1:-1]), b.shape(data)[-1])
    b.node("PRELU", [data, b.like(data, shape)])


def single(
    b: TfliteBuilder, kind: str, kinds: Sequence[str], options: str = "", grid: Any = "free",
    **fields: Callable[[TfliteBuilder], Any],
) -> None:  # fmt: skip
    """Adds the element-wise operator `kind` of one random tensor whose element type is one of `kinds`. `options`: name
    of the table of its options. `grid`: (scale, zero point) of the result. "free" is a random pair that the results
    mostly fill, and "same" is the pair of the operand. A mapping gives one of these by element type ("free" for types
    that the mapping lacks). `fields`: for each option of the operator, a function that draws its value.
    """
    data = b.activation(kinds=kinds)
    own = grid.get(b.dtype(data).name, "free") if isinstance(grid, Mapping) else grid
    b.node(kind, [data], options, grid=own, **{name: function(b) for name, function in fields.items()})


def compared(b: TfliteBuilder, kind: str) -> None:
    """Adds the comparison `kind`, such as LESS, of two random float or int8 tensors. LiteRT's kernel requires scales
    below 1; raises UnfitError for larger scales.
    """
    first = b.activation(kinds=("float32", "float32", "int8"))
    second = _partner(b, first)
    if b.quantized(first) and max(b.model.tensors[index]["scale"][0] for index in (first, second)) >= 1:
        raise UnfitError("LiteRT does not compare such scales")
    options = "".join(part.title() for part in kind.split("_"))
    b.node(kind, [first, second], options, dtype=np.bool_)


def logical(b: TfliteBuilder, kind: str, count: int) -> None:
    """Adds the logical operator `kind` of `count` random boolean tensors."""
    first = b.activation(kinds=("bool",))
    others = [_partner(b, first, constant=0) for _ in range(count - 1)]
    b.node(kind, [first, *others], "".join(part.title() for part in kind.split("_")))


def selected(b: TfliteBuilder, kind: str) -> None:
    """Adds a random `kind`: SELECT, whose operands have equal shapes, or SELECT_V2, whose operands broadcast."""
    first = b.activation(kinds=SCALED)
    shape, same = b.shape(first), b.same_grid(first)
    others = [i for i in b.arrays if same(i) and (kind == "SELECT_V2" or b.shape(i) == shape)]
    second = b.draw.of(others) if kind == "SELECT" else _partner(b, first, same=True)
    conditions = [i for i in b.arrays if b.dtype(i) == np.bool_ and b.shape(i) == shape]
    condition = b.draw.of(conditions) if conditions else b.input(shape, np.bool_)
    options = "SelectV2" if kind == "SELECT_V2" else "Select"
    after = np.broadcast_shapes(shape, b.shape(second))
    b.node(
        kind, [condition, first, second], options, dtype=b.dtype(first), grid=_grid_of(b, first), shape=after
    )


def _grid_of(b: TfliteBuilder, index: int) -> Any:
    """The grid (scale, zero point) of the tensor `index`; "free" if the tensor is not quantized."""
    tensor = b.model.tensors[index]
    return "free" if tensor["scale"] is None else (tensor["scale"], tensor["zero"])


def requantized(b: TfliteBuilder) -> None:
    """Adds a random QUANTIZE of floats, or of integers to another grid or type."""
    data = b.activation(kinds=SCALED)
    targets = {
        "float32": (np.int8, np.uint8, np.int16), "int8": (np.int8, np.uint8, np.int16), "uint8": (np.int8, np.uint8),
        "int16": (np.int8, np.int16),
    }  # fmt: skip
    b.node("QUANTIZE", [data], "Quantize", dtype=b.draw.of(targets[b.dtype(data).name]))


def dequantized(b: TfliteBuilder) -> None:
    """Adds a random DEQUANTIZE to the graph."""
    b.node("DEQUANTIZE", [b.activation(kinds=("int8", "uint8", "int16"))], "Dequantize", dtype=np.float32)


def cast(b: TfliteBuilder) -> None:
    """Adds a random CAST between float32, int32 and bool."""
    data = b.activation(kinds=("float32", "int32", "bool"))
    numbers = {
        "float32": tflite.TensorType.FLOAT32,
        "int32": tflite.TensorType.INT32,
        "bool": tflite.TensorType.BOOL,
    }
    before = b.dtype(data).name
    after = b.draw.of([name for name in numbers if name != before])
    b.node("CAST", [data], "Cast", dtype=after, InDataType=numbers[before], OutDataType=numbers[after])


# Elements moved.


def reduce(b: TfliteBuilder, kind: str, kinds: Sequence[str] = SCALED, grid: str = "free") -> None:
    """Adds the reduction operator `kind`, such as MEAN, along random axes of a tensor whose type is one of `kinds`.
    `grid`: scale and zero point of the result; "free": random ones that fit the results; "same": those of the tensor.
    """
    data = b.activation((1, 2, 3, 4, 4), kinds=kinds)
    rank = len(b.shape(data))
    axes = [int(axis) for axis in b.draw.rng.permutation(rank)[: 1 + b.draw.below(rank)]]
    if rank == 4 and b.draw.chance(0.4):
        axes = [1, 2]
    axes = [axis - rank * b.draw.chance(0.3) for axis in axes]
    indices = b.integers(axes[0] if len(axes) == 1 and b.draw.chance(0.3) else axes)
    b.node(kind, [data, indices], "Reducer", grid=grid, KeepDims=b.draw.chance(0.5))


def extreme(b: TfliteBuilder, kind: str) -> None:
    """Adds a random ARG_MAX or ARG_MIN, as `kind` says, to the graph."""
    data = b.activation((1, 2, 3, 4), kinds=BYTES)
    rank = len(b.shape(data))
    axis = b.integers(b.draw.below(2 * rank) - rank)
    options = "ArgMax" if kind == "ARG_MAX" else "ArgMin"
    b.node(kind, [data, axis], options, dtype=np.int32, OutputType=tflite.TensorType.INT32)


def padded(b: TfliteBuilder, kind: str) -> None:
    """Adds a random PAD, PADV2 or MIRROR_PAD, as `kind` says. In most cases, it first adds one to three operators that
    pool or move elements; each operator, and then the pad, reads the result of the operator before.
    """
    pools = [partial(pool, kind=name) for name in ("AVERAGE_POOL_2D", "MAX_POOL_2D")]
    others = [
        cut,
        strided,
        transpose,
        gather,
        reverse,
        reshape,
        tiled,
        partial(resize, kind="RESIZE_BILINEAR"),
    ]
    for place in range(b.draw.below(4)):
        b.draw.of(others if place or b.draw.chance(0.5) else pools)(b)
        b.following = b.model.operators[-1][2][0]
    pad(b, kind)


UNIT = {"int8": (1 / 256, -128), "uint8": (1 / 256, 0), "int16": (1 / 32768, 0)}
"""Scale and zero point of results from 0 to 1, by element type."""
SYMMETRIC = {"int8": (1 / 128, 0), "uint8": (1 / 128, 128), "int16": (1 / 32768, 0)}
"""Scale and zero point of results from -1 to 1, by element type."""
LOGARITHMS = {"int8": (16 / 256, 127), "uint8": (16 / 256, 255)}
"""Scale and zero point of logarithms of numbers up to 1, by element type."""


def soften(b: TfliteBuilder) -> None:
    """Adds a random SOFTMAX to the graph."""
    data = b.activation((1, 2, 3, 4), kinds=SCALED)
    beta = b.draw.of((1.0, 1.0, 1.0, 0.5, 2.0))
    b.node("SOFTMAX", [data], "Softmax", grid=UNIT.get(b.dtype(data).name, "free"), Beta=beta)


def soften_logarithm(b: TfliteBuilder) -> None:
    """Adds a random LOG_SOFTMAX to the graph."""
    data = b.activation((2, 3, 4), kinds=BYTES)
    b.node("LOG_SOFTMAX", [data], "LogSoftmax", grid=LOGARITHMS.get(b.dtype(data).name, "free"))


def normalized(b: TfliteBuilder) -> None:
    """Adds a random L2_NORMALIZATION to the graph."""
    data = b.activation((2, 3, 4), kinds=BYTES)
    b.node("L2_NORMALIZATION", [data], "L2Norm", grid=SYMMETRIC.get(b.dtype(data).name, "free"))


def _alpha(b: TfliteBuilder) -> float:
    return b.draw.of((0.1, 0.2, 0.01, 0.3, 1.5))


def _approximate(b: TfliteBuilder) -> bool:
    return b.draw.chance(0.5)


DRAWINGS: Mapping[str, Drawing] = MappingProxyType(
    {
        "CONV_2D": convolution,
        "DEPTHWISE_CONV_2D": depthwise,
        "TRANSPOSE_CONV": transposed,
        **{kind: partial(pool, kind=kind) for kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D")},
        **{kind: partial(resize, kind=kind) for kind in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")},
        "FULLY_CONNECTED": connected,
        "BATCH_MATMUL": matrix_product,
        **{kind: partial(pair, kind=kind) for kind in ("ADD", "SUB", "MUL")},
        "SQUARED_DIFFERENCE": squared_difference,
        "DIV": divided,
        "POW": powered,
        "ADD_N": summed,
        "PRELU": rectified,
        **{kind: partial(extreme_pair, kind=kind) for kind in ("MAXIMUM", "MINIMUM")},
        **{
            kind: partial(compared, kind=kind)
            for kind in ("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL")
        },
        **{kind: partial(logical, kind=kind, count=2) for kind in ("LOGICAL_AND", "LOGICAL_OR")},
        "LOGICAL_NOT": partial(logical, kind="LOGICAL_NOT", count=1),
        **{kind: partial(selected, kind=kind) for kind in ("SELECT", "SELECT_V2")},
        **{kind: partial(single, kind=kind, kinds=SCALED) for kind in ("RELU", "RELU6", "RELU_N1_TO_1")},
        "RELU_0_TO_1": partial(single, kind="RELU_0_TO_1", kinds=SCALED),
        "LOGISTIC": partial(single, kind="LOGISTIC", kinds=SCALED, grid=UNIT),
        "TANH": partial(single, kind="TANH", kinds=SCALED, grid=SYMMETRIC),
        **{kind: partial(single, kind=kind, kinds=SIGNED) for kind in ("ELU", "EXP")},
        "ABS": partial(single, kind="ABS", kinds=("int8", "int16", "float32"), options="Abs"),
        "HARD_SWISH": partial(single, kind="HARD_SWISH", kinds=BYTES, options="HardSwish"),
        "LEAKY_RELU": partial(single, kind="LEAKY_RELU", kinds=SCALED, options="LeakyRelu", Alpha=_alpha),
        "GELU": partial(single, kind="GELU", kinds=BYTES, options="Gelu", Approximate=_approximate),
        **{kind: partial(positive, kind=kind) for kind in ("LOG", "SQRT", "RSQRT")},
        **{kind: partial(single, kind=kind, kinds=FLOATS) for kind in ("FLOOR", "CEIL", "ROUND", "SIN")},
        **{
            kind: partial(single, kind=kind, kinds=FLOATS, options=kind.title())
            for kind in ("SQUARE", "NEG", "SIGN", "COS")
        },
        "QUANTIZE": requantized,
        "DEQUANTIZE": dequantized,
        "CAST": cast,
        "RESHAPE": reshape,
        "SQUEEZE": squeezed,
        "EXPAND_DIMS": expanded,
        "TRANSPOSE": transpose,
        "SHAPE": shaped,
        **{kind: partial(blocks, kind=kind) for kind in ("DEPTH_TO_SPACE", "SPACE_TO_DEPTH")},
        "SPACE_TO_BATCH_ND": space_to_batch,
        "BATCH_TO_SPACE_ND": batch_to_space,
        "CONCATENATION": concatenated,
        "PACK": packed,
        "UNPACK": unpacked,
        **{kind: partial(padded, kind=kind) for kind in ("PAD", "PADV2", "MIRROR_PAD")},
        "SLICE": cut,
        "STRIDED_SLICE": strided,
        "SPLIT": split,
        "SPLIT_V": split_by_sizes,
        "GATHER": gather,
        "TILE": tiled,
        "BROADCAST_TO": broadcast,
        "REVERSE_V2": reverse,
        "MEAN": partial(reduce, kind="MEAN"),
        "SUM": partial(reduce, kind="SUM"),
        "REDUCE_PROD": partial(reduce, kind="REDUCE_PROD", kinds=FLOATS),
        **{kind: partial(reduce, kind=kind, grid="same") for kind in ("REDUCE_MAX", "REDUCE_MIN")},
        **{kind: partial(extreme, kind=kind) for kind in ("ARG_MAX", "ARG_MIN")},
        "SOFTMAX": soften,
        "LOG_SOFTMAX": soften_logarithm,
        "L2_NORMALIZATION": normalized,
    }
)
"""For each operator of the frontend's table, the function that adds a random node of this operator."""
FREQUENT = (
    "CONV_2D",
    "DEPTHWISE_CONV_2D",
    "FULLY_CONNECTED",
    "ADD",
    "MUL",
    "CONCATENATION",
    "AVERAGE_POOL_2D",
    "PAD",
)
"""Operators that are drawn more often than others, since networks have many of them."""
