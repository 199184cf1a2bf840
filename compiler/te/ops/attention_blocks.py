"""The blocks of a GPU that compute an attention: each computes some rows of the result for one index of the batch."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ...ir.expr import Buffer, Const, Expr, ExprLike, Var, cast, minimum, select
from ...ir.stmt import Stmt, nest
from ...ir.types import DType
from ...ir.visit import substitute_expr
from ..blocks import ceil_div
from ..fusion import operand_buffer
from ..scalars import ELEMENT, argument
from .attention_sizes import KEY, ROW, Attention
from .online_softmax import LOWEST

MOST_DIFFERENT = 128
"""Largest number of row blocks that may skip different numbers of steps, since the race check follows each of these
blocks; with more row blocks, no block skips steps.
"""
_ZERO = Const(0)


class Blocks:
    """The blocks of an attention. A block computes `rows` rows, and each of its steps processes `step_keys` keys.

    `grid`: the loops "block.z" over the batch except for its last dimension, "block.y" over heads, "block.x" over
    blocks of rows, with their extents. `batch`: a block's index in each dimension of the batch. Parameters of the
    program: `query`, `key` and `value` (Q, K, V), `operands` that the scores read (A3, A4, ...), `result` (Y).
    """

    def __init__(self, sizes: Attention, rows: int, step_keys: int) -> None:
        self.sizes, self.rows, self.step_keys = sizes, rows, step_keys
        self.query, self.key, self.value = (
            Buffer(name=n, shape=s.shape, dtype=sizes.dtype)
            for n, s in zip("QKV", (sizes.query, sizes.key, sizes.value), strict=True)
        )
        self.result = Buffer(name="Y", shape=sizes.result.shape, dtype=sizes.result_dtype)
        self.operands = [
            operand_buffer(3 + i, shape, dtype) for i, (shape, dtype) in enumerate(sizes.operands)
        ]
        *rest, heads = sizes.batch or (1,)
        self.grid = [
            (Var("block.z"), prod(rest)),
            (Var("block.y"), heads),
            (Var("block.x"), ceil_div(sizes.rows, rows)),
        ]
        self.batch: list[Expr] = []
        for d, size in enumerate(rest):
            inside = prod(rest[d + 1 :])
            at: Expr = self.grid[0][0] if inside == 1 else self.grid[0][0] // inside
            self.batch.append(_ZERO if size == 1 else at if d == 0 else at % size)
        self.batch.append(self.grid[1][0])

    @property
    def parameters(self) -> tuple[Buffer, ...]:
        """All parameters of the program, in order."""
        return (self.query, self.key, self.value, *self.operands, self.result)

    @property
    def first_row(self) -> Expr:
        """The index of a block's first row."""
        return self.grid[2][0] * self.rows

    def steps(self) -> ExprLike:
        """Number of steps over the keys that the block executes. If blocks may skip steps, this is the number that the
        last row of the block needs, an expression of "block.x"; otherwise it is the number of all steps.
        """
        sizes, step_keys = self.sizes, self.step_keys
        whole = ceil_div(sizes.keys, step_keys)
        if sizes.ahead is None or whole == 1 or self.grid[2][1] > MOST_DIFFERENT:
            return whole
        needed = self.grid[2][0] * self.rows + (self.rows + sizes.ahead)
        return minimum(whole, (needed + (step_keys - 1)) // step_keys)

    def score(self, element: Expr, row: Expr, key: Expr) -> Expr:
        """The value of the expression `scores` for `element`, which is the element of Q K^T in row `row` of a block and
        in the column of key number `key`; -inf for keys beyond the last key.
        """
        sizes = self.sizes
        row = self.first_row + row
        whole_rows, whole_keys = sizes.rows % self.rows == 0, sizes.keys % self.step_keys == 0
        full = (
            *self.batch,
            row if whole_rows else minimum(row, sizes.rows - 1),
            key if whole_keys else minimum(key, sizes.keys - 1),
        )
        values: dict[str, Expr] = {ELEMENT.name: element, ROW.name: row, KEY.name: key}
        for i, operand in enumerate(self.operands):
            own = full[len(full) - len(operand.shape) :]
            at = tuple([_ZERO if n == 1 else index for n, index in zip(operand.shape, own, strict=True)])
            values[argument(3 + i).name] = operand[at]
        result = cast(substitute_expr(sizes.scores, values), DType.FLOAT32)
        return result if whole_keys else select(key < sizes.keys, result, LOWEST)


def phase(
    name: str, threads: tuple[int, int, int], body: Callable[[Expr, Expr, Expr], Stmt], axes: str = "zyx"
) -> Stmt:
    """A stage: loops "`name`.z", "`name`.y" and "`name`.x" over threads around `body(z, y, x)`. `threads`: number of
    threads along z, y and x. Axes that are missing in `axes` have no loop, and 0 as the coordinate.
    """
    at = {axis: Var(f"{name}.{axis}") if axis in axes else _ZERO for axis in "zyx"}
    loops = [(var, n) for var, n in zip(at.values(), threads, strict=True) if isinstance(var, Var)]
    return nest(loops, body(at["z"], at["y"], at["x"]))
