"""Attention as one kernel of a GPU: softmax(scores(Q K^T)) V of float32 matrices, without the matrix of scores in
memory. The softmax is computed over blocks of keys (`online_softmax`, which defines m, l and o).
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.expr import Buffer, Const, Expr, Var, minimum
from ...ir.stmt import Assign, Copy, Program, Reduce, Stmt, allocated, nest, region, seq
from ...ir.types import DType
from ..blocks import ceil_div
from ..scalars import exp
from ..threads import all_lanes
from .attention_blocks import Blocks
from .attention_result import Result
from .attention_sizes import Attention, Stored
from .attention_tile import VECTOR, Tile, shared_buffers, unrolled
from .online_softmax import LOWEST, with_new_scores

F32 = DType.FLOAT32
_NOTHING = Const(0.0, F32)
_ZERO = Const(0)


def attention(sizes: Attention, tile: Tile, *, shuffles: bool = False) -> Program:
    """The program of attention on a GPU. Parameters: Q, K, V, the other operands A3, A4, ... of the scores, and Y, in
    the shapes that `sizes` describes.

    Grid axes: x blocks of rows, y heads, z the rest of the batch. Loops "STAGE.x", "STAGE.y" and "STAGE.z" are axes of
    threads. Stages: "q", which copies rows of Q; "start"; for each step over the keys (loop "step") the copies "k" and
    "v", "scores", "most" (the greatest score of a row), "weights" and "context"; "total" (the sum of a row's weights);
    if there are several splits, "give.bounds" and "give", in which each split stores its partial results in shared
    memory; "post", which stores the result. Stages "most" and "total" exist if several threads share a row; without
    `shuffles`, stages "most.give" and "total.give" come before them.
    """
    return _Kernel(sizes, tile, shuffles).program()


class _Kernel:
    """Builds the statements of the program `attention`, one stage after the other, and holds the buffers of the
    program.
    """

    def __init__(self, sizes: Attention, tile: Tile, shuffles: bool) -> None:
        self.sizes, self.tile = sizes, tile
        self.shuffles = shuffles and tile.lanes > 1
        self.shared = shared_buffers(sizes, tile, shuffles=shuffles)
        threads = (tile.splits, tile.row_threads)
        self.vectors = ceil_div(sizes.columns, tile.lanes * tile.wide)
        own, lanes = (tile.rows, tile.keys), tile.lanes

        def register(name: str, *shape: int) -> Buffer:
            return Buffer(name=name, shape=shape, dtype=F32, scope="register")

        self.greatest, self.total, self.most = (
            register(n, *threads, tile.rows, lanes) for n in ("greatest", "total", "most")
        )
        self.score = register("score", *threads, lanes, *own)
        self.sum = register("sum", *threads, lanes, tile.rows, self.vectors, tile.wide)
        self.blocks = Blocks(sizes, tile.block_rows, tile.step_keys)

    def program(self) -> Program:
        sizes, tile, shared, blocks = self.sizes, self.tile, self.shared, self.blocks
        step = Var("step")
        keys = step * tile.step_keys
        body = seq(
            self.copied("k", shared.key, blocks.key, sizes.key, keys, sizes.depth),
            self.copied("v", shared.value, blocks.value, sizes.value, keys, sizes.columns),
            self.with_scores(keys),
        )
        body = allocated((shared.key, shared.value), body)
        steps = nest([(step, blocks.steps())], body)
        held = [shared.query, self.greatest, self.total, self.sum]
        if shared.most is not None:
            held.append(shared.most)
        query = self.copied("q", shared.query, blocks.query, sizes.query, blocks.first_row, sizes.depth)
        result = Result(blocks, tile, shared, self.greatest, self.total, self.sum)
        end = result.stages(self.joined("total", "add", self.total))
        whole = allocated(held, seq(query, self.start(), steps, end))
        return Program(name="attention", parameters=blocks.parameters, body=nest(blocks.grid, whole))

    def copied(self, name: str, to: Buffer, of: Buffer, stored: Stored, first: Expr, columns: int) -> Stmt:
        """Copies rows of a matrix in `of`, from row `first` on, to the shared buffer `to`, with zeros for rows and
        columns outside of the matrix. `columns`: number of columns of the matrix. `stored`: how `of` holds the matrix.
        `name`: the stage and its statement.
        """
        rows, width = to.shape[0], ceil_div(columns, VECTOR) * VECTOR
        if to is self.shared.value:
            width = self.vectors * self.tile.lanes * self.tile.wide
        if stored.by_rows:
            source = region(of, *stored.box(self.blocks.batch, (first, rows), (0, width)))
            return Copy(name=name, destination=region(to, (0, rows), (0, width)), source=source, pad=_NOTHING)
        piece, inside, steps = (
            Var(f"{name}.piece"),
            Var(f"{name}.in"),
            ceil_div(rows * width, self.tile.threads),
        )

        def element(z: Expr, y: Expr, x: Expr) -> Stmt:
            thread = (z * self.tile.row_threads + y) * self.tile.lanes + x
            at = piece * self.tile.threads + thread
            row, column = (at + inside) % rows, (at + inside) // rows
            source = region(of, *stored.box(self.blocks.batch, (first + row, 1), (column, 1)))
            copy = Copy(name=name, destination=region(to, (row, 1), (column, 1)), source=source, pad=_NOTHING)
            return nest([(piece, steps), (inside, minimum(1, rows * width - at))], copy)

        return self.tile.phase(name, element)

    # Stages

    def start(self) -> Stmt:
        r, c, u = (Var(f"start.{v}") for v in "rcu")

        def clear(z: Expr, y: Expr, x: Expr) -> Stmt:
            vectors = [(c, self.vectors), (u, self.tile.wide)]
            return nest(
                [(r, self.tile.rows)],
                seq(
                    Assign.to("start.greatest", self.greatest[z, y, r, x], LOWEST),
                    Assign.to("start.total", self.total[z, y, r, x], _NOTHING),
                    nest(
                        vectors, Assign.to("start.sum", self.sum[z, y, x, r, c, u], _NOTHING), kind="unroll"
                    ),
                ),
                kind="unroll",
            )

        return self.tile.phase("start", clear)

    def with_scores(self, keys: Expr) -> Stmt:
        """The stages of a step that follow the copies of keys and values; `keys`: index of the step's first key."""
        stages = [self.tile.phase("scores", lambda z, y, x: self.scores(keys, z, y, x)), *self.maxima()]
        stages += [self.tile.phase("weights", self.weights), self.tile.phase("context", self.context)]
        return allocated((self.score, self.most, self.shared.weights), seq(*stages))

    def scores(self, keys: Expr, z: Expr, y: Expr, x: Expr) -> Stmt:
        """The statements that compute the scores of a thread's rows and keys, and each row's greatest score among the
        thread's keys. `keys`: index of the step's first key; `z`, `y`, `x`: coordinates of the thread.
        """
        tile, shared = self.tile, self.shared
        d, e = Var("scores.d"), Var("scores.e")
        r, n = Var("scores.r"), Var("scores.n")
        a = Buffer(name="scores.q", shape=(tile.rows, VECTOR), dtype=F32, scope="register")
        b = Buffer(name="scores.k", shape=(tile.keys, VECTOR), dtype=F32, scope="register")

        def loaded(to: Buffer, count: int, of: Buffer, place: Callable[[Expr], Expr]) -> Stmt:
            at = Var(f"{to.name}.row")
            source = region(of, (place(at), 1), (d * VECTOR, VECTOR))
            copy = Copy(name=to.name, destination=region(to, (at, 1), (0, VECTOR)), source=source)
            return nest([(at, count)], copy, kind="unroll")

        def key(n: Expr) -> Expr:
            return z * tile.split_keys + n * tile.lanes + x

        add = Reduce.into("scores", "add", self.score[z, y, x, r, n], a[r, e] * b[n, e])
        products = seq(
            loaded(a, tile.rows, shared.query, lambda at: self.tile.row(y, at)),
            loaded(b, tile.keys, shared.key, key),
            nest([(e, VECTOR), (r, tile.rows), (n, tile.keys)], add, kind="unroll"),
        )
        r0, n0, r1, n1 = (Var(f"scores.{v}") for v in ("r0", "n0", "r1", "n1"))
        clear = Assign.to("scores.init", self.score[z, y, x, r0, n0], _NOTHING)
        masked = self.score[z, y, x, r1, n1]
        finished = seq(
            Assign.to("scores.most.init", self.most[z, y, r1, x], LOWEST),
            unrolled(
                n1.name,
                tile.keys,
                lambda n: seq(
                    Assign.to(
                        "scores.masked", masked, self.blocks.score(masked, tile.row(y, r1), keys + key(n))
                    ),
                    Reduce.into("scores.most", "max", self.most[z, y, r1, x], masked),
                ),
            ),
        )
        return seq(
            nest([(r0, tile.rows), (n0, tile.keys)], clear, kind="unroll"),
            allocated((a, b), nest([(d, ceil_div(self.sizes.depth, VECTOR))], products)),
            nest([(r1, tile.rows)], finished, kind="unroll"),
        )

    def maxima(self) -> list[Stmt]:
        """Stages that compute the greatest score of each row from the greatest scores of the row's threads."""
        return self.joined("most", "max", self.most)

    def joined(self, name: str, op: str, own: Buffer) -> list[Stmt]:
        """Stages that replace each thread's value of a row, in buffer `own`, by the sum or maximum (`op`) over all
        threads of the row. No stages if each row has one thread. The last stage is called `name`.
        """
        tile, r, operator = self.tile, Var(f"{name}.r"), "max" if op == "max" else "add"
        if tile.lanes == 1:
            return []
        if self.shuffles:

            def exchange(z: Expr, y: Expr, _: Expr) -> Stmt:
                joined = all_lanes(name, operator, own, (z, y, r))
                return nest([(r, tile.rows)], joined, kind="unroll")

            return [self.tile.phase(name, exchange, "zy")]
        partial = self.shared.most
        assert partial is not None
        g, h = Var(f"{name}.g"), Var(f"{name}.h")

        def give(z: Expr, y: Expr, x: Expr) -> Stmt:
            to = partial[self.tile.of_split(z, y, g), x]
            return nest([(g, tile.rows)], Assign.to(f"{name}.give", to, own[z, y, g, x]), kind="unroll")

        def take(z: Expr, y: Expr, x: Expr) -> Stmt:
            total, other = own[z, y, r, x], partial[self.tile.of_split(z, y, r), h]
            start = LOWEST if operator == "max" else _NOTHING
            return nest(
                [(r, tile.rows)],
                seq(
                    Assign.to(f"{name}.init", total, start),
                    nest([(h, tile.lanes)], Reduce.into(name, operator, total, other)),
                ),
                kind="unroll",
            )

        return [self.tile.phase(f"{name}.give", give), self.tile.phase(name, take)]

    def weights(self, z: Expr, y: Expr, x: Expr) -> Stmt:
        """Updates the greatest score m of each row, replaces a thread's scores by the weights exp(score - m), and
        updates the thread's sums of weights. Multiplies its sums of weighted rows of V by exp(old m - new m). `z`, `y`,
        `x`: coordinates of the thread.
        """
        tile, r, n, c, u = self.tile, *(Var(f"weights.{v}") for v in "rncu")
        total, score, o = self.total[z, y, r, x], self.score[z, y, x, r, n], self.sum[z, y, x, r, c, u]
        kept = self.shared.weights[self.tile.of_split(z, y, r), n * tile.lanes + x]

        def weigh(greatest: Expr) -> Stmt:
            weights = seq(
                Assign.to("weights", score, exp(score - greatest)),
                Assign.to("weights.kept", kept, score),
                Reduce.into("weights.sum", "add", total, score),
            )
            return nest([(n, tile.keys)], weights, kind="unroll")

        def scale(factor: Expr) -> Stmt:
            scaled = Assign.to("weights.scaled", o, o * factor)
            return nest([(c, self.vectors), (u, tile.wide)], scaled, kind="unroll")

        row = with_new_scores(self.greatest[z, y, r, x], self.most[z, y, r, x], total, weigh, scale)
        return nest([(r, tile.rows)], row, kind="unroll")

    def context(self, z: Expr, y: Expr, x: Expr) -> Stmt:
        """One step over a block of keys: adds products to the thread's accumulators o. Each product is a weight of the
        step, exp(score - m), times a row of V. `z`, `y`, `x`: coordinates of the thread.
        """
        tile, shared = self.tile, self.shared
        width = VECTOR if tile.split_keys % VECTOR == 0 else 1
        j, e, r, c, u = (Var(f"context.{v}") for v in "jercu")
        a = Buffer(name="context.p", shape=(tile.rows, width), dtype=F32, scope="register")
        b = Buffer(name="context.v", shape=(self.vectors, tile.wide), dtype=F32, scope="register")
        at, vector = Var("context.p.row"), Var("context.v.vector")
        weights = Copy(
            name="context.p",
            destination=region(a, (at, 1), (0, width)),
            source=region(shared.weights, (self.tile.of_split(z, y, at), 1), (j * width, width)),
        )
        values = Copy(
            name="context.v",
            destination=region(b, (vector, 1), (0, tile.wide)),
            source=region(
                shared.value,
                (z * tile.split_keys + j * width + e, 1),
                ((vector * tile.lanes + x) * tile.wide, tile.wide),
            ),
        )
        add = Reduce.into("context", "add", self.sum[z, y, x, r, c, u], a[r, e] * b[c, u])
        products = seq(
            nest([(at, tile.rows)], weights, kind="unroll"),
            unrolled(
                e.name,
                width,
                lambda _: seq(
                    nest([(vector, self.vectors)], values, kind="unroll"),
                    nest([(r, tile.rows), (c, self.vectors), (u, tile.wide)], add, kind="unroll"),
                ),
            ),
        )
        return allocated((a, b), nest([(j, tile.split_keys // width)], products))
