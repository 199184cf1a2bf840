"""The sizes of an attention, and how its matrices are stored in arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...ir.expr import Const, Expr, ExprLike, Var
from ...ir.types import DType
from ..merge import Shape
from ..scalars import ELEMENT

ROW, KEY = Var("score.row"), Var("score.key")
"""The variables that stand for the row and the key of a score, in the expression `Attention.scores`."""
_ZERO = Const(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """An array of matrices: dimension d of (batch ..., rows, columns) is dimension `axes`[d] of the array.

    `repeats`: number of neighbouring heads (indices of the last batch dimension) that use the same matrix. Batch
    dimensions that are missing or of size 1 broadcast, as in numpy's matmul.
    """

    shape: Shape
    axes: tuple[int, ...]
    repeats: int = 1

    def box(
        self, batch: Sequence[Expr], rows: tuple[ExprLike, ExprLike], columns: tuple[ExprLike, ExprLike]
    ) -> list[tuple[ExprLike, ExprLike]]:
        """The box of the array that holds a part of one matrix: (start, extent) for each dimension of the array.
        `batch`: indices of the matrix in the batch; `rows`, `columns`: (start, extent) of the part.
        """
        lead = list(batch[len(batch) - (len(self.axes) - 2) :])
        if self.repeats > 1:
            lead[-1] = lead[-1] // self.repeats
        parts = [*((_ZERO if self.shape[a] == 1 else at, 1) for at, a in zip(lead, self.axes, strict=False))]
        found: list[tuple[ExprLike, ExprLike]] = [(0, 1)] * len(self.shape)
        for part, axis in zip([*parts, rows, columns], self.axes, strict=True):
            found[axis] = part
        return found

    @property
    def by_rows(self) -> bool:
        """Whether the elements of a row are nearer to one another in memory than the elements of a column."""
        return self.axes[-2] < self.axes[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Sizes, types and scores of an attention. For each index of `batch` (whose last dimension counts heads), Q is
    [rows, depth], K is [keys, depth], V is [keys, columns], and the result is [rows, columns].

    `query`, `key`, `value`, `result`: how the arrays of Q, K, V and the result are stored. `scores`: the expression of
    a score before softmax; in it, `te.scalars.ELEMENT` stands for the element of Q K^T, `ROW` and `KEY` for the
    element's indices, and `argument(3)`, `argument(4)`, ... for elements of the first, second, ... further operand (a
    mask, for example). `operands`: shapes and dtypes of these further operands, which broadcast to [*batch, rows,
    keys].

    `ahead`: the weight of keys after key i + `ahead` is 0 in row i, so a block skips all steps whose keys have weight 0
    in all of its rows (None: weights of all keys may differ from 0). `dtype`: the type of Q, K and V; `result_dtype`:
    the type of the result.
    """

    batch: Shape
    rows: int
    depth: int
    keys: int
    columns: int
    query: Stored
    key: Stored
    value: Stored
    result: Stored
    scores: Expr = ELEMENT
    operands: tuple[tuple[Shape, DType], ...] = ()
    ahead: int | None = None
    dtype: DType = DType.FLOAT32
    result_dtype: DType = DType.FLOAT32
