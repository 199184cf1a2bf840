"""Small TFLite models of one operator each, over all operators, attributes and forms that the frontend converts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import tflite

from . import tflite_one_operator as make
from .tflite_files import Written
from .tflite_one_operator import VALID

RELU, RELU_N1, RELU6 = 1, 2, 3
DEPTHWISE = make.Channels(depthwise=1)
PADS = (np.array([[0, 0], [1, 2], [0, 2], [0, 0]], np.int32),)


def cases() -> Iterator[tuple[str, Callable[[], Written]]]:
    """Yields each case as (name, a function that makes the model); the name begins with the operator."""

    def case(name: str, function, *args, **fields):
        return name, lambda: function(*args, **fields)

    for form in ("int8", "uint8", "int16", "float", "hybrid"):
        yield case(f"CONV_2D {form}", make.convolution, form)
        yield case(f"DEPTHWISE_CONV_2D {form}", make.convolution, form, channels=DEPTHWISE)
        yield case(f"FULLY_CONNECTED {form}", make.connected, form)
    for act in (RELU, RELU_N1, RELU6):
        yield case(f"CONV_2D int8 act{act}", make.convolution, "int8", act=act)
        yield case(f"ADD int8 act{act}", make.paired, "int8", "ADD", act=act)
        yield case(f"CONV_2D float act{act}", make.convolution, "float", act=act)
    yield case(
        "CONV_2D int8 valid stride",
        make.convolution,
        "int8",
        window=make.Window(padding=VALID, stride=(2, 2)),
    )
    yield case(
        "CONV_2D int8 same stride", make.convolution, "int8", (8, 9), window=make.Window(stride=(2, 2))
    )
    yield case(
        "CONV_2D int8 even kernel", make.convolution, "int8", window=make.Window(k=(2, 4), stride=(2, 1))
    )
    yield case("CONV_2D int8 dilation", make.convolution, "int8", window=make.Window(dilation=(2, 2)))
    yield case("CONV_2D int8 one scale", make.convolution, "int8", axis=None)
    yield case("CONV_2D int8 1x1", make.convolution, "int8", window=make.Window(k=(1, 1)), act=RELU6)
    yield case("CONV_2D float groups", make.convolution, "float", channels=make.Channels(groups=2))
    yield case(
        "DEPTHWISE_CONV_2D int8 multiplier",
        make.convolution,
        "int8",
        channels=make.Channels(depthwise=2),
        window=make.Window(stride=(2, 2)),
        act=RELU6,
    )
    yield case(
        "DEPTHWISE_CONV_2D int8 one channel",
        make.convolution,
        "int8",
        plane=(20, 10),
        channels=make.Channels(ci=1, depthwise=8),
        window=make.Window(k=(10, 8), stride=(2, 2)),
    )
    yield case(
        "DEPTHWISE_CONV_2D int8 dilation",
        make.convolution,
        "int8",
        channels=DEPTHWISE,
        window=make.Window(dilation=(2, 2), padding=VALID),
    )
    for form in ("int8", "float"):
        yield case(f"TRANSPOSE_CONV {form}", make.transposed, form)
        yield case(f"TRANSPOSE_CONV {form} valid bias", make.transposed, form, padding=VALID, bias=True)
        yield case(f"TRANSPOSE_CONV {form} even", make.transposed, form, k=4)
        yield case(
            f"FULLY_CONNECTED {form} kept", make.connected, form, shape=(1, 3, 16), keep=True, act=RELU
        )
        yield case(f"FULLY_CONNECTED {form} image", make.connected, form, shape=(1, 2, 3, 16), bias=False)
        yield case(f"RESHAPE {form} before FULLY_CONNECTED", make.flattened, form)
    yield case("FULLY_CONNECTED int8 per channel", make.connected, "int8", per_channel=True)
    for form in ("int8", "uint8", "int16", "float"):
        for kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
            yield case(f"{kind} {form}", make.pooled, form, kind)
        for kind in ("ADD", "MUL", "SUB"):
            yield case(f"{kind} {form}", make.paired, form, kind)
        yield case(f"SOFTMAX {form}", make.soft, form)
        yield case(
            f"CONCATENATION {form}", make.concatenated, form, scales=(0.02, 0.03) if form == "uint8" else None
        )
        yield case(f"MEAN {form}", make.reduced, form, "MEAN", (1, 2))
        yield case(
            f"PAD {form}",
            make.moved,
            form,
            "PAD",
            (1, 4, 5, 6),
            (1, 7, 7, 6),
            [np.array([[0, 0], [1, 2], [0, 2], [0, 0]], np.int32)],
            "Pad",
        )
    yield case("AVERAGE_POOL_2D int8 valid", make.pooled, "int8", "AVERAGE_POOL_2D", k=(2, 2), padding=VALID)
    yield case(
        "AVERAGE_POOL_2D int8 whole",
        make.pooled,
        "int8",
        "AVERAGE_POOL_2D",
        k=(9, 7),
        stride=(1, 1),
        padding=VALID,
    )
    yield case("AVERAGE_POOL_2D int8 act", make.pooled, "int8", "AVERAGE_POOL_2D", act=RELU6)
    yield case("MAX_POOL_2D int8 act", make.pooled, "int8", "MAX_POOL_2D", act=RELU)
    for form in ("int8", "float"):
        yield case(f"ADD {form} row", make.paired, form, "ADD", shapes=((1, 5, 4, 6), (1, 1, 1, 6)))
        yield case(
            f"MUL {form} row", make.paired, form, "MUL", shapes=((1, 5, 4, 6), (1, 1, 1, 6)), constant=True
        )
        yield case(f"ADD {form} number", make.paired, form, "ADD", shapes=((1, 5, 4, 6), ()), constant=True)
        yield case(f"MAXIMUM {form}", make.paired, form, "MAXIMUM")
        yield case(f"MINIMUM {form}", make.paired, form, "MINIMUM")
        yield case(f"SQUARED_DIFFERENCE {form}", make.paired, form, "SQUARED_DIFFERENCE", scale=0.15)
        yield case(f"RESIZE_BILINEAR {form}", make.resized, form, "RESIZE_BILINEAR", (10, 12))
        yield case(f"RESIZE_BILINEAR {form} half", make.resized, form, "RESIZE_BILINEAR", (10, 12), half=True)
        yield case(
            f"RESIZE_BILINEAR {form} align", make.resized, form, "RESIZE_BILINEAR", (9, 11), align=True
        )
        yield case(f"RESIZE_BILINEAR {form} odd", make.resized, form, "RESIZE_BILINEAR", (7, 11), half=True)
        yield case(f"RESIZE_NEAREST_NEIGHBOR {form}", make.resized, form, "RESIZE_NEAREST_NEIGHBOR", (10, 12))
        yield case(
            f"RESIZE_NEAREST_NEIGHBOR {form} half",
            make.resized,
            form,
            "RESIZE_NEAREST_NEIGHBOR",
            (7, 9),
            half=True,
        )
        yield case(
            f"RESIZE_NEAREST_NEIGHBOR {form} align",
            make.resized,
            form,
            "RESIZE_NEAREST_NEIGHBOR",
            (9, 11),
            align=True,
        )
        yield case(f"MEAN {form} kept planes", make.reduced, form, "MEAN", (1, 2), keep=True, planes=True)
        yield case(f"MEAN {form} planes", make.reduced, form, "MEAN", (1, 2), planes=True)
        yield case(f"MEAN {form} channels", make.reduced, form, "MEAN", (-1,), keep=True)
        yield case(f"MEAN {form} rows", make.reduced, form, "MEAN", (1,))
        yield case(f"SUM {form}", make.reduced, form, "SUM", (1, 2), scale=0.3127159)
        yield case(f"REDUCE_MAX {form}", make.reduced, form, "REDUCE_MAX", (1, 2))
        yield case(f"REDUCE_MIN {form}", make.reduced, form, "REDUCE_MIN", (3,), keep=True, planes=True)
        yield case(f"SOFTMAX {form} image", make.soft, form, shape=(1, 4, 3, 8))
        yield case(f"SOFTMAX {form} beta", make.soft, form, beta=0.5, scale=0.2)
        yield case(f"LOG_SOFTMAX {form}", make.soft, form, "LOG_SOFTMAX")
        yield case(f"L2_NORMALIZATION {form}", make.soft, form, "L2_NORMALIZATION")
        yield case(f"ARG_MAX {form}", make.extreme, form, "ARG_MAX", -1)
        yield case(f"ARG_MIN {form}", make.extreme, form, "ARG_MIN", 1)
        yield case(f"CONCATENATION {form} planes", make.concatenated, form, planes=True)
        yield case(f"CONCATENATION {form} rows", make.concatenated, form, axis=1)
        yield case(f"BATCH_MATMUL {form}", make.multiplied, form)
        yield case(f"BATCH_MATMUL {form} turned", make.multiplied, form, right=True)
        yield case(f"LOGISTIC {form}", make.single, form, "LOGISTIC", 1 / 256, -128, wide=0.0503917)
        yield case(f"TANH {form}", make.single, form, "TANH", 1 / 128, 0, wide=0.03)
        yield case(
            f"HARD_SWISH {form}",
            make.single,
            form,
            "HARD_SWISH",
            0.0318254,
            -115,
            "HardSwish",
            wide=0.0503917,
        )
        yield case(
            f"LEAKY_RELU {form}", make.single, form, "LEAKY_RELU", 0.0204417, -20, "LeakyRelu", Alpha=0.1
        )
        yield case(f"RELU {form}", make.single, form, "RELU")
        yield case(f"RELU6 {form}", make.single, form, "RELU6", 0.0235, -128, wide=0.06)
        yield case(f"RELU_N1_TO_1 {form}", make.single, form, "RELU_N1_TO_1")
        yield case(f"ABS {form}", make.single, form, "ABS", 0.02, -128, "Abs")
        yield case(f"ELU {form}", make.single, form, "ELU", 0.02, -20)
        yield case(f"GELU {form}", make.single, form, "GELU", 0.02, -100, "Gelu")
        yield case(f"EXP {form}", make.single, form, "EXP", 0.05, -128, "Exp")
        yield (
            case(f"NEG {form}", make.single, form, "NEG", options="Neg")
            if form == "float"
            else case(f"RELU_0_TO_1 {form}", make.single, form, "RELU_0_TO_1")
        )
        yield case(
            f"PAD {form} planes",
            lambda form=form: make.behind_planes(
                make.convolution(form, plane=(4, 5), channels=make.Channels(co=6)),
                "PAD",
                (1, 7, 7, 6),
                PADS,
                "Pad",
            ),
        )
        yield case(
            f"MIRROR_PAD {form}",
            make.moved,
            form,
            "MIRROR_PAD",
            (1, 4, 5, 6),
            (1, 7, 7, 6),
            PADS,
            "MirrorPad",
            Mode=0,
        )
        yield case(
            f"RESHAPE {form}",
            make.moved,
            form,
            "RESHAPE",
            (1, 4, 5, 6),
            (1, 20, 6),
            options="Reshape",
            NewShape=[1, 20, 6],
        )
        yield case(
            f"RESHAPE {form} planes",
            lambda form=form: make.behind_planes(
                make.convolution(form, plane=(4, 5), channels=make.Channels(co=6)),
                "RESHAPE",
                (1, 20, 6),
                (),
                "Reshape",
                NewShape=[1, 20, 6],
            ),
        )
        yield case(
            f"SQUEEZE {form}",
            make.moved,
            form,
            "SQUEEZE",
            (1, 1, 5, 6),
            (5, 6),
            options="Squeeze",
            SqueezeDims=[0, 1],
        )
        yield case(
            f"EXPAND_DIMS {form}",
            make.moved,
            form,
            "EXPAND_DIMS",
            (5, 6),
            (1, 5, 6),
            [np.array(0, np.int32)],
            "ExpandDims",
        )
        yield case(
            f"TRANSPOSE {form}",
            make.moved,
            form,
            "TRANSPOSE",
            (2, 4, 5),
            (5, 2, 4),
            [np.array([2, 0, 1], np.int32)],
            "Transpose",
        )
        yield case(
            f"TRANSPOSE {form} planes",
            lambda form=form: make.behind_planes(
                make.convolution(form, plane=(4, 5), channels=make.Channels(co=6)),
                "TRANSPOSE",
                (1, 5, 4, 6),
                [np.array([0, 2, 1, 3], np.int32)],
                "Transpose",
            ),
        )
        yield case(
            f"SLICE {form}",
            make.moved,
            form,
            "SLICE",
            (1, 6, 5, 6),
            (1, 3, 5, 2),
            [np.array([0, 1, 0, 2], np.int32), np.array([1, 3, -1, 2], np.int32)],
            "Slice",
        )
        yield case(
            f"STRIDED_SLICE {form}",
            make.moved,
            form,
            "STRIDED_SLICE",
            (1, 6, 5, 6),
            (1, 3, 5, 3),
            [
                np.array([0, 1, 0, 0], np.int32),
                np.array([0, 7, 5, 3], np.int32),
                np.array([1, 2, 1, 1], np.int32),
            ],
            "StridedSlice",
            BeginMask=1,
            EndMask=1,
        )
        yield case(
            f"STRIDED_SLICE {form} index",
            make.moved,
            form,
            "STRIDED_SLICE",
            (2, 6, 5),
            (2, 5),
            [np.array([0, 2, 0], np.int32), np.array([2, 3, 5], np.int32), np.array([1, 1, 1], np.int32)],
            "StridedSlice",
            ShrinkAxisMask=2,
        )
        yield case(
            f"SPLIT {form}",
            make.moved,
            form,
            "SPLIT",
            (1, 4, 5, 6),
            [(1, 4, 5, 3)] * 2,
            [np.array(3, np.int32)],
            "Split",
            NumSplits=2,
        )
        yield case(
            f"SPLIT {form} planes",
            lambda form=form: make.behind_planes(
                make.convolution(form, plane=(4, 5), channels=make.Channels(co=6)),
                "SPLIT",
                [(1, 4, 5, 3)] * 2,
                [np.array(3, np.int32)],
                "Split",
                NumSplits=2,
            ),
        )
        yield case(
            f"SPLIT_V {form}",
            make.moved,
            form,
            "SPLIT_V",
            (1, 4, 6),
            [(1, 4, 2), (1, 4, 4)],
            [np.array([2, 4], np.int32), np.array(2, np.int32)],
            "SplitV",
            NumSplits=2,
        )
        yield case(f"PACK {form}", make.packed, form)
        yield case(
            f"UNPACK {form}",
            make.moved,
            form,
            "UNPACK",
            (3, 2, 4),
            [(3, 4)] * 2,
            options="Unpack",
            Num=2,
            Axis=1,
        )
        yield case(
            f"GATHER {form}",
            make.moved,
            form,
            "GATHER",
            (3, 5, 4),
            (3, 2, 4),
            [np.array([3, 0], np.int32)],
            "Gather",
            Axis=1,
        )
        yield case(f"PADV2 {form}", make.padded, form)
        yield case(
            f"DEPTH_TO_SPACE {form}",
            make.moved,
            form,
            "DEPTH_TO_SPACE",
            (1, 3, 4, 8),
            (1, 6, 8, 2),
            options="DepthToSpace",
            BlockSize=2,
        )
        yield case(
            f"SPACE_TO_DEPTH {form}",
            make.moved,
            form,
            "SPACE_TO_DEPTH",
            (1, 4, 6, 2),
            (1, 2, 3, 8),
            options="SpaceToDepth",
            BlockSize=2,
        )
        yield case(
            f"SPACE_TO_BATCH_ND {form}",
            make.moved,
            form,
            "SPACE_TO_BATCH_ND",
            (1, 5, 5, 3),
            (4, 3, 4, 3),
            [np.array([2, 2], np.int32), np.array([[0, 1], [1, 2]], np.int32)],
            "SpaceToBatchND",
        )
        yield case(
            f"BATCH_TO_SPACE_ND {form}",
            make.moved,
            form,
            "BATCH_TO_SPACE_ND",
            (4, 3, 4, 3),
            (1, 5, 7, 3),
            [np.array([2, 2], np.int32), np.array([[1, 0], [0, 1]], np.int32)],
            "BatchToSpaceND",
        )
    yield case("DIV float", make.paired, "float", "DIV", constant=True)
    yield case("POW float", make.powered)
    for kind, options in (
        ("LOG", ""),
        ("SQRT", ""),
        ("RSQRT", ""),
        ("SQUARE", "Square"),
        ("FLOOR", ""),
        ("CEIL", ""),
        ("ROUND", ""),
        ("SIN", ""),
        ("COS", "Cos"),
        ("SIGN", "Sign"),
    ):
        yield case(f"{kind} float", make.single, "float", kind, options=options)
    for kind in ("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL"):
        yield case(f"{kind} float", make.compared, kind)
    tiled = [np.array([1, 2, 1], np.int32)]
    yield case("TILE float", make.moved, "float", "TILE", (1, 3, 4), (1, 6, 4), tiled, "Tile")
    yield case("REDUCE_PROD float", make.reduced, "float", "REDUCE_PROD", (1, 2), shape=(1, 3, 2, 8))
    yield case("ADD_N float", make.several, "ADD_N", 3, np.float32, np.float32, "AddN")
    yield case("LOGICAL_AND bool", make.several, "LOGICAL_AND", 2, np.bool_, np.bool_, "LogicalAnd")
    yield case("LOGICAL_OR bool", make.several, "LOGICAL_OR", 2, np.bool_, np.bool_, "LogicalOr")
    yield case("LOGICAL_NOT bool", make.several, "LOGICAL_NOT", 1, np.bool_, np.bool_, "LogicalNot")
    number, whole = tflite.TensorType.FLOAT32, tflite.TensorType.INT32
    cast = {"InDataType": number, "OutDataType": whole}
    yield case("CAST float", make.several, "CAST", 1, np.float32, np.int32, "Cast", **cast)
    yield case("SHAPE float", make.shaped)
    yield case("SELECT_V2 float", make.selected)
    yield case("SELECT float", make.selected, "SELECT")
    yield case("GATHER float table", make.embedded)
    yield case("DEQUANTIZE float16 weights", make.halves)
    yield case(
        "REVERSE_V2 float",
        make.moved,
        "float",
        "REVERSE_V2",
        (2, 4, 5),
        (2, 4, 5),
        [np.array([1], np.int32)],
        "ReverseV2",
    )
    yield case(
        "BROADCAST_TO float",
        make.moved,
        "float",
        "BROADCAST_TO",
        (1, 4, 1),
        (3, 4, 5),
        [np.array([3, 4, 5], np.int32)],
        "BroadcastTo",
    )
    for source, target in (
        (np.float32, np.int8),
        (np.int8, np.float32),
        (np.int8, np.int8),
        (np.uint8, np.int8),
        (np.int8, np.uint8),
    ):
        yield case(
            f"{'DEQUANTIZE' if target == np.float32 else 'QUANTIZE'} {np.dtype(source)} {np.dtype(target)}",
            make.requantized,
            source,
            target,
        )
    yield case("PRELU float", lambda: make.rectified("float"))
    yield case("PRELU int8", lambda: make.rectified("int8"))
