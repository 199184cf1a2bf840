"""The table of TFLite's operators: for each the function that writes it as ONNX nodes, as FILE:FUNCTION.

The file is imported when a model has the operator. Several rows may share one function, which gets the ONNX operator
that the row names behind a blank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType

from .model import Operator
from .writer import Writer

Convert = Callable[[Writer, Operator], None]


def _alike(place: str, operators: str) -> dict[str, str]:
    """Rows of one function: `operators` are pairs TFLITE=Onnx, or TFLITE alone, separated by blanks."""
    pairs = (operator.partition("=") for operator in operators.split())
    return {kind: f"{place} {onnx}".strip() for kind, _, onnx in pairs}


ROWS: Mapping[str, str] = MappingProxyType(
    {
        # Windows and products.
        "CONV_2D": "windows:convolution",
        "DEPTHWISE_CONV_2D": "windows:depthwise",
        "TRANSPOSE_CONV": "windows:transposed",
        **_alike("windows:pool", "AVERAGE_POOL_2D=AveragePool MAX_POOL_2D=MaxPool"),
        **_alike("windows:resize", "RESIZE_BILINEAR=linear RESIZE_NEAREST_NEIGHBOR=nearest"),
        "FULLY_CONNECTED": "products:fully_connected",
        "BATCH_MATMUL": "products:matrix_product",
        # Element by element.
        **_alike("pointwise:pair", "ADD=Add SUB=Sub MUL=Mul DIV=Div ADD_N=Sum POW=Pow PRELU=PRelu"),
        **_alike(
            "pointwise:pair",
            "SQUARED_DIFFERENCE=Sub,Mul MAXIMUM=Max MINIMUM=Min SELECT=Where SELECT_V2=Where",
        ),
        **_alike("pointwise:pair", "LESS=Less LESS_EQUAL=LessOrEqual GREATER=Greater EQUAL=Equal"),
        **_alike(
            "pointwise:pair", "NOT_EQUAL=Equal,Not GREATER_EQUAL=GreaterOrEqual LOGICAL_AND=And LOGICAL_OR=Or"
        ),
        **_alike(
            "pointwise:function", "LOGICAL_NOT=Not RELU=Relu LOGISTIC=Sigmoid TANH=Tanh ELU=Elu EXP=Exp"
        ),
        **_alike("pointwise:function", "LOG=Log SQRT=Sqrt ABS=Abs NEG=Neg SIGN=Sign SIN=Sin COS=Cos"),
        **_alike("pointwise:function", "RSQRT=Sqrt,Reciprocal FLOOR=Floor CEIL=Ceil ROUND=Round"),
        **_alike("pointwise:clamp", "RELU6 RELU_N1_TO_1 RELU_0_TO_1"),
        **_alike("pointwise:requantize", "QUANTIZE DEQUANTIZE"),
        "HARD_SWISH": "hard_swish:hard_swish",
        "LEAKY_RELU": "pointwise:leaky",
        "GELU": "pointwise:gelu",
        "SQUARE": "pointwise:square",
        "CAST": "pointwise:cast",
        # Elements moved.
        **_alike("views:reshape", "RESHAPE SQUEEZE EXPAND_DIMS"),
        "TRANSPOSE": "views:transpose",
        "SHAPE": "views:shape",
        **_alike("views:blocks", "DEPTH_TO_SPACE=DepthToSpace SPACE_TO_DEPTH=SpaceToDepth"),
        "SPACE_TO_BATCH_ND": "views:space_to_batch",
        "BATCH_TO_SPACE_ND": "views:batch_to_space",
        "CONCATENATION": "moves:concatenate",
        "PACK": "moves:pack",
        "UNPACK": "moves:unpack",
        **_alike("moves:pad", "PAD PADV2 MIRROR_PAD"),
        "SLICE": "moves:cut",
        "STRIDED_SLICE": "moves:strided",
        **_alike("moves:split", "SPLIT SPLIT_V"),
        "GATHER": "moves:gather",
        **_alike("moves:repeat", "TILE=Tile BROADCAST_TO=Expand"),
        "REVERSE_V2": "moves:reverse",
        # Along axes.
        **_alike("reductions:reduce", "MEAN=ReduceMean SUM=ReduceSum REDUCE_PROD=ReduceProd"),
        **_alike("reductions:reduce", "REDUCE_MAX=ReduceMax REDUCE_MIN=ReduceMin"),
        **_alike("reductions:extreme", "ARG_MAX=ArgMax ARG_MIN=ArgMin"),
        **_alike("reductions:soften", "SOFTMAX=Softmax LOG_SOFTMAX=LogSoftmax"),
        "L2_NORMALIZATION": "reductions:l2_normalization",
    }
)


def converter_of(kind: str) -> Convert | None:
    """The function that converts operators of this kind; None if there is none."""
    row = ROWS.get(kind)
    if row is None:
        return None
    place, _, onnx_operator = row.partition(" ")
    file, function = place.split(":")
    convert = getattr(import_module(f"{__package__}.{file}"), function)
    return (lambda writer, operator: convert(writer, operator, onnx_operator)) if onnx_operator else convert
