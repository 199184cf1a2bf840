"""ONNX import of float32 networks: one walk over the nodes, constants computed on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

import numpy as np
import onnx

from ...ir.types import DType
from ...te.ops.reduction import Kind
from ..errors import ModelError
from ..graph import Graph, GraphInput, GraphOutput, Tensor, plain_input, plain_output
from ..onnx_constants import evaluate_node
from ..onnx_context import OnnxNode, read_node
from ..onnx_load import input_shape, load_apart, opset_of, static_shapes, type_name
from ..onnx_read import ReadModel, Source
from ..onnx_structure import STRUCTURE
from ..qlinear import write_steps
from .onnx_bits import BITS, import_bits
from .onnx_choices import (
    import_extreme,
    import_fold,
    import_hardmax,
    import_one_hot,
    import_running,
    import_scatter,
    import_top_k,
)
from .onnx_context import TYPES, FloatContext
from .onnx_control import CONTROL, import_control
from .onnx_einsum import einsum_steps
from .onnx_functions import function_body
from .onnx_gemm import import_gemm
from .onnx_halves import half_type, held_type, in_float32
from .onnx_lines import on_planes
from .onnx_logic import LOGIC, import_logic
from .onnx_movement import (
    import_concat,
    import_depth_to_space,
    import_expand,
    import_gather,
    import_gather_elements,
    import_gather_nd,
    import_pad,
    import_slice,
    import_split,
    import_transpose,
    import_trilu,
)
from .onnx_normalizations import import_instance_normalization, import_layer_normalization
from .onnx_plain_windows import (
    import_plain_convolution,
    import_plain_pool,
    import_plain_transposed,
    is_plain,
)
from .onnx_pointwise import NARY, UNARY, import_clip, import_nary, import_power, import_unary
from .onnx_products import (
    import_batch_normalization,
    import_convolution,
    import_matmul,
    import_transposed_convolution,
)
from .onnx_quantization import check_integers, import_dequantize, import_quantize
from .onnx_recurrent import import_lstm
from .onnx_recurrent_steps import is_plain_lstm, recurrent_steps
from .onnx_reductions import import_cumulative_sum, import_logarithm, import_reduction, import_softmax
from .onnx_resize import import_grid_sample, import_resize
from .onnx_steps import BODIES, OTHERWISE
from .onnx_windows import import_average_pool, import_global_pool, import_max_pool

Importer = Callable[[FloatContext, OnnxNode], None]
OLDEST_OPSET = 11
_NAMES = {
    "float": "float32",
    "double": "float64",
    "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz",
    "float8e8m0": "float8_e8m0fnu",
    "float4e2m1": "float4_e2m1fn",
}
"""Types that ONNX calls otherwise."""
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


def import_float_model(source: Source | ReadModel, *, batch: int = 1) -> Graph:
    """Imports a float32 ONNX model of opset 11 or later from a path or from the bytes of a file.

    Inputs whose first dimension is not a number get `batch` there. Returns a graph of one node or a few for each ONNX
    node, without those that depend on no input. Raises ModelError, which names file, node and operator, for everything
    that is not supported.
    """
    loaded = load_apart(source, oldest_opset=OLDEST_OPSET, batch=batch, convert=True, empty=True)
    label, model = loaded.label, loaded.proto
    write_steps(model, opset_of(model))
    context = FloatContext(source=label, opset=opset_of(model), static_shapes=static_shapes(model))
    context.constants.update(loaded.arrays())
    inputs: list[GraphInput] = []
    for info in model.graph.input:
        if info.name not in context.constants:
            inputs.append(_input(context, info))
            context.given.add(info.name)
    for index, proto in enumerate(model.graph.node):
        _import_node(context, read_node(proto, index))
    for entry in inputs:
        if entry.tensor in context.constants:
            context.tensors.setdefault(
                entry.tensor, Tensor(name=entry.tensor, shape=entry.shape, dtype=entry.dtype)
            )
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
    held = _NAMES.get(dtype, dtype)
    if held not in TYPES:
        raise ModelError(
            f"{context.source}: input '{info.name}' has type {dtype}; processors and GPUs take {', '.join(TYPES)}: "
            "convert the input to one of them"
        )
    tensor = Tensor(name=info.name, shape=shape, dtype=DType(held))
    if tensor.size:
        context.tensors[info.name] = tensor
    else:
        # What holds nothing is known.
        context.constants[info.name] = np.zeros(shape, tensor.dtype.numpy)
    return plain_input(tensor)


def _output(context: FloatContext, info: onnx.ValueInfoProto) -> GraphOutput:
    name = context.resolve(info.name)
    if name in context.constants and name not in context.tensors:
        array = context.constants[name]
        if array.dtype.name not in TYPES:
            raise ModelError(
                f"{context.source}: output '{info.name}' is a constant of {array.dtype}; remove it from the outputs"
            )
        context.tensors[name] = Tensor(name=name, shape=array.shape, dtype=DType(array.dtype.name))
    if name not in context.tensors:
        raise ModelError(
            f"{context.source}: output '{info.name}' is computed by no node; remove it from the model's outputs"
        )
    if name in context.quantized:
        raise ModelError(
            f"{context.source}: output '{info.name}' is {context.quantized[name]}; processors and GPUs return "
            "float32: end it with DequantizeLinear"
        )
    declared = type_name(info.type.tensor_type.elem_type)
    if _NAMES.get(declared, declared) != context.tensors[name].dtype:
        raise ModelError(
            f"{context.source}: output '{info.name}' is declared {declared} but computed as "
            f"{context.tensors[name].dtype}; put a Cast before it"
        )
    return plain_output(info.name, context.tensors[name])


def _import_node(context: FloatContext, node: OnnxNode) -> None:
    """Binds the outputs of one node."""
    if node.domain not in ("", "ai.onnx"):
        body = function_body(context, node)
        if body is not None:
            _import_body(context, body)
            return
        context.fail(node, f"is of the unknown domain '{node.domain}'", f"supported are {SUPPORTED}")
    if node.op_type in CONTROL:
        import_control(context, node, _import_node)
        return
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


def _import_body(context: FloatContext, body: list[onnx.NodeProto]) -> None:
    for index, proto in enumerate(body):
        _import_node(context, read_node(proto, index))


def _import_operator(context: FloatContext, node: OnnxNode) -> None:
    importer = OPERATORS.get(node.op_type)
    if importer is None or _is_more(context, node):
        ours = (_BODIES if importer is None else _OTHERWISE).get(node.op_type)
        body = function_body(context, node) if ours is None else ours(context, node)
        if body is not None:
            _import_body(context, body)
            return
    if importer is None:
        context.fail(
            node,
            "this operator is not supported",
            f"supported are {SUPPORTED}; move it out of the model or replace it",
        )
    if node.op_type in PLAIN and _is_plain(context, node):
        importer = PLAIN[node.op_type]
    if node.op_type not in HELD and (held := held_type(context, node)) is not None:
        context.fail(
            node, f"works on {held}, which is only held and moved", "put a Cast to float32 before it"
        )
    if node.op_type not in TYPED and (half := half_type(context, node)) is not None:
        in_float32(context, node, half, importer)
        return
    importer(context, node)


def _is_plain(context: FloatContext, node: OnnxNode) -> bool:
    """Whether windows are none of the templates'."""
    if node.op_type in ("Conv", "ConvTranspose"):
        return is_plain(context, node)
    return node.op_type == "LpPool" or len(context.tensor(node, 0).shape) > 4


def _is_more(context: FloatContext, node: OnnxNode) -> bool:
    """Whether a node asks for more than its importer has, so that ONNX's function is the better form."""
    match node.op_type:
        case "LayerNormalization":
            constants = all(
                context.is_constant(node, i) for i in range(1, len(node.inputs)) if node.inputs[i]
            )
            return any(node.outputs[1:]) or not constants
        case "Softmax" | "LogSoftmax":
            # Rounded after each step, as whoever computes in 16 bits has it.
            return half_type(context, node) is not None and context.opset >= 13
        case "LSTM":
            return not is_plain_lstm(context, node)
        case "BatchNormalization" | "InstanceNormalization":
            return not all(context.is_constant(node, i) for i in range(1, len(node.inputs)))
        case "QuantizeLinear":
            plain = not node.inputs[2:] or (
                context.is_constant(node, 2) and context.tensor(node, 2).dtype in (DType.INT8, DType.UINT8)
            )
            return not (plain and context.is_constant(node, 1)) or bool(node.integer("block_size", 0))
        case "DequantizeLinear":
            return context.resolve(node.inputs[0]) not in context.quantized
        case "Clip":
            return any(
                node.inputs[i] and not context.is_constant(node, i) for i in range(1, len(node.inputs))
            )
    return False


OPERATORS: Mapping[str, Importer] = MappingProxyType(
    {
        "Conv": partial(on_planes, import_node=import_convolution),
        "ConvTranspose": partial(on_planes, import_node=import_transposed_convolution),
        "Gemm": import_gemm,
        "MatMul": import_matmul,
        "LSTM": import_lstm,
        "BatchNormalization": import_batch_normalization,
        "LayerNormalization": import_layer_normalization,
        "InstanceNormalization": import_instance_normalization,
        "MaxPool": partial(on_planes, import_node=import_max_pool),
        "AveragePool": partial(on_planes, import_node=import_average_pool),
        "LpPool": import_plain_pool,
        "GlobalMaxPool": partial(on_planes, import_node=import_global_pool),
        "GlobalAveragePool": partial(on_planes, import_node=import_global_pool),
        "CumSum": import_cumulative_sum,
        "Softmax": import_softmax,
        "LogSoftmax": import_softmax,
        "ReduceLogSum": import_logarithm,
        "ReduceLogSumExp": import_logarithm,
        **{name: partial(import_reduction, kind=kind) for name, kind in REDUCTIONS.items()},
        "ReduceProd": partial(import_fold, kind="product"),
        "CumProd": import_running,
        "ArgMax": import_extreme,
        "ArgMin": import_extreme,
        "Hardmax": import_hardmax,
        "TopK": import_top_k,
        "OneHot": import_one_hot,
        "Scatter": import_scatter,
        "ScatterElements": import_scatter,
        "ScatterND": import_scatter,
        **dict.fromkeys(sorted(BITS), import_bits),
        "Clip": import_clip,
        "Pow": import_power,
        **dict.fromkeys(sorted(UNARY), import_unary),
        **dict.fromkeys(sorted(NARY), import_nary),
        **dict.fromkeys(sorted(LOGIC), import_logic),
        "Transpose": import_transpose,
        "DepthToSpace": import_depth_to_space,
        "SpaceToDepth": import_depth_to_space,
        "Concat": import_concat,
        "Split": import_split,
        "Slice": import_slice,
        "Gather": import_gather,
        "GatherElements": import_gather_elements,
        "GatherND": import_gather_nd,
        "Trilu": import_trilu,
        "Expand": import_expand,
        "Pad": import_pad,
        "Resize": partial(on_planes, import_node=import_resize),
        "GridSample": import_grid_sample,
        **STRUCTURE,
        "QuantizeLinear": import_quantize,
        "DequantizeLinear": import_dequantize,
    }
)
"""What each operator becomes where its inputs are not all known."""
PLAIN: Mapping[str, Importer] = MappingProxyType(
    {
        "Conv": import_plain_convolution,
        "ConvTranspose": import_plain_transposed,
        "MaxPool": import_plain_pool,
        "AveragePool": import_plain_pool,
        "LpPool": import_plain_pool,
    }
)
"""Importers of windows that the templates do not take."""
_BODIES = {**BODIES, "RNN": recurrent_steps, "GRU": recurrent_steps, "Einsum": einsum_steps}
_OTHERWISE = {**OTHERWISE, "LSTM": recurrent_steps}
TYPED = frozenset(
    [
        *STRUCTURE,
        *LOGIC,
        *BITS - {"Mod"},
        *(
            "Transpose",
            "DepthToSpace",
            "SpaceToDepth",
            "Concat",
            "Split",
            "Slice",
            "Gather",
            "GatherElements",
        ),
        *("GatherND", "Trilu", "Expand", "Max", "Min", "OneHot", "ScatterElements", "ScatterND", "ArgMax"),
        *("ArgMin", "TopK", "Neg", "Abs"),
    ]
) - {"IsNaN", "IsInf"}
"""Operators whose importers take 16-bit floats as they are."""
HELD = frozenset(
    [
        *STRUCTURE,
        *(
            "Cast",
            "CastLike",
            "Transpose",
            "Concat",
            "Split",
            "Slice",
            "Gather",
            "GatherElements",
            "GatherND",
        ),
        *("Expand", "Where", "BitCast", "QuantizeLinear", "DequantizeLinear"),
    ]
)
"""Operators that take elements which are only held."""
SUPPORTED = (
    f"{', '.join(OPERATORS)}, whatever ONNX defines as a function of these, and whatever has constant inputs"
)
