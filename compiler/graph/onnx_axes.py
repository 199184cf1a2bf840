"""Axes that nodes name, whatever graph they become a part of."""

from __future__ import annotations

from .onnx_context import NodeContext, OnnxNode


def reduced_axes(context: NodeContext, node: OnnxNode, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The axes in order, from an attribute or an input: all where none are listed, unless the node says none (None).

    Fails where `shape` has no such axis.
    """
    rank = len(shape)
    given = context.array(node, 1, "axes")
    listed = node.integers("axes", ()) if given is None else tuple(int(axis) for axis in given.reshape(-1))
    if any(not -rank <= axis < rank for axis in listed):
        context.refuse(node, f"has axes {listed} for a tensor of shape {shape}", "export the model again")
    if not listed and node.integer("noop_with_empty_axes", 0):
        return None
    return tuple(sorted({axis % rank for axis in listed})) or tuple(range(rank))


UNUSED_AXES = (-1, 0, 1)
"""Axes that exporters write, or leave as the default, where there is one scale for all and the axis means nothing."""


def check_scale_axis(context: NodeContext, node: OnnxNode, shape: tuple[int, ...]) -> None:
    """Refuses QuantizeLinear and DequantizeLinear of one scale along an axis that `shape` does not have."""
    rank, axis = len(shape), node.integer("axis", 1)
    if not -rank <= axis < rank and axis not in UNUSED_AXES:
        context.refuse(node, f"has axis {axis} for a tensor of shape {shape}", "quantize the model again")
