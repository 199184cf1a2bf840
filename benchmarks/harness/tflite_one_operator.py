"""Makes TFLite models of one operator each; `tflite_operators.py` lists the cases.

`form` is a key of FORMS: the element type of activations; "hybrid": float activations with int8 weights. `planes`: the
operator reads the result of a convolution, which the compiler stores channel by channel ("planes"), unlike TFLite.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tflite

from .tflite_files import Written

SAME, VALID = 0, 1
FORMS = {"int8": np.int8, "uint8": np.uint8, "int16": np.int16, "float": np.float32, "hybrid": np.float32}


def begin(form: str, *shape: int, scale: float = 0.0213746) -> tuple[Written, int]:
    model = Written()
    return model, model.input(
        shape, FORMS[form], scale if form != "int16" else 0.00042371, 128 if form == "uint8" else 3
    )


def done(model: Written, *outputs: int) -> Written:
    model.outputs = list(outputs)
    return model


def result(model: Written, source: int, shape, scale: float, zero: int = -5) -> int:
    kind = model.tensors[source]["dtype"]
    return model.like(
        source, shape, scale / 128 if kind == np.int16 else scale, zero + 128 if kind == np.uint8 else zero
    )


def kernel(form: str):
    return {"int8": np.int8, "int16": np.int8, "hybrid": np.int8, "uint8": np.uint8, "float": np.float32}[
        form
    ]


class Window(NamedTuple):
    """The window of a convolution: kernel `k`, `stride` and `dilation` of rows and columns, and `padding`."""

    k: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (1, 1)
    padding: int = SAME
    dilation: tuple[int, int] = (1, 1)


class Channels(NamedTuple):
    """Input channels `ci`, output channels `co` and `groups` of a convolution. `depthwise`: output channels for each
    input channel of a depthwise convolution, which has no `co`; 0: the convolution is not depthwise.
    """

    ci: int = 8
    co: int = 12
    groups: int = 1
    depthwise: int = 0


DEFAULT_CHANNELS, DEFAULT_WINDOW = Channels(), Window()


def convolution(
    form, plane=(9, 8), channels=DEFAULT_CHANNELS, window=DEFAULT_WINDOW, act=0, axis: int | None = 0
) -> Written:
    """A model of one convolution with a bias. `form`: a key of FORMS. `plane`: rows and columns of the input.
    `channels`, `window`: the convolution's channels and window. `act`: number of TFLite's fused activation. `axis`: the
    weights have one scale for each index along this axis (always axis 3 for a depthwise convolution). With None, and
    for uint8, all weights have one scale.
    """
    (ci, co, groups, depthwise), (k, stride, padding, dilation) = channels, window
    model, x = begin(form, 1, *plane, ci)
    extent = [(size - 1) * d + 1 for size, d in zip(k, dilation, strict=True)]
    out = [
        -(-n // s) if padding == SAME else (n - e) // s + 1
        for n, e, s in zip(plane, extent, stride, strict=True)
    ]
    count = ci * depthwise if depthwise else co
    if depthwise:
        w = model.weights((1, *k, count), None if axis is None or form == "uint8" else 3, dtype=kernel(form))
    else:
        w = model.weights((co, *k, ci // groups), None if form == "uint8" else axis, dtype=kernel(form))
    inputs = [x, w, model.bias(x, w, count)]
    y = result(model, x, (1, *out, count), 0.0613921 if depthwise else 0.1021743)
    fields = {
        "Padding": padding,
        "StrideH": stride[0],
        "StrideW": stride[1],
        "DilationHFactor": dilation[0],
        "DilationWFactor": dilation[1],
        "FusedActivationFunction": act,
    }
    if depthwise:
        model.add("DEPTHWISE_CONV_2D", inputs, y, "DepthwiseConv2D", DepthMultiplier=depthwise, **fields)
    else:
        model.add("CONV_2D", inputs, y, "Conv2D", **fields)
    return done(model, y)


def transposed(form, padding=SAME, stride=2, k=3, act=0, bias=False) -> Written:
    model, x = begin(form, 1, 5, 4, 6)
    w = model.weights((7, k, k, 6), None if form == "uint8" else 0, dtype=kernel(form))
    out = [n * stride if padding == SAME else (n - 1) * stride + k for n in (5, 4)]
    shape = model.constant(np.array([1, *out, 7], np.int32))
    y = result(model, x, (1, *out, 7), 0.05)
    inputs = [shape, w, x] + ([model.bias(x, w, 7)] if bias else [])
    model.add(
        "TRANSPOSE_CONV",
        inputs,
        y,
        "TransposeConv",
        Padding=padding,
        StrideH=stride,
        StrideW=stride,
        FusedActivationFunction=act,
    )
    return done(model, y)


def pooled(form, kind, k=(3, 3), stride=(2, 2), padding=SAME, act=0, plane=(9, 7)) -> Written:
    model, x = begin(form, 1, *plane, 8)
    out = [
        -(-n // s) if padding == SAME else (n - e) // s + 1 for n, e, s in zip(plane, k, stride, strict=True)
    ]
    y = model.like(x, (1, *out, 8))
    model.add(
        kind,
        [x],
        y,
        "Pool2D",
        Padding=padding,
        StrideH=stride[0],
        StrideW=stride[1],
        FilterHeight=k[0],
        FilterWidth=k[1],
        FusedActivationFunction=act,
    )
    return done(model, y)


def resized(form, kind, size, align=False, half=False) -> Written:
    model, x = begin(form, 1, 5, 6, 4)
    sizes = model.constant(np.array(size, np.int32))
    y = model.like(x, (1, *size, 4))
    options = "ResizeBilinear" if kind == "RESIZE_BILINEAR" else "ResizeNearestNeighbor"
    model.add(kind, [x, sizes], y, options, AlignCorners=align, HalfPixelCenters=half)
    return done(model, y)


def connected(form, shape=(2, 24), outputs=10, act=0, bias=True, keep=False, per_channel=False) -> Written:
    model, x = begin(form, *shape)
    k = shape[-1]
    w = model.weights((outputs, k), 0 if per_channel else None, dtype=kernel(form))
    rows = int(np.prod(shape)) // k
    y = result(model, x, (*shape[:-1], outputs) if keep else (rows, outputs), 0.06)
    inputs = [x, w, model.bias(x, w, outputs) if bias else -1]
    model.add("FULLY_CONNECTED", inputs, y, "FullyConnected", FusedActivationFunction=act, KeepNumDims=keep)
    return done(model, y)


def flattened(form) -> Written:
    """A model of a convolution, a RESHAPE to a row, and a FULLY_CONNECTED: the compiler must bring the columns of the
    product's weights into the order in which it stores the convolution's result (planes).
    """
    model = convolution(form, plane=(4, 3), channels=Channels(co=6))
    flat = model.like(model.last, (1, 72))
    conv = model.outputs[0]
    model.add("RESHAPE", [conv], flat, "Reshape", NewShape=[1, 72])
    w = model.weights((5, 72), None, dtype=kernel(form))
    b = model.bias(flat, w, 5)
    y = result(model, flat, (1, 5), 0.3)
    model.add("FULLY_CONNECTED", [flat, w, b], y, "FullyConnected")
    return done(model, y)


def paired(
    form, kind, act=0, shapes=((1, 5, 4, 6), (1, 5, 4, 6)), constant=False, scale=0.05, other=0.013
) -> Written:
    model, a = begin(form, *shapes[0])
    narrow = form == "int16"
    if constant:
        data = (
            model.rng.integers(-100, 100, shapes[1]).astype(FORMS[form])
            if form in ("int8", "int16")
            else model.rng.random(shapes[1]).astype(np.float32)
        )
        b = model.constant(data, None if form == "float" else (0.00031937 if narrow else other), 0)
    else:
        b = model.input(
            shapes[1], FORMS[form], 0.00031937 if narrow else other, 120 if form == "uint8" else -7
        )
    same = kind in ("MAXIMUM", "MINIMUM")
    if same and form != "float":
        model.tensors[b]["scale"], model.tensors[b]["zero"] = (
            model.tensors[a]["scale"],
            model.tensors[a]["zero"],
        )
    shape = np.broadcast_shapes(*shapes)
    y = model.like(a, shape) if same else result(model, a, shape, scale)
    options = {
        "MAXIMUM": "MaximumMinimum",
        "MINIMUM": "MaximumMinimum",
        "SQUARED_DIFFERENCE": "SquaredDifference",
        "POW": "Pow",
    }.get(kind) or kind.title()
    fused = {"FusedActivationFunction": act} if kind in ("ADD", "SUB", "MUL", "DIV") else {}
    model.add(kind, [a, b], y, options, **fused)
    return done(model, y)


def single(form, kind, scale=0.0213746, zero=3, options="", wide=0.0213746, **fields) -> Written:
    """A model of one operator `kind` on each element of a tensor. `form`: a key of FORMS; `scale`, `zero`: scale and
    zero point of the output (a float one has none); `wide`: scale of the input; `options`, `fields`: class and values
    of the operator's options. Float LOG, SQRT and RSQRT read the square of the input, which is not negative.
    """
    model, x = begin(form, 1, 5, 4, 8, scale=wide)
    if form == "float" and kind in ("LOG", "SQRT", "RSQRT"):
        positive = model.tensor(model.shape(x), np.float32)
        model.add("SQUARE", [x], positive, "Square")
        x = positive
    y = model.tensor(
        model.shape(x), model.tensors[x]["dtype"], None if form in ("float", "hybrid") else scale, zero
    )
    model.add(kind, [x], y, options, **fields)
    return done(model, y)


def moved(form, kind, shape, after, extra=(), options="", own=None, **fields) -> Written:
    """A model of one operator `kind` that moves elements of an input of `shape`. `form`: a key of FORMS; `after`: shape
    of the output, or a list of shapes, one for each output; `extra`: constant operands after the data (for SPLIT in
    front of the data); `options`, `fields`: class and values of the operator's options. `own` is not used.
    """
    model, x = begin(form, *shape)
    more = [model.constant(np.asarray(array)) for array in extra]
    shapes = after if isinstance(after, list) else [after]
    outputs = [model.like(x, s) for s in shapes]
    inputs = [*more, x] if kind == "SPLIT" else [x, *more]
    model.add(kind, inputs, outputs, options, **fields)
    return done(model, *outputs)


def behind_planes(make: Written, kind, after, extra=(), options="", **fields) -> Written:
    """The model `make`, which ends in a convolution, with one more operator `kind` that moves elements of the
    convolution's result. The compiler stores this result channel by channel ("planes"). `after`: shape of the output,
    or a list of shapes, one for each output; `extra`: constant operands after the data (for SPLIT in front of the
    data); `options`, `fields`: class and values of the operator's options. Changes `make` and returns it.
    """
    x = make.outputs[0]
    more = [make.constant(np.asarray(array)) for array in extra]
    shapes = after if isinstance(after, list) else [after]
    outputs = [make.like(x, s) for s in shapes]
    make.add(kind, [*more, x] if kind == "SPLIT" else [x, *more], outputs, options, **fields)
    return done(make, *outputs)


def concatenated(form, axis=3, planes=False, scales=None) -> Written:
    """A model of a CONCATENATION of two tensors along `axis`; with `planes` the first one is the result of a
    convolution. `form`: a key of FORMS. `scales`: the scales of the second tensor and of the result; None: both equal
    the first tensor's scale, as int8 files require.
    """
    shape = (1, 4, 5, 6)
    if planes:
        model = convolution(form, plane=shape[1:3], channels=Channels(ci=4, co=6))
        first = model.outputs[0]
    else:
        model, first = begin(form, *shape)
    grid = model.tensors[first]
    other = model.input(shape, FORMS[form], 0.02)
    after: list[int] = list(shape)
    after[axis] *= 2
    y = model.like(first, after)
    for index, scale in zip((other, y), scales or (), strict=False):
        model.tensors[index]["scale"] = np.array([scale], np.float32)
    if scales is None:
        model.tensors[other].update(scale=grid["scale"], zero=grid["zero"])
    model.add("CONCATENATION", [first, other], y, "Concatenation", Axis=axis)
    return done(model, y)


def reduced(form, kind, axes, keep=False, shape=(1, 6, 5, 8), scale=0.0203711, planes=False) -> Written:
    if planes:
        model = convolution(form, plane=shape[1:3], channels=Channels(ci=4, co=shape[3]))
        x = model.outputs[0]
    else:
        model, x = begin(form, *shape)
    indices = model.constant(np.array(axes, np.int32))
    after = [1 if i in [a % len(shape) for a in axes] else n for i, n in enumerate(shape)]
    if not keep:
        after = [n for i, n in enumerate(shape) if i not in [a % len(shape) for a in axes]]
    same = kind in ("REDUCE_MAX", "REDUCE_MIN")
    y = model.like(x, after) if same else result(model, x, after, scale)
    model.add(kind, [x, indices], y, "Reducer", KeepDims=keep)
    return done(model, y)


def soft(form, kind="SOFTMAX", shape=(2, 10), scale=0.1, beta=1.0) -> Written:
    model, x = begin(form, *shape, scale=scale)
    ends = {"SOFTMAX": (1 / 256, -128), "LOG_SOFTMAX": (16 / 256, 127), "L2_NORMALIZATION": (1 / 128, 0)}[
        kind
    ]
    if form == "int16":
        ends = (1 / 32768, 0)
    if form == "uint8":
        ends = (ends[0], ends[1] + 128)
    y = model.tensor(shape, FORMS[form], None if form == "float" else ends[0], ends[1])
    fields = {"Beta": beta} if kind == "SOFTMAX" else {}
    options = {"SOFTMAX": "Softmax", "LOG_SOFTMAX": "LogSoftmax", "L2_NORMALIZATION": "L2Norm"}[kind]
    model.add(kind, [x], y, options, **fields)
    return done(model, y)


def extreme(form, kind, axis, shape=(2, 5, 7)) -> Written:
    model, x = begin(form, *shape)
    where = model.constant(np.array(axis, np.int32))
    after = [n for i, n in enumerate(shape) if i != axis % len(shape)]
    y = model.tensor(after, np.int32)
    number = tflite.TensorType.INT32
    model.add(kind, [x, where], y, "ArgMax" if kind == "ARG_MAX" else "ArgMin", OutputType=number)
    return done(model, y)


def requantized(source, target, scale=0.0213746, after=0.0357121) -> Written:
    model = Written()
    x = model.input((1, 4, 5, 6), source, scale, 128 if source == np.uint8 else 3)
    floats = target == np.float32
    zero = 140 if target == np.uint8 else (0 if target == np.int16 else -20)
    y = model.tensor((1, 4, 5, 6), target, None if floats else after, 0 if floats else zero)
    model.add("DEQUANTIZE" if floats else "QUANTIZE", [x], y, "Dequantize" if floats else "Quantize")
    return done(model, y)


def halves() -> Written:
    """A model of a float convolution whose weights are stored as float16."""
    model, x = begin("float", 1, 6, 6, 4)
    stored = model.constant(model.rng.normal(0, 0.3, (5, 3, 3, 4)).astype(np.float16))
    w = model.tensor((5, 3, 3, 4), np.float32)
    model.add("DEQUANTIZE", [stored], w, "Dequantize")
    y = model.tensor((1, 6, 6, 5), np.float32)
    model.add("CONV_2D", [x, w, model.bias(x, w, 5)], y, "Conv2D", StrideH=1, StrideW=1)
    return done(model, y)


def compared(kind) -> Written:
    model, a = begin("float", 1, 4, 5, 6)
    b = model.input((1, 4, 5, 6), np.float32)
    y = model.tensor((1, 4, 5, 6), np.bool_)
    model.add(kind, [a, b], y, "".join(part.title() for part in kind.split("_")))
    return done(model, y)


def selected(kind="SELECT_V2") -> Written:
    model = Written()
    c, a, b = (
        model.input((1, 4, 5, 6), np.bool_),
        model.input((1, 4, 5, 6), np.float32),
        model.input((1, 4, 5, 6), np.float32),
    )
    y = model.tensor((1, 4, 5, 6), np.float32)
    model.add(kind, [c, a, b], y, "SelectV2" if kind == "SELECT_V2" else "Select")
    return done(model, y)


def packed(form="int8") -> Written:
    model, a = begin(form, 3, 4)
    b = model.input((3, 4), FORMS[form], 0.0213746, 3)
    y = model.like(a, (3, 2, 4))
    model.add("PACK", [a, b], y, "Pack", Axis=1, ValuesCount=2)
    return done(model, y)


def embedded() -> Written:
    model = Written()
    x = model.input((1, 6), np.int32)
    table = model.constant(model.rng.normal(0, 1, (4, 5)).astype(np.float32))
    y = model.tensor((1, 6, 5), np.float32)
    model.add("GATHER", [table, x], y, "Gather")
    return done(model, y)


def padded(form) -> Written:
    """A model of a PADV2 that pads with the constant 40."""
    model, x = begin(form, 1, 3, 4)
    ends = model.constant(np.array([[0, 0], [1, 1], [0, 2]], np.int32))
    source = model.tensors[x]
    value = model.constant(np.array(40, FORMS[form]), source["scale"], source["zero"])
    y = model.like(x, (1, 5, 6))
    model.add("PADV2", [x, ends, value], y, "PadV2")
    return done(model, y)


def several(kind, count, before, after, options, **fields) -> Written:
    """A model of one operator `kind` on `count` inputs of equal shape, none quantized. `before`, `after`: element types
    of the inputs and of the output; `options`, `fields`: class and values of the operator's options.
    """
    model = Written()
    inputs = [model.input((1, 4, 5, 6), before) for _ in range(count)]
    y = model.tensor((1, 4, 5, 6), after)
    model.add(kind, inputs, y, options, **fields)
    return done(model, y)


def shaped() -> Written:
    """A model of two operators on the same input: ABS, and SHAPE."""
    model, x = begin("float", 1, 5, 6)
    y, numbers = model.tensor((1, 5, 6), np.float32), model.tensor((3,), np.int32)
    model.add("ABS", [x], y, "Abs")
    model.add("SHAPE", [x], numbers, "Shape", OutType=tflite.TensorType.INT32)
    return done(model, y, numbers)


def powered() -> Written:
    model, x = begin("float", 1, 5, 6)
    positive, exponent = model.tensor((1, 5, 6), np.float32), model.constant(np.float32(1.7))
    model.add("SQUARE", [x], positive, "Square")
    y = model.tensor((1, 5, 6), np.float32)
    model.add("POW", [positive, exponent], y, "Pow")
    return done(model, y)


def multiplied(form, right=False) -> Written:
    model, a = begin(form, 2, 5, 8)
    b = model.input((2, 6, 8) if right else (2, 8, 6), FORMS[form], 0.013, -7)
    y = result(model, a, (2, 5, 6), 0.03)
    model.add("BATCH_MATMUL", [a, b], y, "BatchMatMul", AdjY=right)
    return done(model, y)


def rectified(form) -> Written:
    model, x = begin(form, 1, 5, 4, 6)
    slope = (
        model.constant(model.rng.integers(-100, 100, (1, 1, 6)).astype(np.int8), 0.003, 0)
        if form == "int8"
        else model.constant(model.rng.random((1, 1, 6)).astype(np.float32))
    )
    y = result(model, x, (1, 5, 4, 6), 0.02, -30)
    model.add("PRELU", [x, slope], y)
    return done(model, y)
