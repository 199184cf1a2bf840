"""ONNX import of float32 networks: one walk over the nodes, constants computed on the way."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from types import MappingProxyType

import numpy as np
import onnx

from ...ir.types import DType
from ...te.ops.reduction import Kind
from ..errors import ModelError, NodeError
from ..foreign_domains import foreign, unsupported
from ..graph import Graph, GraphInput, GraphOutput, Tensor, plain_input, plain_output
from ..model_rewrites import means_standard
from ..onnx_constants import evaluate_node
from ..onnx_context import OnnxNode, read_node
from ..onnx_load import input_shape, load_apart, opset_of, static_shapes, type_name
from ..onnx_read import ReadModel, Source
from ..onnx_rounding import rounded_type
from ..onnx_structure import STRUCTURE
from ..operator_rows import CONTRIBUTED, Row, row, whole_row
from ..qlinear import write_steps
from ..refused_nodes import RefusedNodes
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
from .onnx_control import import_control
from .onnx_einsum import einsum_steps
from .onnx_fourier import dft_steps, stft_steps
from .onnx_functions import function_body
from .onnx_gemm import import_gemm
from .onnx_halves import half_type, held_type, in_float32
from .onnx_integers import (
    dynamic_product_steps,
    integer_convolution_steps,
    integer_product_steps,
    narrow_product_steps,
    scaled_product_steps,
)
from .onnx_known import import_eye, import_known, tile_steps
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
from .onnx_quantization import as_integers, import_dequantize, import_quantize, with_integers
from .onnx_recurrent import import_lstm, import_recurrent
from .onnx_recurrent_steps import recurrent_steps
from .onnx_recurrent_variants import in_steps_since, recurrent_body
from .onnx_reductions import import_cumulative_sum, import_logarithm, import_reduction, import_softmax
from .onnx_resize import import_grid_sample, import_resize
from .onnx_resize_steps import in_taps, resize_steps
from .onnx_steps import (
    batch_normalization_steps,
    dequantize_steps,
    instance_normalization_steps,
    local_response_steps,
    lp_normalization_steps,
    mean_steps,
    quantize_steps,
    reverse_sequence_steps,
    softmax_steps,
)
from .onnx_window_steps import (
    column_to_image_steps,
    global_pool_steps,
    max_pool_steps,
    max_unpool_steps,
)
from .onnx_windows import import_average_pool, import_global_pool, import_max_pool

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


def import_float_model(
    source: Source | ReadModel, *, batch: int = 1, recurrent: AbstractSet[str] = frozenset({"LSTM"})
) -> Graph:
    """Imports a float32 ONNX model of opset 11 or later from a path or from the bytes of a file.

    Inputs whose first dimension is not a number get `batch` there. Returns a graph of one node or a few for each ONNX
    node, without those that depend on no input. Raises ModelError, which names file, node and operator, for everything
    that is not supported. `recurrent` are those of LSTM, GRU and RNN whose steps the target has a kernel for; others
    become nodes for each step.
    """
    loaded = load_apart(source, oldest_opset=OLDEST_OPSET, batch=batch, empty=True)
    label, model = loaded.label, loaded.proto
    write_steps(label, model)
    context = FloatContext(
        source=label, opset=opset_of(model), static_shapes=static_shapes(model), recurrent=recurrent
    )
    context.constants.update(loaded.arrays())
    inputs: list[GraphInput] = []
    for info in model.graph.input:
        if info.name not in context.constants:
            inputs.append(_input(context, info))
            context.given.add(info.name)
    types = {
        info.name: _NAMES.get(dtype := type_name(info.type.tensor_type.elem_type), dtype)
        for info in (*model.graph.value_info, *model.graph.output)
    }
    refused = RefusedNodes(source=label, stand_in=partial(_stand_in, context, types), told=lambda _: True)
    for index, proto in enumerate(model.graph.node):
        refused.take(read_node(proto, index), partial(_import_node, context))
    refused.check()
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


def _stand_in(context: FloatContext, types: Mapping[str, str], name: str) -> bool:
    """Makes a refused node's output a tensor from elsewhere, where its type and shape are known; whether they are."""
    shape, dtype = context.static_shapes.get(name), types.get(name)
    if shape is None or dtype not in TYPES:
        return False
    context.tensors[name] = Tensor(name=name, shape=shape, dtype=DType(dtype))
    return True


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
        maker = OnnxNode(
            name=info.name,
            op_type="Cast",
            domain="",
            inputs=(name,),
            outputs=(info.name,),
            attributes={},
            proto=onnx.NodeProto(),
        )
        name = as_integers(context, maker, name)
    declared = type_name(info.type.tensor_type.elem_type)
    if _NAMES.get(declared, declared) != context.tensors[name].dtype:
        raise ModelError(
            f"{context.source}: output '{info.name}' is declared {declared} but computed as "
            f"{context.tensors[name].dtype}; put a Cast before it"
        )
    return plain_output(info.name, context.tensors[name])


def _import_node(context: FloatContext, node: OnnxNode) -> None:
    """Binds the outputs of one node."""
    if not means_standard(node.domain, node.op_type):
        contributed = CONTRIBUTED_BODIES.get(node.op_type) if node.domain == CONTRIBUTED else None
        body = function_body(context, node) if contributed is None else contributed(context, node)
        if body is not None:
            _import_body(context, body)
            return
        context.fail(node, *foreign(node.domain, SUPPORTED))
    if (control := CONTROL.get(node.op_type)) is not None:
        control(context, node)
        return
    if all(context.resolve(name) in context.constants for name in node.inputs if name):
        feeds = {name: context.constants[context.resolve(name)] for name in node.inputs if name}
        # The reference implementation has these two, and integers of 4 bits, in later opsets, where they mean the same.
        oldest = 21 if node.op_type in ("QuantizeLinear", "DequantizeLinear") else 0
        try:
            context.constants.update(evaluate_node(context, node, feeds, max(context.opset, oldest)))
            return
        except NodeError:
            # The reference implementation has not all operators for what holds nothing.
            if all(array.size for array in feeds.values()):
                raise
    node, integers = with_integers(context, node)
    _import_operator(context, node)
    if integers and node.op_type not in ("DequantizeLinear", "Shape"):
        context.quantized.update((context.resolve(name), integers) for name in node.outputs if name)


def _import_body(context: FloatContext, body: list[onnx.NodeProto]) -> None:
    for index, proto in enumerate(body):
        _import_node(context, read_node(proto, index))


def _import_operator(context: FloatContext, node: OnnxNode) -> None:
    importer = OPERATORS.get(node.op_type)
    if importer is None or _is_more(context, node):
        ours = (BODIES if importer is None else OTHERWISE).get(node.op_type)
        body = function_body(context, node) if ours is None else ours(context, node)
        if body is not None:
            _import_body(context, body)
            return
    if importer is None:
        context.fail(node, *unsupported(SUPPORTED))
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
    return len(context.tensor(node, 0).shape) > 4


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
        case "LSTM" | "GRU" | "RNN":
            return in_steps_since(context, node) is not None
        case "GlobalAveragePool" | "GlobalMaxPool":
            return len(context.tensor(node, 0).shape) not in (3, 4)
        case "MaxPool":
            integers = context.tensor(node, 0).dtype in (DType.INT8, DType.UINT8)
            return any(node.outputs[1:]) or integers
        case "Resize":
            return in_taps(context, node)
        case "BatchNormalization" | "InstanceNormalization":
            return not all(context.is_constant(node, i) for i in range(1, len(node.inputs)))
        case "QuantizeLinear":
            known = not any(node.inputs[2:]) or context.is_constant(node, 2)
            zero_point = context.tensor(node, 2).dtype.numpy if any(node.inputs[2:]) else None
            plain = known and rounded_type(context, node, zero_point) in (np.int8, np.uint8)
            return not (plain and context.is_constant(node, 1)) or bool(node.integer("block_size", 0))
        case "DequantizeLinear":
            return context.resolve(node.inputs[0]) not in context.quantized
        case "Clip":
            return any(
                node.inputs[i] and not context.is_constant(node, i) for i in range(1, len(node.inputs))
            )
    return False


_CONVOLUTION = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
_TRANSPOSED = (*_CONVOLUTION, "output_padding", "output_shape")
_POOL = ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides")
_REDUCTION = ("axes", "keepdims", "noop_with_empty_axes")
_RECURRENT = ("activations", "clip", "direction", "hidden_size", "layout")
_UNUSED_NUMBERS = ("activation_alpha", "activation_beta")
"""Numbers of activations of which there are none here."""
_QUANTIZATION = ("axis", "block_size", "output_dtype")
CONTROL: Mapping[str, Row[FloatContext, None]] = MappingProxyType(
    {
        "If": row(partial(import_control, import_node=_import_node), "else_branch", "then_branch"),
        "Loop": row(partial(import_control, import_node=_import_node), "body"),
        "Scan": row(
            partial(import_control, import_node=_import_node),
            *("body", "num_scan_inputs", "scan_input_axes", "scan_input_directions"),
            *("scan_output_axes", "scan_output_directions"),
        ),
    }
)
"""What holds bodies of other nodes."""
OPERATORS: Mapping[str, Row[FloatContext, None]] = MappingProxyType(
    {
        "Conv": row(partial(on_planes, import_node=import_convolution), *_CONVOLUTION),
        "ConvTranspose": row(partial(on_planes, import_node=import_transposed_convolution), *_TRANSPOSED),
        "Gemm": row(import_gemm, "alpha", "beta", "transA", "transB"),
        "MatMul": row(import_matmul),
        "LSTM": row(import_lstm, *_RECURRENT, "input_forget", idle=_UNUSED_NUMBERS),
        "GRU": row(import_recurrent, *_RECURRENT, "linear_before_reset", idle=_UNUSED_NUMBERS),
        "RNN": row(import_recurrent, *_RECURRENT, idle=_UNUSED_NUMBERS),
        "BatchNormalization": row(import_batch_normalization, "epsilon", "training_mode", idle=["momentum"]),
        "LayerNormalization": row(import_layer_normalization, "axis", "epsilon", "stash_type"),
        "InstanceNormalization": row(import_instance_normalization, "epsilon"),
        # The order of storage is that of the indices, which are refused.
        "MaxPool": row(partial(on_planes, import_node=import_max_pool), *_POOL, idle=["storage_order"]),
        "AveragePool": row(partial(on_planes, import_node=import_average_pool), *_POOL, "count_include_pad"),
        "LpPool": row(import_plain_pool, *_POOL, "p"),
        "GlobalMaxPool": row(partial(on_planes, import_node=import_global_pool)),
        "GlobalAveragePool": row(partial(on_planes, import_node=import_global_pool)),
        "CumSum": row(import_cumulative_sum, "exclusive", "reverse"),
        "Softmax": row(import_softmax, "axis"),
        "LogSoftmax": row(import_softmax, "axis"),
        "ReduceLogSum": row(import_logarithm, *_REDUCTION),
        "ReduceLogSumExp": row(import_logarithm, *_REDUCTION),
        **{name: row(partial(import_reduction, kind=kind), *_REDUCTION) for name, kind in REDUCTIONS.items()},
        "ReduceProd": row(partial(import_fold, kind="product"), *_REDUCTION),
        "CumProd": row(import_running, "exclusive", "reverse"),
        "ArgMax": row(import_extreme, "axis", "keepdims", "select_last_index"),
        "ArgMin": row(import_extreme, "axis", "keepdims", "select_last_index"),
        "Hardmax": row(import_hardmax, "axis"),
        # Sorted elements are some order of them, too.
        "TopK": row(import_top_k, "axis", "largest", idle=["sorted"]),
        "OneHot": row(import_one_hot, "axis"),
        "ScatterElements": row(import_scatter, "axis", "reduction"),
        "ScatterND": row(import_scatter, "reduction"),
        **{name: row(import_bits, *reads) for name, reads in BITS.items()},
        "Clip": row(import_clip),
        "Pow": row(import_power),
        **{name: row(import_unary, *reads) for name, reads in UNARY.items()},
        **{name: row(import_nary) for name in sorted(NARY)},
        **{name: row(import_logic, *reads) for name, reads in LOGIC.items()},
        "Transpose": row(import_transpose, "perm"),
        "DepthToSpace": row(import_depth_to_space, "blocksize", "mode"),
        "SpaceToDepth": row(import_depth_to_space, "blocksize", "mode"),
        "Concat": row(import_concat, "axis"),
        "Split": row(import_split, "axis", "num_outputs", "split"),
        "Slice": row(import_slice),
        "Gather": row(import_gather, "axis"),
        "GatherElements": row(import_gather_elements, "axis"),
        "GatherND": row(import_gather_nd, "batch_dims"),
        "Trilu": row(import_trilu, "upper"),
        "Expand": row(import_expand),
        "Pad": row(import_pad, "mode"),
        "Resize": row(
            partial(on_planes, import_node=import_resize),
            *("antialias", "axes", "coordinate_transformation_mode", "keep_aspect_ratio_policy", "mode"),
            "nearest_mode",
            # Of modes that are refused: cubic, and crops.
            idle=("cubic_coeff_a", "exclude_outside", "extrapolation_value"),
        ),
        "GridSample": row(import_grid_sample, "align_corners", "mode", "padding_mode"),
        **STRUCTURE,
        **dict.fromkeys(("Range", "ConstantOfShape", "MelWeightMatrix"), whole_row(import_known)),
        "EyeLike": row(import_eye, "dtype", "k"),
        # What saturates is a conversion to 8-bit floats, which only steps have.
        "QuantizeLinear": row(import_quantize, *_QUANTIZATION, idle=["saturate"]),
        "DequantizeLinear": row(import_dequantize, *_QUANTIZATION),
    }
)
"""What each operator becomes where its inputs are not all known."""
PLAIN: Mapping[str, Row[FloatContext, None]] = MappingProxyType(
    {
        "Conv": row(import_plain_convolution, *_CONVOLUTION),
        "ConvTranspose": row(import_plain_transposed, *_TRANSPOSED),
        "MaxPool": row(import_plain_pool, *_POOL, idle=["storage_order"]),
        "AveragePool": row(import_plain_pool, *_POOL, "count_include_pad"),
    }
)
"""Rows of windows that the templates do not take."""
BODIES: Mapping[str, Row[FloatContext, list[onnx.NodeProto]]] = MappingProxyType(
    {
        "LpNormalization": row(lp_normalization_steps, "axis", "p"),
        "Mean": row(mean_steps),
        "LRN": row(local_response_steps, "alpha", "beta", "bias", "size"),
        "ReverseSequence": row(reverse_sequence_steps, "batch_axis", "time_axis"),
        "MatMulInteger": row(integer_product_steps),
        "ConvInteger": row(integer_convolution_steps, *_CONVOLUTION),
        "Einsum": row(einsum_steps, "equation"),
        "Tile": row(tile_steps),
        "DFT": row(dft_steps, "axis", "inverse", "onesided"),
        "STFT": row(stft_steps, "onesided"),
        "MaxUnpool": row(max_unpool_steps, "kernel_shape", "pads", "strides"),
        "Col2Im": row(column_to_image_steps, "dilations", "pads", "strides"),
    }
)
"""Steps of operators that have no importer."""
CONTRIBUTED_BODIES: Mapping[str, Row[FloatContext, list[onnx.NodeProto]]] = MappingProxyType(
    {
        "MatMulIntegerToFloat": row(scaled_product_steps),
        "DynamicQuantizeMatMul": row(dynamic_product_steps),
        "DynamicQuantizeLSTM": row(recurrent_steps, *_RECURRENT, "input_forget", idle=_UNUSED_NUMBERS),
        # How exact the sums must be at least: these are exact in float32.
        "MatMulNBits": row(narrow_product_steps, "K", "N", "bits", "block_size", idle=["accuracy_level"]),
    }
)
"""Steps of ONNX Runtime's own operators, which its tools for quantization write."""
OTHERWISE: Mapping[str, Row[FloatContext, list[onnx.NodeProto]]] = MappingProxyType(
    {
        "Softmax": row(softmax_steps, "axis"),
        "LogSoftmax": row(softmax_steps, "axis"),
        "BatchNormalization": row(batch_normalization_steps, "epsilon", "training_mode", idle=["momentum"]),
        "InstanceNormalization": row(instance_normalization_steps, "epsilon"),
        "QuantizeLinear": row(quantize_steps, *_QUANTIZATION, "saturate"),
        "DequantizeLinear": row(dequantize_steps, *_QUANTIZATION),
        "GlobalAveragePool": row(global_pool_steps),
        "GlobalMaxPool": row(global_pool_steps),
        "MaxPool": row(max_pool_steps, *_POOL, "storage_order"),
        "Resize": row(
            resize_steps,
            *("antialias", "axes", "coordinate_transformation_mode", "cubic_coeff_a", "exclude_outside"),
            *("extrapolation_value", "keep_aspect_ratio_policy", "mode", "nearest_mode"),
        ),
        "LSTM": row(recurrent_body, *_RECURRENT, "input_forget", idle=_UNUSED_NUMBERS),
        "GRU": row(recurrent_body, *_RECURRENT, "linear_before_reset", idle=_UNUSED_NUMBERS),
        "RNN": row(recurrent_body, *_RECURRENT, idle=_UNUSED_NUMBERS),
    }
)
"""Steps of operators whose importers take less."""
TYPED = frozenset(
    [
        *STRUCTURE,
        *LOGIC,
        *(BITS.keys() - {"Mod"}),
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
    f"{', '.join(sorted({*OPERATORS, *BODIES, *CONTRIBUTED_BODIES, *CONTROL}))}, "
    "whatever ONNX defines as a function of these, and whatever has constant inputs"
)
"""All operators of all tables, for messages."""
