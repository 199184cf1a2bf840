"""The table of supported operators, for integer and float graphs, and functions that import nodes by this table.

Each operator has rows. A row names one function that reads nodes of the operator, and the attributes that the function
reads. The function's file is imported when a model has the operator. `integer_importer` reads quantized models and
`float_importer` all others; both try the rows of an operator in the order of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import onnx

from ...graph.errors import InvalidModelError, NodeError
from .attributes import CONTRIBUTED, STANDARD, OnnxNode, read_node
from .operator_rows import Kind, Located, Row, StepsLocated

if TYPE_CHECKING:
    from .context import GraphContext

Rows = tuple[Row, ...]
_CONVOLUTION = "auto_pad dilations group kernel_shape pads strides"
_TRANSPOSED = f"{_CONVOLUTION} output_padding output_shape"
_POOL = "auto_pad ceil_mode dilations kernel_shape pads strides"
_GRID_POOL = "auto_pad ceil_mode kernel_shape pads strides"
_REDUCTION = "axes keepdims noop_with_empty_axes"
_KERNEL = "activations direction hidden_size"
_RECURRENT = f"{_KERNEL} clip layout"
_NUMBERS = "activation_alpha activation_beta"
"""Attributes with parameters of activation functions. They have no effect, since the supported functions have none."""
_QUANTIZATION = "axis block_size output_dtype"
_RESIZE = "antialias axes coordinate_transformation_mode keep_aspect_ratio_policy mode nearest_mode"
_CROPS = "cubic_coeff_a exclude_outside extrapolation_value"
"""Attributes of Resize's modes cubic and crop, which have no kernel template (`resize_steps` computes them)."""
_NORMALIZED = "Centred Shared RowStatistic"
"""Names of the kinds of values that only steps of a normalization may read."""
_BLOCKED = "com.microsoft.nchwc."
_FOLDERS: Mapping[Kind, str] = MappingProxyType(
    {
        "quantized": "operators.",
        "either": "operators.",
        "both": "operators.",
        "integers": "model.qlinear:",
        "blocked": "model.qlinear:",
    }
)
"""For each kind of rows of the operator table, the prefix of the modules with the rows' functions. A kind that is not
listed has the float importer's prefix.
"""
_STEPS: Mapping[Kind, Located] = MappingProxyType(
    {
        **dict.fromkeys(("steps", "contributed"), Located("steps:FloatSteps")),
        **dict.fromkeys(("integers", "blocked"), Located("model.qlinear:IntegerSteps")),
    }
)
"""For each kind of rows with functions that write ONNX nodes, the class of the object that receives the nodes."""


def _row(
    kind: Kind,
    place: str,
    reads: str = "",
    *,
    idle: str = "",
    images: bool = False,
    behind: str = "",
    when: str = "",
    whole: bool = False,
) -> Row:
    """Makes a row of the table. `place`: FILE:FUNCTION, where FILE omits the prefix that all files of this `kind` have.
    `reads`, `idle` and `behind`: names separated by spaces; with `whole` the function reads all attributes. (`Row`
    describes all fields.)
    """
    file = place.split(":")[0]
    place = _FOLDERS.get(kind, "float_operators.") + place
    return Row(
        kind=kind,
        function=StepsLocated(place, _STEPS[kind]) if kind in _STEPS else Located(place),
        reads=None if whole else frozenset(reads.split()),
        idle=frozenset(idle.split()),
        images=images,
        behind=frozenset(behind.split()),
        when=Located(f"float_operators.{file}:{when}") if when else None,
    )


def _alike(operators: str, *rows: Row) -> dict[str, Rows]:
    return dict.fromkeys(operators.split(), rows)


_quantized = partial(_row, "quantized")
_float = partial(_row, "float")
_either = partial(_row, "either")
_shared = partial(_row, "both")
_plain = partial(_row, "plain")
_steps = partial(_row, "steps")
_layer = partial(_steps, "recurrent:recurrent_body", idle=_NUMBERS, when="in_steps_since")
_contributed = partial(_row, "contributed")
_control = partial(_row, "control")
_integers = partial(_row, "integers")
_blocked = partial(_row, "blocked")
_NORM = _quantized("norms:import_norm", behind=_NORMALIZED)
_CONSTANTS = _quantized("channel_constants:import_channel_constants")
_CHAIN = _quantized("tables:import_function", behind="Function", whole=True)
_IF = _control("control:import_control", "else_branch then_branch")
_TABLE = _quantized("tables:import_function", whole=True)


def _both(quantized: str, floating: str, reads: str = "") -> tuple[Row, Row]:
    """Two rows of an operator, with functions at `quantized` and `floating` (each a `place`), which read `reads`."""
    return _quantized(quantized, reads), _float(floating, reads)


def _function(floating: str, reads: str = "") -> tuple[Row, Row]:
    """Two rows of an operator on single elements: by look-up table if quantized, else by the function at `floating`."""
    return _TABLE, _float(floating, reads)


ROWS: Mapping[str, Rows] = MappingProxyType(
    {
        # Products.
        "Conv": (
            _shared("window_attributes:import_convolution", _CONVOLUTION, images=True),
            _plain("plain_windows:import_plain_convolution", _CONVOLUTION),
        ),
        "ConvInteger": (_steps("integers:integer_convolution_steps", _CONVOLUTION),),
        "ConvTranspose": (
            _shared("transposed:import_transposed_convolution", _TRANSPOSED, images=True),
            _plain("plain_windows:import_plain_transposed", _TRANSPOSED),
        ),
        "DynamicQuantizeMatMul": (_contributed("integers:dynamic_product_steps"),),
        "Einsum": (_steps("einsum:einsum_steps", "equation"),),
        "Gemm": (
            _quantized("dense:import_gemm", "transB"),
            _float("matrix_products:import_gemm", "alpha beta transA transB"),
        ),
        "MatMul": _both("dense:import_matmul", "matrix_products:import_matmul"),
        "MatMulInteger": (_steps("integers:integer_product_steps"),),
        "MatMulIntegerToFloat": (_contributed("integers:scaled_product_steps"),),
        "MatMulNBits": (
            _contributed("integers:narrow_product_steps", "K N bits block_size", idle="accuracy_level"),
        ),
        # Windows.
        "AveragePool": (
            _shared("pools:import_pool", f"{_POOL} count_include_pad", images=True),
            _plain("plain_windows:import_plain_pool", f"{_POOL} count_include_pad"),
        ),
        "Col2Im": (_steps("plain_windows:column_to_image_steps", "dilations pads strides"),),
        **_alike(
            "GlobalAveragePool GlobalMaxPool",
            _shared("pools:import_global_pool", images=True),
            _steps("plain_windows:global_pool_steps", when="is_neither_image_nor_line"),
        ),
        "GlobalLpPool": (_steps("plain_windows:global_lp_pool_steps", "p"),),
        "GridSample": (_float("plain_windows:import_grid_sample", "align_corners mode padding_mode"),),
        "LpPool": (_float("plain_windows:import_plain_pool", f"{_POOL} p"),),
        "MaxPool": (
            _shared("pools:import_pool", _POOL, idle="storage_order", images=True),
            _plain("plain_windows:import_plain_pool", _POOL, idle="storage_order"),
            _steps("plain_windows:max_pool_steps", f"{_POOL} storage_order", when="gives_indices"),
        ),
        "MaxUnpool": (_steps("plain_windows:max_unpool_steps", "kernel_shape pads strides"),),
        "Resize": (
            _shared("resize:import_resize", _RESIZE, idle=_CROPS, images=True),
            _steps("resize_steps:resize_steps", f"{_RESIZE} {_CROPS}", when="has_no_template"),
        ),
        # Element by element.
        **_alike(
            "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor "
            "HardSwish Log Mish Neg Round Sigmoid Sign Sin Sinh Softplus Softsign Tan Tanh",
            *_function("pointwise:import_unary"),
        ),
        "Add": (
            _NORM,
            _quantized("masks:import_masked"),
            _CHAIN,
            _CONSTANTS,
            *_both("elementwise:import_pairwise", "pointwise:import_nary"),
        ),
        **_alike(
            "And Equal Greater GreaterOrEqual Less LessOrEqual Not Or Xor", _float("logic:import_logic")
        ),
        "BitCast": (_float("logic:import_bits", "to"),),
        "BitShift": (_float("logic:import_bits", "direction"),),
        **_alike("BitwiseAnd BitwiseNot BitwiseOr BitwiseXor", _float("logic:import_bits")),
        "Cast": (
            _quantized("norms:import_norm", "to", idle="round_mode saturate", behind=_NORMALIZED),
            _quantized("integer_moves:import_cast", "to", idle="round_mode saturate"),
            _float("logic:import_logic", "round_mode saturate to"),
        ),
        "CastLike": (_float("logic:import_logic", "round_mode saturate"),),
        **_alike("Celu Elu LeakyRelu Swish ThresholdedRelu", *_function("pointwise:import_unary", "alpha")),
        "Clip": (
            _NORM,
            _CHAIN,
            *_both("elementwise:import_clamp", "pointwise:import_clip"),
            _steps("functions:function_steps", when="has_function"),
        ),
        "Div": (_NORM, _CONSTANTS, *_function("pointwise:import_nary")),
        "Sub": (_NORM, _CONSTANTS, _TABLE, *_both("differences:import_difference", "pointwise:import_nary")),
        "Gelu": _function("pointwise:import_unary", "approximate"),
        "HardSigmoid": _function("pointwise:import_unary", "alpha beta"),
        "IsInf": (
            _quantized("masks:import_guard", idle="detect_negative detect_positive"),
            _float("logic:import_logic", "detect_negative detect_positive"),
        ),
        "IsNaN": _both("masks:import_guard", "logic:import_logic"),
        **_alike("Max Min", _NORM, _TABLE, *_both("extrema:import_extremum", "pointwise:import_nary")),
        "PRelu": (_quantized("channel_constants:import_slopes"), *_function("pointwise:import_nary")),
        "Mod": (_float("logic:import_bits", "fmod"),),
        "Mul": (_NORM, _CHAIN, _CONSTANTS, *_both("elementwise:import_pairwise", "pointwise:import_nary")),
        "Pow": (_NORM, *_function("pointwise:import_power")),
        **_alike("Reciprocal Sqrt", _NORM, *_function("pointwise:import_unary")),
        "Relu": (_CHAIN, *_both("elementwise:import_clamp", "pointwise:import_unary")),
        "Selu": _function("pointwise:import_unary", "alpha gamma"),
        "Shrink": _function("pointwise:import_unary", "bias lambd"),
        "Sum": (_float("pointwise:import_nary"),),
        "Where": (
            _quantized("masks:import_masked"),
            _quantized("masks:import_guard"),
            _float("logic:import_logic"),
        ),
        # Elements moved, picked or known.
        "Concat": (_shared("rearrangement:import_concat", "axis"),),
        **_alike("ConstantOfShape MelWeightMatrix Range", _steps("decompose:known_steps", whole=True)),
        **_alike(
            "DepthToSpace SpaceToDepth", _shared("rearrangement:import_depth_to_space", "blocksize mode")
        ),
        "Dropout": (_either("structure:import_identity", idle="ratio seed"),),
        "Expand": (_NORM, _shared("rearrangement:import_expand")),
        "EyeLike": (_steps("decompose:eye_steps", "dtype k"),),
        "Flatten": (_either("structure:import_view", "axis"),),
        "Gather": (_shared("rearrangement:import_gather", "axis"),),
        "GatherElements": _both("gathers:import_gather_elements", "indexed:import_gather_elements", "axis"),
        "GatherND": _both("gathers:import_gather_nd", "indexed:import_gather_nd", "batch_dims"),
        "Identity": (_NORM, _either("structure:import_identity")),
        "OneHot": (_float("indexed:import_one_hot", "axis"),),
        "Pad": (_shared("rearrangement:import_pad", "mode"),),
        "Reshape": (_either("structure:import_view", "allowzero"),),
        "ReverseSequence": (_steps("decompose:reverse_sequence_steps", "batch_axis time_axis"),),
        "ScatterElements": (_float("indexed:import_scatter", "axis reduction"),),
        "ScatterND": (_float("indexed:import_scatter", "reduction"),),
        "Shape": (_either("structure:import_shape", "end start"),),
        "Size": (_either("structure:import_shape"),),
        "Slice": (_shared("rearrangement:import_slice"),),
        "Split": (_shared("rearrangement:import_split", "axis num_outputs split"),),
        **_alike("Squeeze Unsqueeze", _either("structure:import_view", "axes")),
        "Tile": (_steps("decompose:tile_steps"),),
        "Transpose": (_shared("rearrangement:import_transpose", "perm"),),
        "Trilu": (_steps("decompose:trilu_steps", "upper"),),
        # Along axes: reductions, normalizations, running sums.
        **_alike("ArgMax ArgMin", _float("indexed:import_extreme", "axis keepdims select_last_index")),
        "BatchNormalization": (
            _shared(
                "batch_normalization:import_batch_normalization", "epsilon training_mode", idle="momentum"
            ),
            _steps(
                "decompose:batch_normalization_steps",
                "epsilon training_mode",
                idle="momentum",
                when="has_variables",
            ),
        ),
        **_alike("CumProd CumSum", _float("reductions:import_running", "exclusive reverse")),
        "DFT": (_steps("fourier:dft_steps", "axis inverse onesided"),),
        "GroupNormalization": (_steps("normalizations:group_normalization_steps", "epsilon num_groups"),),
        "Hardmax": (_steps("decompose:hardmax_steps", "axis"),),
        "InstanceNormalization": (
            _quantized("instance_norm:import_instance_normalization", "epsilon"),
            _float("normalizations:import_instance_normalization", "epsilon"),
            _steps("decompose:instance_normalization_steps", "epsilon", when="has_variables"),
        ),
        "LRN": (_steps("decompose:local_response_steps", "alpha beta bias size"),),
        "LayerNormalization": (
            _quantized("rows:import_rows", "axis epsilon"),
            _float("normalizations:import_layer_normalization", "axis epsilon"),
            _steps("normalizations:layer_normalization_steps", "axis epsilon", when="has_no_template"),
        ),
        "LogSoftmax": (
            _float("reductions:import_softmax", "axis"),
            _steps("functions:function_steps", when="is_in_16_bits", whole=True),
        ),
        "LpNormalization": (_steps("decompose:lp_normalization_steps", "axis p"),),
        "Mean": (_steps("decompose:mean_steps"),),
        "MeanVarianceNormalization": (_steps("normalizations:mean_variance_steps", "axes"),),
        "RMSNormalization": (_quantized("rows:import_rows", "axis epsilon"),),
        **_alike(
            "ReduceL1 ReduceMax ReduceMin ReduceSum ReduceSumSquare",
            *_both("reduced:import_reduced", "reductions:import_reduction", _REDUCTION),
        ),
        "ReduceL2": (
            _quantized("norms:import_norm", _REDUCTION),
            *_both("reduced:import_reduced", "reductions:import_reduction", _REDUCTION),
        ),
        **_alike("ReduceLogSum ReduceLogSumExp", _steps("decompose:logarithm_steps", _REDUCTION)),
        "ReduceMean": (
            _quantized("norms:import_norm", _REDUCTION),
            *_both("pools:import_reduce_mean", "reductions:import_reduction", _REDUCTION),
        ),
        "ReduceProd": (_float("reductions:import_reduction", _REDUCTION),),
        "STFT": (_steps("fourier:stft_steps", "onesided"),),
        "Softmax": (
            _quantized("rows:import_rows", "axis"),
            _quantized("masks:import_masked_softmax", "axis", behind="Masked"),
            _float("reductions:import_softmax", "axis"),
            _steps("functions:function_steps", when="is_in_16_bits", whole=True),
        ),
        "TopK": (_float("indexed:import_top_k", "axis largest", idle="sorted"),),
        # Recurrent layers.
        "DynamicQuantizeLSTM": (
            _contributed("recurrent_steps:recurrent_steps", f"{_RECURRENT} input_forget", idle=_NUMBERS),
        ),
        "GRU": (
            _float("recurrent:import_recurrent", f"{_KERNEL} linear_before_reset", idle=_NUMBERS),
            _layer(f"{_RECURRENT} linear_before_reset"),
        ),
        "LSTM": (
            _float("recurrent:import_recurrent", _KERNEL, idle=_NUMBERS),
            _layer(f"{_RECURRENT} input_forget"),
        ),
        "RNN": (_float("recurrent:import_recurrent", _KERNEL, idle=_NUMBERS), _layer(_RECURRENT)),
        # Bodies of other nodes.
        "If": (replace(_IF, kind="quantized"), _IF),
        "Loop": (_control("control:import_control", "body"),),
        "Scan": (
            _control(
                "control:import_control",
                "body num_scan_inputs scan_input_axes scan_input_directions scan_output_axes scan_output_directions",
            ),
        ),
        # Grids.
        "DequantizeLinear": (
            _quantized("norms:import_norm", idle=_QUANTIZATION, behind=_NORMALIZED),
            _quantized("quantization:import_dequantize", _QUANTIZATION),
            _float("quantization:import_dequantize", _QUANTIZATION),
            _steps("quantization:dequantize_steps", _QUANTIZATION, when="reads_integers"),
        ),
        "QuantizeLinear": (
            _quantized("norms:import_norm", idle=f"{_QUANTIZATION} saturate", behind=_NORMALIZED),
            _quantized("quantization:import_quantize", _QUANTIZATION, idle="saturate"),
            _float("quantization:import_quantize", _QUANTIZATION, idle="saturate"),
            _steps("quantization:quantize_steps", f"{_QUANTIZATION} saturate", when="makes_integers"),
        ),
        # Operators on integers, as steps between grids.
        "QLinearConv": (_integers("convolution_steps", f"{_CONVOLUTION} channels_last"),),
        **_alike("QLinearAdd QLinearMatMul QLinearMul QLinearSigmoid", _integers("plain_steps")),
        "QGemm": (_integers("gemm_steps", "alpha transA transB"),),
        "QLinearLeakyRelu": (_integers("plain_steps", "alpha"),),
        "QLinearSoftmax": (_integers("softmax_steps", "axis opset"),),
        "QLinearAveragePool": (_integers("plain_steps", f"{_GRID_POOL} channels_last count_include_pad"),),
        "QLinearGlobalAveragePool": (_integers("plain_steps", "channels_last"),),
        "QLinearReduceMean": (_integers("mean_steps", "axes keepdims"),),
        "QLinearConcat": (_integers("concat_steps", "axis"),),
        "QLinearWhere": (_integers("where_steps"),),
        "NhwcMaxPool": (_integers("pool_steps", f"{_GRID_POOL} dilations"),),
        # ONNX Runtime's operators on blocks of channels, each as the operator that it is.
        f"{_BLOCKED}ReorderInput": (_blocked("reorder_steps", "channels_last"),),
        f"{_BLOCKED}ReorderOutput": (_blocked("reorder_steps", "channels channels_last"),),
        f"{_BLOCKED}MaxPool": (_blocked("pool_steps", f"{_POOL} storage_order"),),
        f"{_BLOCKED}AveragePool": (_blocked("pool_steps", f"{_POOL} count_include_pad"),),
        **_alike(f"{_BLOCKED}GlobalMaxPool {_BLOCKED}GlobalAveragePool", _blocked("pool_steps")),
        f"{_BLOCKED}Conv": (_blocked("refuse_weights", f"{_CONVOLUTION} activation activation_params"),),
    }
)
"""The rows of the operator table, by operator. Operators of ONNX's and ONNX Runtime's domains have their plain names;
names of other operators begin with the domain.
"""


def rows_of(domain: str, operator: str, *kinds: Kind) -> Rows:
    """The rows of `operator` whose kinds are among `kinds`, in the order of the table."""
    name = operator if domain in (*STANDARD, CONTRIBUTED) else f"{domain}.{operator}"
    return tuple(row for row in ROWS.get(name, ()) if row.kind in kinds)


def operators(*kinds: Kind) -> Iterator[str]:
    """Names of the operators that have rows of the given kinds."""
    return (name for name, rows in ROWS.items() if any(row.kind in kinds for row in rows))


STRUCTURE = frozenset(operators("either"))
"""Operators that compute nothing."""
FUNCTIONS = frozenset(
    name
    for name, rows in ROWS.items()
    if any(row.kind == "quantized" and row.reads is None and not row.behind for row in rows)
)
"""Operators that are a function of one quantized tensor if all their other operands are single numbers."""
MERGED_INTO_FUNCTIONS = frozenset(
    name for name, rows in ROWS.items() if any("Function" in row.behind for row in rows)
)
"""Operators that are merged into a pending `Function` (an element-wise function of one tensor, which the next
QuantizeLinear rounds) if one of their inputs is one. Otherwise they become integer nodes.
"""

GRAPHS: tuple[Kind, ...] = ("either", "both")
"""The kinds of operator table rows that serve integer and float graphs alike."""


def import_node(context: GraphContext, node: OnnxNode) -> None:
    """Imports one ONNX node and binds its outputs. A node whose inputs are all constants is evaluated. For any other
    node, graph operators are added, or other ONNX nodes are imported in its place. Raises ModelError for a node that is
    not supported.
    """
    if writers := rows_of(node.domain, node.op_type, "integers", "blocked"):
        _import_steps(context, node, writers[0](context, node))
    elif not (context.expand(node) or context.fold(node)):
        context.import_operator(node)


def import_nodes(
    context: GraphContext,
    nodes: Sequence[OnnxNode],
    stand_in: Callable[[str], bool],
    *,
    reported: Callable[[OnnxNode], bool],
    every: bool = True,
) -> None:
    """Imports all nodes of a model. Raises an error that lists all unsupported nodes, or only the first of them if
    `every` is false. `stand_in` and `reported` decide what the list contains (`refused_nodes.import_rest`).
    """
    for place, node in enumerate(nodes):
        try:
            import_node(context, node)
        except InvalidModelError:
            raise
        except NodeError as error:
            if not every:
                raise
            from .refused_nodes import import_rest

            rest = partial(import_node, context)
            raise import_rest(
                context.source, error, nodes[place:], rest, stand_in=stand_in, reported=reported
            ) from None


def import_body(context: GraphContext, body: Iterable[onnx.NodeProto]) -> None:
    """Imports the nodes `body`, which replace one node."""
    for index, proto in enumerate(body):
        import_node(context, read_node(proto, index))


def _import_steps(context: GraphContext, node: OnnxNode, steps: Iterable[onnx.NodeProto]) -> None:
    """Imports the nodes `steps`, which replace the integer operator `node`; errors about them name `node`."""
    try:
        import_body(context, steps)
    except NodeError as error:
        raise error.of_node(context.source, node) from None
