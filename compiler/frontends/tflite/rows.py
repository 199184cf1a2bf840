"""The table of TFLite's operators, with the function that writes each operator as ONNX nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from . import functions, moves, windows
from .model import Operator
from .step import Step
from .writer import Writer


@dataclass(frozen=True, slots=True)
class Row:
    """The conversion of one TFLite operator. `function` adds its nodes. `onnx`: the ONNX operator that the function
    uses ("": none). `options`: the class of the operator's options ("": the function reads none). `layout`: the layout
    in which the function reads images, "planes" (N, C, H, W) or "rows" (N, H, W, C); "": either.
    """

    function: Callable[[Step], None]
    onnx: str = ""
    options: str = ""
    layout: str = ""

    def convert(self, writer: Writer, operator: Operator) -> None:
        """Adds the operator's nodes to `writer`. Raises RefusedOperator for a form that is not supported, FrontendError
        for options of another class.
        """
        options = operator.options(self.options) if self.options else None
        planes = self.layout == "planes" or (not self.layout and writer.prefer_planes(operator.inputs))
        self.function(
            Step(writer, operator, self.onnx, options, operator.inputs, operator.outputs[0], planes)
        )


def _rows(
    function: Callable[[Step], None], kinds: str, options: str = "", layout: str = ""
) -> dict[str, Row]:
    """Makes the rows of several TFLite operators that have the same `function` and `layout`. `kinds`: the operators,
    separated by blanks, as NAME=Onnx (the ONNX operator that the function uses) or NAME alone. A * in `options` is
    replaced by the ONNX operator.
    """
    pairs = (kind.partition("=") for kind in kinds.split())
    return {kind: Row(function, onnx, options.replace("*", onnx), layout) for kind, _, onnx in pairs}


ROWS: Mapping[str, Row] = MappingProxyType(
    {
        # Windows and products.
        "CONV_2D": Row(windows.convolution, options="Conv2DOptions", layout="planes"),
        "DEPTHWISE_CONV_2D": Row(windows.convolution, options="DepthwiseConv2DOptions", layout="planes"),
        "TRANSPOSE_CONV": Row(windows.transposed, options="TransposeConvOptions", layout="planes"),
        **_rows(windows.pool, "AVERAGE_POOL_2D=AveragePool MAX_POOL_2D=MaxPool", "Pool2DOptions", "planes"),
        "RESIZE_BILINEAR": Row(windows.resize, "Resize", "ResizeBilinearOptions", "planes"),
        "RESIZE_NEAREST_NEIGHBOR": Row(windows.resize, "Resize", "ResizeNearestNeighborOptions", "planes"),
        "FULLY_CONNECTED": Row(windows.fully_connected, options="FullyConnectedOptions", layout="rows"),
        "BATCH_MATMUL": Row(windows.matrix_product, options="BatchMatMulOptions", layout="rows"),
        # Element by element.
        **_rows(functions.elementwise, "ADD=Add SUB=Sub MUL=Mul DIV=Div", "*Options"),
        **_rows(functions.elementwise, "ADD_N=Sum POW=Pow PRELU=PRelu"),
        "SQUARED_DIFFERENCE": Row(functions.squared_difference, "Sub,Mul"),
        **_rows(functions.elementwise, "MAXIMUM=Max MINIMUM=Min SELECT=Where SELECT_V2=Where"),
        **_rows(functions.compare, "LESS=Less LESS_EQUAL=LessOrEqual GREATER=Greater EQUAL=Equal"),
        **_rows(functions.compare, "GREATER_EQUAL=GreaterOrEqual NOT_EQUAL=Equal,Not"),
        **_rows(functions.elementwise, "LOGICAL_AND=And LOGICAL_OR=Or LOGICAL_NOT=Not"),
        **_rows(functions.elementwise, "LOGISTIC=Sigmoid TANH=Tanh ELU=Elu EXP=Exp LOG=Log"),
        **_rows(functions.elementwise, "SQUARE=Mul SQRT=Sqrt NEG=Neg SIGN=Sign SIN=Sin COS=Cos"),
        **_rows(functions.elementwise, "RSQRT=Sqrt,Reciprocal FLOOR=Floor CEIL=Ceil ROUND=Round"),
        **_rows(functions.rescale, "QUANTIZE DEQUANTIZE ABS=Abs RELU RELU6 RELU_N1_TO_1 RELU_0_TO_1"),
        "HARD_SWISH": Row(functions.hard_swish, "HardSwish"),
        "LEAKY_RELU": Row(functions.leaky, "LeakyRelu", "LeakyReluOptions"),
        "GELU": Row(functions.gelu, "Gelu", "GeluOptions"),
        "CAST": Row(functions.cast),
        # Elements moved.
        **_rows(moves.reshape, "RESHAPE SQUEEZE EXPAND_DIMS", layout="rows"),
        "TRANSPOSE": Row(moves.transpose, layout="rows"),
        "SHAPE": Row(moves.shape),
        **_rows(
            moves.blocks, "DEPTH_TO_SPACE=DepthToSpace SPACE_TO_DEPTH=SpaceToDepth", "*Options", "planes"
        ),
        **_rows(moves.batches, "SPACE_TO_BATCH_ND BATCH_TO_SPACE_ND", layout="planes"),
        "CONCATENATION": Row(moves.concatenate, options="ConcatenationOptions"),
        "PACK": Row(moves.concatenate, options="PackOptions", layout="rows"),
        "UNPACK": Row(moves.split, options="UnpackOptions", layout="rows"),
        **_rows(moves.pad, "PAD PADV2"),
        "MIRROR_PAD": Row(moves.mirror, options="MirrorPadOptions"),
        "SLICE": Row(moves.cut),
        "STRIDED_SLICE": Row(moves.strided, options="StridedSliceOptions"),
        **_rows(moves.split, "SPLIT SPLIT_V"),
        "GATHER": Row(moves.gather, options="GatherOptions", layout="rows"),
        **_rows(moves.repeat, "TILE=Tile BROADCAST_TO=Expand", layout="rows"),
        "REVERSE_V2": Row(moves.reverse, layout="rows"),
        # Along axes.
        **_rows(functions.reduce, "MEAN=ReduceMean SUM=ReduceSum REDUCE_PROD=ReduceProd", "ReducerOptions"),
        **_rows(functions.reduce, "REDUCE_MAX=ReduceMax REDUCE_MIN=ReduceMin", "ReducerOptions"),
        **_rows(functions.extreme, "ARG_MAX=ArgMax ARG_MIN=ArgMin", layout="rows"),
        "SOFTMAX": Row(functions.soften, "Softmax", "SoftmaxOptions"),
        "LOG_SOFTMAX": Row(functions.soften, "LogSoftmax"),
        "L2_NORMALIZATION": Row(functions.l2_normalization, layout="rows"),
    }
)
