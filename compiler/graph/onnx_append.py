"""Adding nodes to the integer graph: the part that all operators share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..te.post import Combination, Post
from .accumulators import whole_steps
from .graph import Node
from .int8_operators import Int8Elementwise, Int8Operator, Quantization
from .onnx_integer_context import ImportContext
from .onnx_values import Bias, Constant, Pending, Real
from .rescaling import fitted_ratio


class RoundingError(Exception):
    """A pending result that cannot be rounded: the problem (the message) and the way out."""

    def __init__(self, problem: str, way_out: str) -> None:
        super().__init__(problem)
        self.way_out = way_out


def append(
    context: ImportContext,
    pending: Pending,
    name: str,
    operator: Int8Operator,
    inputs: tuple[str, ...],
    output: str,
) -> str:
    """Adds a node for the ONNX nodes of `pending`; returns the name of its output."""
    context.nodes.append(
        Node(
            name=context.node_name(name),
            members=pending.members,
            operator=operator,
            inputs=inputs,
            output=output,
        )
    )
    return output


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounding:
    """The rounding of a pending result to a tensor `output`: on `grid`, clamped to `low`..`high` in stored integers."""

    pending: Pending
    output: str
    grid: Quantization
    low: int
    high: int

    def post(self) -> Post:
        """The `Post` of sums of products: stage A with this grid and these bounds."""
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
        """Adds a tensor on the grid and the node that computes it; returns the tensor's name.

        Defaults: `output` and the shape of the rounding; `name` is that of the first ONNX node.
        """
        tensor = context.declare(output or self.output, shape or self.pending.natural, self.grid)
        return append(context, self.pending, name or self.pending.members[0], operator, inputs, tensor)

    def append_elementwise(
        self, context: ImportContext, inputs: tuple[str, ...], combination: Combination
    ) -> str:
        """`append` of an element-wise node, named after the last ONNX node, with the shape of the first input."""
        operator, shape = Int8Elementwise(combination=combination), context.tensors[inputs[0]].shape
        return self.append(context, operator, inputs, name=self.pending.members[-1], shape=shape)


def rescale_all(context: ImportContext, parts: Sequence[Real], to: Rounding) -> tuple[str, ...]:
    """`rescale` of each of `parts`, to tensors named after the output with a number."""
    return tuple(
        [rescale(context, part, replace(to, output=f"{to.output}.{i}")) for i, part in enumerate(parts)]
    )


def rescale(context: ImportContext, data: Real, to: Rounding) -> str:
    """Rescales `data` to the grid of `to` and clamps it; returns the tensor's name. Adds no node where no value can
    change."""
    source = data.quantization
    if same_integers(source, to.grid):
        if (to.low, to.high) == (-128, 127):
            return data.tensor
        ratio = np.float32(1)
    else:
        ratio = fitted_ratio(source, to.grid)
    combination = Combination(
        kind="rescale",
        ratio_self=float(ratio),
        zero_point_self=source.stored_zero_point,
        zero_point=to.grid.stored_zero_point,
        low=to.low,
        high=to.high,
    )
    return to.append_elementwise(context, (data.tensor,), combination)


def same_integers(a: Quantization, b: Quantization) -> bool:
    """Whether the same stored integers represent the same numbers on both grids."""
    return a.scale == b.scale and a.stored_zero_point == b.stored_zero_point


def bias_step(scale: np.float32, weight_scale: np.ndarray) -> np.ndarray:
    """One step of a bias, float64 (O,): input scale x weight scale, rounded to float32 (as quantizers write it) where
    that is normal."""
    exact = np.float64(scale) * weight_scale.astype(np.float64)
    with np.errstate(over="ignore", under="ignore"):
        narrow = exact.astype(np.float32)
    normal = np.isfinite(narrow) & (narrow >= np.finfo(np.float32).smallest_normal)
    return np.where(normal, narrow.astype(np.float64), exact)


def bias_of(bias: Bias, step: np.ndarray) -> np.ndarray:
    """The bias as int64 multiples of `step` (float64, input scale x weight scale for each channel).

    An integer bias is unchanged. So are the integers of a dequantized bias whose scale is `step`, as quantizers write
    it; any other bias is rounded half to even.
    """
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
    return whole_steps(np.broadcast_to(real.reshape(-1), step.shape).astype(np.float64), step)
