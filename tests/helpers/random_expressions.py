"""Random expressions of every type over two loops, to compare generated code with the interpreter."""

from __future__ import annotations

from hypothesis import strategies as st

from vdla.compiler.ir.expr import Binary, Buffer, Cast, Const, Select, Var
from vdla.compiler.ir.types import DType

TYPES = [DType.INT8, DType.UINT8, DType.INT32, DType.INT64, DType.FLOAT32, DType.BOOL]
ROW, J = Var("i"), Var("j")
SIZE = 37
"""Iterations of the loop over rows; the loop over columns has 3."""


def buffers():
    return {d: Buffer(name=f"in_{d.value}", shape=(SIZE, 3), dtype=d) for d in TYPES}


def expressions(depth):
    """A function that returns, for a dtype, a hypothesis strategy for expressions over the loops i and j, nested at
    most `depth` deep.
    """

    @st.composite
    def make(draw, dtype, depth=depth):
        kind = draw(st.sampled_from(["load", "const", "binary", "cast", "select"])) if depth else "load"
        if dtype is DType.INT64 and kind == "const":
            return draw(st.sampled_from([ROW, J, ROW * 3 - J, ROW // 5, (ROW - 20) % 7, (J - ROW) // 4]))
        match kind:
            case "const":
                value = {DType.FLOAT32: -2.5, DType.BOOL: True}.get(dtype, draw(st.integers(0, 100)))
                return Const(value, dtype)
            case "binary":
                a, b = draw(make(dtype, depth - 1)), draw(make(dtype, depth - 1))
                if dtype is DType.BOOL:
                    op = draw(st.sampled_from(["and", "or", "<", "=="]))
                    if op in ("<", "=="):
                        inner = draw(st.sampled_from(TYPES[:5]))
                        a, b = draw(make(inner, depth - 1)), draw(make(inner, depth - 1))
                    return Binary(op, a, b)
                op = draw(st.sampled_from(["+", "-", "*", "min", "max", "//", "%"]))
                if op in ("//", "%"):
                    if dtype is DType.FLOAT32:
                        return Binary("*", a, b)
                    b = Const(draw(st.sampled_from([1, 2, 3, 8, 100])), dtype)
                return Binary(op, a, b)
            case "cast":
                # Bounded before float to integer: beyond int64 the two sides need not agree.
                source = draw(st.sampled_from(TYPES))
                return Cast(
                    draw(make(source, min(depth - 1, 1 if source is DType.FLOAT32 else depth))), dtype
                )
            case "select":
                return Select(
                    draw(make(DType.BOOL, depth - 1)),
                    draw(make(dtype, depth - 1)),
                    draw(make(dtype, depth - 1)),
                )
        buffer = buffers()[dtype]
        return draw(
            st.sampled_from(
                [buffer[ROW, J], buffer[ROW, 1], buffer[36 - ROW, 2 - J], buffer[(ROW * 5) % 37, J]]
            )
        )

    return make
