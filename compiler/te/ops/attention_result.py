"""The end of an attention in float32: combines the partial results of all splits of the keys into each row's result.
`online_softmax` defines m, l and o of a split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.expr import Buffer, Expr, Var, minimum
from ...ir.stmt import Assign, Reduce, Stmt, allocated, nest, seq
from ...ir.types import DType
from ..scalars import divide
from .attention_blocks import Blocks
from .attention_tile import Shared, Tile, unrolled
from .online_softmax import NOTHING, Joined


class Result:
    """The stages that compute and store the result of each row, in float32.

    Three buffers hold values for the rows of each thread: `greatest` the greatest score m, `total` the sum l of
    exp(score - m), and `sum` the sum o of exp(score - m) times rows of V.
    """

    def __init__(
        self, blocks: Blocks, tile: Tile, shared: Shared, greatest: Buffer, total: Buffer, sum: Buffer
    ) -> None:
        self.blocks, self.tile, self.shared = blocks, tile, shared
        self.greatest, self.total, self.sum = greatest, total, sum
        self.vectors = sum.shape[-2]

    def stages(self, totals: Sequence[Stmt]) -> Stmt:
        """The last stages of the kernel, in this order: `totals` (they add up the weights of all threads of a row); if
        there are several splits of the keys, "give.bounds" and "give" (they store each split's greatest scores and sums
        in shared memory); and "post" (it stores the result).
        """
        shared, tile = self.shared, self.tile
        if shared.sums is None or shared.bounds is None:
            post = tile.phase(
                "post",
                lambda z, y, x: self.stored(
                    y, x, lambda r, c, u: divide(self.sum[z, y, x, r, c, u], self.total[z, y, r, x])
                ),
            )
            return seq(*totals, post)
        sums, bounds = shared.sums, shared.bounds
        g, r, c, u = (Var(f"give.{v}") for v in "grcu")

        def give_bounds(z: Expr, y: Expr, _: Expr) -> Stmt:
            row = tile.of_split(z, y, g)
            return nest(
                [(g, tile.rows)],
                seq(
                    Assign.to("give.greatest", bounds[0, row], self.greatest[z, y, g, 0]),
                    Assign.to("give.total", bounds[1, row], self.total[z, y, g, 0]),
                ),
                kind="unroll",
            )

        def give(z: Expr, y: Expr, x: Expr) -> Stmt:
            to = sums[tile.of_split(z, y, r), (c * tile.lanes + x) * tile.wide + u]
            loops = [(r, tile.rows), (c, self.vectors), (u, tile.wide)]
            return nest(loops, Assign.to("give", to, self.sum[z, y, x, r, c, u]), kind="unroll")

        stages = (
            *totals,
            tile.phase("give.bounds", give_bounds, "zy"),
            tile.phase("give", give),
            tile.phase("post", lambda _, y, x: self.over_splits(sums, bounds, y, x), "yx"),
        )
        return allocated((sums, bounds), seq(*stages))

    def over_splits(self, sums: Buffer, bounds: Buffer, y: Expr, x: Expr) -> Stmt:
        """Combines the partial results of all splits of the keys, for the rows of one thread. First multiplies o and l
        of each split by exp(m - greatest m of all splits). Then divides the sum of all o by the sum of all l.

        `sums`: for each split, o, the weighted sum of rows of V. `bounds`: bounds[0] holds the greatest score m of each
        split, and bounds[1] holds l, the sum of its weights. `y`, `x`: coordinates of the thread.
        """
        tile, joined = self.tile, Joined(self.tile.splits)
        s0, s1, s2 = (Var(f"post.{v}") for v in ("s0", "s1", "s2"))
        value = Buffer(name="post.value", shape=(1,), dtype=DType.FLOAT32, scope="register")

        def begin(r: Expr) -> Stmt:
            return joined.stages(lambda part, s: bounds[part, tile.of_split(s, y, r)], s0, s1)

        def element(r: Expr, c: Expr, u: Expr) -> Stmt:
            column = (c * tile.lanes + x) * tile.wide + u
            return seq(
                Assign.to("post.value.init", value[0], NOTHING),
                unrolled(
                    s2.name,
                    tile.splits,
                    lambda s: Reduce.into(
                        "post.value",
                        "add",
                        value[0],
                        sums[tile.of_split(s, y, r), column] * joined.factors[s],
                    ),
                ),
            )

        stored = self.stored(
            y, x, lambda r, c, u: divide(value[0], joined.total[0]), begin=begin, element=element
        )
        return allocated((joined.factors, joined.most, joined.total, value), stored)

    def stored(
        self,
        y: Expr,
        x: Expr,
        value: Callable[[Expr, Expr, Expr], Expr],
        *,
        begin: Callable[[Expr], Stmt] | None = None,
        element: Callable[[Expr, Expr, Expr], Stmt] | None = None,
    ) -> Stmt:
        """Stores the elements that a thread computes: `value(r, c, u)` for row r, vector c and element u of the vector.
        Elements beyond the end of the result are left out. `begin(r)`, `element(r, c, u)`: statements to run before
        each row and before each element.
        """
        sizes, tile = self.blocks.sizes, self.tile
        r, c, u, i, j = (Var(f"post.{v}") for v in "rcuij")
        row = self.blocks.first_row + tile.row(y, r)
        column = (c * tile.lanes + x) * tile.wide + u
        inside_rows, inside_columns = minimum(1, sizes.rows - row), minimum(1, sizes.columns - column)
        ragged_rows = sizes.rows % tile.block_rows != 0
        ragged_columns = sizes.columns % (tile.lanes * tile.wide) != 0
        place = sizes.result.box(
            self.blocks.batch,
            (row + i if ragged_rows else row, 1),
            (column + j if ragged_columns else column, 1),
        )
        store = Assign.to("post", self.blocks.result[tuple([start for start, _ in place])], value(r, c, u))
        one = store if element is None else seq(element(r, c, u), store)
        if ragged_columns:
            one = nest([(j, inside_columns)], one)
        elements = nest([(c, self.vectors), (u, tile.wide)], one, kind="unroll")
        each_row = elements if begin is None else seq(begin(r), elements)
        if ragged_rows:
            each_row = nest([(i, inside_rows)], each_row)
        return nest([(r, tile.rows)], each_row, kind="unroll")
