"""Rounding of pending float operations: each becomes a node of the integer graph on the grid of its result."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from vdla.isa.arithmetic import ScaleError, quantize

from .accumulators import AccumulatorError
from .int8_operators import Quantization
from .onnx_append import Rounding, RoundingError
from .onnx_attributes import OnnxNode
from .onnx_integer_context import ImportContext
from .onnx_strided_views import settled
from .onnx_values import Maximum, Pending, Real, Same, Waiting
from .operator_rows import Located

ROUNDED: Mapping[str, Located] = MappingProxyType(
    {
        "Product": Located("onnx_products:round_product"),
        "Maximum": Located("onnx_windows:round_maximum"),
        "Same": Located("onnx_elementwise:round_same"),
        "Function": Located("onnx_tables:round_function"),
        "Shared": Located("onnx_rows:round_shared"),
        "Masked": Located("onnx_masks:refuse_rounding"),
        "Centred": Located("onnx_norms:refuse_rounding"),
        "Squared": Located("onnx_norms:refuse_rounding"),
    }
)
"""For the name of each type of pending operation that other operators look into, the function that makes it an
integer operator: (context, operation, rounding) -> name of the result's tensor."""

REALIZED: Mapping[str, Located] = MappingProxyType(
    {
        "Permute": Located("onnx_moves:permuted"),
        "Remap": Located("onnx_moves:remapped"),
        "Gather": Located("onnx_moves:gathered"),
        "Concatenate": Located("onnx_joins:concatenated"),
        "Convolution": Located("onnx_products:convolved"),
        "MaxPool": Located("onnx_windows:maximum"),
        "AveragePool": Located("onnx_windows:averaged"),
        "Resize": Located("onnx_resampling:resized"),
    }
)
"""For the name of each type of operator that functions for both graphs add (`onnx_context.GraphContext.add`), the
function that gives its value in an integer graph: (context, ONNX node, operator, names of inputs, name and shape of the
output) -> value."""


def emit(context: ImportContext, node: OnnxNode, pending: Pending, output: str, result: Quantization) -> Real:
    """Adds the node that computes `pending` into a tensor called `output`, quantized as `result`.

    Nothing is added for a pending value that equals its input bit for bit. Errors name `node`.
    """
    operation = pending.operation
    try:
        low, high = clamp_of(pending, result)
        to = Rounding(pending=pending, output=output, grid=result, low=low, high=high)
        if isinstance(operation, Waiting):
            tensor = operation.round(context, to)
        else:
            tensor = ROUNDED[type(operation).__name__](context, operation, to)
    except AccumulatorError as error:
        problem = f"ends '{pending.members[0]}', where {error}"
        context.fail(node, problem, "quantize it with a larger weight scale, or leave it float")
    except (ScaleError, RoundingError) as error:
        way_out = error.way_out if isinstance(error, RoundingError) else "calibrate the model again"
        context.fail(node, str(error), way_out)
    return Real(tensor=tensor, shape=pending.shape, quantization=result, view=pending.view)


def on_input_grid(context: ImportContext, node: OnnxNode, pending: Pending) -> Real | None:
    """The pending value as a quantized tensor on its input's grid, if that needs no new rounding (maxima and ReLUs of
    one tensor); else None."""
    operation = pending.operation
    if not isinstance(operation, Maximum | Same):
        return None
    if {pending.low, pending.high} - {-np.inf, 0.0, np.inf}:
        return None
    return emit(context, node, pending, pending.name, operation.data.quantization)


def clamp_of(pending: Pending, result: Quantization) -> tuple[int, int]:
    """The bounds of a pending value as stored integers. Quantization is monotone, so clamping before or after it is the
    same."""
    bounds = quantize(
        np.array([pending.low, pending.high], np.float32), result.scale, result.stored_zero_point
    )
    return int(bounds[0]), int(bounds[1])


def real_operand(context: ImportContext, node: OnnxNode, index: int, *, viewed: bool = False) -> Real:
    """Input `index` as a quantized tensor; fails on other values, and the message says which kind they are.

    Unless `viewed`, a tensor behind a view is rearranged so that its elements are in their order.
    """
    value = context.value(node, index)
    if isinstance(value, Pending):
        real = on_input_grid(context, node, value)
        if real is not None:
            value = context.values[node.inputs[index]] = real
    if not isinstance(value, Real):
        return context.refuse_float(node, index, value)
    return value if viewed or context.lies_in_order(value) else settled(context, node, value)


def plane_operand(context: ImportContext, node: OnnxNode, data: Real) -> tuple[int, int]:
    """The (H, W) of a 4-D operand of a window operator; fails on 1-D, 3-D or reshaped operands."""
    if len(data.shape) != 4:
        context.fail(
            node, f"its input has shape {data.shape}", "only 2-D windows over (N, C, H, W) are supported"
        )
    if data.shape != context.tensors[data.tensor].nchw:
        stored = context.tensors[data.tensor].shape
        context.fail(
            node, f"its input is {stored} reshaped to {data.shape}", "make it 4-D where it enters the model"
        )
    return data.shape[2], data.shape[3]
