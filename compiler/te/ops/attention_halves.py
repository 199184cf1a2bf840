"""Attention as one kernel of a GPU: softmax(scores(Q K^T)) V of 16-bit matrices, by matrix products of the sizes that
tensor cores compute.

The algorithm is FlashAttention-2 (Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work
Partitioning", 2023). Each warp computes its own rows of the result, over blocks of keys (`online_softmax`, which
defines m, l and o). Scores, m, l and o are float32 in registers; exp(score - m) is rounded to 16 bits for the product
with V.
"""

from __future__ import annotations

from ...ir.expr import Buffer, Const, Expr, Var, cast
from ...ir.kernels import WARP
from ...ir.lane_elements import LANES_OF_ROW, OWN_COLUMNS, OWN_ROWS, own_column, own_row
from ...ir.stmt import Assign, Copy, Program, Reduce, Stmt, allocated, nest, region, seq
from ...ir.types import DType
from ..rows import Operator
from ..scalars import exp
from ..threads import neighbouring_lanes
from .attention_blocks import Blocks
from .attention_halves_result import Splits
from .attention_sizes import Attention, Stored
from .attention_warps import COLUMNS, DEPTH, PAIR, ROWS, WarpTile
from .online_softmax import LOWEST, with_new_scores

F32 = DType.FLOAT32
_NOTHING, _ZERO = Const(0.0, F32), Const(0)


def attention_halves(sizes: Attention, tile: WarpTile) -> Program:
    """Attention of 16-bit matrices on a GPU. Parameters: Q, K, V, A3, A4, ... (operands of the scores) and Y, in the
    shapes and types of `sizes`, whose depth and columns are multiples of 16.

    Grid axes: x blocks of rows, y heads, z the rest of the batch. Loops "STAGE.z" and "STAGE.y" are axes of warps,
    "STAGE.x" the lanes of a warp. Stages:
    - "q" copies Q to shared memory, and "queries" loads each warp's rows of it; "start" and "start.sums" begin m, l, o.
    - In each step over the keys (loop "step"), "k" and "v" copy keys and values, "scores" multiplies, "masked" computes
      scores, "most" finds the greatest score of a row, "weights" the exponentials, and "context" multiplies again.
    - "total" completes l; "give.bounds", "give" and "post" store the result (`attention_halves_result`).
    Matrices of a warp are the buffers "queries", "scores.k", "context.p" and "context.v" (factors), "score" and "sum".
    """
    return _Kernel(sizes, tile).program()


class _Kernel:
    """Builds the statements of `attention_halves`, stage by stage. Each stage has three loops: z is the number of a
    split (warps that share the same keys), y is the number of a warp in its split, and x is the number of a lane in the
    warp.
    """

    def __init__(self, sizes: Attention, tile: WarpTile) -> None:
        self.sizes, self.tile, self.half = sizes, tile, sizes.dtype
        self.blocks = Blocks(sizes, tile.block_rows, tile.step_keys)
        own = (tile.splits, tile.warps, tile.tiles)

        def shared(name: str, stored: Stored, rows: int, columns: int) -> Buffer:
            shape = (rows, columns) if stored.by_rows else (columns, rows)
            return Buffer(name=name, shape=shape, dtype=self.half, scope="shared")

        self.q = shared("q", sizes.query, tile.block_rows, sizes.depth)
        self.k = shared("k", sizes.key, tile.step_keys, sizes.depth)
        self.v = shared("v", sizes.value, tile.step_keys, sizes.columns)
        self.queries = self.register("queries", *own, sizes.depth // DEPTH, ROWS, DEPTH, dtype=self.half)
        self.score = self.register("score", *own, tile.keys // COLUMNS, ROWS, COLUMNS)
        self.sum = self.register("sum", *own, sizes.columns // COLUMNS, ROWS, COLUMNS)
        self.greatest, self.total, self.most = (
            self.register(n, *own, OWN_ROWS, WARP) for n in ("greatest", "total", "most")
        )

    @staticmethod
    def register(name: str, *shape: int, dtype: DType = F32) -> Buffer:
        return Buffer(name=name, shape=shape, dtype=dtype, scope="register")

    def program(self) -> Program:
        sizes, blocks, step = self.sizes, self.blocks, Var("step")
        keys = step * self.tile.step_keys
        stages = seq(
            self.copied("k", self.k, blocks.key, sizes.key, keys),
            self.copied("v", self.v, blocks.value, sizes.value, keys),
            allocated((self.score, self.most), seq(*self.of_step(keys))),
        )
        steps = nest([(step, blocks.steps())], allocated((self.k, self.v), stages))
        query = allocated(
            (self.q,),
            seq(self.copied("q", self.q, blocks.query, sizes.query, blocks.first_row), self.load_queries()),
        )
        splits = Splits(blocks, self.tile)
        end = splits.stages(self.greatest, self.total, self.sum)
        total = self.joined("total", "add", self.total)
        whole = seq(query, self.start(), steps, total, end)
        held = allocated((self.queries, self.greatest, self.total, self.sum), whole)
        return Program(name="attention", parameters=blocks.parameters, body=nest(blocks.grid, held))

    # Places

    def copied(self, name: str, to: Buffer, of: Buffer, stored: Stored, first: Expr) -> Stmt:
        """Copies rows of a matrix in `of`, from row `first` on, to the shared buffer `to`. Both buffers have the same
        order of rows and columns in memory. Rows outside of the matrix become zeros.
        """
        rows, columns = to.shape if stored.by_rows else to.shape[::-1]
        source = region(of, *stored.box(self.blocks.batch, (first, rows), (0, columns)))
        destination = region(to, *((0, size) for size in to.shape))
        return Copy(name=name, destination=destination, source=source, pad=Const(0.0, self.half))

    # Stages

    def load_queries(self) -> Stmt:
        m, d, i, j = (Var(f"queries.{v}") for v in "mdij")

        def body(z: Expr, y: Expr, _: Expr) -> Stmt:
            at = _place(self.sizes.query, self.tile.row(y, m) + i, d * DEPTH + j)
            load = Assign.to("queries", self.queries[z, y, m, d, i, j], self.q[at])
            return self.tiles(
                m, nest([(d, self.sizes.depth // DEPTH)], _matrix(load, i, j, DEPTH), kind="unroll")
            )

        return self.tile.phase("queries", body, "zy")

    def start(self) -> Stmt:
        m, h, t, c, i, j = (Var(f"start.{v}") for v in "mhtcij")

        def rows(z: Expr, y: Expr, x: Expr) -> Stmt:
            clear = seq(
                Assign.to("start.greatest", self.greatest[z, y, m, h, x], LOWEST),
                Assign.to("start.total", self.total[z, y, m, h, x], _NOTHING),
            )
            return self.tiles(m, nest([(h, OWN_ROWS)], clear, kind="unroll"))

        def sums(z: Expr, y: Expr, _: Expr) -> Stmt:
            clear = Assign.to("start.sum", self.sum[z, y, t, c, i, j], _NOTHING)
            return self.tiles(
                t, nest([(c, self.sizes.columns // COLUMNS)], _matrix(clear, i, j), kind="unroll")
            )

        return seq(self.tile.phase("start", rows), self.tile.phase("start.sums", sums, "zy"))

    def of_step(self, keys: Expr) -> list[Stmt]:
        """The stages of a step that follow the copies of keys and values; `keys`: index of the step's first key."""
        return [
            self.tile.phase("scores", self.scores, "zy"),
            self.tile.phase("masked", lambda z, y, x: self.masked(keys, z, y, x)),
            self.joined("most", "max", self.most),
            self.tile.phase("weights", self.weights),
            self.tile.phase("context", self.context, "zy"),
        ]

    def scores(self, z: Expr, y: Expr, _: Expr) -> Stmt:
        """The statements that compute the scores of a step for warp (`z`, `y`): the products of the warp's rows of Q
        and the keys of its split.
        """
        sizes, tile = self.sizes, self.tile
        b = self.register("scores.k", PAIR, DEPTH, COLUMNS, dtype=self.half)
        d, c, t, m, i, j, k = (Var(f"scores.{v}") for v in "dctmijk")
        zm, zn, zi, zj, u, li, lj = (Var(f"scores.{v}") for v in ("zm", "zn", "zi", "zj", "u", "li", "lj"))
        clear = Assign.to("scores.init", self.score[z, y, zm, zn, zi, zj], _NOTHING)
        place = _place(sizes.key, z * tile.keys + c * DEPTH + u * COLUMNS + lj, d * DEPTH + li)
        load = Assign.to("scores.k", b[u, li, lj], self.k[place])
        product = _multiplied(self.queries[z, y, m, d, i, k], b[t, k, j])
        add = Reduce.into("scores", "add", self.score[z, y, m, c * PAIR + t, i, j], product)
        products = seq(
            nest([(u, PAIR)], _matrix(load, li, lj, rows=DEPTH)),
            nest([(t, PAIR)], self.tiles(m, nest([(i, ROWS), (j, COLUMNS), (k, DEPTH)], add)), kind="unroll"),
        )
        pairs = [(d, sizes.depth // DEPTH), (c, tile.keys // DEPTH)]
        return seq(
            self.tiles(zm, nest([(zn, tile.keys // COLUMNS)], _matrix(clear, zi, zj), kind="unroll")),
            allocated((b,), nest(pairs, products, kind="unroll")),
        )

    def masked(self, keys: Expr, z: Expr, y: Expr, x: Expr) -> Stmt:
        """The statements that compute a lane's scores from the lane's elements of Q K^T, and for each row the greatest
        of these scores. `keys`: index of the step's first key; `z`, `y`, `x`: split, warp and lane.
        """
        m, h, n, p = (Var(f"masked.{v}") for v in "mhnp")
        element = self.score[z, y, m, n, own_row(x, h), own_column(x, p)]
        most = self.most[z, y, m, h, x]
        key = keys + (z * self.tile.keys + n * COLUMNS) + own_column(x, p)
        value = self.blocks.score(element, self.tile.row(y, m) + own_row(x, h), key)
        changes = [] if value is element else [Assign.to("masked", element, value)]
        one = seq(*changes, Reduce.into("masked.most", "max", most, element))
        each = nest([(n, self.tile.keys // COLUMNS), (p, OWN_COLUMNS)], one, kind="unroll")
        rows = seq(Assign.to("masked.most.init", most, LOWEST), each)
        return self.tiles(m, nest([(h, OWN_ROWS)], rows, kind="unroll"))

    def joined(self, name: str, op: Operator, own: Buffer) -> Stmt:
        """The stage `name`, which replaces each lane's value of a row, in buffer `own`, by the sum or maximum (`op`)
        over the row's lanes.
        """
        m, h = Var(f"{name}.m"), Var(f"{name}.h")

        def body(z: Expr, y: Expr, _: Expr) -> Stmt:
            joined = neighbouring_lanes(name, op, own, (z, y, m, h), LANES_OF_ROW)
            return self.tiles(m, nest([(h, OWN_ROWS)], joined, kind="unroll"))

        return self.tile.phase(name, body, "zy")

    def weights(self, z: Expr, y: Expr, x: Expr) -> Stmt:
        """Updates the greatest score of each row, and replaces a lane's scores by the weights exp(score - greatest).
        Rescales the lane's sums of weights and its sums of weighted rows of V. Adds the new weights to the sums of
        weights. `z`, `y`, `x`: split, warp and lane.
        """
        m, h, n, p, c, u = (Var(f"weights.{v}") for v in "mhnpcu")
        total = self.total[z, y, m, h, x]
        score = self.score[z, y, m, n, own_row(x, h), own_column(x, p)]
        o = self.sum[z, y, m, c, own_row(x, h), own_column(x, u)]

        def weigh(greatest: Expr) -> Stmt:
            weights = seq(
                Assign.to("weights", score, exp(score - greatest)),
                Reduce.into("weights.sum", "add", total, score),
            )
            return nest([(n, self.tile.keys // COLUMNS), (p, OWN_COLUMNS)], weights, kind="unroll")

        def scale(factor: Expr) -> Stmt:
            scaled = Assign.to("weights.scaled", o, o * factor)
            return nest([(c, self.sizes.columns // COLUMNS), (u, OWN_COLUMNS)], scaled, kind="unroll")

        row = with_new_scores(self.greatest[z, y, m, h, x], self.most[z, y, m, h, x], total, weigh, scale)
        return self.tiles(m, nest([(h, OWN_ROWS)], row, kind="unroll"))

    def context(self, z: Expr, y: Expr, _: Expr) -> Stmt:
        """The statements that multiply a step's weights (rounded to 16 bits) by the step's rows of V, and add the
        products to the sums of warp (`z`, `y`).
        """
        sizes, tile = self.sizes, self.tile
        a = self.register("context.p", tile.tiles, ROWS, DEPTH, dtype=self.half)
        b = self.register("context.v", PAIR, DEPTH, COLUMNS, dtype=self.half)
        g, c, t, m, i, j, k = (Var(f"context.{v}") for v in "gctmijk")
        pm, pt, pi, pj, u, li, lj = (Var(f"context.{v}") for v in ("pm", "pt", "pi", "pj", "u", "li", "lj"))
        weight = cast(self.score[z, y, pm, g * PAIR + pt, pi, pj], self.half)
        convert = Assign.to("context.p", a[pm, pi, pt * COLUMNS + pj], weight)
        place = _place(sizes.value, z * tile.keys + g * DEPTH + li, c * DEPTH + u * COLUMNS + lj)
        load = Assign.to("context.v", b[u, li, lj], self.v[place])
        product = _multiplied(a[m, i, k], b[t, k, j])
        add = Reduce.into("context", "add", self.sum[z, y, m, c * PAIR + t, i, j], product)
        columns = seq(
            nest([(u, PAIR)], _matrix(load, li, lj, rows=DEPTH)),
            nest([(t, PAIR)], self.tiles(m, nest([(i, ROWS), (j, COLUMNS), (k, DEPTH)], add)), kind="unroll"),
        )
        keys = seq(
            self.tiles(pm, nest([(pt, PAIR)], _matrix(convert, pi, pj))),
            nest([(c, sizes.columns // DEPTH)], columns, kind="unroll"),
        )
        return allocated((a, b), nest([(g, tile.keys // DEPTH)], keys, kind="unroll"))

    def tiles(self, var: Var, body: Stmt) -> Stmt:
        """An unrolled loop over the tiles of a warp; `var`, the number of the tile, occurs in `body`."""
        return nest([(var, self.tile.tiles)], body, kind="unroll")


def _place(stored: Stored, row: Expr, column: Expr) -> tuple[Expr, Expr]:
    """The indices of element (`row`, `column`) of a matrix in its buffer in shared memory. The buffer has the same
    order of dimensions as the array in global memory, which `stored` describes: rows first, or columns first.
    """
    return (row, column) if stored.by_rows else (column, row)


def _matrix(statement: Stmt, i: Var, j: Var, columns: int = COLUMNS, rows: int = ROWS) -> Stmt:
    """Loops around `statement` over the elements of a matrix of a warp: `i` over its `rows`, `j` over its `columns`."""
    return nest([(i, rows), (j, columns)], statement)


def _multiplied(a: Expr, b: Expr) -> Expr:
    """The product of two 16-bit numbers, which is exact in float32."""
    return cast(a, F32) * cast(b, F32)
