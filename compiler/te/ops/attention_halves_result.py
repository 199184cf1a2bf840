"""The end of an attention of 16-bit matrices: combines the partial results of all splits of the keys into each row's
result. `online_softmax` defines m, l and o of a split.
"""

from __future__ import annotations

from ...ir.expr import Buffer, Expr, Var, cast, minimum
from ...ir.kernels import WARP
from ...ir.lane_elements import LANES_OF_ROW, OWN_ROWS, own_row
from ...ir.stmt import Assign, Reduce, Stmt, allocated, nest, seq
from ...ir.types import DType
from ..scalars import divide
from .attention_blocks import Blocks
from .attention_warps import COLUMNS, ROWS, WarpTile
from .online_softmax import NOTHING, Joined

VECTORS = (4, 2, 1)
"""Possible numbers of neighbouring columns of the result that a thread computes and stores together."""
F32 = DType.FLOAT32


class Splits:
    """The stages that pass the sums of a block's warps through shared memory, and store the result by rows."""

    def __init__(self, blocks: Blocks, tile: WarpTile) -> None:
        self.blocks, self.tile, self.columns = blocks, tile, blocks.sizes.columns
        self.sums, self.bounds = (
            Buffer(name=name, shape=(*shape, last), dtype=F32, scope="shared")
            for name, shape, last in (
                ("sums", (tile.splits, blocks.rows), self.columns),
                ("bounds", (2, tile.splits, blocks.rows), LANES_OF_ROW),
            )
        )

    def stages(self, greatest: Buffer, total: Buffer, sum: Buffer) -> Stmt:
        """The last stages: "give.bounds" and "give", in which each warp stores its partial results in shared memory,
        and "post", in which all threads of the block compute the result.

        Several lanes hold the elements of one row. `greatest` has the row's greatest score and `total` the row's sum of
        weights; both values are equal in all these lanes. `sum` has each warp's sums of weighted rows of V.
        """
        m, h, t, c, i, j = (Var(f"give.{v}") for v in "mhtcij")

        def bounds(z: Expr, y: Expr, x: Expr) -> Stmt:
            # Each lane of a row has a column of its own, so that no two lanes write one element.
            at = (z, self.tile.row(y, m) + own_row(x, h), x % LANES_OF_ROW)
            give = Assign.to("give.total", self.bounds[(1, *at)], total[z, y, m, h, x])
            if self.tile.splits > 1:
                give = seq(Assign.to("give.greatest", self.bounds[(0, *at)], greatest[z, y, m, h, x]), give)
            return nest([(m, self.tile.tiles), (h, OWN_ROWS)], give, kind="unroll")

        def sums(z: Expr, y: Expr, _: Expr) -> Stmt:
            to = self.sums[z, self.tile.row(y, t) + i, c * COLUMNS + j]
            give = nest([(i, ROWS), (j, COLUMNS)], Assign.to("give", to, sum[z, y, t, c, i, j]))
            return nest([(t, self.tile.tiles), (c, self.columns // COLUMNS)], give, kind="unroll")

        stages = (
            self.tile.phase("give.bounds", bounds),
            self.tile.phase("give", sums, "zy"),
            self.tile.phase("post", self.post),
        )
        return allocated((self.sums, self.bounds), seq(*stages))

    def post(self, z: Expr, y: Expr, x: Expr) -> Stmt:
        """Computes and stores vectors of the result: neighbouring threads have neighbouring vectors. A vector has the
        largest number of columns in `VECTORS` with which the block's vectors divide evenly among its threads. `z`,
        `y`, `x`: split, warp and lane of the thread."""
        sizes, tile, rows = self.blocks.sizes, self.tile, self.blocks.rows
        wide = next(n for n in VECTORS if rows * self.columns % (n * tile.threads) == 0)
        vectors = self.columns // wide
        step, i, u = (Var(f"post.{v}") for v in ("step", "i", "u"))
        value = Buffer(name="post.value", shape=(wide,), dtype=F32, scope="register")
        piece = step * tile.threads + ((z * tile.warps + y) * WARP + x)
        row, column = piece // vectors, piece % vectors * wide
        first, ragged = self.blocks.first_row, sizes.rows % rows != 0
        at = first + row + i if ragged else first + row
        place = sizes.result.box(self.blocks.batch, (at, 1), (column + u, 1))
        to = self.blocks.result[tuple([start for start, _ in place])]
        store = Assign.to("post", to, cast(value[u], sizes.result_dtype))
        one = seq(self.joined(value, row, column), nest([(u, wide)], store, kind="vectorize"))
        if ragged:
            one = nest([(i, minimum(1, sizes.rows - first - row))], one)
        return nest([(step, rows * vectors // tile.threads)], allocated((value,), one), kind="unroll")

    def joined(self, value: Buffer, row: Expr, column: Expr) -> Stmt:
        """Joins the splits of the keys. Fills the buffer `value` with elements of the result: neighbouring elements in
        row `row` of the block, from column `column` on.
        """
        (wide,) = value.shape
        e, v, w, s, r, q = (Var(f"post.{v}") for v in "evwsrq")
        if self.tile.splits == 1:
            quotient = divide(self.sums[0, row, column + e], self.bounds[1, 0, row, 0])
            return nest([(e, wide)], Assign.to("post.value", value[e], quotient), kind="unroll")
        joined, sums = Joined(self.tile.splits), self.sums[r, row, column + v]
        return allocated(
            (joined.most, joined.total, joined.factors),
            seq(
                joined.stages(lambda part, split: self.bounds[part, split, row, 0], s, q),
                nest([(e, wide)], Assign.to("post.value.init", value[e], NOTHING), kind="unroll"),
                nest(
                    [(r, self.tile.splits), (v, wide)],
                    Reduce.into("post.value.sum", "add", value[v], sums * joined.factors[r]),
                    kind="unroll",
                ),
                nest(
                    [(w, wide)],
                    Assign.to("post.value", value[w], divide(value[w], joined.total[0])),
                    kind="unroll",
                ),
            ),
        )
