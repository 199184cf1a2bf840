"""Turns pending operations into integer nodes. The result of a pending operation is rounded by the next QuantizeLinear,
so the integer node's result has the scale and zero point (grid) of that QuantizeLinear.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from vdla.isa.scales import ScaleError, quantize

from ...graph.graph import Node
from ...graph.int8_convolution import Quantization
from ...graph.int8_operators import Int8Elementwise, Int8Operator
from ...te.combination import Combination
from ...te.post import Post
from .accumulators import AccumulatorError, whole_steps
from .attributes import OnnxNode
from .integer_context import ImportContext
from .known_values import Bias, Constant
from .operations import Opaque
from .operator_rows import Located
from .values import Pending, Real

ROUNDED: Mapping[str, Located] = MappingProxyType(
    {
        "Product": Located("operators.products:round_product"),
        "Maximum": Located("operators.pools:round_maximum"),
        "Identity": Located("operators.elementwise:round_identity"),
        "Function": Located("operators.tables:round_function"),
        "Shared": Located("operators.rows:round_shared"),
    }
)
"""For each class of pending operations (rounded by the next QuantizeLinear), the function that adds the integer
operator. The function takes (context, operation, rounding) and returns the name of the result's tensor. Any pending
operation that is not listed is an `Opaque`, which holds its function itself."""

REALIZED: Mapping[str, Located] = MappingProxyType(
    {
        "Permute": Located("operators.integer_moves:permuted"),
        "Remap": Located("operators.integer_moves:remapped"),
        "Gather": Located("operators.integer_moves:gathered"),
        "Concatenate": Located("operators.integer_moves:concatenated"),
        "Convolution": Located("operators.products:convolved"),
        "MaxPool": Located("operators.pools:maximum"),
        "AveragePool": Located("operators.pools:averaged"),
        "Resize": Located("operators.resampling:resized"),
        "BatchNormalization": Located("operators.batch_normalization:scaled"),
    }
)
"""Integer and float graphs share importers, which add operators by `context.GraphContext.add`. For each class of
these operators, this table has the function that imports the operator into an integer graph. The function takes
context, ONNX node, operator, and names of inputs and output; it returns a value."""


class RoundingError(Exception):
    """Raised for a pending operation that no integer operator can compute with the rounding of its QuantizeLinear. The
    message states the problem; the attribute `way_out` suggests a remedy.
    """

    def __init__(self, problem: str, way_out: str) -> None:
        super().__init__(problem)
        self.way_out = way_out


def append(
    context: ImportContext,
    members: tuple[str, ...],
    name: str,
    operator: Int8Operator,
    inputs: tuple[str, ...],
    output: str,
) -> str:
    """Adds a node `name` (with a suffix if it is taken) for the ONNX nodes `members`; returns `output`, its result."""
    context.nodes.append(
        Node(name=context.node_name(name), members=members, operator=operator, inputs=inputs, output=output)
    )
    return output


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounding:
    """How the result of a pending operation is rounded: to a tensor `output` with the quantization `grid`, and clamped
    to `low`..`high` in stored integers.
    """

    pending: Pending
    output: str
    grid: Quantization
    low: int
    high: int

    def post(self) -> Post:
        """The post-processing (`Post`) of sums of products: requantization to `grid`, clamped to `low`..`high`."""
        return Post(zero_point=self.grid.stored_zero_point, low=self.low, high=self.high)

    def append(
        self,
        context: ImportContext,
        operator: Int8Operator,
        inputs: tuple[str, ...],
        *,
        name: str = "",
        output: str = "",
        shape: tuple[int, ...] = (),
    ) -> str:
        """Adds a tensor with the quantization `grid`, and the node with `operator` that computes it; returns the
        tensor's name.

        `output`, `shape`: the tensor's name and shape, by default those of this rounding. `name`: the node's name, by
        default that of the first ONNX node.
        """
        tensor = context.declare(output or self.output, shape or self.pending.natural, self.grid)
        return append(
            context, self.pending.members, name or self.pending.members[0], operator, inputs, tensor
        )

    def append_elementwise(
        self, context: ImportContext, inputs: tuple[str, ...], combination: Combination
    ) -> str:
        """Adds an element-wise node with `combination`, and names it after the last ONNX node. The result has the shape
        of the first input. Returns the name of the result's tensor.
        """
        operator, shape = Int8Elementwise(combination=combination), context.tensors[inputs[0]].shape
        return self.append(context, operator, inputs, name=self.pending.members[-1], shape=shape)


def bias_step(scale: np.float32, weight_scale: np.ndarray) -> np.ndarray:
    """The real value of the integer 1 in a bias, float64 (O,): input `scale` x `weight_scale`. The product is rounded
    to float32, as in files that quantizers write, unless it is subnormal or infinite in float32."""
    exact = np.float64(scale) * weight_scale.astype(np.float64)
    with np.errstate(over="ignore", under="ignore"):
        narrow = exact.astype(np.float32)
    normal = np.isfinite(narrow) & (narrow >= np.finfo(np.float32).smallest_normal)
    return np.where(normal, narrow.astype(np.float64), exact)


def bias_of(bias: Bias, step: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The bias as int64 multiples of `step`, rounded half to even; None gives zeros. An integer bias is already a
    number of steps, and so is a dequantized bias whose scale differs from `step` by at most 0.01%: the integers of both
    are returned unchanged. `step`: input scale x weight scale, float64 per channel. `scale`: the number of steps of the
    result in one `step`."""
    match bias:
        case None:
            return np.zeros(step.shape, np.int64)
        case Constant(array=array) if array.dtype.kind in "iu":
            return array.astype(np.int64).reshape(-1)
        case Constant(array=array):
            real = array
        case _:
            centred = bias.centred().reshape(-1).astype(np.int64)
            if np.allclose(np.broadcast_to(bias.scale, step.shape), step, rtol=1e-4, atol=0.0):
                return centred
            real = centred * np.broadcast_to(bias.scale.astype(np.float64), step.shape)
    return whole_steps(np.broadcast_to(real.reshape(-1), step.shape).astype(np.float64), step, scale)


def emit(context: ImportContext, node: OnnxNode, pending: Pending, output: str, result: Quantization) -> Real:
    """Adds the node that computes `pending` (rounded by the next QuantizeLinear) into a tensor called `output`,
    quantized as `result`; returns its value.

    Nothing is added for a pending value that equals its input bit for bit. Raises NodeError, which names `node`.
    """
    operation = pending.operation
    if operation.alone is not None:
        problem, way_out = operation.alone
        context.fail(node, f"quantizes '{pending.name}', which holds {problem}", way_out)
    try:
        low, high = clamp_of(pending, result)
        to = Rounding(pending=pending, output=output, grid=result, low=low, high=high)
        if isinstance(operation, Opaque):
            tensor = operation.round(context, to)
        else:
            tensor = ROUNDED[type(operation).__name__](context, operation, to)
    except AccumulatorError as error:
        problem = f"quantizes the result of '{pending.members[0]}', where {error}"
        context.fail(node, problem, "quantize it with a larger weight scale, or leave it float")
    except (ScaleError, RoundingError) as error:
        way_out = error.way_out if isinstance(error, RoundingError) else "calibrate the model again"
        context.fail(node, str(error), way_out)
    return Real(tensor=tensor, shape=pending.shape, quantization=result, view=pending.view)


def clamp_of(pending: Pending, result: Quantization) -> tuple[int, int]:
    """The clamp of the pending operation `pending` as (low, high), stored integers of the quantization `result`.
    Clamping after quantization gives the same values as before it, because quantization is monotone.
    """
    bounds = quantize(
        np.array([pending.low, pending.high], np.float32), result.scale, result.stored_zero_point
    )
    return int(bounds[0]), int(bounds[1])


def real_operand(context: ImportContext, node: OnnxNode, index: int, *, viewed: bool = False) -> Real:
    """Input `index` as a quantized tensor. A pending value gets a grid of its own if it can have one (`on_own_grid`).
    Any other value raises ModelError; the message says what kind of value it is. A tensor that is read through a view
    is first rearranged into the value's order, unless `viewed` is true.
    """
    value = context.value(node, index)
    if isinstance(value, Pending):
        from .own_grids import on_own_grid

        real = on_own_grid(context, node, value)
        if real is not None:
            value = context.values[node.inputs[index]] = real
    if not isinstance(value, Real):
        return context.refuse_float(node, index, value)
    if viewed or context.is_contiguous(value):
        return value
    from .strided_views import contiguous

    return contiguous(context, node, value)


def plane_operand(context: ImportContext, node: OnnxNode, data: Real) -> tuple[int, int]:
    """The (H, W) of `data`, an image (N, C, H, W) that an operator with windows reads. Raises NodeError for an image
    stored in another shape."""
    if data.shape != context.tensors[data.tensor].nchw:
        stored = context.tensors[data.tensor].shape
        context.fail(
            node,
            f"its input is a tensor of shape {stored}, reshaped to {data.shape}, which is not supported",
            "remove the reshape: give the model an input of the shape after it",
        )
    return data.shape[2], data.shape[3]
