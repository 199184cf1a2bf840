"""Pads around the input of a window operator."""

from __future__ import annotations

from ...ir.expr import Buffer, Const
from ...ir.stmt import Copy, Stmt, region, whole
from ..blocks import Window


def padded_input(x_in: Buffer, window: Window, value: float = 0.0) -> tuple[Buffer, tuple[Stmt, ...]]:
    """The buffer that a window operator reads: X, or if there are pads `padded` with the statement "pad" that fills it.

    Positions outside X are filled with `value`.
    """
    if not any(window.pads):
        return x_in, ()
    *outer, height, width, lanes = x_in.shape
    top, left, _, _ = window.pads
    rows, columns = window.padded(height, width)
    padded = Buffer(name="padded", shape=(*outer, rows, columns, lanes), dtype=x_in.dtype)
    copy = Copy(
        name="pad",
        destination=whole(padded),
        source=region(x_in, *((0, size) for size in outer), (-top, rows), (-left, columns), (0, lanes)),
        pad=Const(value, x_in.dtype),
    )
    return padded, (copy,)
