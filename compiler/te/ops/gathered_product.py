"""Matrix products whose right-hand matrices are gathered from a tensor. They have the stages of `te.ops.product`
(copies of the operands, sum "gemm", epilogue "post").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from ...ir.expr import Buffer, Const, Expr, Var, cast
from ...ir.stmt import Assign, Copy, Stmt, allocated, nest, region, seq, whole
from ...ir.types import DType
from ..blocks import Pair, ceil_div
from .sums import Operands, summed

Indices = tuple[Expr, ...]
"""Indices of an element of a buffer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """The order of the terms in a sum over `channels` and `taps`: by blocks of `block` channels, then tap rows, tap
    columns, and the channels of a block.

    A step is `block` terms of one tap: their input position is computed once. Blocks are outermost for two reasons. All
    taps of a block read the same input, from a cache. And if a loop over steps is rounded up, the additional steps read
    channels outside of X, which are zeros.
    """

    channels: int
    taps: Pair
    block: int = 1

    @property
    def size(self) -> int:
        """Number of terms of a sum: one for each channel and tap, where the last block of channels is filled up with
        zeros.
        """
        return ceil_div(self.channels, self.block) * prod(self.taps) * self.block

    def place(self, k: Expr) -> tuple[Expr, Expr, Expr]:
        """Channel, tap row and tap column of product number `k` of the sum."""
        rows, columns = self.taps
        step = k // self.block
        return step // (rows * columns) * self.block + k % self.block, step // columns % rows, step % columns

    def pack(self, weights: np.ndarray) -> np.ndarray:
        """Weights [..., filters, channels, rows, columns] as [..., size, filters], with zeros beyond the channels."""
        *outer, filters, channels, rows, columns = weights.shape
        blocks = ceil_div(channels, self.block)
        beyond = [(0, 0)] * (len(outer) + 1) + [(0, blocks * self.block - channels), (0, 0), (0, 0)]
        cut = np.pad(weights, beyond).reshape(*outer, filters, blocks, self.block, rows, columns)
        ordered = np.moveaxis(np.moveaxis(cut, -3, -1), len(outer), -1)
        return np.ascontiguousarray(ordered.reshape(*outer, self.size, filters))


@dataclass(frozen=True, slots=True, kw_only=True)
class GatheredProduct:
    """Y[target] = epilogue(sum over k of W[matrix, k, i] * X[source]) for all matrices, rows i and columns j.

    `matrices`: the extent of each index of a matrix. `source` maps (matrix indices, k, j) to indices of X; an element
    outside X is zero. `target` maps (matrix indices, i, j) to indices of Y, and `bias` (matrix indices, i) to indices
    of B. With `plain` the source is X[..., k, j], all other indices 0, and X is copied as a box (rectangle of
    elements). Names of all buffers, statements and loops end with `tag`.
    """

    matrices: tuple[int, ...]
    rows: int
    depth: int
    columns: int
    source: Callable[[Sequence[Expr], Expr, Expr], Indices]
    target: Callable[[Sequence[Expr], Expr, Expr], Indices]
    bias: Callable[[Sequence[Expr], Expr], Indices]
    plain: bool = False
    tag: str = ""

    def stages(self, x_in: Buffer, weight: Buffer, y_out: Buffer, operands: Operands) -> Stmt:
        """The statements of the product: copies of W to `a` and of X to `b`, the sum "gemm", and the epilogue "post".

        Factors have the type of X and W (a float of 16 or 32 bits), sums are float32. Statement "gemm" computes the
        buffer `sum`, in loops gemm.b0, ..., gemm.i, gemm.j, gemm.k. Statement "post" is in loops b0, ..., i, j. The
        copy to `b` moves an element at a time, in loops b.b0, ..., b.k, b.j; with `plain` it is one statement without
        loops.

        Matrices may have several indices. Each index with more than one value has a loop b0, b1, ..., and a dimension
        of the buffers before all others.
        """
        several = [d for d, size in enumerate(self.matrices) if size > 1]
        batch = tuple([self.matrices[d] for d in several])

        def buffer(name: str, *shape: int, dtype: DType = x_in.dtype) -> Buffer:
            return Buffer(name=f"{name}{self.tag}", shape=(*batch, *shape), dtype=dtype)

        def loops(prefix: str) -> tuple[list[Var], list[Expr], Var, Var, Var]:
            own = [Var(f"{prefix}b{n}{self.tag}") for n in range(len(several))]
            matrix: list[Expr] = [Const(0)] * len(self.matrices)
            for d, var in zip(several, own, strict=True):
                matrix[d] = var
            i, j, k = (Var(f"{prefix}{v}{self.tag}") for v in ("i", "j", "k"))
            return own, matrix, i, j, k

        a, b = buffer("a", self.depth, self.rows), buffer("b", self.depth, self.columns)
        total = buffer("sum", self.rows, self.columns, dtype=DType.FLOAT32)

        left = Copy(
            name=a.name,
            destination=whole(a),
            source=region(weight, *[(0, size) for size in weight.shape]),
        )
        own, matrix, _, j, k = loops("b.")
        if self.plain:
            lead = len(x_in.shape) - 2 - len(batch)
            right: Stmt = Copy(
                name=b.name,
                destination=whole(b),
                source=region(x_in, *[(0, 1)] * lead, *[(0, size) for size in b.shape]),
            )
        else:
            element = Copy(
                name=b.name,
                destination=region(b, *[(at, 1) for at in (*own, k, j)]),
                source=region(x_in, *[(at, 1) for at in self.source(matrix, k, j)]),
                pad=Const(0.0, x_in.dtype),
            )
            right = nest([*zip(own, batch, strict=True), (k, self.depth), (j, self.columns)], element)

        outputs = {f"b{n}{self.tag}": size for n, size in enumerate(batch)}
        outputs |= {f"i{self.tag}": self.rows, f"j{self.tag}": self.columns}

        def factors(*at: Var) -> Expr:
            *own, i, j, k = at
            return cast(a[*own, k, i], total.dtype) * cast(b[*own, k, j], total.dtype)

        product = summed(
            f"gemm{self.tag}", total, outputs, {f"k{self.tag}": self.depth}, factors, prefix="gemm."
        )

        own, matrix, i, j, _ = loops("")
        at = self.target(matrix, i, j)
        value = operands.value(total[*own, i, j], self.bias(matrix, i), at)
        post = Assign.to(f"post{self.tag}", y_out[at], value)
        finish = nest([*zip(own, batch, strict=True), (i, self.rows), (j, self.columns)], post)
        return allocated((a, b, total), seq(left, right, product, finish))
