"""The effect of each schedule primitive on a small program, as text; run this file to rewrite the golden texts after an
intended change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vdla.compiler.ir.expr import Buffer, Call, Const, Expr, Var, equal, maximum
from vdla.compiler.ir.printer import format_node
from vdla.compiler.ir.stmt import (
    Alloc,
    Assign,
    Copy,
    IntrinsicDeclaration,
    Program,
    Reduce,
    nest,
    region,
    seq,
    whole,
)
from vdla.compiler.ir.types import DType
from vdla.compiler.schedule import Schedule, format_trace

GOLDEN = Path(__file__).parents[1] / "compiler" / "schedule" / "golden"
I32 = DType.INT32
SEVEN = Const(7, I32)
FUNCTIONS = {"negative": lambda value: -value}
ROW, J, K, P, Q = (Var(name) for name in ("i", "j", "k", "a", "b"))
A = Buffer(name="A", shape=(10, 8), dtype=I32)
C = Buffer(name="C", shape=(10,), dtype=I32)
D = Buffer(name="D", shape=(8, 8), dtype=I32)
T = Buffer(name="T", shape=(10, 8), dtype=I32)


def sums() -> Program:
    """A program of C[i] = sum of row i of A."""
    total = Reduce(name="sum", op="add", buffer=C, indices=(ROW,), value=A[ROW, J], first=equal(J, 0))
    return Program(name="sums", parameters=(A, C), body=nest([(ROW, 10), (J, 8)], total))


def stencil() -> Program:
    """A program of T = 2 A, and of D[i, j] = T[i, j] + T[i + 2, j]."""
    double = nest([(P, 10), (Q, 8)], Assign(name="double", buffer=T, indices=(P, Q), value=A[P, Q] * 2))
    add = nest(
        [(ROW, 8), (J, 8)], Assign(name="add", buffer=D, indices=(ROW, J), value=T[ROW, J] + T[ROW + 2, J])
    )
    return Program(name="stencil", parameters=(A, D), body=Alloc(buffer=T, body=seq(double, add)))


def mirrored() -> Program:
    """A program of T = A, and of D[i, j] = -T[i, j] - T[i + 2, j]."""

    def negative(load: Expr) -> Expr:
        return Call("negative", (load,), I32)

    copy = nest([(P, 10), (Q, 8)], Assign(name="keep", buffer=T, indices=(P, Q), value=A[P, Q]))
    value = negative(T[ROW, J]) + negative(T[ROW + 2, J])
    add = nest([(ROW, 8), (J, 8)], Assign(name="add", buffer=D, indices=(ROW, J), value=value))
    return Program(name="mirrored", parameters=(A, D), body=Alloc(buffer=T, body=seq(copy, add)))


def product(op: str = "add") -> Program:
    """A program of the matrix product C = A W, or with another reduction operator `op` (for example the maximum of the
    products).
    """
    a, w = Buffer(name="A", shape=(10, 6), dtype=I32), Buffer(name="W", shape=(6, 9), dtype=I32)
    c = Buffer(name="C", shape=(10, 9), dtype=I32)
    value = a[ROW, K] * w[K, J]
    total = Reduce(name="sum", op=op, buffer=c, indices=(ROW, J), value=value, first=equal(K, 0))  # type: ignore[arg-type]
    return Program(name="product", parameters=(a, w, c), body=nest([(ROW, 10), (J, 9), (K, 6)], total))


def padded(pad: Const | None = SEVEN) -> Program:
    """A program of a copy T of X with padding `pad` on both sides (None: the copy reads X out of bounds), and of sums
    of two elements of T.
    """
    t = Buffer(name="T", shape=(1, 8), dtype=I32)
    x, y = Buffer(name="X", shape=(1, 5), dtype=I32), Buffer(name="Y", shape=(6,), dtype=I32)
    load = Copy(name="load", destination=whole(t), source=region(x, (0, 1), (-2, 8)), pad=pad)
    add = Assign(name="add", buffer=y, indices=(ROW,), value=t[0, ROW] + t[0, ROW + 2])
    return Program(
        name="padded", parameters=(x, y), body=Alloc(buffer=t, body=seq(load, nest([(ROW, 6)], add)))
    )


def far_apart() -> Program:
    """A program of a one-dimensional convolution with three taps seven positions apart, on a padded copy of X."""
    t = Buffer(name="T", shape=(1, 20), dtype=I32)
    x, w, y = (Buffer(name=n, shape=z, dtype=I32) for n, z in (("X", (1, 5)), ("W", (3,)), ("Y", (6,))))
    load = Copy(name="load", destination=whole(t), source=region(x, (0, 1), (-7, 20)), pad=Const(0, I32))
    value = t[0, K * 7 + ROW] * w[K]
    add = Reduce(name="sum", op="add", buffer=y, indices=(ROW,), value=value, first=equal(K, 0))
    body = Alloc(buffer=t, body=seq(load, nest([(ROW, 6), (K, 3)], add)))
    return Program(name="far_apart", parameters=(x, w, y), body=body)


def activated() -> Program:
    """A program of S[i] = sum of row i of A, and of C = max(S, 0)."""
    s = Buffer(name="S", shape=(10,), dtype=I32)
    total = Reduce(name="sum", op="add", buffer=s, indices=(ROW,), value=A[ROW, J], first=equal(J, 0))
    relu = Assign(name="relu", buffer=C, indices=(P,), value=maximum(s[P,], 0))
    body = Alloc(buffer=s, body=seq(nest([(ROW, 10), (J, 8)], total), nest([(P, 10)], relu)))
    return Program(name="activated", parameters=(A, C), body=body)


def staged(pad: int = 0, plus: int = 0, columns: int = 9, dtype: DType = I32) -> Program:
    """A program that computes C = (A + `plus`) W + 1 of type `dtype` from copies of A and W; the product adds `plus`.
    The copy of W has 9 columns, of which a loop fills `columns`, with `pad` beyond the end of W.
    """
    a, w = Buffer(name="A", shape=(10, 6), dtype=dtype), Buffer(name="W", shape=(6, 9), dtype=dtype)
    s, t = Buffer(name="a", shape=a.shape, dtype=dtype), Buffer(name="w", shape=w.shape, dtype=dtype)
    total, c = (Buffer(name=n, shape=(10, 9), dtype=dtype) for n in ("sum", "C"))
    value = s[ROW, K] * t[K, J] if plus == 0 else (s[ROW, K] + plus) * t[K, J]
    adding = Reduce(name="gemm", op="add", buffer=total, indices=(ROW, J), value=value, first=equal(K, 0))
    load = Copy(name="load", destination=whole(s), source=whole(a))
    element = Copy(
        name="element",
        destination=region(t, (P, 1), (Q, 1)),
        source=region(w, (P, 1), (Q, 1)),
        pad=Const(pad, dtype),
    )
    i, j = Var("c.i"), Var("c.j")
    body = seq(
        load,
        nest([(P, 6), (Q, columns)], element),
        nest([(ROW, 10), (J, 9), (K, 6)], adding),
        nest([(i, 10), (j, 9)], Assign(name="post", buffer=c, indices=(i, j), value=total[i, j] + 1)),
    )
    for buffer in (total, t, s):
        body = Alloc(buffer=buffer, body=body)
    return Program(name="staged", parameters=(a, w, c), body=body)


DOT = IntrinsicDeclaration(
    name="dot",
    parameters=(Buffer(name="c", shape=(1,), dtype=I32), Buffer(name="a", shape=(8,), dtype=I32)),
    body=nest(
        [(K, 8)],
        Reduce(
            name="dot",
            op="add",
            buffer=Buffer(name="c", shape=(1,), dtype=I32),
            indices=(Const(0),),
            value=Buffer(name="a", shape=(8,), dtype=I32)[K,],
            first=Var("first", DType.BOOL) & equal(K, 0),
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Case:
    """A case: `make` makes a program, `build` applies primitives to its schedule."""

    make: Callable[[], Program]
    build: Callable[[Schedule], object]


def _reorder(s: Schedule) -> None:
    s.split("i", 5)
    s.reorder("j", "i.0", "i.1")


def _bind(s: Schedule) -> None:
    block, thread = s.split("i", 4)
    s.bind(block, "block.x")
    s.cache_read("A", block, "shared")
    s.bind(thread, "thread.x")
    s.expand_copy("A.shared")
    s.bind("A.shared.0", "thread.x")


def _share_copy(s: Schedule) -> None:
    block, _ = s.split("i", 5)
    s.bind(block, "block.x")
    copy = s.cache_read("A", block, "shared")
    s.share_copy(copy, (("thread.y", 2), ("thread.x", 4)), 2)


def _pad(s: Schedule) -> None:
    for loop, multiple in (("i", 4), ("j", 8), ("k", 4)):
        s.pad(loop, multiple)


def _guard(s: Schedule) -> None:
    s.guard("i", 4)
    s.split("i", 4)
    s.reorder("i.0", "i.1", "j", "i.in")


def _virtual_thread(s: Schedule) -> None:
    tile, _ = s.split("i", 5)
    s.cache_read("A", tile, "inp")
    s.virtual_thread(tile)


def _split_then(
    factor: int, build: Callable[[Schedule], object], loop: str = "i"
) -> Callable[[Schedule], None]:
    def both(s: Schedule) -> None:
        s.split(loop, factor)
        build(s)

    return both


def _decompose(s: Schedule) -> None:
    s.reorder("k", "i", "j")
    s.vectorize("j")
    s.decompose_reduction("sum", "k")


def _skip_pads(s: Schedule) -> None:
    s.decompose_reduction("sum", "k")
    s.skip_pads("k")


def _peel_first(s: Schedule) -> None:
    s.expand_copy("load")
    s.compute_inline("load")
    s.split("i", 3)
    s.peel("i.0", "first")


def _pipeline(s: Schedule) -> None:
    tile, _ = s.split("i", 2)
    s.cache_read("A", tile, "shared")
    s.pipeline(tile, 3)


def _pipeline_ahead(s: Schedule) -> None:
    tile, _ = s.split("i", 2)
    s.cache_read("A", tile, "shared")
    s.split_copy("A.shared", 1, 4)
    s.pipeline(tile, 4, 2)


def _box_copy(s: Schedule) -> None:
    name = s.cache_read("A", None, "inp")
    s.expand_copy(name)
    s.box_copy(name)


def _in_place(s: Schedule) -> None:
    s.cache_read("A", None, "acc")
    s.set_scope("T", "acc")
    s.update_in_place("double", "A.acc")


CASES = {
    "split": Case(sums, lambda s: s.split("i", 4)),
    "split-exact": Case(sums, lambda s: s.split("j", 4)),
    "split-whole": Case(sums, lambda s: s.split("j", 9)),
    "fuse": Case(sums, lambda s: s.fuse("i", "j")),
    "reorder": Case(sums, _reorder),
    "tile": Case(product, lambda s: s.tile("i", "j", 5, 3)),
    "unroll": Case(sums, lambda s: s.unroll("j")),
    "vectorize": Case(sums, _split_then(5, lambda s: s.vectorize("i.1"))),
    "parallel": Case(sums, _split_then(4, lambda s: s.parallel("i.0"))),
    "bind": Case(sums, _bind),
    "virtual-thread": Case(sums, _virtual_thread),
    "cache-read": Case(sums, _split_then(4, lambda s: s.cache_read("A", "i.0", "inp"))),
    "cache-write": Case(sums, _split_then(4, lambda s: s.cache_write("C", "i.0", "acc"))),
    "compute-at": Case(stencil, _split_then(3, lambda s: s.compute_at("double", "i.0"))),
    "reverse-compute-at": Case(activated, _split_then(4, lambda s: s.reverse_compute_at("relu", "i.0"))),
    "compute-inline": Case(stencil, lambda s: s.compute_inline("double")),
    "update-in-place": Case(stencil, _in_place),
    "compute-early": Case(mirrored, lambda s: s.compute_early("keep")),
    "decompose-reduction": Case(product, _decompose),
    "rfactor": Case(product, _split_then(4, lambda s: s.rfactor("sum", "k.0"), "k")),
    "set-scope": Case(stencil, lambda s: s.set_scope("T", "inp")),
    "widen": Case(stencil, lambda s: s.widen("T", 1, 12)),
    "pack": Case(product, _split_then(4, lambda s: s.pack("W", ((1, 4),), (1, 0, 2)), "j")),
    "guard": Case(sums, _guard),
    "pad": Case(staged, _pad),
    "skip-pads": Case(far_apart, _skip_pads),
    "pipeline": Case(sums, _pipeline),
    "pipeline-ahead": Case(sums, _pipeline_ahead),
    "box-copy": Case(activated, _box_copy),
    "split-copy": Case(padded, lambda s: s.split_copy("load", 1, 2)),
    "tensorize": Case(sums, lambda s: s.tensorize("j", DOT, (("lanes", 8),))),
    "peel-last": Case(product, _split_then(4, lambda s: s.peel("i.0"))),
    "peel-first": Case(padded, _peel_first),
    "prefetch": Case(product, lambda s: s.prefetch("k", "W", 4096)),
    "expand-copy": Case(padded, lambda s: s.expand_copy("load")),
    "share-copy": Case(sums, _share_copy),
}


def scheduled(name: str) -> tuple[Program, Schedule]:
    """The program of case `name`, and its schedule after the primitives."""
    program = CASES[name].make()
    s = Schedule(program)
    CASES[name].build(s)
    return program, s


def text(name: str) -> str:
    """The golden text of a case: the program before, the trace, the program after."""
    before, s = scheduled(name)
    parts = {"before": format_node(before), "trace": format_trace(s.trace), "after": format_node(s.program)}
    return "\n".join(f"{head}:\n\n{part}" for head, part in parts.items())


def arrays(program: Program, outputs: tuple[str, ...] = ("C", "D", "Y")) -> dict[str, np.ndarray]:
    """Random integer arrays for every parameter of a program except `outputs`."""
    rng = np.random.default_rng(0)
    given = [p for p in program.parameters if p.name not in outputs]
    return {p.name: rng.integers(-9, 9, p.shape).astype(p.dtype.numpy) for p in given}


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for path in GOLDEN.glob("*.txt"):
        path.unlink()
    for name in CASES:
        (GOLDEN / f"{name}.txt").write_text(text(name), encoding="utf-8")
