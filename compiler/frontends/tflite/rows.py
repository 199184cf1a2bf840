"""The table of TFLite's operators: for each the function that writes it as ONNX nodes, as FILE:FUNCTION.

The file is imported when a model has the operator. Rows that begin with "function" or "pair" share one function, which
gets the ONNX operator that the row names behind a blank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType

from .model import Operator
from .writer import Writer

Convert = Callable[[Writer, Operator], None]

ROWS: Mapping[str, str] = MappingProxyType(
    {
        # Windows.
        "CONV_2D": "windows:convolution",
        "DEPTHWISE_CONV_2D": "windows:depthwise",
        "TRANSPOSE_CONV": "windows:transposed",
        "AVERAGE_POOL_2D": "windows:pool AveragePool",
        "MAX_POOL_2D": "windows:pool MaxPool",
        "RESIZE_BILINEAR": "windows:resize linear",
        "RESIZE_NEAREST_NEIGHBOR": "windows:resize nearest",
        # Products.
        "FULLY_CONNECTED": "products:fully_connected",
        "BATCH_MATMUL": "products:matrix_product",
        # Element by element.
        "ADD": "pointwise:pair Add",
        "SUB": "pointwise:pair Sub",
        "MUL": "pointwise:pair Mul",
        "DIV": "pointwise:pair Div",
        "MAXIMUM": "pointwise:pair Max",
        "MINIMUM": "pointwise:pair Min",
        "POW": "pointwise:pair Pow",
        "SQUARED_DIFFERENCE": "pointwise:squared_difference",
        "ADD_N": "pointwise:pair Sum",
        "PRELU": "pointwise:pair PRelu",
        "LESS": "pointwise:pair Less",
        "LESS_EQUAL": "pointwise:pair LessOrEqual",
        "GREATER": "pointwise:pair Greater",
        "GREATER_EQUAL": "pointwise:pair GreaterOrEqual",
        "EQUAL": "pointwise:pair Equal",
        "NOT_EQUAL": "pointwise:not_equal",
        "LOGICAL_AND": "pointwise:pair And",
        "LOGICAL_OR": "pointwise:pair Or",
        "SELECT": "pointwise:pair Where",
        "SELECT_V2": "pointwise:pair Where",
        "LOGICAL_NOT": "pointwise:function Not",
        "RELU": "pointwise:function Relu",
        "RELU6": "pointwise:clamp",
        "RELU_N1_TO_1": "pointwise:clamp",
        "RELU_0_TO_1": "pointwise:clamp",
        "LOGISTIC": "pointwise:function Sigmoid",
        "TANH": "pointwise:function Tanh",
        "HARD_SWISH": "pointwise:function HardSwish",
        "LEAKY_RELU": "pointwise:leaky",
        "ELU": "pointwise:function Elu",
        "GELU": "pointwise:gelu",
        "EXP": "pointwise:function Exp",
        "LOG": "pointwise:function Log",
        "SQRT": "pointwise:function Sqrt",
        "RSQRT": "pointwise:reciprocal_root",
        "SQUARE": "pointwise:square",
        "ABS": "pointwise:function Abs",
        "NEG": "pointwise:function Neg",
        "FLOOR": "pointwise:function Floor",
        "CEIL": "pointwise:function Ceil",
        "ROUND": "pointwise:function Round",
        "SIN": "pointwise:function Sin",
        "COS": "pointwise:function Cos",
        "SIGN": "pointwise:function Sign",
        "QUANTIZE": "pointwise:requantize",
        "DEQUANTIZE": "pointwise:requantize",
        "CAST": "pointwise:cast",
        # Elements moved.
        "RESHAPE": "views:reshape",
        "SQUEEZE": "views:reshape",
        "EXPAND_DIMS": "views:reshape",
        "TRANSPOSE": "views:transpose",
        "SHAPE": "views:shape",
        "CONCATENATION": "moves:concatenate",
        "PACK": "moves:pack",
        "UNPACK": "moves:unpack",
        "PAD": "moves:pad",
        "PADV2": "moves:pad",
        "MIRROR_PAD": "moves:pad",
        "SLICE": "moves:cut",
        "STRIDED_SLICE": "moves:strided",
        "SPLIT": "moves:split",
        "SPLIT_V": "moves:split",
        "GATHER": "moves:gather",
        "TILE": "moves:tile",
        "BROADCAST_TO": "moves:broadcast",
        "REVERSE_V2": "moves:reverse",
        "DEPTH_TO_SPACE": "views:depth_to_space",
        "SPACE_TO_DEPTH": "views:space_to_depth",
        "SPACE_TO_BATCH_ND": "views:space_to_batch",
        "BATCH_TO_SPACE_ND": "views:batch_to_space",
        # Along axes.
        "MEAN": "reductions:reduce ReduceMean",
        "SUM": "reductions:reduce ReduceSum",
        "REDUCE_MAX": "reductions:reduce ReduceMax",
        "REDUCE_MIN": "reductions:reduce ReduceMin",
        "REDUCE_PROD": "reductions:reduce ReduceProd",
        "ARG_MAX": "reductions:extreme ArgMax",
        "ARG_MIN": "reductions:extreme ArgMin",
        "SOFTMAX": "reductions:softmax",
        "LOG_SOFTMAX": "reductions:log_softmax",
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
    if not onnx_operator:
        return convert
    return lambda writer, operator: convert(writer, operator, onnx_operator)
