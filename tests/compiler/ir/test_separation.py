"""Accesses whose indices are digits of one number: threads that never meet."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vdla.compiler.ir.evaluate import evaluate
from vdla.compiler.ir.expr import Buffer, Const, Expr, Var
from vdla.compiler.ir.kernels import Access
from vdla.compiler.ir.separation import meets_only_at
from vdla.compiler.ir.stmt import For, LoopKind, Seq
from vdla.compiler.ir.types import DType

B, T, R = Var("b"), Var("t"), Var("r")


def access(indices: tuple[Expr, ...], blocks: int, threads: int, rows: int) -> Access:
    kinds: tuple[LoopKind, ...] = ("block.x", "thread.x", "serial")
    loops = [
        For(var=var, extent=Const(size), body=Seq(statements=()), kind=kind)
        for var, size, kind in zip((B, T, R), (blocks, threads, rows), kinds, strict=True)
    ]
    buffer = Buffer(name="Y", shape=(10**6,) * len(indices), dtype=DType.FLOAT32)
    return Access(
        buffer=buffer,
        starts=indices,
        extents=(Const(1),) * len(indices),
        write=True,
        statement="post",
        loops=tuple(loops),
    )


def places(threads: int, rows: int, high: int, wide: int, step: int) -> tuple[Expr, ...]:
    """Channel, row and column of output r of thread t: `rows` below one another, columns beside one another."""
    n = B * threads + T
    return n // (high * wide), n // wide % high * step + R, n % wide


@pytest.mark.parametrize(("size", "rows"), [(112, 8), (56, 4), (14, 7), (7, 1)])
def test_rows_of_outputs(size: int, rows: int) -> None:
    high = size // rows
    shape = access(places(128, rows, high, size, rows), 32 * high * size // 128, 128, rows)
    assert meets_only_at(shape, shape, [("b", "b"), ("t", "t")])


@settings(max_examples=60, deadline=None)
@given(
    blocks=st.integers(1, 3),
    threads=st.integers(1, 6),
    rows=st.integers(1, 3),
    high=st.integers(1, 3),
    wide=st.integers(1, 4),
    step=st.integers(1, 3),
)
def test_what_is_said_to_be_apart_is(blocks, threads, rows, high, wide, step) -> None:
    indices = places(threads, rows, high, wide, step)
    shape = access(indices, blocks, threads, rows)
    if not meets_only_at(shape, shape, [("b", "b"), ("t", "t")]):
        return
    seen: dict[tuple[int, ...], tuple[int, int]] = {}
    for b, t, r in product(range(blocks), range(threads), range(rows)):
        element = tuple(
            int(evaluate(e, {"b": np.int64(b), "t": np.int64(t), "r": np.int64(r)})) for e in indices
        )
        assert seen.setdefault(element, (b, t)) == (b, t)
