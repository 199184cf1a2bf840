"""ONNX import: a quantized model in QDQ or QOperator form becomes an integer graph.

One walk over the nodes binds every name to what it stands for (`onnx_values`). DequantizeLinear turns an
integer tensor into a real one, an operation of real tensors waits as pending, and QuantizeLinear makes it a
node of the graph. So the pairs vanish, and nothing is decided by matching patterns.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import prod
from types import MappingProxyType
from typing import Any, NoReturn

import ml_dtypes
import numpy as np
import onnx

from ..ir.types import DType
from .abilities import PLAIN, Abilities
from .errors import ModelError, NodeError
from .foreign_domains import foreign, unsupported
from .graph import Graph, GraphInput, GraphOutput, quantized_tensor
from .onnx_affine import import_batch_norm
from .onnx_axes import check_scale_axis
from .onnx_channels import CHANNELS
from .onnx_constants import evaluate_node
from .onnx_context import MERGE_PATTERN, QUANTIZE, ImportContext, OnnxNode, read_node
from .onnx_elementwise import import_clamp, import_pairwise
from .onnx_emit import emit, on_input_grid
from .onnx_guards import import_guard
from .onnx_inputs import attended, check_rank, quantized_input
from .onnx_lines import import_on_line, is_on_line, windowed
from .onnx_load import input_shape, load_apart, opset_of, static_shapes, type_name
from .onnx_masks import import_masked, import_masked_softmax
from .onnx_norms import import_norm, refuse_statistics
from .onnx_products import (
    import_conv,
    import_conv_transpose,
    import_gemm,
    import_matmul,
    quantized_constant,
)
from .onnx_read import ReadModel, Source
from .onnx_resampling import import_resize
from .onnx_rounding import check_real_type, rounded_type
from .onnx_rows import import_rows
from .onnx_structure import STRUCTURE
from .onnx_tables import CHAINED, import_function
from .onnx_tables import FUNCTIONS as TABLES
from .onnx_transpose import import_transpose
from .onnx_values import Constant, FloatInput, Function, Integer, Pending, QuantizedConstant, Real, Same
from .onnx_views import readable
from .onnx_windows import (
    import_average_pool,
    import_global_average_pool,
    import_max_pool,
    import_reduce_mean,
)
from .operator_rows import CONTRIBUTED, STANDARD, Row, refuse_unread, row, whole_row
from .qlinear import WRITERS, writer_of
from .quantization import Quantization
from .refused_nodes import RefusedNodes

NARROW = ("int4", "uint4", "int2", "uint2")
"""Types of constants of fewer than 8 bits: weights, which become int8."""


def import_model(
    source: Source | ReadModel,
    *,
    batch: int | None = None,
    abilities: Abilities = PLAIN,
    every: bool = True,
) -> Graph:
    """Imports a quantized ONNX model from a path or from the bytes of a file.

    Returns the unfused graph: one node per quantized ONNX operation, tensors named like the ONNX outputs
    that hold their integers. A dynamic first dimension of the inputs becomes `batch` (None: is refused).
    `abilities` are those of the target: which nodes the graph may have.
    Raises ModelError, which names file, node and operator, for everything that is not supported: all nodes at once, or
    the first one unless `every`.
    """
    loaded = load_apart(source, batch=batch)
    label, model = loaded.label, loaded.proto
    context = ImportContext(
        source=label,
        opset=opset_of(model),
        static_shapes=static_shapes(model),
        abilities=abilities,
    )
    for name, array in loaded.arrays().items():
        context.values[name] = Constant(array=array)
    constants = frozenset(context.values)
    for info in model.graph.input:
        if info.name not in context.values:
            bind_input(context, info)
    nodes = [read_node(proto, index) for index, proto in enumerate(model.graph.node)]
    context.attended, context.windowed = attended(nodes, constants), windowed(nodes)
    refused = RefusedNodes(
        source=label,
        stand_in=partial(_stand_in, context),
        # What comes behind a refused node may be refused for that alone.
        told=lambda node: not rows_of(node.op_type),
    )
    for node in nodes:
        if every:
            refused.take(node, partial(import_node, context))
        else:
            import_node(context, node)
    refused.check()
    producers = {output: node for node in nodes for output in node.outputs}
    outputs = tuple(_output(context, info, producers.get(info.name)) for info in model.graph.output)
    return Graph(
        name=model.graph.name or "graph",
        inputs=tuple(context.inputs),
        outputs=outputs,
        nodes=tuple(context.nodes),
        tensors=context.tensors,
        constants=context.constants,
        views=context.views,
    )


def _stand_in(context: ImportContext, name: str) -> bool:
    """Makes a refused node's output a float tensor from elsewhere, where its shape is known; whether it is."""
    context.values.pop(name, None)
    shape = context.static_shapes.get(name)
    if shape is None:
        return False
    context.values[name] = FloatInput(name=name, declared=shape, permutation=None, shape=shape)
    return True


def bind_input(context: ImportContext, info: onnx.ValueInfoProto) -> None:
    """Binds an input of the model. Raises ModelError for types and shapes that no operator takes."""
    shape = input_shape(info)
    dtype = type_name(info.type.tensor_type.elem_type)
    if dtype == "float":
        context.values[info.name] = FloatInput(name=info.name, declared=shape, permutation=None, shape=shape)
    elif dtype == "int8" or dtype == "uint8":
        # Its scale is known only at the first DequantizeLinear or QLinear node that reads it.
        unknown = Quantization(scale=np.float32(1), zero_point=0, dtype=dtype)
        check_rank(context, info.name, shape)
        context.tensors[info.name] = quantized_tensor(info.name, shape, unknown)
        context.unscaled.add(info.name)
        context.inputs.append(GraphInput(name=info.name, tensor=info.name, shape=shape, dtype=DType(dtype)))
        context.values[info.name] = Integer(tensor=info.name, shape=shape, dtype=dtype)
    else:
        raise ModelError(
            f"{context.source}: input '{info.name}' has type {dtype}; "
            "give the model a float32, int8 or uint8 input, or leave what reads it to the CPU (--target vdla,llvm)"
        )


def _output(context: ImportContext, info: onnx.ValueInfoProto, node: OnnxNode | None) -> GraphOutput:
    value = context.values.get(info.name)
    if node is None or value is None:
        raise ModelError(
            f"{context.source}: output '{info.name}' is computed by no node; "
            "remove it from the model's outputs"
        )
    if isinstance(value, Pending):
        value = on_input_grid(context, node, value) or value
    if isinstance(value, Real | Integer):
        value = readable(context, node, value)
    match value:
        case Real(tensor=tensor, shape=shape, quantization=quantization):
            dtype = DType.FLOAT32
        case Integer(tensor=tensor, shape=shape, dtype=integers):
            dtype, quantization = DType(integers), context.tensors[tensor].grid
        case Pending() | FloatInput():
            context.fail(node, f"the model's output '{info.name}' is float and never quantized", QUANTIZE)
        case _:
            context.fail(
                node, f"the model's output '{info.name}' does not depend on its input", "remove the output"
            )
    return GraphOutput(
        name=info.name, tensor=tensor, shape=shape, dtype=dtype, quantization=quantization, view=value.view
    )


def import_node(context: ImportContext, node: OnnxNode) -> None:
    """Binds the outputs of one node. Raises ModelError for what is not supported."""
    writer = writer_of(node)
    if node.domain not in (*STANDARD, CONTRIBUTED) and writer is None:
        context.fail(node, *foreign(node.domain, SUPPORTED))
    if _foldable(context, node):
        _fold(context, node)
        return
    if node.domain not in (*STANDARD, CONTRIBUTED):
        assert writer is not None
        _import_steps(context, node, writer(context, node))
        return
    ways, importer = WAYS.get(node.op_type, ()), OPERATORS.get(node.op_type)
    rows = rows_of(node.op_type)
    if rows:
        refuse_unread(context, node, rows)
    if any(way.takes(node, context.opset) and way(context, node) for way in ways):
        return
    refuse_statistics(context, node)
    function = FUNCTIONS.get(node.op_type)
    if (
        function is not None
        and (importer is None or _behind_function(context, node))
        and function(context, node)
    ):
        return
    taken = importer is not None and importer.takes(node, context.opset)
    if not taken and writer is not None:
        _import_steps(context, node, writer(context, node))
        return
    if importer is None and rows:
        _refuse_form(context, node)
    if importer is None:
        context.fail(node, *unsupported(SUPPORTED))
    if is_on_line(context, node):
        import_on_line(context, node, importer)
        return
    importer(context, node)


def _refuse_form(context: ImportContext, node: OnnxNode) -> NoReturn:
    """Fails on a node of an operator that is supported in other forms."""
    values = [context.value(node, index) for index in range(len(node.inputs))]
    for index, value in enumerate(values):
        if isinstance(value, FloatInput):
            context.refuse_float(node, index, value)
    if node.op_type in FUNCTIONS:
        constants = [value for value in values if isinstance(value, Constant | QuantizedConstant)]
        if any(prod(value.shape) != 1 for value in constants):
            context.fail(
                node,
                "has a constant of several elements, and functions of one tensor and single numbers are looked up",
                "give it one element",
            )
        if len(values) - len(constants) == 1 and any(isinstance(value, Pending) for value in values):
            context.fail(node, "is a function of a result that is not rounded before it", MERGE_PATTERN)
    for index, value in enumerate(values):
        if isinstance(value, Pending):
            context.refuse_float(node, index, value)
    context.fail(
        node, "is of a form, or has operands, that only processors and GPUs take", "leave it to the processor"
    )


def _import_steps(context: ImportContext, node: OnnxNode, steps: list[onnx.NodeProto]) -> None:
    """Imports the steps of a node; what is wrong with a step is told of the node."""
    try:
        for index, step in enumerate(steps):
            import_node(context, read_node(step, index))
    except NodeError as error:
        raise type(error)(context.source, node.name, node.op_type, error.problem, error.way_out) from None


def _behind_function(context: ImportContext, node: OnnxNode) -> bool:
    """Whether a node, which has another meaning elsewhere, goes on with a function of one tensor."""
    values = [context.value(node, index) for index in range(len(node.inputs))]
    return any(isinstance(v, Pending) and isinstance(v.operation, Function) for v in values)


def _foldable(context: ImportContext, node: OnnxNode) -> bool:
    """Whether a node has only constant inputs; those that quantization handles symbolically do not count."""
    if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
        return False
    values = [context.value(node, index) for index, name in enumerate(node.inputs) if name]
    if not all(isinstance(value, Constant | QuantizedConstant) for value in values):
        return False
    return not (
        values and isinstance(values[0], QuantizedConstant) and node.op_type in ("Transpose", "Identity")
    )


def _fold(context: ImportContext, node: OnnxNode) -> None:
    """Evaluates a node of constants with ONNX's reference implementation."""
    feeds = {name: context.array(node, index, "operand") for index, name in enumerate(node.inputs) if name}
    for name, array in evaluate_node(context, node, feeds, context.opset).items():
        context.values[name] = Constant(array=array)


def _import_quantize(context: ImportContext, node: OnnxNode) -> None:
    """QuantizeLinear: rounds a pending result, the model's input, another scale, or a constant."""
    value = context.value(node, 0)
    if node.integer("block_size", 0):
        context.fail(node, "quantizes in blocks", "quantize per tensor or per channel")
    match value:
        case Constant() | QuantizedConstant():
            _quantize_constant(context, node, value)
            return
        case FloatInput() | Real() | Pending():
            zero_point = context.array(node, 2, "zero point")
            dtype = rounded_type(context, node, None if zero_point is None else zero_point.dtype)
            quantization = context.quantization(node, 1, 2, dtype)
        case _:
            context.refuse_float(node, 0, value)
    output = node.outputs[0]
    check_scale_axis(context, node, value.shape)
    match value:
        case FloatInput():
            context.bind(node, quantized_input(context, node, value, output, quantization))
            return
        case Real(tensor=stored, shape=shape, view=view):
            natural = context.tensors[stored].shape
            same = Pending(
                name=output,
                members=(node.name,),
                operation=Same(data=value),
                natural=natural,
                shape=shape,
                view=view,
            )
            tensor = emit(context, node, same, output, quantization).tensor
        case Pending(shape=shape, view=view):
            tensor = emit(context, node, value, output, quantization).tensor
    if view is not None and tensor == output:
        context.views[tensor] = view
    context.bind(node, Integer(tensor=tensor, shape=shape, dtype=quantization.dtype, view=view))


def _quantize_constant(context: ImportContext, node: OnnxNode, value: Constant | QuantizedConstant) -> None:
    real = value.real() if isinstance(value, QuantizedConstant) else value.array
    scale = context.array(node, 1, "scale")
    zero_point = context.array(node, 2, "zero point")
    if scale is None or real.dtype.kind != "f":
        context.fail(node, f"quantizes a constant of {real.dtype}", "give float constants and a scale")
    dtype = rounded_type(context, node, None if zero_point is None else zero_point.dtype)
    if dtype.name not in ("int8", "uint8", "int32", *NARROW):
        context.fail(
            node, f"quantizes a constant to {dtype}", "quantize weights to 8 bits or fewer and biases to 32"
        )
    if scale.size == 1:
        check_scale_axis(context, node, real.shape)
    empty = np.zeros(real.shape, dtype)
    grid = quantized_constant(context, node, empty, scale, zero_point, node.integer("axis", 1))
    limits = ml_dtypes.iinfo(dtype)
    rounded = np.rint(real.astype(np.float32) / grid.along_axis(grid.scale)).astype(
        np.float64
    ) + grid.along_axis(grid.zero_point)
    context.bind(node, Constant(array=np.clip(rounded, limits.min, limits.max).astype(dtype)))


def _import_dequantize(context: ImportContext, node: OnnxNode) -> None:
    """DequantizeLinear: sees an integer tensor or constant through its scale."""
    value = context.value(node, 0)
    if node.integer("block_size", 0):
        context.fail(node, "dequantizes in blocks", "quantize per tensor or per channel")
    check_real_type(context, node)
    match value:
        case Integer():
            check_scale_axis(context, node, value.shape)
            quantization = context.quantization(node, 1, 2)
            if len(node.inputs) > 2 and node.inputs[2] and quantization.dtype != value.dtype:
                context.refuse(
                    node, f"reads {value.dtype} with a {quantization.dtype} zero point", "export it again"
                )
            own = Quantization(
                scale=quantization.scale, zero_point=quantization.zero_point, dtype=value.dtype
            )
            context.bind(node, context.seen_as(value, own))
        case Constant(array=array):
            scale, zero_point = context.array(node, 1, "scale"), context.array(node, 2, "zero point")
            narrow = array.dtype.name in NARROW
            if scale is None or not (narrow or array.dtype.name in ("int8", "uint8", "int32")):
                context.fail(
                    node,
                    f"dequantizes a constant of {array.dtype}",
                    f"use constants of int8, uint8, int32, {', '.join(NARROW)}",
                )
            if scale.size == 1:
                check_scale_axis(context, node, array.shape)
            integers, axis = array.astype(np.int8) if narrow else array, node.integer("axis", 1)
            context.bind(node, quantized_constant(context, node, integers, scale, zero_point, axis))
        case _:
            context.fail(node, f"its input '{node.inputs[0]}' is already float", "remove it")


_CONVOLUTION = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
_POOL = ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides")
_REDUCTION = ("axes", "keepdims", "noop_with_empty_axes")
_QUANTIZATION = ("axis", "block_size", "output_dtype")
WAYS: Mapping[str, tuple[Row[ImportContext, bool], ...]] = MappingProxyType(
    {
        name: tuple(table[name] for table in tables if name in table)
        for tables in [
            (
                CHANNELS,
                {
                    "Softmax": row(import_rows, "axis"),
                    "LayerNormalization": row(import_rows, "axis", "epsilon"),
                    "RMSNormalization": row(import_rows, "axis", "epsilon"),
                    "Add": row(import_masked),
                    "Where": row(import_masked),
                },
                {"Softmax": row(import_masked_softmax, "axis")},
                {
                    "ReduceMean": row(import_norm, *_REDUCTION),
                    "Cast": row(import_norm, "to", idle=("round_mode", "saturate")),
                    # The rounding of one number for a row is left out.
                    "QuantizeLinear": row(import_norm, idle=(*_QUANTIZATION, "saturate")),
                    "DequantizeLinear": row(import_norm, idle=_QUANTIZATION),
                    **dict.fromkeys(("Identity", "Sqrt", "Reciprocal", "Pow"), row(import_norm)),
                    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), row(import_norm)),
                },
                {
                    "IsNaN": row(import_guard),
                    "IsInf": row(import_guard, idle=("detect_negative", "detect_positive")),
                    "Where": row(import_guard),
                },
            )
        ]
        for name in dict.fromkeys(name for table in tables for name in table)
    }
)
"""What binds a node's output if it is of one of several forms, and says whether it did: in their order, before
`OPERATORS`."""
FUNCTIONS: Mapping[str, Row[ImportContext, bool]] = MappingProxyType(
    {name: whole_row(import_function) for name in sorted(TABLES | CHAINED)}
)
"""The same of functions of one tensor."""
OPERATORS: Mapping[str, Row[ImportContext, None]] = MappingProxyType(
    {
        "Conv": row(import_conv, *_CONVOLUTION),
        "ConvTranspose": row(import_conv_transpose, *_CONVOLUTION, "output_padding", "output_shape"),
        "Gemm": row(import_gemm, "alpha", "beta", "transA", "transB"),
        "MatMul": row(import_matmul),
        # The order of storage is that of the indices, which are refused.
        "MaxPool": row(import_max_pool, *_POOL, idle=["storage_order"]),
        "AveragePool": row(import_average_pool, *_POOL, "count_include_pad"),
        "GlobalAveragePool": row(import_global_average_pool),
        "ReduceMean": row(import_reduce_mean, *_REDUCTION),
        "Add": row(partial(import_pairwise, kind="add")),
        "Mul": row(partial(import_pairwise, kind="multiply")),
        "Relu": row(import_clamp),
        "Clip": row(import_clamp),
        "Transpose": row(import_transpose, "perm"),
        "BatchNormalization": row(import_batch_norm, "epsilon", "training_mode", idle=["momentum"]),
        "Resize": row(
            import_resize,
            *("antialias", "axes", "coordinate_transformation_mode", "keep_aspect_ratio_policy", "mode"),
            "nearest_mode",
            # Of modes that are refused: cubic, and crops.
            idle=("cubic_coeff_a", "exclude_outside", "extrapolation_value"),
        ),
        **STRUCTURE,
        # What saturates is a conversion to 8-bit floats.
        "QuantizeLinear": row(_import_quantize, *_QUANTIZATION, idle=["saturate"]),
        "DequantizeLinear": row(_import_dequantize, *_QUANTIZATION),
    }
)
"""What each operator of a quantized model becomes on every target; see also `WAYS`, `FUNCTIONS` and `qlinear`."""
SUPPORTED = ", ".join(sorted({*OPERATORS, *WAYS, *FUNCTIONS, *WRITERS}))
"""All operators of all tables, for messages."""


def rows_of(operator: str) -> tuple[Row[Any, Any], ...]:
    """All rows of an operator, of every table."""
    tables: tuple[Mapping[str, Row[Any, Any]], ...] = (FUNCTIONS, OPERATORS, WRITERS)
    return (*WAYS.get(operator, ()), *(table[operator] for table in tables if operator in table))
