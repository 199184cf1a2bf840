"""A sum and its post-processing: the two loop nests of most operators; pads around the input of a window operator.

alloc total: for outputs: for terms: NAME: total[outputs] += value(outputs, terms)
             for outputs: post: Y[outputs] = finish(total[outputs])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...ir.expr import Buffer, Const, Expr, Var, all_of, equal
from ...ir.stmt import Assign, Copy, Program, Reduce, Stmt, allocated, nest, region, seq, whole
from ..blocks import Window
from ..post import PoolOperator

Loops = Mapping[str, int]
"""Extents of loops by name, the outermost first."""
Stage = tuple[Buffer, Stmt]
"""An intermediate tensor and the statement that fills it."""


def summed(
    name: str,
    total: Buffer,
    outputs: Loops,
    terms: Loops,
    value: Callable[..., Expr],
    *,
    op: PoolOperator = "add",
    prefix: str | None = None,
) -> Stmt:
    """The statement `name`: the sum (or maximum) of `value` over `terms` for every element of `total`.

    A loop's name is `prefix` (by default `name` and a dot) and its key in `outputs` or `terms`; `value` gets the loop
    variables in this order.
    """
    prefix = f"{name}." if prefix is None else prefix
    at, of = ([Var(f"{prefix}{loop}") for loop in loops] for loops in (outputs, terms))
    reduce = Reduce(
        name=name,
        op=op,
        buffer=total,
        indices=tuple(at),
        value=value(*at, *of),
        first=all_of(*[equal(loop, 0) for loop in of]),
    )
    return nest(list(zip([*at, *of], [*outputs.values(), *terms.values()], strict=True)), reduce)


def stored(out: Buffer, outputs: Loops, finish: Callable[..., Expr]) -> Stmt:
    """The statement "post": every element of `out` is `finish` of its indices; loops have the names of `outputs`."""
    at = [Var(loop) for loop in outputs]
    post = Assign(name="post", buffer=out, indices=tuple(at), value=finish(*at))
    return nest(list(zip(at, outputs.values(), strict=True)), post)


def program_of(
    name: str, parameters: Sequence[Buffer | None], intermediates: Sequence[Buffer], *statements: Stmt
) -> Program:
    """The program of these statements. Parameters that are None are omitted; the first intermediate is allocated
    outermost.
    """
    return Program(
        name=name,
        parameters=tuple([p for p in parameters if p is not None]),
        body=allocated(intermediates, seq(*statements)),
    )


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
