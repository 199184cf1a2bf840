"""The online softmax of attention kernels on GPUs (Milakov and Gimelshein, "Online normalizer calculation for softmax",
2018; Dao et al., "FlashAttention", 2022).

Each row keeps its greatest score m so far, the sum l of exp(score - m), and the sum o of exp(score - m) times rows of
V. When m grows, l and o are multiplied by exp(old m - new m). The result is o / l. If the keys are split, each split
has its own m, l and o; with M the greatest m of all splits, l and o of a split are multiplied by exp(m - M) and added
up.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.expr import Buffer, Const, Expr, Load, Var, equal, maximum, select
from ...ir.stmt import Assign, Reduce, Stmt, allocated, nest, seq
from ...ir.types import DType
from ..scalars import exp

LOWEST = Const(float("-inf"), DType.FLOAT32)
"""The score of a key that a row does not see."""
NOTHING = Const(0.0, DType.FLOAT32)


def with_new_scores(
    greatest: Load, most: Load, total: Load, weigh: Callable[[Expr], Stmt], scale: Callable[[Expr], Stmt]
) -> Stmt:
    """The statements that process one row in a step over keys; `most` is the greatest score of the step. They update
    the row's m (`greatest`) and multiply l (`total`) by exp(old m - new m). `weigh(m)` replaces the scores of the step
    by exp(score - m) and adds them to l; `scale(factor)` multiplies o by the same factor as l. If the new m is -inf (no
    key seen so far), `weigh` gets 0 in its place.
    """
    new, base, factor = (_register(f"weights.{name}") for name in ("new", "base", "factor"))
    # Rows all of whose scores are -inf so far: exp(-inf - 0) is 0, exp(-inf - -inf) would be NaN.
    finite = select(equal(new[0], LOWEST), NOTHING, new[0])
    body = seq(
        Assign.to("weights.new", new[0], maximum(greatest, most)),
        Assign.to("weights.base", base[0], finite),
        Assign.to("weights.factor", factor[0], exp(greatest - base[0])),
        Assign.to("weights.greatest", greatest, new[0]),
        Assign.to("weights.total", total, total * factor[0]),
        weigh(base[0]),
        scale(factor[0]),
    )
    return allocated((new, base, factor), body)


class Joined:
    """The registers of a thread that joins the splits of the keys for a row: `most` is the greatest m of all splits,
    `total` the sum of their l, and `factors` has exp(m - greatest m) for each split.
    """

    def __init__(self, splits: int) -> None:
        self.most, self.total = _register("post.most"), _register("post.total")
        self.factors = _register("post.factors", splits)

    def stages(self, bounds: Callable[[int, Expr], Expr], first: Var, second: Var) -> Stmt:
        """The statements that compute the registers, in loops `first` and `second` over the splits. `bounds(0, s)` is m
        of split s, and `bounds(1, s)` is l.
        """
        most, total, (splits,) = self.most[0], self.total[0], self.factors.shape
        weigh = seq(
            Assign.to("post.factor", self.factors[second], exp(bounds(0, second) - most)),
            Reduce.into("post.total", "add", total, bounds(1, second) * self.factors[second]),
        )
        return seq(
            Assign.to("post.most.init", most, LOWEST),
            nest([(first, splits)], Reduce.into("post.most", "max", most, bounds(0, first)), kind="unroll"),
            Assign.to("post.total.init", total, NOTHING),
            nest([(second, splits)], weigh, kind="unroll"),
        )


def _register(name: str, size: int = 1) -> Buffer:
    return Buffer(name=name, shape=(size,), dtype=DType.FLOAT32, scope="register")
