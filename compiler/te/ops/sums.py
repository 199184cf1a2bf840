"""A sum and its post-processing: the two loop nests of most operators.

alloc total: for outputs: for terms: NAME: total[outputs] += value(outputs, terms)
             for outputs: post: Y[outputs] = finish(total[outputs])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...ir.expr import Buffer, Expr, Var, all_of, equal
from ...ir.stmt import Assign, Program, Reduce, Stmt, allocated, nest, seq
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
