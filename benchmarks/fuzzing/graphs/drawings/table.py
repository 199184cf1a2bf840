"""Table of drawings (functions that add a random node) by operator; an operator that is not in the table is drawn by
its schema alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from ..builder import Builder
from ..tables import Operator
from . import control, moved_pads, moves, pointwise, products, quantized, recurrent, reductions, windows

Drawing = Callable[[Builder, Operator], None]
"""A function that adds one node of an operator, with its inputs, to a graph. Raises UnfitError if the node is not
valid.
"""

DRAWINGS: Mapping[str, Drawing] = MappingProxyType(
    {
        **dict.fromkeys(("CumSum", "CumProd"), pointwise.with_operands("axis")),
        **dict.fromkeys(("Cast", "CastLike", "BitCast"), pointwise.cast),
        "Clip": pointwise.clip,
        "Dropout": pointwise.dropout,
        "Pow": pointwise.power,
        **dict.fromkeys(("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp"), reductions.reduction),
        **dict.fromkeys(("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd"), reductions.reduction),
        **dict.fromkeys(("ReduceSum", "ReduceSumSquare"), reductions.reduction),
        "TopK": reductions.top_k,
        "OneHot": reductions.one_hot,
        "BatchNormalization": reductions.batch_normalization,
        **dict.fromkeys(("LayerNormalization", "RMSNormalization"), reductions.layer_normalization),
        "InstanceNormalization": reductions.instance_normalization,
        "GroupNormalization": reductions.group_normalization,
        "MeanVarianceNormalization": reductions.mean_variance,
        "LRN": reductions.local_response,
        **dict.fromkeys(("Conv", "ConvTranspose"), windows.convolution),
        "ConvInteger": windows.integer_convolution,
        **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), windows.pool),
        **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool"), windows.global_pool),
        "MaxUnpool": windows.max_unpool,
        "Col2Im": windows.column_to_image,
        "Resize": windows.resize,
        "GridSample": windows.grid_sample,
        "MatMul": products.matmul,
        "Gemm": products.gemm,
        "MatMulInteger": products.integer_product,
        "Einsum": products.einsum,
        "DFT": products.fourier,
        "STFT": products.short_fourier,
        **dict.fromkeys(("DynamicQuantizeMatMul", "MatMulIntegerToFloat"), products.dynamic_product),
        "MatMulNBits": products.narrow_product,
        "MelWeightMatrix": products.mel_weights,
        "Reshape": moves.reshape,
        **dict.fromkeys(("Squeeze", "Unsqueeze"), moves.squeeze),
        "Transpose": moves.transpose,
        "Concat": moves.concat,
        "Split": moves.split,
        "Slice": moves.cut,
        **dict.fromkeys(("Gather", "GatherElements", "GatherND"), moves.gather),
        **dict.fromkeys(("ScatterElements", "ScatterND"), moves.scatter),
        "Expand": moves.expand,
        "Tile": moves.tile,
        "Pad": moved_pads.pad,
        **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), moves.blocks),
        "Trilu": moves.trilu,
        "ReverseSequence": moves.reverse_sequence,
        **dict.fromkeys(("Shape", "Size"), moves.shape),
        "EyeLike": moves.eye,
        **dict.fromkeys(("Range", "ConstantOfShape"), moves.counted),
        **dict.fromkeys(("LSTM", "GRU", "RNN", "DynamicQuantizeLSTM"), recurrent.recurrent),
        "If": control.branches,
        "Loop": control.loop,
        "Scan": control.scan,
        "QuantizeLinear": quantized.quantize,
        "DequantizeLinear": quantized.dequantize,
        "QLinearConv": quantized.qlinear_convolution,
        **dict.fromkeys(("QLinearMatMul", "QGemm"), quantized.qlinear_product),
        **dict.fromkeys(("QLinearAdd", "QLinearMul"), quantized.qlinear_pair),
        **dict.fromkeys(("QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax"), quantized.qlinear_single),
        **dict.fromkeys(("QLinearAveragePool", "QLinearGlobalAveragePool"), quantized.qlinear_single),
        "QLinearReduceMean": quantized.qlinear_single,
        "QLinearConcat": quantized.qlinear_concat,
        "QLinearWhere": quantized.qlinear_where,
        "NhwcMaxPool": quantized.channels_last_pool,
    }
)  # fmt: skip
"""Drawings (functions that add a random node) by operator name; operators of all domains share the names."""


def drawing_of(operator: Operator) -> Drawing:
    """The drawing (function that adds a random node) of an operator."""
    return DRAWINGS.get(operator.name, pointwise.pointwise)
