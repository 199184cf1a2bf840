"""Pads of a max-pool directly after a convolution; they are part of the convolution's accumulators."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.expr import Buffer, Const, Var
from ...ir.stmt import Assign, Stmt, nest
from ...ir.types import DType
from ..blocks import Pair, Window

INT32_MIN = -(2**31)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """Convolution results inside the padded area that a pool reads.

    `shape`: rows and columns of the area. `rows` x `columns` of them from (`top`, `left`) on are results, the rest are
    pads.
    """

    shape: Pair
    top: int
    left: int
    rows: int
    columns: int

    @staticmethod
    def of(pool: Window | None, rows: int, columns: int) -> Ring:
        """The ring for a pool (None: no pads) over `rows` x `columns` results, without results that no window reads."""
        if pool is None:
            return Ring(shape=(rows, columns), top=0, left=0, rows=rows, columns=columns)
        if pool.dilations != (1, 1):
            raise ValueError("a pool with dilations cannot follow a convolution directly")
        counts = pool.outputs(rows, columns)
        shape = (
            (counts[0] - 1) * pool.strides[0] + pool.kernel[0],
            (counts[1] - 1) * pool.strides[1] + pool.kernel[1],
        )
        top, left = pool.pads[0], pool.pads[1]
        return Ring(
            shape=shape,
            top=top,
            left=left,
            rows=min(rows, shape[0] - top),
            columns=min(columns, shape[1] - left),
        )

    def fills(self, acc: Buffer) -> list[Stmt]:
        """Statements that fill the pads with the least int32: boxes above, below, left and right of the results."""
        bottom, right = self.top + self.rows, self.left + self.columns
        height, width = self.shape
        boxes = {
            "top": ((0, self.top), (0, width)),
            "bottom": ((bottom, height - bottom), (0, width)),
            "left": ((self.top, self.rows), (0, self.left)),
            "right": ((self.top, self.rows), (right, width - right)),
        }
        return [
            _fill(acc, f"border.{side}", *box)
            for side, box in boxes.items()
            if box[0][1] > 0 and box[1][1] > 0
        ]


def _fill(acc: Buffer, name: str, rows: Pair, columns: Pair) -> Stmt:
    n, o, y, x, b, j = (Var(f"{name}.{v}") for v in ("n", "o", "y", "x", "b", "j"))
    fill = Assign(
        name=name,
        buffer=acc,
        indices=acc[n, o, y + rows[0], x + columns[0], b, j].indices,
        value=Const(INT32_MIN, DType.INT32),
    )
    extents = (acc.shape[0], acc.shape[1], rows[1], columns[1], acc.shape[4], acc.shape[5])
    return nest(list(zip((n, o, y, x, b, j), extents, strict=True)), fill)
