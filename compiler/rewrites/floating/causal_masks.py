"""Constant masks of attention that hide later keys from earlier rows (causal masks)."""

from __future__ import annotations

import numpy as np

from ...ir.expr import Binary, Cast, Const, Expr, Select, Var, select
from ...ir.types import DType
from ...ir.visit import free_vars
from ...te.ops.attention_sizes import KEY, ROW
from ...te.scalars import argument

HIDDEN = {DType.FLOAT32: -1e30, DType.BFLOAT16: -1e30, DType.FLOAT16: -6e4}
"""Threshold for scores, by type of Q, K and V. A mask that makes a score lower than this number hides the score's key
from its row.
"""
MASK = argument(3).name
"""The variable for an element of the mask in the expression of a score."""


def ahead_of(visible: np.ndarray) -> int | None:
    """How far a constant mask lets rows look ahead: the greatest k - i for which row i sees key k. This is 0 for an
    ordinary causal mask. `visible`: whether a row sees a key, bool [..., rows, keys].

    Returns None if the result would be negative, or if the first row sees the last key, so that no keys can be skipped.
    Also returns None if a row sees no key: hidden keys have weight 0 only in a row with a visible key.
    """
    rows, keys = visible.shape[-2:]
    seen = np.any(visible.reshape(-1, rows, keys), axis=0)
    if not visible.any(axis=-1).all():
        return None
    last = keys - 1 - seen[:, ::-1].argmax(axis=1)
    ahead = int((last - np.arange(rows)).max())
    return ahead if 0 <= ahead < keys - 1 else None


def visible_keys(scores: Expr, mask: np.ndarray, hidden: float) -> np.ndarray | None:
    """Evaluates a constant mask of attention scores. For each element of `mask`, the result is true if the score keeps
    its value, false if it is hidden.

    `scores` is the expression that applies the mask. It may select, by the mask, either the score or a value below
    `hidden`. It may also be the sum of score and mask; such a mask hides a score if its element is at most `hidden`.
    Returns None for any other expression.
    """
    match scores:
        case Select(condition=Var(), then=_, otherwise=Const(value=value)) if value < hidden:
            return mask.astype(np.bool_)
        case Select(condition=Var(), then=Const(value=value), otherwise=_) if value < hidden:
            return ~mask.astype(np.bool_)
        case Binary(op="+", a=a, b=b) if mask.dtype.kind in "fV" and (_is_mask(a) or _is_mask(b)):
            return mask.astype(np.float32) > hidden
    return None


def without_mask(scores: Expr, mask: np.ndarray, visible: np.ndarray, ahead: int) -> Expr | None:
    """Replaces a causal mask in the expression `scores` by a comparison of the indices `ROW` and `KEY`, so that the
    mask need not be read. `visible`: whether each row sees each key.

    The mask must hide exactly the keys after row + `ahead`, and must add 0 to all other scores. Returns None for any
    other mask.
    """
    rows, keys = visible.shape[-2:]
    if not (visible == np.tri(rows, keys, ahead, dtype=np.bool_)).all():
        return None
    seen, found = ROW + (ahead + 1) > KEY, None
    match scores:
        case Select(condition=Var(name=name), then=then, otherwise=Const() as hidden) if name == MASK:
            found = select(seen, then, hidden)
        case Select(condition=Var(name=name), then=Const() as hidden, otherwise=otherwise) if name == MASK:
            found = select(seen, otherwise, hidden)
        case Binary(op="+", a=a, b=b) if not mask[visible].any():
            found = select(seen, b if _is_mask(a) else a, Const(float("-inf"), DType.FLOAT32))
    return None if found is None or MASK in free_vars(found) else found


def _is_mask(expr: Expr) -> bool:
    """Whether an expression is an element of the mask, also after a conversion."""
    inner = expr.value if isinstance(expr, Cast) else expr
    return isinstance(inner, Var) and inner.name == MASK
