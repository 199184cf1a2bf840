"""ONNX import of float32 networks: one walk over the nodes, constants computed on the way."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import onnx

from ...te.ops.reduction import Kind
from ..errors import ModelError
from ..graph import Graph, GraphInput, GraphOutput, Tensor, plain_input, plain_output
from ..onnx_constants import evaluate_node
from ..onnx_context import OnnxNode, read_node
from ..onnx_load import initializer_array, input_shape, load_model, opset_of, static_shapes, type_name
from ..onnx_read import ReadModel, Source
from ..onnx_views import viewed_shape
from .onnx_context import FloatContext
from .onnx_gemm import import_gemm
from .onnx_lines import on_planes
from .onnx_logic import LOGIC, TRUTH, import_logic
from .onnx_movement import (
    import_concat,
    import_depth_to_space,
    import_expand,
    import_gather,
    import_gather_nd,
    import_pad,
    import_slice,
    import_split,
    import_transpose,
)
from .onnx_normalizations import import_instance_normalization, import_layer_normalization
from .onnx_pointwise import NARY, UNARY, import_clip, import_nary, import_power, import_unary
from .onnx_products import (
    import_batch_normalization,
    import_convolution,
    import_matmul,
    import_transposed_convolution,
)
from .onnx_quantization import check_integers, import_dequantize, import_quantize
from .onnx_recurrent import import_lstm
from .onnx_reductions import import_logarithm, import_reduction, import_softmax
from .onnx_resize import import_resize
from .onnx_windows import import_average_pool, import_global_pool, import_max_pool

OLDEST_OPSET = 11
REDUCTIONS: Mapping[str, Kind] = MappingProxyType(
    {
        "ReduceSum": "sum",
        "ReduceMean": "mean",
        "ReduceMax": "max",
        "ReduceMin": "min",
        "ReduceSumSquare": "sum_square",
        "ReduceL1": "l1",
        "ReduceL2": "l2",
    }
)
SUPPORTED = (
    "Conv, ConvTranspose, Gemm, MatMul, LSTM, BatchNormalization, LayerNormalization, InstanceNormalization, "
    "MaxPool, AveragePool, GlobalMaxPool, GlobalAveragePool, Softmax, LogSoftmax, ReduceLogSum, "
    "ReduceLogSumExp, Clip, Pow, "
    f"{', '.join(sorted(UNARY | NARY | LOGIC | REDUCTIONS.keys()))}, Transpose, DepthToSpace, SpaceToDepth, Concat, "
    "Split, Slice, Gather, GatherND, Expand, Pad, Resize, Flatten, Reshape, Squeeze, Unsqueeze, Identity, Dropout, "
    "QuantizeLinear, DequantizeLinear, and whatever has constant inputs"
)


def import_float_model(source: Source | ReadModel, *, batch: int = 1) -> Graph:
    """Imports a float32 ONNX model of opset 11 or later from a path or from the bytes of a file.

    Inputs whose first dimension is not a number get `batch` there. Returns a graph of one node or a few for each ONNX
    node, without those that depend on no input. Raises ModelError, which names file, node and operator, for everything
    that is not supported.
    """
    label, model = load_model(source, oldest_opset=OLDEST_OPSET, batch=batch)
    context = FloatContext(source=label, opset=opset_of(model), static_shapes=static_shapes(model))
    for initializer in model.graph.initializer:
        context.constants[initializer.name] = initializer_array(label, initializer)
    inputs: list[GraphInput] = []
    for info in model.graph.input:
        if info.name not in context.constants:
            inputs.append(_input(context, info))
    for index, proto in enumerate(model.graph.node):
        _import_node(context, read_node(proto, index))
    outputs = tuple(_output(context, info) for info in model.graph.output)
    used = {name for node in context.nodes for name in node.inputs} | {output.tensor for output in outputs}
    return Graph(
        name=model.graph.name or "graph",
        inputs=tuple(inputs),
        outputs=outputs,
        nodes=tuple(context.nodes),
        tensors=context.tensors,
        constants={name: array for name, array in context.constants.items() if name in used},
    )


def _input(context: FloatContext, info: onnx.ValueInfoProto) -> GraphInput:
    shape = input_shape(info)
    dtype = type_name(info.type.tensor_type.elem_type)
    if dtype != "float":
        raise ModelError(
            f"{context.source}: input '{info.name}' has type {dtype}; only networks of float32 inputs are compiled for "
            "processors and GPUs: give the model a float32 input"
        )
    context.tensors[info.name] = Tensor(name=info.name, shape=shape)
    return plain_input(context.tensors[info.name])


def _output(context: FloatContext, info: onnx.ValueInfoProto) -> GraphOutput:
    name = context.resolve(info.name)
    if name in context.constants and name not in context.tensors:
        array = context.constants[name]
        if array.dtype != np.float32:
            raise ModelError(
                f"{context.source}: output '{info.name}' is a constant of {array.dtype}; remove it from the outputs"
            )
        context.tensors[name] = Tensor(name=name, shape=array.shape)
    if name not in context.tensors:
        raise ModelError(
            f"{context.source}: output '{info.name}' is computed by no node; remove it from the model's outputs"
        )
    if name in context.quantized:
        raise ModelError(
            f"{context.source}: output '{info.name}' is {context.quantized[name]}; processors and GPUs return "
            f"float32: end it with {'Cast' if context.quantized[name] == TRUTH else 'DequantizeLinear'}"
        )
    return plain_output(info.name, context.tensors[name])


def _import_node(context: FloatContext, node: OnnxNode) -> None:
    """Binds the outputs of one node."""
    if node.domain not in ("", "ai.onnx"):
        context.fail(node, f"is of the unknown domain '{node.domain}'", f"supported are {SUPPORTED}")
    if all(context.resolve(name) in context.constants for name in node.inputs if name):
        feeds = {name: context.constants[context.resolve(name)] for name in node.inputs if name}
        # The reference implementation has these two from opset 19 on, where they mean the same.
        oldest = 19 if node.op_type in ("QuantizeLinear", "DequantizeLinear") else 0
        context.constants.update(evaluate_node(context, node, feeds, max(context.opset, oldest)))
        return
    integers = check_integers(context, node)
    _import_operator(context, node)
    if integers and node.op_type not in ("DequantizeLinear", "Shape"):
        context.quantized.update((context.resolve(name), integers) for name in node.outputs if name)


def _import_operator(context: FloatContext, node: OnnxNode) -> None:
    match node.op_type:
        case "QuantizeLinear":
            import_quantize(context, node)
        case "DequantizeLinear":
            import_dequantize(context, node)
        case "Conv":
            on_planes(context, node, import_convolution)
        case "ConvTranspose":
            on_planes(context, node, import_transposed_convolution)
        case "Transpose":
            import_transpose(context, node)
        case "DepthToSpace" | "SpaceToDepth":
            import_depth_to_space(context, node)
        case "Concat":
            import_concat(context, node)
        case "Slice":
            import_slice(context, node)
        case "Split":
            import_split(context, node)
        case "Gather":
            import_gather(context, node)
        case "GatherND":
            import_gather_nd(context, node)
        case "Expand":
            import_expand(context, node)
        case "Resize":
            import_resize(context, node)
        case "Pad":
            import_pad(context, node)
        case "Gemm":
            import_gemm(context, node)
        case "LSTM":
            import_lstm(context, node)
        case "MatMul":
            import_matmul(context, node)
        case "BatchNormalization":
            import_batch_normalization(context, node)
        case "LayerNormalization":
            import_layer_normalization(context, node)
        case "InstanceNormalization":
            import_instance_normalization(context, node)
        case "MaxPool":
            on_planes(context, node, import_max_pool)
        case "AveragePool":
            on_planes(context, node, import_average_pool)
        case "GlobalAveragePool" | "GlobalMaxPool":
            on_planes(context, node, import_global_pool)
        case name if name in REDUCTIONS:
            import_reduction(context, node, REDUCTIONS[name])
        case "ReduceLogSum" | "ReduceLogSumExp":
            import_logarithm(context, node)
        case "Softmax" | "LogSoftmax":
            import_softmax(context, node)
        case name if name in LOGIC:
            import_logic(context, node)
        case "Clip":
            import_clip(context, node)
        case "Pow":
            import_power(context, node)
        case name if name in UNARY:
            import_unary(context, node)
        case name if name in NARY:
            import_nary(context, node)
        case "Flatten" | "Reshape" | "Squeeze" | "Unsqueeze":
            _import_view(context, node)
        case "Identity" | "Dropout":
            _import_identity(context, node)
        case "Shape":
            shape = context.operand(node, 0).shape
            start, end = node.integer("start", 0), node.attributes.get("end")
            context.constants[node.outputs[0]] = np.array(shape[start:end], np.int64)
        case _:
            context.fail(
                node,
                "this operator is not supported",
                f"supported are {SUPPORTED}; move it out of the model or replace it",
            )


def _import_view(context: FloatContext, node: OnnxNode) -> None:
    data = context.operand(node, 0)
    shape = viewed_shape(context, node, data.shape)
    if np.prod(shape, dtype=np.int64) != np.prod(data.shape, dtype=np.int64):
        context.refuse(node, f"reshapes {data.shape} to {shape}, of another size", "export the model again")
    context.view(node, data, shape)


def _import_identity(context: FloatContext, node: OnnxNode) -> None:
    """Identity, and Dropout as inference runs it."""
    if any(node.outputs[1:]):
        context.fail(node, "asks for its mask", "export the model for inference")
    training = context.array(node, 2, "training_mode") if node.op_type == "Dropout" else None
    if training is not None and training.any():
        context.refuse(node, "is in training mode", "export the model for inference")
    context.renamed[node.outputs[0]] = context.operand(node, 0).name
