"""Reductions, running sums and products, and Softmax of a float model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from ....graph.graph import Shape
from ....graph.operators import (
    AveragePool,
    Computed,
    CumulativeSum,
    Elementwise,
    MaxPool,
    Reduction,
    Softmax,
)
from ....ir.expr import cast
from ....ir.types import DType
from ....te.blocks import Window
from ....te.ops.folds import FoldKind, fold, running_product
from ....te.ops.reduction import Kind, reduced_value, reduction_result
from ....te.scalars import argument
from ..attributes import OnnxNode
from ..axes import reduced_axes, reduced_shape, softmax_axis
from ..context import GraphContext
from .pointwise import add_elementwise, as_type

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


def import_product(context: GraphContext, node: OnnxNode) -> None:
    """Imports ReduceProd."""
    import_fold(context, node, "product")


def import_reduction(context: GraphContext, node: OnnxNode) -> None:
    """Imports the operators of `REDUCTIONS`, with axes as an attribute or an input."""
    kind = REDUCTIONS[node.op_type]
    if kind in ("sum", "max", "min") and context.tensor(node, 0).dtype is not DType.FLOAT32:
        import_fold(context, node, kind)
        return
    data = context.operand(node, 0)
    rank = len(data.shape)
    axes = reduced_axes(context, node, data.shape)
    if axes is None:
        # No axis is reduced: only the function of a single element remains.
        element = argument(0)
        body = reduction_result(kind, reduced_value(kind, element), 1)
        if kind in ("sum", "mean", "max", "min"):
            context.renamed[node.outputs[0]] = data.name
        else:
            context.add(node, Elementwise(body=body), (data.name,), data.shape)
        return
    shape = reduced_shape(node, data.shape, axes)
    if rank == 4 and axes == (2, 3) and kind in ("mean", "max"):
        # A pool keeps its input's blocks of channels.
        window = Window(kernel=(data.shape[2], data.shape[3]))
        pool = MaxPool(window=window) if kind == "max" else AveragePool(window=window, counted=(0, 0, 0, 0))
        whole = (*data.shape[:2], 1, 1)
        if shape == whole:
            context.add(node, pool, (data.name,), shape)
            return
        pooled = context.add(node, pool, (data.name,), whole, output=context.temporary(node, "pool"))
        context.view(node, context.tensors[pooled], shape)
        return
    context.add(node, Reduction(kind=kind, axes=axes), (data.name,), shape)


def import_softmax(context: GraphContext, node: OnnxNode) -> None:
    """Imports Softmax and LogSoftmax along one dimension or, before opset 13, along all dimensions from `axis` on."""
    data = context.operand(node, 0)
    axis, alone = softmax_axis(context, node, data.shape)
    logarithm = node.op_type == "LogSoftmax"
    if alone:
        context.add(node, Softmax(axis=axis, logarithm=logarithm), (data.name,), data.shape)
        return
    rows = (math.prod(data.shape[:axis]), math.prod(data.shape[axis:]))
    flat = context.view(node, data, rows, output=context.temporary(node, "rows"))
    result = context.temporary(node, "softmax")
    context.add(node, Softmax(axis=1, logarithm=logarithm), (flat,), rows, output=result)
    context.view(node, context.tensors[result], data.shape)


def import_cumulative_sum(context: GraphContext, node: OnnxNode) -> None:
    """Imports CumSum along a constant axis."""
    if context.tensor(node, 0).dtype is not DType.FLOAT32:
        import_running(context, node)
        return
    data = context.operand(node, 0)
    operator = CumulativeSum(
        axis=axis_input(context, node, data.shape),
        exclusive=bool(node.integer("exclusive", 0)),
        reverse=bool(node.integer("reverse", 0)),
    )
    context.add(node, operator, (data.name,), data.shape)


def import_fold(context: GraphContext, node: OnnxNode, kind: FoldKind) -> None:
    """Imports a reduction (`kind`, for example a sum) of a tensor of any dtype; bool is reduced as uint8."""
    data = context.tensor(node, 0)
    axes = reduced_axes(context, node, data.shape)
    if axes is None:
        context.renamed[node.outputs[0]] = data.name
        return
    as_number = data
    if data.dtype is DType.BOOL:
        as_number = context.tensors[as_type(context, node, data, DType.UINT8)]
    program = fold(data.shape, axes, kind, dtype=as_number.dtype)
    shape = reduced_shape(node, data.shape, axes)
    if data.dtype is DType.BOOL:
        number = context.add(
            node,
            Computed(program=program),
            (as_number.name,),
            shape,
            output=context.temporary(node, "number"),
            dtype=DType.UINT8,
        )
        add_elementwise(context, node, cast(argument(0, DType.UINT8), DType.BOOL), [number])
        return
    context.add(node, Computed(program=program), (as_number.name,), shape, dtype=data.dtype)


def axis_input(context: GraphContext, node: OnnxNode, shape: Shape) -> int:
    """The axis of a CumSum or CumProd of a tensor of `shape`, 0 or more, from a constant input."""
    found = context.array(node, 1, "axis")
    if found is None or found.size != 1 or not -len(shape) <= int(found.flat[0]) < len(shape):
        shown = "" if found is None else f" {found.tolist()}"
        context.refuse(node, f"its axis{shown} must be one constant axis of its input of shape {shape}")
    return int(found.flat[0]) % len(shape)


def import_running(context: GraphContext, node: OnnxNode) -> None:
    """Imports CumProd and CumSum of any dtype but bool, along a constant axis."""
    data = context.tensor(node, 0)
    if data.dtype is DType.BOOL:
        context.refuse(node, "cannot add or multiply elements of type bool")
    program = running_product(
        data.shape,
        axis_input(context, node, data.shape),
        exclusive=bool(node.integer("exclusive", 0)),
        reverse=bool(node.integer("reverse", 0)),
        product=node.op_type == "CumProd",
        dtype=data.dtype,
    )
    context.add(node, Computed(program=program), (data.name,), data.shape, dtype=data.dtype)
