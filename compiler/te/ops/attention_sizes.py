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
    """Attention for every index of a `batch` (whose last dimension counts heads): Q [rows, depth], K [keys, depth], V
    [keys, columns], result [rows, columns].

    `scores`: the expression of a score before softmax. In it, `te.scalars.ELEMENT` is an element of Q K^T, `ROW` and
    `KEY` are the element's indices, and `argument(3)`, `argument(4)`, ... are elements of the operands. `operands`: the
    operands' shapes and dtypes, which broadcast to [*batch, rows, keys]. `ahead`: for row i, keys from i + `ahead` + 1
    on have weight 0, so that a block skips steps whose keys have weight 0 for all rows of the block (None: no block
    skips steps). `dtype`: the type of Q, K and V; `result_dtype`: the type of the result.
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
