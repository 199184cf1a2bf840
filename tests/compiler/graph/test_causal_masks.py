"""Causal masks as expressions: which keys a mask leaves visible, and scores that compare indices in its place."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import DTypeLike

from vdla.compiler.ir.expr import Const, Expr, cast, select
from vdla.compiler.ir.types import DType
from vdla.compiler.rewrites.floating.causal_masks import ahead_of, visible_keys, without_mask
from vdla.compiler.te.ops.attention_sizes import KEY, ROW
from vdla.compiler.te.scalars import ELEMENT, argument

LEAST = -3.4e38
SEEN = np.tri(6, 9, 2, dtype=np.bool_)
SCORE = ELEMENT * 0.5
HIDDEN = Const(LEAST, DType.FLOAT32)
ADDED = SCORE + argument(3)


def table(value: float = LEAST, visible: float = 0.0, dtype: DTypeLike = np.float32) -> np.ndarray:
    return np.where(SEEN, visible, value).astype(dtype)


CASES: dict[str, tuple[Expr, np.ndarray, Expr]] = {
    "chosen": (select(argument(3, DType.BOOL), SCORE, HIDDEN), SEEN, HIDDEN),
    "chosen where hidden": (select(argument(3, DType.BOOL), HIDDEN, SCORE), ~SEEN, HIDDEN),
    "added": (ADDED, table(), Const(float("-inf"), DType.FLOAT32)),
    "added in front": (argument(3) + SCORE, table(), Const(float("-inf"), DType.FLOAT32)),
    "added, of 16 bits": (
        SCORE + cast(argument(3, DType.FLOAT16), DType.FLOAT32),
        table(-65504, dtype=np.float16),
        Const(float("-inf"), DType.FLOAT32),
    ),
    "of every head": (
        SCORE + cast(argument(3, DType.BFLOAT16), DType.FLOAT32),
        np.stack([table(-3e38, dtype=ml_dtypes.bfloat16)] * 2),
        Const(float("-inf"), DType.FLOAT32),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_indices_replace_a_causal_mask(name: str) -> None:
    scores, mask, hidden = CASES[name]
    visible = visible_keys(scores, mask, -6e4)
    assert visible is not None and (visible == SEEN).all()
    assert ahead_of(visible) == 2
    assert without_mask(scores, mask, visible, 2) == select(KEY < ROW + 3, SCORE, hidden)


@pytest.mark.parametrize(
    "mask",
    [
        np.where(SEEN & (np.arange(9) > 0), 0, LEAST).astype(np.float32),
        table(visible=0.5),
        np.stack([table(), np.where(SEEN & (np.arange(9) != 1), 0, LEAST).astype(np.float32)]),
    ],
    ids=["hides the first key", "adds a half", "differs between heads"],
)
def test_other_masks_are_read(mask: np.ndarray) -> None:
    visible = visible_keys(ADDED, mask, -1e30)
    assert visible is not None
    if (ahead := ahead_of(visible)) is not None:
        assert without_mask(ADDED, mask, visible, ahead) is None


def test_a_mask_that_is_read_twice_stays() -> None:
    scores = select(argument(3, DType.BOOL), ELEMENT * cast(argument(3, DType.BOOL), DType.FLOAT32), HIDDEN)
    assert without_mask(scores, SEEN, SEEN, 2) is None


def test_masks_of_small_numbers_hide_no_keys() -> None:
    visible = visible_keys(ADDED, table(-2.0), -1e30)
    assert visible is not None and visible.all() and ahead_of(visible) is None
    assert visible_keys(SCORE * argument(3), table(), -1e30) is None
