"""Complete descriptions of operators along rows (softmax, normalizations, reductions), for tuning. A program of such an
operator contains the loops over threads, so that the program depends on the knobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import prod
from typing import Any, Literal, TypeAlias, get_args

from ...codegen.cuda.machine import GpuTarget
from ...ir.stmt import Program
from ...te.merge import Shape, around_axis, merge_axes
from ...te.ops.normalization import Normalized, normalize
from ...te.ops.reduction import Kind, reduction
from ...te.ops.softmax import softmax
from ...te.ops.thread_rows import thread_normalize, thread_reduction, thread_softmax
from ..workload_limits import WorkloadError
from .rows import Knobs, choose_knobs, choose_reduction_knobs

Operator: TypeAlias = Literal["softmax", "log_softmax", "row_normalization", "channel_normalization"] | Kind
"""Name of a row operator; the name of a reduction is its kind (sum, mean, maximum ...)."""
OPERATORS: tuple[str, ...] = (*get_args(get_args(Operator)[0]), *get_args(Kind))
_NORMALIZATIONS = ("row_normalization", "channel_normalization")
MOST_SIZE = 1 << 40
MOST_AXES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOperator:
    """A softmax, normalization or reduction along `axes` of a tensor of `shape`.

    A softmax has one axis. Normalizations have the shape [outer, channels, size of a row] and reduce the last axis.
    They have one channel if scale and bias belong to the elements of a row. Only normalizations use `bias` and
    `epsilon`.
    """

    operator: Operator
    shape: Shape
    axes: tuple[int, ...]
    bias: bool = False
    epsilon: float = 0.0

    @property
    def is_reduction(self) -> bool:
        """Whether the operator reduces a row to one element."""
        return self.operator in get_args(Kind)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """(number of rows, elements of a row, number of adjacent rows whose elements are interleaved in memory)."""
        if not self.is_reduction:
            outer, size, inner = around_axis(self.shape, self.axes[0])
            return outer * inner, size, inner
        merged = merge_axes(self.shape, self.axes) or ((1, False),)
        kept = prod(size for size, reduced in merged if not reduced)
        last, reduced = merged[-1]
        return kept, prod(self.shape) // max(1, kept), 1 if reduced else last

    def choose_knobs(self, target: GpuTarget, beside: Sequence[Shape] = ()) -> Knobs:
        """Default knobs of the row operator.

        `beside`: for a reduction, the shapes of other tensors that fused operators read. Adjacent axes of the input are
        merged into one axis only if all these shapes allow it.
        """
        rows, size, inner = self.sizes
        if not self.is_reduction:
            return choose_knobs(target, rows, size, beside=inner)
        merged = merge_axes(self.shape, self.axes, beside) or ((1, False),)
        last, reduced = merged[-1]
        return choose_reduction_knobs(target, rows, size, beside=1 if reduced else last)

    def program(self, target: GpuTarget, knobs: Knobs, beside: Sequence[Shape] = ()) -> Program:
        """The program for these knobs, with loops over blocks and threads; `bind_by_name.schedule` schedules it.
        `beside`: for a reduction, shapes of other tensors that fused operators read.
        """
        shuffles = target.has("shuffles")
        match self.operator:
            case "softmax" | "log_softmax":
                logarithm = self.operator == "log_softmax"
                return thread_softmax(self.shape, self.axes[0], knobs, logarithm=logarithm, shuffles=shuffles)
            case "row_normalization" | "channel_normalization":
                sizes = self._normalized
                rows = sizes.channels if sizes.by == "channel" else sizes.outer
                return thread_normalize(
                    sizes, replace(knobs, group=min(knobs.group, rows)), shuffles=shuffles
                )
            case kind:
                return thread_reduction(self.shape, self.axes, kind, knobs, beside=beside, shuffles=shuffles)

    @property
    def _normalized(self) -> Normalized:
        outer, channels, size = self.shape
        return Normalized(
            outer=outer,
            channels=channels,
            size=size,
            epsilon=self.epsilon,
            by="channel" if self.operator == "channel_normalization" else "row",
            bias=self.bias,
        )

    def plain(self) -> Program:
        """The tensor expression without loops over threads; it has the same parameters as `program`."""
        match self.operator:
            case "softmax" | "log_softmax":
                return softmax(self.shape, self.axes[0], logarithm=self.operator == "log_softmax")
            case "row_normalization" | "channel_normalization":
                return normalize(self._normalized)
            case kind:
                return reduction(self.shape, self.axes, kind)


def row_operator_from_dict(values: Any) -> RowOperator:
    """The operator that a JSON object made by `dataclasses.asdict` describes. Raises WorkloadError for other
    objects.
    """
    if not isinstance(values, Mapping) or values.keys() != {field.name for field in fields(RowOperator)}:
        raise WorkloadError("rows_cuda: rows must be an object with the fields of an operator of rows")
    operator, bias, epsilon = (values[name] for name in ("operator", "bias", "epsilon"))
    shape, axes = (values[name] for name in ("shape", "axes"))
    if operator not in OPERATORS:
        raise WorkloadError(f"rows_cuda: operator is {operator!r}, must be one of {', '.join(OPERATORS)}")
    if not _are_numbers(shape, 1, MOST_SIZE):
        raise WorkloadError(f"rows_cuda: shape is {shape!r}, must be a list of sizes")
    if not _are_numbers(axes, 0, len(shape) - 1) or len(set(axes)) != len(axes):
        raise WorkloadError(f"rows_cuda: axes is {axes!r}, must be a list of different axes of {shape}")
    if type(bias) is not bool or not isinstance(epsilon, int | float) or not 0 <= epsilon < 1e30:
        raise WorkloadError(
            f"rows_cuda: bias is {bias!r}, must be true or false; epsilon is {epsilon!r}, must be 0 to 1e30"
        )
    found = RowOperator(
        operator=operator, shape=tuple(shape), axes=tuple(axes), bias=bias, epsilon=float(epsilon)
    )
    if (operator in _NORMALIZATIONS and (len(shape) != 3 or found.axes != (2,))) or (
        not found.is_reduction and len(axes) != 1
    ):
        raise WorkloadError(f"rows_cuda: a {operator} cannot have the shape {shape} and the axes {axes}")
    return found


def _are_numbers(value: Any, least: int, most: int) -> bool:
    """Whether a value is a list of at most `MOST_AXES` integers from `least` to `most`."""
    return (
        isinstance(value, list | tuple)
        and len(value) <= MOST_AXES
        and all(type(item) is int and least <= item <= most for item in value)
    )
