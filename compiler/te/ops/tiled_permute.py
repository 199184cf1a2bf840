"""Permutations of float32 data by a GPU's blocks of threads; if the last axis changes, tiles use shared memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.expr import Buffer, Const, Expr, Load, Var, minimum
from ...ir.stmt import Alloc, Assign, For, Program, Stmt, nest, seq
from ..blocks import ceil_div
from ..merge import Shape
from .movement import permute

SIDE = 32
"""Rows and columns of a tile: the 32 threads of a warp read, and write, 128 adjacent bytes."""


def moves_last(program: Program) -> int | None:
    """The output axis of a `permute` that is the input's last axis; None if it is the output's last axis too."""
    chain, move = _parts(program)
    loops = [loop.name for loop in chain]
    assert isinstance(move.value, Load)
    last = move.value.indices[-1]
    assert isinstance(last, Var)
    axis = loops.index(last.name)
    return None if axis == len(loops) - 1 else axis


def tiled_permute(shape: Shape, axes: Sequence[int], *, rows: int) -> Program:
    """The program of `te.ops.movement.permute`, in tiles for a GPU, if the permutation changes the last axis
    (`moves_last`).

    A tile is `SIDE` x `SIDE` elements, along the last axes of input and output. Stage "load" reads along the input's
    last axis into `tile` in shared memory; stage "move" writes along the output's last axis. `tile` has an unused
    column, so that the elements of a row, and of a column, are in 32 different banks (CUDA C++ Programming Guide,
    "Shared Memory"). A block has `SIDE` x `rows` threads. Loops "across" and "along" over tiles, and loops d0, d1, …
    over other axes, contain the stages. Raises ValueError if the last axis stays the last.
    """
    plain = permute(tuple(shape), axes)
    chain, move = _parts(plain)
    axis = moves_last(plain)
    if axis is None:
        raise ValueError(f"{tuple(axes)} does not move the last axis of shape {shape}")
    x, y = plain.parameters
    across, along = Var("across"), Var("along")
    assert isinstance(move.value, Load)
    of_x = [i.name for i in move.value.indices if isinstance(i, Var)]
    tile = Buffer(name="tile", shape=(SIDE, SIDE + 1), dtype=x.dtype, scope="shared")
    width, height = y.shape[-1], y.shape[axis]

    def place(row: Expr, column: Expr) -> dict[str, Expr]:
        """The value of each loop's variable, by name, at an element of the tile: `row` along the output's last axis,
        `column` along the input's last axis.
        """
        at: dict[str, Expr] = {loop.name: loop.var for loop in chain}
        at[chain[-1].name] = along * SIDE + row
        at[chain[axis].name] = across * SIDE + column
        return at

    def rest(size: int, tiles: Expr) -> Expr:
        return minimum(SIDE, size - tiles * SIDE)

    def stage(
        label: str, outer: tuple[int, Expr], inner: tuple[int, Expr], body: Callable[[Expr, Expr], Stmt]
    ) -> Stmt:
        """A stage that runs `body` for all elements of the tile. `outer` and `inner`: (size, number of the tile) of the
        two axes. A step covers `rows` elements of the outer axis; threads along y share them, and threads along x share
        the inner axis.
        """
        ty, tx, step, guard = (Var(f"{label}.{v}") for v in ("y", "x", "k", "g"))
        size, tiles = outer
        position = step * rows + ty + guard
        left = minimum(1, size - tiles * SIDE - step * rows - ty)
        inside = nest([(guard, left)], body(position, tx))
        steps = For(var=step, extent=Const(SIDE // rows), body=inside, kind="unroll")
        return nest([(ty, rows), (tx, rest(*inner))], steps)

    def load(row: Expr, column: Expr) -> Stmt:
        at = place(row, column)
        return Assign.to("load", tile[row, column], x[tuple([at[name] for name in of_x])])

    def store(column: Expr, row: Expr) -> Stmt:
        at = place(row, column)
        return Assign.to("move", y[tuple([at[loop.name] for loop in chain])], tile[row, column])

    body = seq(
        stage("load", (width, along), (height, across), load),
        stage("move", (height, across), (width, along), store),
    )
    around = [(loop.var, loop.extent) for d, loop in enumerate(chain) if d not in (axis, len(chain) - 1)]
    tiles = [(across, Const(ceil_div(height, SIDE))), (along, Const(ceil_div(width, SIDE)))]
    body = nest([*around, *tiles], Alloc(buffer=tile, body=body))
    return Program(name="permute", parameters=(x, y), body=body)


def _parts(program: Program) -> tuple[list[For], Assign]:
    """The loops of a `permute`, outermost first, and the statement in them."""
    chain: list[For] = []
    body = program.body
    while isinstance(body, For):
        chain.append(body)
        body = body.body
    assert isinstance(body, Assign)
    return chain, body
