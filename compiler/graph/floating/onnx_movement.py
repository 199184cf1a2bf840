"""GatherElements, GatherND and Trilu of a float model."""

from __future__ import annotations

from math import prod

import numpy as np

from ...ir.expr import Const, select, wrap
from ...ir.types import DType
from ...te.scalars import argument
from ..onnx_attributes import OnnxNode
from ..onnx_axes import one_axis
from ..onnx_context import GraphContext
from ..operators import Gather, GatherElements
from .onnx_pointwise import add_elementwise, as_type
from .onnx_topk_scatter import gather_nd_of_run_time


def import_gather_elements(context: GraphContext, node: OnnxNode) -> None:
    """Imports GatherElements: one element for each index."""
    data, indices = context.tensor(node, 0), context.tensor(node, 1)
    axis = one_axis(context, node, data.shape)
    if indices.dtype not in (DType.INT32, DType.INT64) or len(indices.shape) != len(data.shape):
        context.refuse(node, f"has indices {indices.dtype}{list(indices.shape)} into {data.shape}")
    sizes = [pair for d, pair in enumerate(zip(indices.shape, data.shape, strict=True)) if d != axis]
    if any(count > size for count, size in sizes):
        context.refuse(node, f"has indices {indices.shape}, longer than its data {data.shape}")
    wide = as_type(context, node, indices, DType.INT64)
    context.add(node, GatherElements(axis=axis), (data.name, wide), indices.shape, dtype=data.dtype)


def import_trilu(context: GraphContext, node: OnnxNode) -> None:
    """Imports Trilu: a select by a constant mask; a k that is no constant is compared with each element's diagonal."""
    data = context.tensor(node, 0)
    if len(data.shape) < 2:
        context.refuse(node, f"has a tensor of shape {data.shape}")
    if len(node.inputs) > 1 and node.inputs[1] and not context.is_constant(node, 1):
        rows, columns = data.shape[-2:]
        own = context.store(
            context.temporary(node, "diagonals"), np.arange(columns)[None] - np.arange(rows)[:, None]
        )
        k = context.view(node, context.tensor(node, 1), (), output=context.temporary(node, "diagonal"))
        a, b = argument(1, DType.INT64), argument(2, DType.INT64)
        kept = b <= a if node.integer("upper", 1) else a <= b
        x = argument(0, data.dtype)
        zero = Const(False, DType.BOOL) if data.dtype is DType.BOOL else wrap(0, data.dtype)
        add_elementwise(context, node, select(kept, x, zero), [data.name, own, k])
        return
    k = int(context.number(node, 1, "diagonal k", 0))
    ones = np.ones(data.shape[-2:], np.bool_)
    kept = np.triu(ones, k) if node.integer("upper", 1) else np.tril(ones, k)
    mask = context.store(context.temporary(node, "kept"), kept)
    x = argument(0, data.dtype)
    zero = Const(False, DType.BOOL) if data.dtype is DType.BOOL else wrap(0, data.dtype)
    add_elementwise(context, node, select(argument(1, DType.BOOL), x, zero), [data.name, mask])


def import_gather_nd(context: GraphContext, node: OnnxNode) -> None:
    """Imports GatherND; with constant indices, a Gather along the indexed axes flattened to one."""
    if not context.is_constant(node, 1) or node.integer("batch_dims", 0):
        gather_nd_of_run_time(context, node)
        return
    data = context.tensor(node, 0)
    indices = context.array(node, 1, "indices")
    if indices is None or indices.dtype.kind != "i" or not indices.size:
        context.refuse(node, "has no integer indices")
    depth = indices.shape[-1] if indices.ndim else 0
    if not 1 <= depth <= len(data.shape):
        context.refuse(node, f"has indices of {depth} axes of {data.shape}")
    named, rest = data.shape[:depth], data.shape[depth:]
    rows = indices.reshape(-1, depth).astype(np.int64)
    if (rows < np.negative(named)).any() or (rows >= np.array(named)).any():
        context.refuse(node, f"has indices outside of {data.shape}")
    chosen = np.ravel_multi_index([(rows % named)[:, axis] for axis in range(depth)], named)
    flat = context.view(node, data, (prod(named), *rest), output=context.temporary(node, "rows"))
    shape = (*indices.shape[:-1], *rest)
    context.add(node, Gather(axis=0, indices=tuple(chosen.tolist())), (flat,), shape, dtype=data.dtype)
