"""Resize of two axes, nearest or bilinear, for integer and float graphs."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import get_args

import numpy as np

from ....graph.operators import Permute, Resize
from ....ir.limits import MOST_POSITIONS
from ....te.ops.resize import Coordinates, Rounding
from ..attributes import OnnxNode
from ..context import GraphContext
from .window_attributes import check_image

CROP, SYMMETRIC = "tf_crop_and_resize", "half_pixel_symmetric"
COORDINATES: tuple[Coordinates, ...] = get_args(Coordinates)
ROUNDINGS: tuple[Rounding, ...] = get_args(Rounding)
ONE_BY_ONE = (CROP, SYMMETRIC)
"""Values of the attribute `coordinate_transformation_mode` for which there is no kernel template: `resize_steps`
computes a Resize with these values, one axis after another.
"""
POLICIES = ("stretch", "not_larger", "not_smaller")
Order = tuple[int, int, int, int]
IN_ORDER: Order = (0, 1, 2, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizedAxis:
    """An axis for which a Resize gives a scale or a size: its index, its numbers of elements in input and output, and
    the scale (None: the ratio of these numbers)."""

    axis: int
    size: int
    outputs: int
    scale: float | None

    @property
    def factor(self) -> float:
        """The scale or, without one, the ratio of the sizes."""
        return self.outputs / self.size if self.scale is None else self.scale

    @property
    def changes(self) -> bool:
        """Whether a Resize changes the size of the axis, or changes its elements because the scale is not 1."""
        return self.outputs != self.size or self.scale not in (None, 1.0)


def modes_of(context: GraphContext, node: OnnxNode) -> tuple[str, str, str]:
    """Interpolation mode, coordinate transformation and rounding mode of a Resize; raises InvalidNodeError for names
    that ONNX does not define.
    """
    mode, coordinates, rounding, policy = found = (
        node.text("mode", "nearest"),
        node.text("coordinate_transformation_mode", "half_pixel"),
        node.text("nearest_mode", "round_prefer_floor"),
        node.text("keep_aspect_ratio_policy", "stretch"),
    )
    known = (("nearest", "linear", "cubic"), (*COORDINATES, *ONE_BY_ONE), ROUNDINGS, POLICIES)
    if any(text not in texts for text, texts in zip(found, known, strict=True)):
        context.refuse(
            node,
            f"its mode {mode!r}, coordinate_transformation_mode {coordinates!r}, nearest_mode {rounding!r} or "
            f"keep_aspect_ratio_policy {policy!r} is unknown",
            "use " + "; ".join(", ".join(texts) for texts in known),
        )
    return mode, coordinates, rounding


def import_resize(context: GraphContext, node: OnnxNode) -> None:
    """Imports Resize of two axes by constant scales or to constant sizes, modes "nearest" and "linear". If the two axes
    are not the last two (rows and columns), a Transpose first moves them to the end.
    """
    data = context.operand(node, 0)
    given = data.shape
    check_image(context, node, given)
    mode, coordinates, rounding = modes_of(context, node)
    if mode == "cubic" or coordinates in ONE_BY_ONE:
        context.fail(
            node,
            f"mode {mode!r} with coordinate_transformation_mode {coordinates!r} is not supported",
            f"use nearest or linear with {', '.join(COORDINATES)}",
        )
    if node.integer("antialias", 0) or node.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        context.fail(
            node, "antialias and keep_aspect_ratio_policy are not supported", "export the model without both"
        )
    axes = resized_axes(context, node, given)
    changed = sorted(axis.axis for axis in axes if axis.changes)
    sizes, scales = list(given), dict[int, float | None]()
    for axis in axes:
        sizes[axis.axis], scales[axis.axis] = axis.outputs, axis.scale
    if len(changed) > 2:
        context.fail(
            node,
            f"a resize of {len(changed)} axes, from {given} to {tuple(sizes)}, is not supported",
            "resize at most two axes",
        )
    order = IN_ORDER
    if not set(changed) <= {2, 3}:
        # The order of the unchanged axes does not matter.
        rest = [axis for axis in range(4) if axis not in changed]
        first, second, third, fourth = (*rest[:2], *rest[2:], *changed)
        order = (first, second, third, fourth)
    operator = Resize(
        mode="nearest" if mode == "nearest" else "linear",
        coordinates=COORDINATES[COORDINATES.index(coordinates)],
        rounding=ROUNDINGS[ROUNDINGS.index(rounding)],
        # ONNX Runtime copies a tensor whose sizes all stay, whatever the scales are.
        scales=(None, None) if tuple(sizes) == given else (scales.get(order[2]), scales.get(order[3])),
    )
    shape = tuple(sizes[axis] for axis in order)
    if order == IN_ORDER:
        context.add(node, operator, (data.name,), shape)
        return
    before = tuple([data.shape[axis] for axis in order])
    moved = context.temporary(node, "moved")
    context.add(node, Permute(axes=order), (data.name,), before, output=moved, dtype=data.dtype)
    resized = context.add(node, operator, (moved,), shape, output=context.temporary(node, "resized"))
    back = tuple(np.argsort(order).tolist())
    context.add(node, Permute(axes=back), (resized,), tuple([shape[axis] for axis in back]))


def resized_axes(context: GraphContext, node: OnnxNode, shape: tuple[int, ...]) -> list[ResizedAxis]:
    """The axes for which a Resize of a tensor of `shape` has constant scales or sizes, in the node's order."""
    rank = len(shape)
    axes = node.integers("axes", range(rank))
    scales, sizes = context.array(node, 2, "scales"), context.array(node, 3, "sizes")
    by_size = sizes is not None and sizes.size > 0
    values = sizes if by_size else scales
    if values is None or values.size != len(axes) or any(not -rank <= axis < rank for axis in axes):
        context.refuse(
            node,
            "has neither a constant scale nor a constant size for each axis",
            "give constant scales or sizes",
        )
    if not np.isfinite(values).all() or (values <= 0).any():
        context.refuse(
            node,
            f"its {'sizes' if by_size else 'scales'} {values.tolist()} must be above 0",
            "give numbers above 0",
        )
    lengths = [shape[axis] for axis in axes]
    factors: list[float | None] = [None if by_size else float(value) for value in values]
    outputs = [int(v) if by_size else floor(n * float(v)) for n, v in zip(lengths, values, strict=True)]
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    if by_size and policy != "stretch":
        ratios = [float(value) / length for value, length in zip(values, lengths, strict=True)]
        factor = min(ratios) if policy == "not_larger" else max(ratios)
        outputs = [int(factor * length + 0.5) for length in lengths]
        # The axis that decides has the ratio of its sizes: positions by a rounded scale would miss ties.
        pairs = zip(outputs, lengths, strict=True)
        factors = [None if count / length == factor else factor for count, length in pairs]
    if min(outputs) < 1 or max(outputs) > MOST_POSITIONS:
        context.fail(
            node,
            f"its output sizes {outputs} for an input of shape {shape} are outside of the supported range",
            f"give sizes from 1 to {MOST_POSITIONS:,}",
        )
    found = [
        ResizedAxis(axis=axis % rank, size=length, outputs=count, scale=factor)
        for axis, length, count, factor in zip(axes, lengths, outputs, factors, strict=True)
    ]
    if node.text("coordinate_transformation_mode", "half_pixel") in ("align_corners", CROP):
        for axis in found:
            if axis.scale is not None and axis.size * axis.scale != axis.outputs:
                # ONNX places the corner at size * scale, ONNX Runtime at the integer below it.
                context.fail(
                    node,
                    f"aligns corners of {axis.size} elements by a scale of {axis.scale:.6g}, which does not give an "
                    "integer number of elements; in this case ONNX and ONNX Runtime define different results",
                    f"give the size {axis.outputs} instead of the scale",
                )
    return found
