"""Small GPU kernels in the loop IR, written by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from vdla.compiler.codegen.cpu.kernel import build
from vdla.compiler.codegen.cuda.emulate import emulate
from vdla.compiler.ir.expr import Buffer, Const, Expr, ExprLike, Var, index, minimum
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.stmt import (
    Alloc,
    Assign,
    Barrier,
    Commit,
    Copy,
    For,
    LoopKind,
    Program,
    Reduce,
    Seq,
    Stmt,
    Wait,
    region,
    seq,
)
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.verify import verify
from vdla.compiler.ir.visit import map_children, walk
from vdla.compiler.te.functions import FUNCTIONS

F32 = DType.FLOAT32


def loop(var: Var, extent: ExprLike, body: Stmt, kind: LoopKind = "serial") -> For:
    return For(var=var, extent=index(extent), body=body, kind=kind)


def threads(name: str, count: ExprLike, body: Callable[[Var], Stmt]) -> For:
    """A parallel phase: the loop `name` over `count` threads along x; `body` makes its body from the loop variable."""
    var = Var(name)
    return loop(var, count, body(var), "thread.x")


def blocks(name: str, count: int, body: Callable[[Var], Stmt]) -> For:
    var = Var(name)
    return loop(var, count, body(var), "block.x")


def allocate(body: Stmt, *buffers: Buffer) -> Stmt:
    for buffer in reversed(buffers):
        body = Alloc(buffer=buffer, body=body)
    return body


def buffer(name: str, *shape: int, scope: str = "dram", dtype: DType = F32) -> Buffer:
    return Buffer(name=name, shape=shape, dtype=dtype, scope=scope)


def assign(
    to: Buffer, at: ExprLike | tuple[ExprLike, ...], value: ExprLike, name: str | None = None
) -> Assign:
    indices = at if isinstance(at, tuple) else (at,)
    wrapped = value if not isinstance(value, int | float) else Const(value, to.dtype)
    return Assign(
        name=name or f"{to.name}.set",
        buffer=to,
        indices=tuple([index(i) for i in indices]),
        value=wrapped,  # type: ignore[arg-type]
    )


def reverse(count: int = 64, number: int = 2) -> Program:
    """A program of Y = X with each block's `count` elements in reverse order, through shared memory;
    `number` blocks.
    """
    x, y = buffer("X", number * count), buffer("Y", number * count)
    s = buffer("S", count, scope="shared")

    def block(b: Var) -> Stmt:
        fill = threads("t", count, lambda t: assign(s, t, x[b * count + t]))
        use = threads("u", count, lambda u: assign(y, b * count + u, s[count - 1 - u]))
        return allocate(seq(fill, use), s)

    return Program(name="reverse", parameters=(x, y), body=blocks("b", number, block))


def tree_sum(count: int = 32, number: int = 3) -> Program:
    """A GPU program that sums each row of X [number, count]; Y[b] is the sum of row b. A block sums one row with a tree
    in shared memory: each step adds pairs, so it needs half as many threads as the step before. `count` is a power of
    two.
    """
    x, y = buffer("X", number, count), buffer("Y", number)
    s = buffer("S", count, scope="shared")

    def block(b: Var) -> Stmt:
        steps: list[Stmt] = [threads("t", count, lambda t: assign(s, t, x[b, t]))]
        half = count // 2
        while half:
            steps.append(
                threads(f"t{half}", half, lambda t, h=half: assign(s, t, s[t] + s[t + h], f"add{h}"))
            )
            half //= 2
        steps.append(threads("last", 1, lambda t: assign(y, b, s[t])))
        return allocate(seq(*steps), s)

    return Program(name="tree_sum", parameters=(x, y), body=blocks("b", number, block))


def moving_window(steps: int = 5, count: int = 32, stages: int = 1) -> Program:
    """A GPU program that sums each column of X [steps, count], in reverse order: Y[t] is the sum of column count - 1 -
    t. Each row of X is first copied to shared memory.

    `stages`: number of rows in shared memory. With 1, a row is added only after its copy has ended. With more, the
    copies are asynchronous and form a pipeline.
    """
    x, y = buffer("X", steps, count), buffer("Y", count)
    s = buffer("S", max(1, stages), count, scope="shared")
    total = buffer("total", count, scope="register")
    k = Var("k")

    def bring(name: str, row: ExprLike, slot: ExprLike) -> Stmt:
        return threads(
            f"{name}.t",
            count,
            lambda t: Copy(
                name=name,
                destination=region(s, (slot, 1), (t, 1)),
                source=region(x, (row, 1), (t, 1)),
                asynchronous=stages > 1,
            ),
        )

    start = threads("start.t", count, lambda t: assign(total, t, 0.0, "start"))

    def add(slot: ExprLike) -> Stmt:
        return threads(
            "add.t",
            count,
            lambda t: Reduce(name="add", op="add", buffer=total, indices=(t,), value=s[slot, count - 1 - t]),
        )

    if stages == 1:
        body = seq(start, loop(k, steps, seq(bring("bring", k, 0), add(0))))
    else:
        ahead, following = Var("k.ahead"), Var("k.next")
        more = Var("k.more")
        start_copy = loop(more, minimum(1, steps - ahead), bring("bring.ahead", ahead + more, ahead))
        first = loop(ahead, stages - 1, seq(start_copy, Commit()))
        row = k + following + (stages - 1)
        issue = loop(following, minimum(1, steps - k - (stages - 1)), bring("bring", row, row % stages))
        inside = seq(issue, Commit(), Wait(pending=stages - 1), add(k % stages))
        body = seq(start, first, loop(k, steps, inside), Wait(pending=0))
    store = threads("store.t", count, lambda t: assign(y, t, total[t], "store"))
    kernel = blocks("b", 1, lambda b: allocate(seq(body, store), s, total))
    return Program(name="moving_window", parameters=(x, y), body=kernel)


def without_barrier(program: Program, position: int) -> Program:
    """The program without its barrier number `position`, counted from 0 in program order."""
    count = -1

    def visit(node: Stmt) -> Stmt:
        nonlocal count
        if isinstance(node, Barrier):
            count += 1
            return Seq(statements=()) if count == position else node
        return map_children(node, visit)

    return map_children(program, visit)


def barriers(program: Program) -> int:
    return sum(isinstance(node, Barrier) for node in walk(program))


def windows(
    *, columns: int = 20, pad: float = 0.0, steps: int = 5, ahead: int = 2, pending: int | None = None
) -> Program:
    """A GPU program of Y[b] = sum of `steps` boxes of 4 x 8 elements that move along the rows of X [7, `columns`], also
    beyond the edges of X (where elements are `pad`). `ahead` bulk copies of boxes are in flight.

    `pending`: number of copies that a wait leaves in flight (default: `ahead` - 1, all but the one that is used next).
    """
    x, y = buffer("X", 7, columns), buffer("Y", 2, 32)
    s, total = buffer("S", 4, 4, 8, scope="shared"), buffer("total", 32, scope="register")
    b, k = Var("b"), Var("k")

    def bring(name: str, step: Expr) -> Stmt:
        source = region(x, (b * 4 - 1, 4), (step * 8 - 4, 8))
        target = region(s, (step % 4, 1), (0, 4), (0, 8))
        return Copy(name=name, destination=target, source=source, pad=Const(pad, F32), asynchronous=True)

    first, following = Var("first"), Var("next")
    prologue = loop(first, ahead, seq(bring("begin", first), Commit()))
    more = loop(following, minimum(1, steps - ahead - k), bring("bring", k + following + ahead))
    add = threads("t", 32, lambda t: assign(total, t, total[t] + s[k % 4, t // 8, t % 8], "add"))
    body = seq(
        threads("z", 32, lambda z: assign(total, z, 0.0)),
        prologue,
        loop(k, steps, seq(Wait(pending=ahead - 1 if pending is None else pending), more, Commit(), add)),
        Wait(pending=0),
        threads("u", 32, lambda u: assign(y, (b, u), total[u])),
    )
    return Program(name="windows", parameters=(x, y), body=blocks("b", 2, lambda _: allocate(body, s, total)))


def random_arrays(program: Program, seed: int = 0) -> dict[str, np.ndarray]:
    """Random arrays for all parameters of a program, by name, outputs included."""
    rng = np.random.default_rng(seed)
    arrays: dict[str, np.ndarray] = {}
    for parameter in program.parameters:
        if parameter.dtype.is_float:
            arrays[parameter.name] = rng.standard_normal(parameter.shape).astype(parameter.dtype.numpy)
        else:
            arrays[parameter.name] = rng.integers(0, 100, parameter.shape).astype(parameter.dtype.numpy)
    return arrays


def emulated(program: Program, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All arrays after an emulated run of the program; `arrays` are not changed."""
    copies = {name: array.copy() for name, array in arrays.items()}
    result = emulate(program)
    verify(result)
    build(result)(**copies)
    return copies


def interpreted(program: Program, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return interpret(program, arrays, functions=FUNCTIONS)
