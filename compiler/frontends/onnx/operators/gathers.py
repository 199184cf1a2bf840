"""GatherND and GatherElements with constant indices: a Gather along one axis of the flattened tensor."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from ....graph.operators import Gather
from ..attributes import OnnxNode
from ..axes import described, gathered_axis, wrapped_indices
from ..context import GraphContext


def import_gather_nd(context: GraphContext, node: OnnxNode) -> None:
    """Imports GatherND with constant indices, for integer and float graphs. Data and indices share their first
    `batch_dims` axes.
    """
    data, indices = context.tensor(node, 0), _indices(context, node)
    batch = node.integer("batch_dims", 0)
    depth = indices.shape[-1] if indices.ndim else 0
    if not 1 <= depth <= len(data.shape) - batch:
        context.refuse(
            node,
            f"its indices select along {depth} axes of its data; they must select along 1 to {len(data.shape) - batch}",
        )
    lead, named, rest = data.shape[:batch], data.shape[batch : batch + depth], data.shape[batch + depth :]
    if not 0 <= batch < indices.ndim or indices.shape[:batch] != lead:
        context.refuse(
            node,
            f"its indices of shape {indices.shape} must begin with the first {batch} axes of its data, {lead}",
        )
    if (indices < np.negative(named)).any() or (indices >= np.array(named)).any():
        context.refuse(node, f"some of its indices lie outside of its data of shape {data.shape}")
    places = np.moveaxis(indices % named, -1, 0)
    chosen = np.ravel_multi_index(tuple(places), named) if depth else places
    own = np.arange(prod(lead)).reshape((*lead, *[1] * (chosen.ndim - batch))) * prod(named)
    flat = context.view(node, data, (prod(lead) * prod(named), *rest), output=context.temporary(node, "rows"))
    _add(context, node, flat, chosen + own, (*indices.shape[:-1], *rest))


def import_gather_elements(context: GraphContext, node: OnnxNode) -> None:
    """Imports GatherElements with constant indices into an integer graph."""
    data, indices = context.tensor(node, 0), _indices(context, node)
    axis = gathered_axis(context, node, data.shape, indices.shape)
    places = list(np.ix_(*map(np.arange, indices.shape)))
    places[axis] = wrapped_indices(context, node, indices, data.shape, axis)
    chosen = np.ravel_multi_index(tuple(np.broadcast_arrays(*places)), data.shape)
    flat = context.view(node, data, (prod(data.shape),), output=context.temporary(node, "elements"))
    _add(context, node, flat, chosen, indices.shape)


def _indices(context: GraphContext, node: OnnxNode) -> np.ndarray:
    """The constant indices, as int64; raises NodeError for indices that are no integers, empty or not constant."""
    indices = context.array(node, 1, "indices")
    if indices is None or indices.dtype.kind != "i" or not indices.size:
        context.refuse(node, f"its indices ({described(indices)}) must be one or more integers")
    return indices.astype(np.int64)


def _add(
    context: GraphContext, node: OnnxNode, flat: str, chosen: np.ndarray, shape: tuple[int, ...]
) -> None:
    """Adds a Gather of the elements `chosen` (indices) of the flat tensor `flat`; the node's output has `shape`."""
    data = replace(context.tensor(node, 0), name=flat)
    operator = Gather(axis=0, indices=tuple(chosen.reshape(-1).tolist()))
    context.add(node, operator, (flat,), shape, dtype=data.dtype)
