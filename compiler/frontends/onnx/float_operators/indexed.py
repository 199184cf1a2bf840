"""Operators on indices: GatherElements, GatherND, ScatterElements, ScatterND, OneHot, TopK, ArgMax, ArgMin."""

from __future__ import annotations

from math import prod
from typing import get_args

from ....graph.graph import Tensor
from ....graph.operators import Computed, GatherElements
from ....ir.types import DType
from ....te.ops.folds import extreme_index, top_k
from ....te.ops.scattered import Combination, gather_nd, one_hot, scatter_elements, scatter_nd
from ..attributes import OnnxNode
from ..axes import gathered_axis, one_axis, reduced_shape
from ..context import GraphContext
from ..operators.gathers import import_gather_nd as import_known
from .pointwise import as_type

MOST_RANKED = 4096
"""Largest row of TopK, in elements: its kernel compares all pairs."""

COMBINATIONS: dict[str, Combination] = {name: name for name in get_args(Combination)}


def import_extreme(context: GraphContext, node: OnnxNode) -> None:
    """Imports ArgMax and ArgMin."""
    data = context.tensor(node, 0)
    axis = one_axis(context, node, data.shape)
    program = extreme_index(
        data.shape,
        axis,
        least=node.op_type == "ArgMin",
        last=bool(node.integer("select_last_index", 0)),
        dtype=_ordered(context, node, data),
    )
    shape = reduced_shape(node, data.shape, (axis,))
    context.add(node, Computed(program=program), (data.name,), shape, dtype=DType.INT64)


def import_top_k(context: GraphContext, node: OnnxNode) -> None:
    """Imports TopK with a constant k; the result is always sorted."""
    data = context.tensor(node, 0)
    axis = one_axis(context, node, data.shape, -1)
    count = int(context.number(node, 1, "number k", 0))
    if not 1 <= count <= data.shape[axis]:
        context.refuse(
            node,
            f"its k is {count} and must be 1 to {data.shape[axis]}, the size of axis {axis} of its input",
        )
    if data.shape[axis] > MOST_RANKED:
        context.fail(
            node,
            f"sorts {data.shape[axis]:,} elements along axis {axis}; at most {MOST_RANKED:,} are supported",
            "sort a shorter axis",
        )
    dtype = _ordered(context, node, data)
    program = top_k(data.shape, axis, count, least=not node.integer("largest", 1), dtype=dtype)
    shape = tuple(count if d == axis else size for d, size in enumerate(data.shape))
    beside = ((shape, DType.INT64),)
    context.add(node, Computed(program=program), (data.name,), shape, dtype=dtype, beside=beside)


def import_one_hot(context: GraphContext, node: OnnxNode) -> None:
    """Imports OneHot with a constant depth."""
    indices, values = context.tensor(node, 0), context.tensor(node, 2)
    depth = int(context.number(node, 1, "depth", 0))
    rank = len(indices.shape) + 1
    axis = node.integer("axis", -1)
    if not -rank <= axis < rank or depth < 1 or values.shape != (2,):
        context.refuse(
            node,
            f"its axis ({axis}) must be {-rank} to {rank - 1}, its depth ({depth}) at least 1, and its values (of "
            f"shape {values.shape}) two elements",
        )
    axis %= rank
    # Floats are truncated toward zero, as ONNX defines OneHot.
    chosen = as_type(context, node, indices, DType.INT64)
    program = one_hot(indices.shape, axis, depth, dtype=values.dtype)
    shape = (*indices.shape[:axis], depth, *indices.shape[axis:])
    context.add(node, Computed(program=program), (chosen, values.name), shape, dtype=values.dtype)


def import_gather_nd(context: GraphContext, node: OnnxNode) -> None:
    """Imports GatherND. If the indices are constant and batch_dims is 0, the indexed axes are flattened to one axis,
    and the node becomes a Gather along this axis.
    """
    batch = node.integer("batch_dims", 0)
    if context.is_constant(node, 1) and not batch:
        import_known(context, node)
        return
    data, indices = context.tensor(node, 0), context.tensor(node, 1)
    if not indices.shape:
        context.refuse(node, "its indices are a scalar, but must have at least one dimension")
    try:
        program = gather_nd(data.shape, indices.shape, batch, dtype=data.dtype)
    except ValueError as error:
        context.refuse(node, str(error))
    shape = (*indices.shape[:-1], *data.shape[batch + indices.shape[-1] :])
    wide = as_type(context, node, indices, DType.INT64)
    context.add(node, Computed(program=program), (data.name, wide), shape, dtype=data.dtype)


def import_scatter(context: GraphContext, node: OnnxNode) -> None:
    """Imports ScatterElements and ScatterND."""
    data, indices, updates = (context.tensor(node, i) for i in range(3))
    combine = COMBINATIONS.get(node.text("reduction", "none"))
    if combine is None or updates.dtype is not data.dtype or (data.dtype is DType.BOOL and combine != "none"):
        context.refuse(
            node,
            f"cannot combine data of type {data.dtype} with updates of type {updates.dtype} by the reduction "
            f"'{node.text('reduction', 'none')}'",
            "export the model again",
        )
    try:
        if node.op_type == "ScatterND":
            program = scatter_nd(data.shape, indices.shape, combine, dtype=data.dtype)
        else:
            axis = one_axis(context, node, data.shape)
            program = scatter_elements(data.shape, indices.shape, axis, combine, dtype=data.dtype)
    except ValueError as error:
        context.refuse(node, str(error))
    wanted = prod(program.parameters[2].shape)
    if updates.size != wanted:
        context.refuse(
            node,
            f"its updates of shape {updates.shape} must have {wanted} elements, as many as its indices select",
        )
    wide = as_type(context, node, indices, DType.INT64)
    context.add(
        node, Computed(program=program), (data.name, wide, updates.name), data.shape, dtype=data.dtype
    )


def _ordered(context: GraphContext, node: OnnxNode, data: Tensor) -> DType:
    if data.dtype is DType.BOOL:
        context.refuse(node, "cannot sort elements of type bool")
    return data.dtype


def import_gather_elements(context: GraphContext, node: OnnxNode) -> None:
    """Imports GatherElements: one element for each index."""
    data, indices = context.tensor(node, 0), context.tensor(node, 1)
    axis = gathered_axis(context, node, data.shape, indices.shape)
    if indices.dtype not in (DType.INT32, DType.INT64):
        context.refuse(node, f"its indices must be int32 or int64, not {indices.dtype}")
    wide = as_type(context, node, indices, DType.INT64)
    context.add(node, GatherElements(axis=axis), (data.name, wide), indices.shape, dtype=data.dtype)
