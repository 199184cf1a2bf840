"""Adding nodes to the integer graph: the part that all operators share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..te.post import Combination, Post
from .accumulators import whole_steps
from .graph import Node
from .int8_operators import Int8Elementwise, Int8Operator
from .onnx_context import ImportContext
from .onnx_values import Bias, Constant, Pending, Real
from .quantization import Quantization
from .rescaling import fitted_ratio


class RoundingError(Exception):
    """A pending result that is not rounded: what is wrong, and the way out."""

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
    """Adds a node for the ONNX nodes of `pending`; returns its output."""
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
    """How a pending result becomes a tensor called `output`: on `grid`, clamped to `low`..`high` in stored integers."""

    pending: Pending
    output: str
    grid: Quantization
    low: int
    high: int

    def post(self) -> Post:
        """The same for sums of products."""
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
        """Adds a tensor on the grid, `output` of `shape` where these are given, and the node that computes it, called
        `name` or after the first ONNX node; returns the tensor's name."""
        tensor = context.declare(output or self.output, shape or self.pending.natural, self.grid)
        return append(context, self.pending, name or self.pending.members[0], operator, inputs, tensor)

    def append_elementwise(
        self, context: ImportContext, inputs: tuple[str, ...], combination: Combination
    ) -> str:
        """The same for an element-wise node, called after the last ONNX node."""
        operator, shape = Int8Elementwise(combination=combination), context.tensors[inputs[0]].shape
        return self.append(context, operator, inputs, name=self.pending.members[-1], shape=shape)


def rescale_all(context: ImportContext, parts: Sequence[Real], to: Rounding) -> tuple[str, ...]:
    """`rescale` of each of `parts`, to tensors called after the output with their numbers."""
    return tuple(
        [rescale(context, part, replace(to, output=f"{to.output}.{i}")) for i, part in enumerate(parts)]
    )


def rescale(context: ImportContext, data: Real, to: Rounding) -> str:
    """Moves `data` to another grid and clamps it; adds no node where no value can change."""
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
    """Whether the same integers stand for the same numbers."""
    return a.scale == b.scale and a.stored_zero_point == b.stored_zero_point


def bias_step(scale: np.float32, weight_scale: np.ndarray) -> np.ndarray:
    """One step of a bias, as float64 (O,): the product is that of float32, which quantizers write, where it has one."""
    exact = np.float64(scale) * weight_scale.astype(np.float64)
    with np.errstate(over="ignore", under="ignore"):
        narrow = exact.astype(np.float32)
    normal = np.isfinite(narrow) & (narrow >= np.finfo(np.float32).smallest_normal)
    return np.where(normal, narrow.astype(np.float64), exact)


def bias_of(bias: Bias, step: np.ndarray) -> np.ndarray:
    """The bias as int64 multiples of `step` (float64, input scale x weight scale per channel).

    Integers stand as they are. A dequantized bias stands as it is when its scale is `step`, as the quantizer
    writes it; any other is rounded half to even.
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
