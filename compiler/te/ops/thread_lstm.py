"""Steps of an LSTM for a GPU: one kernel per step, in which each thread block computes all gates of some cells."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.expr import Buffer, Const, Expr, ExprLike, Var, equal, minimum, select
from ...ir.stmt import Alloc, Assign, For, Program, Reduce, Stmt, allocated, nest, seq
from ...ir.types import DType
from ..blocks import ceil_div
from ..scalars import sigmoid, tanh
from .lstm import CELL, FORGET, INPUT, OUTPUT, Direction
from .recurrent import recurrent_steps

GATES = 4
MOST_UNROLLED = 16
"""Largest number of products of a thread whose loop is unrolled completely, so that the loads overlap."""


def thread_lstm_steps(
    *,
    steps: int,
    batch: int,
    hidden: int,
    directions: Sequence[Direction] = ("forward",),
    rows: int,
    cells: int,
    slices: int,
) -> Program:
    """The program that computes the states of an LSTM layer on a GPU; its parameters are those of `te.ops.recurrent`.

    A block computes `cells` cells for `rows` rows of the batch in one direction, with `slices` x 4 x `cells` threads
    (axes z, y, x). Its stages: "product" multiplies, in slice s, the elements s, s + `slices`, ... of the last states
    by R; "gates" adds up the slices' sums and G; "cell" computes the cells and states from all gates. Grid axes: x
    blocks of cells, y directions, z blocks of rows.

    No block may overwrite states that other blocks still read, so steps alternate between two buffers: loop t over
    pairs of steps contains a step from `h.0` to `h.1` (names even.…) and a step back (names odd.…). If the number of
    steps is odd, a single step (names last.…) follows. The nests "start" and "end" copy states from and to the
    parameters.
    """
    parameters = recurrent_steps(
        cell="LSTM", steps=steps, batch=batch, hidden=hidden, directions=directions
    ).parameters
    _, _, h0, c0, _, yh, yc = parameters
    count = len(directions)
    states = tuple(
        [Buffer(name=n, shape=(count, batch, hidden), dtype=DType.FLOAT32) for n in ("h.0", "h.1", "c")]
    )
    first, second, cell = states
    tile = (rows, cells, slices)

    def step(label: str, t: Expr, before: Buffer, after: Buffer) -> Stmt:
        return _step(label, t, steps, tuple(directions), parameters, (before, after, cell), tile)

    t = Var("t")
    body = [_moved("start", (first, h0), (cell, c0))]
    if steps > 1:
        pair = seq(step("even", t * 2, first, second), step("odd", t * 2 + 1, second, first))
        body.append(For(var=t, extent=Const(steps // 2), body=pair))
    if steps % 2:
        body.append(step("last", Const(steps - 1), first, second))
    body.append(_moved("end", (yh, second if steps % 2 else first), (yc, cell)))
    return Program(name="lstm", parameters=parameters, body=allocated(states, seq(*body)))


def _step(
    label: str,
    t: Expr,
    steps: int,
    directions: tuple[Direction, ...],
    parameters: tuple[Buffer, ...],
    states: tuple[Buffer, Buffer, Buffer],
    tile: tuple[int, int, int],
) -> Stmt:
    """The statements of step `t` for all directions; `label` begins their names. `states`: the last states, the new
    states, and the cells, which are updated. `tile`: rows, cells and slices of a block. `parameters`: see
    `thread_lstm_steps`.
    """
    gates, weight, _, _, y, _, _ = parameters
    before, after, cell = states
    count, batch, hidden = cell.shape
    rows, cells, slices = tile
    d, block, group = Var(f"{label}.block.y"), Var(f"{label}.block.x"), Var(f"{label}.block.z")
    partial, total = (
        Buffer(name=f"{label}.{n}", shape=shape, dtype=DType.FLOAT32, scope="shared")
        for n, shape in (("partial", (slices, rows, GATES, cells)), ("gates", (rows, GATES, cells)))
    )
    forward = [direction == "forward" for direction in directions]
    if all(forward):
        time = t
    elif not any(forward):
        time = steps - 1 - t
    else:
        time = select(equal(d, forward.index(True)), t, steps - 1 - t)

    def some(size: int, most: int, tiles: Expr) -> Expr:
        return Const(most) if size % most == 0 else minimum(most, size - tiles * most)

    def threads(stage: str, axes: str) -> tuple[list[tuple[Var, ExprLike]], list[Var]]:
        """The loops over threads of a stage, as ([(variable, extent)], variables). Each letter in `axes` stands for a
        loop: "s" over slices or "n" over rows of the batch (axis z of the threads), "q" over gates or "1" for a single
        thread (axis y), and "j" over cells (axis x).
        """
        extents: dict[str, ExprLike] = {
            "s": slices,
            "n": some(batch, rows, group),
            "q": GATES,
            "1": 1,
            "j": some(hidden, cells, block),
        }
        names = {"s": "z", "n": "z", "q": "y", "1": "y", "j": "x"}
        variables = [Var(f"{label}.{stage}.{names[a]}") for a in axes]
        return [(var, extents[a]) for var, a in zip(variables, axes, strict=True)], variables

    around, (s, q, j) = threads("product", "sqj")
    own = Buffer(name=f"{label}.own", shape=(rows,), dtype=DType.FLOAT32, scope="register")

    def each_row(stage: str, body: str) -> tuple[Var, Expr]:
        return Var(f"{label}.{stage}.{body}"), some(batch, rows, group)

    n, k, g = Var(f"{label}.product.n"), Var(f"{label}.product.k"), Var(f"{label}.product.g")
    at, left = k * slices + s, 1
    if hidden % slices:
        at, left = at + g, minimum(1, hidden - k * slices - s)
    add = Reduce.into(
        f"{label}.product",
        "add",
        own[n],
        before[d, group * rows + n, at] * weight[d, at, q, block * cells + j],
    )
    summed = nest([(n, some(batch, rows, group))], add, kind="unroll")
    if hidden % slices:
        summed = nest([(g, left)], summed)
    terms = ceil_div(hidden, slices)
    init, keep = each_row("product", "init"), each_row("product", "kept")
    product = Alloc(
        buffer=own,
        body=seq(
            nest(
                [init],
                Assign.to(f"{label}.init", own[init[0]], Const(0.0, DType.FLOAT32)),
                kind="unroll",
            ),
            nest([(k, terms)], summed, kind="unroll" if terms <= MOST_UNROLLED else "serial"),
            nest(
                [keep],
                Assign.to(f"{label}.kept", partial[s, keep[0], q, j], own[keep[0]]),
                kind="unroll",
            ),
        ),
    )
    stages = [nest(around, product)]

    around, (n, q, j) = threads("gates", "nqj")
    sum_of = Buffer(name=f"{label}.sum", shape=(1,), dtype=DType.FLOAT32, scope="register")
    s = Var(f"{label}.gates.s")
    zero = (Const(0),)
    joined = Alloc(
        buffer=sum_of,
        body=seq(
            Assign.to(
                f"{label}.sum.init", sum_of[zero], gates[time, group * rows + n, d, q, block * cells + j]
            ),
            nest(
                [(s, slices)],
                Reduce.into(f"{label}.sum", "add", sum_of[zero], partial[s, n, q, j]),
                kind="unroll",
            ),
            Assign.to(f"{label}.gates", total[n, q, j], sum_of[0]),
        ),
    )
    stages.append(nest(around, joined))

    around, (n, _, j) = threads("cell", "n1j")
    row, column = group * rows + n, block * cells + j
    here = cell[d, row, column]
    fresh = sigmoid(total[n, INPUT, j]) * tanh(total[n, CELL, j])
    state = y[time, d, row, column]
    update = seq(
        Assign.to(f"{label}.cell", cell[here.indices], sigmoid(total[n, FORGET, j]) * here + fresh),
        Assign.to(f"{label}.state", y[state.indices], sigmoid(total[n, OUTPUT, j]) * tanh(here)),
        Assign.to(f"{label}.carry", after[here.indices], state),
    )
    stages.append(nest(around, update))
    blocks = [(group, ceil_div(batch, rows)), (d, count), (block, ceil_div(hidden, cells))]
    return nest(blocks, allocated((partial, total), seq(*stages)))


def _moved(name: str, *pairs: tuple[Buffer, Buffer]) -> Stmt:
    """Copies buffers of one shape, as (destination, source) pairs, in loops `name`.d, `name`.n, `name`.j."""
    to, _ = pairs[0]
    at = tuple([Var(f"{name}.{v}") for v in "dnj"])
    moves = [Assign.to(f"{name}.{b.name}", b[at], source[at]) for b, source in pairs]
    return nest(list(zip(at, to.shape, strict=True)), seq(*moves))
