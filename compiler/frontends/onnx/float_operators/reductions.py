"""Reductions, running sums and products, and Softmax of a float model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

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

REDUCTIONS: Mapping[str, Kind | Literal["product"]] = MappingProxyType(
    {
        "ReduceProd": "product",
        "ReduceSum": "sum",
        "ReduceMean": "mean",
        "ReduceMax": "max",
        "ReduceMin": "min",
        "ReduceSumSquare": "sum_square",
        "ReduceL1": "l1",
        "ReduceL2": "l2",
    }
)


def import_reduction(context: GraphContext, node: OnnxNode) -> None:
    """Imports the operators of `REDUCTIONS`, with axes as an attribute or an input."""
    kind = REDUCTIONS[node.op_type]
    dtype = context.tensor(node, 0).dtype
    if kind == "product" or (kind in ("sum", "max", "min") and dtype is not DType.FLOAT32):
        _import_fold(context, node, kind)
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


def _import_fold(context: GraphContext, node: OnnxNode, kind: FoldKind) -> None:
    """Imports a reduction (`kind`, for example a sum) of a tensor of any dtype; bool is reduced as uint8."""
    data = context.tensor(node, 0)
    axes = reduced_axes(context, node, data.shape)
    if axes is None:
        context.renamed[node.outputs[0]] = data.name
        return
    truth = data.dtype is DType.BOOL
    number = context.tensors[as_type(context, node, data, DType.UINT8)] if truth else data
    operator = Computed(program=fold(data.shape, axes, kind, dtype=number.dtype))
    shape, output = (
        reduced_shape(node, data.shape, axes),
        context.temporary(node, "number") if truth else None,
    )
    made = context.add(node, operator, (number.name,), shape, output=output, dtype=number.dtype)
    if truth:
        add_elementwise(context, node, cast(argument(0, DType.UINT8), DType.BOOL), [made])


def import_running(context: GraphContext, node: OnnxNode) -> None:
    """Imports CumProd and CumSum of any dtype but bool, along a constant axis."""
    data, found = context.tensor(node, 0), context.array(node, 1, "axis")
    rank = len(data.shape)
    if found is None or found.size != 1 or not -rank <= int(found.flat[0]) < rank:
        shown = "" if found is None else f" {found.tolist()}"
        context.refuse(node, f"its axis{shown} must be one constant axis of its input of shape {data.shape}")
    if data.dtype is DType.BOOL:
        context.refuse(node, "cannot add or multiply elements of type bool")
    axis = int(found.flat[0]) % rank
    exclusive, reverse = (bool(node.integer(name, 0)) for name in ("exclusive", "reverse"))
    if node.op_type == "CumSum" and data.dtype is DType.FLOAT32:
        operator = CumulativeSum(axis=axis, exclusive=exclusive, reverse=reverse)
    else:
        product = node.op_type == "CumProd"
        program = running_product(
            data.shape, axis, exclusive=exclusive, reverse=reverse, product=product, dtype=data.dtype
        )
        operator = Computed(program=program)
    context.add(node, operator, (data.name,), data.shape, dtype=data.dtype)
