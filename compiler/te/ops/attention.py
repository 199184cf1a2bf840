"""Attention as one kernel of a GPU: softmax(scores(Q K^T)) V of float32 matrices, without the matrix of scores in
memory.

The softmax is computed online over blocks of keys (Milakov and Gimelshein, "Online normalizer calculation for softmax",
2018; Dao et al., "FlashAttention", 2022): each row keeps its greatest score m so far, the sum l of exp(score - m), and
the sum o of exp(score - m) times rows of V. When m grows, l and o are multiplied by exp(old m - new m). The result is
o / l.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from ...ir.expr import Buffer, Const, Expr, ExprLike, Var, equal, maximum, minimum, select
from ...ir.stmt import (
    Assign,
    Copy,
    Program,
    Reduce,
    Stmt,
    allocated,
    nest,
    region,
    seq,
)
from ...ir.types import DType
from ...ir.visit import substitute_expr
from ..blocks import ceil_div
from ..fusion import operand_buffer
from ..merge import Shape
from ..scalars import ELEMENT, argument, divide, exp
from ..threads import all_lanes

F32 = DType.FLOAT32
BANKS = 32
"""Banks of shared memory, 4 bytes wide each (CUDA C++ Programming Guide, "Shared Memory")."""
VECTOR = 4
"""Elements of the widest access of a thread."""
MOST_DIFFERENT = 128
"""Largest number of row blocks that may skip different numbers of steps, since the race check follows each of these
blocks; with more row blocks, no block skips steps.
"""
_LOWEST = Const(float("-inf"), F32)
_NOTHING = Const(0.0, F32)
_ZERO, _ONE = Const(0), Const(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """An array of matrices: dimension d of (batch ..., rows, columns) is dimension `axes`[d] of the array.

    `repeats`: number of neighbouring heads (indices of the last batch dimension) that use the same matrix. Batch
    dimensions that are missing or of size 1 broadcast, as in numpy's matmul.
    """

    shape: Shape
    axes: tuple[int, ...]
    repeats: int = 1

    def box(
        self, batch: Sequence[Expr], rows: tuple[ExprLike, ExprLike], columns: tuple[ExprLike, ExprLike]
    ) -> list[tuple[ExprLike, ExprLike]]:
        """The box of the array that holds a part of one matrix: (start, extent) for each dimension of the array.
        `batch`: indices of the matrix in the batch; `rows`, `columns`: (start, extent) of the part.
        """
        lead = list(batch[len(batch) - (len(self.axes) - 2) :])
        if self.repeats > 1:
            lead[-1] = lead[-1] // self.repeats
        parts = [*((_ZERO if self.shape[a] == 1 else at, 1) for at, a in zip(lead, self.axes, strict=False))]
        found: list[tuple[ExprLike, ExprLike]] = [(0, 1)] * len(self.shape)
        for part, axis in zip([*parts, rows, columns], self.axes, strict=True):
            found[axis] = part
        return found

    @property
    def by_rows(self) -> bool:
        """Whether the elements of a row are nearer to one another in memory than the elements of a column."""
        return self.axes[-2] < self.axes[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Attention for every index of a `batch` (whose last dimension counts heads): Q [rows, depth], K [keys, depth],
    V [keys, columns], result [rows, columns].

    `scores`: the expression of a score before softmax, where `te.scalars.ELEMENT` is an element of Q K^T, and
    `argument(i)` for i from 3 on the element of operand i - 3. `operands`: the operands' shapes and dtypes, which
    broadcast to [*batch, rows, keys]. `ahead`: for row i, keys from i + `ahead` + 1 on have weight 0, so that a block
    skips steps whose keys have weight 0 for all rows of the block (None: no block skips steps).
    """

    batch: Shape
    rows: int
    depth: int
    keys: int
    columns: int
    query: Stored
    key: Stored
    value: Stored
    result: Stored
    scores: Expr = ELEMENT
    operands: tuple[tuple[Shape, DType], ...] = ()
    ahead: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """The work of a block of threads.

    A block has `splits` x `row_threads` x `lanes` threads (axes z, y, x). It computes `row_threads` * `rows` rows of
    the result. In each step, every split processes `lanes` * `keys` keys of its own. A thread computes the scores of
    `rows` rows and `keys` keys, and vectors of `wide` columns of the result. Shared memory holds the keys and values of
    `stages` steps: while a step is computed, the keys and values of the next steps are loaded.
    """

    splits: int
    row_threads: int
    lanes: int
    rows: int
    keys: int
    wide: int
    stages: int = 1

    @property
    def threads(self) -> int:
        """Number of threads of a block."""
        return self.splits * self.row_threads * self.lanes

    @property
    def block_rows(self) -> int:
        """Rows of the result that a block computes."""
        return self.row_threads * self.rows

    @property
    def split_keys(self) -> int:
        """Keys that a split processes in one step."""
        return self.lanes * self.keys

    @property
    def step_keys(self) -> int:
        """Keys that all splits of a block together process in one step."""
        return self.splits * self.split_keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """The buffers of a block in shared memory. Rows are padded so that threads of a warp access the same word or
    different banks: threads along x read neighbouring rows of `key` and neighbouring elements of all other buffers;
    threads along y read neighbouring rows.

    `weights`: exp(score - m). `most`: partial maxima and sums of threads (None with shuffles or one lane).
    `sums`: o of each split; `bounds`: m and l of each split (None if there is one split).
    """

    query: Buffer
    key: Buffer
    value: Buffer
    weights: Buffer
    most: Buffer | None
    sums: Buffer | None
    bounds: Buffer | None

    def bytes(self, stages: int) -> int:
        """Bytes of all buffers, where the buffers of keys and of values hold `stages` steps."""
        ahead = [self.key, self.value] * (stages - 1)
        held = (self.query, self.key, self.value, self.weights, self.most, self.sums, self.bounds)
        return sum(prod(b.shape) * b.dtype.bits // 8 for b in (*held, *ahead) if b is not None)


def shared_buffers(sizes: Attention, tile: Tile, *, shuffles: bool) -> Shared:
    """The buffers in shared memory of the program that `attention` returns for the same arguments."""
    depth = ceil_div(sizes.depth, VECTOR) * VECTOR
    columns = ceil_div(sizes.columns, tile.lanes * tile.wide) * tile.lanes * tile.wide

    def odd_pitch(size: int, stored: Stored) -> int:
        """The distance between rows of `size` elements for which neighbouring rows begin at different banks: an odd
        number of vectors or, if the copy transposes and thus writes columns, an odd number of elements.
        """
        if not stored.by_rows:
            return size + 1 - size % 2
        return size + VECTOR if size // VECTOR % 2 == 0 else size

    def pitch_of_lanes(size: int, lanes: int) -> int:
        """The least distance between rows of `size` elements for which each row begins `lanes` banks after the row
        before, so that `lanes` threads along x and their neighbours along y access different banks.
        """
        return size + (lanes - size) % BANKS

    def shared(name: str, *shape: int) -> Buffer:
        return Buffer(name=name, shape=shape, dtype=F32, scope="shared")

    rows, splits = tile.splits * tile.block_rows, tile.splits > 1
    return Shared(
        query=shared("q", tile.block_rows, odd_pitch(depth, sizes.query)),
        key=shared("k", tile.step_keys, odd_pitch(depth, sizes.key)),
        value=shared(
            "v", tile.step_keys, columns if sizes.value.by_rows else odd_pitch(columns, sizes.value)
        ),
        weights=shared("p", rows, pitch_of_lanes(tile.split_keys, tile.lanes)),
        most=None if shuffles or tile.lanes == 1 else shared("partial", rows, tile.lanes),
        sums=shared("sums", rows, pitch_of_lanes(columns, tile.lanes * tile.wide)) if splits else None,
        bounds=shared("bounds", 2, rows) if splits else None,
    )


def attention(sizes: Attention, tile: Tile, *, shuffles: bool = False, name: str = "attention") -> Program:
    """Attention on a GPU. Parameters: Q, K, V, A3, A4, ... (operands of the scores) and Y, in the shapes of `sizes`.

    Grid axes: x blocks of rows, y heads, z the rest of the batch. Loops "STAGE.x", "STAGE.y" and "STAGE.z" are axes of
    threads. Stages: "start"; for each step over the keys (loop "step") the copies "k" and "v", "scores", "most" (the
    greatest score of a row), "weights" and "context"; if there are several splits, "give", which stores their o, m and
    l in shared memory; "post", which stores the result.
    """
    return _Kernel(sizes, tile, shuffles).program(name)


class _Kernel:
    """The statements of `attention`, stage by stage."""

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
        self.q, self.k, self.v, self.y = (
            Buffer(name=n, shape=s.shape, dtype=F32)
            for n, s in zip("QKVY", (sizes.query, sizes.key, sizes.value, sizes.result), strict=True)
        )
        self.operands = [
            operand_buffer(3 + i, shape, dtype) for i, (shape, dtype) in enumerate(sizes.operands)
        ]
        *rest, heads = sizes.batch or (1,)
        self.grid = [
            (Var("block.z"), prod(rest)),
            (Var("block.y"), heads),
            (Var("block.x"), ceil_div(sizes.rows, tile.block_rows)),
        ]
        self.batch: list[Expr] = []
        for d, size in enumerate(rest):
            inside = prod(rest[d + 1 :])
            at: Expr = self.grid[0][0] if inside == 1 else self.grid[0][0] // inside
            self.batch.append(_ZERO if size == 1 else at if d == 0 else at % size)
        self.batch.append(self.grid[1][0])

    def program(self, name: str) -> Program:
        sizes, tile, shared = self.sizes, self.tile, self.shared
        step, block = Var("step"), self.grid[2][0]
        keys = step * tile.step_keys
        body = seq(
            self.copied("k", shared.key, self.k, sizes.key, keys, sizes.depth),
            self.copied("v", shared.value, self.v, sizes.value, keys, sizes.columns),
            self.with_scores(keys),
        )
        body = allocated((shared.key, shared.value), body)
        steps = nest([(step, self.steps())], body)
        held = [shared.query, self.greatest, self.total, self.sum]
        if shared.most is not None:
            held.append(shared.most)
        query = self.copied("q", shared.query, self.q, sizes.query, block * tile.block_rows, sizes.depth)
        whole = allocated(held, seq(query, self.start(), steps, self.finish()))
        parameters = (self.q, self.k, self.v, *self.operands, self.y)
        return Program(name=name, parameters=parameters, body=nest(self.grid, whole))

    # Places

    def steps(self) -> ExprLike:
        """Number of steps over the keys: as many as the last row of the block needs (an expression of "block.x"), or
        as many as there are, if blocks skip no steps.
        """
        sizes, tile = self.sizes, self.tile
        whole = ceil_div(sizes.keys, tile.step_keys)
        if sizes.ahead is None or whole == 1 or self.grid[2][1] > MOST_DIFFERENT:
            return whole
        needed = self.grid[2][0] * tile.block_rows + (tile.block_rows + sizes.ahead)
        return minimum(whole, (needed + (tile.step_keys - 1)) // tile.step_keys)

    def phase(self, name: str, body: Callable[[Expr, Expr, Expr], Stmt], axes: str = "zyx") -> Stmt:
        """A stage: loops over the threads along `axes` around `body(z, y, x)`; coordinates of other axes are 0."""
        counts = {"z": self.tile.splits, "y": self.tile.row_threads, "x": self.tile.lanes}
        at = {axis: Var(f"{name}.{axis}") if axis in axes else _ZERO for axis in "zyx"}
        loops = [(var, counts[axis]) for axis, var in at.items() if isinstance(var, Var)]
        return nest(loops, body(at["z"], at["y"], at["x"]))

    def row(self, y: Expr, r: Expr) -> Expr:
        """The index in the block of row `r` of a thread at `y`: neighbouring threads have neighbouring rows."""
        return r * self.tile.row_threads + y

    def of_split(self, z: Expr, y: Expr, r: Expr) -> Expr:
        """The index of `row(y, r)` of split `z` in a buffer of the rows of all splits, one split after the other."""
        return z * self.tile.block_rows + self.row(y, r)

    def unrolled(self, name: str, size: int, body: Callable[[Expr], Stmt]) -> Stmt:
        var = Var(name)
        return nest([(var, size)], body(var), kind="unroll")

    def copied(self, name: str, to: Buffer, of: Buffer, stored: Stored, first: Expr, columns: int) -> Stmt:
        """Copies rows of a matrix in `of`, from row `first` on, to the shared buffer `to`, with zeros for rows and
        columns outside of the matrix. `columns`: number of columns of the matrix.
        """
        rows, width = to.shape[0], ceil_div(columns, VECTOR) * VECTOR
        if to is self.shared.value:
            width = self.vectors * self.tile.lanes * self.tile.wide
        if stored.by_rows:
            source = region(of, *stored.box(self.batch, (first, rows), (0, width)))
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
            source = region(of, *stored.box(self.batch, (first + row, 1), (column, 1)))
            copy = Copy(name=name, destination=region(to, (row, 1), (column, 1)), source=source, pad=_NOTHING)
            return nest([(piece, steps), (inside, minimum(1, rows * width - at))], copy)

        return self.phase(name, element)

    # Stages

    def start(self) -> Stmt:
        r, c, u = (Var(f"start.{v}") for v in "rcu")

        def clear(z: Expr, y: Expr, x: Expr) -> Stmt:
            vectors = [(c, self.vectors), (u, self.tile.wide)]
            return nest(
                [(r, self.tile.rows)],
                seq(
                    Assign.to("start.greatest", self.greatest[z, y, r, x], _LOWEST),
                    Assign.to("start.total", self.total[z, y, r, x], _NOTHING),
                    nest(
                        vectors, Assign.to("start.sum", self.sum[z, y, x, r, c, u], _NOTHING), kind="unroll"
                    ),
                ),
                kind="unroll",
            )

        return self.phase("start", clear)

    def with_scores(self, keys: Expr) -> Stmt:
        """The stages of a step that follow the copies of keys and values; `keys`: index of the step's first key."""
        stages = [self.phase("scores", lambda z, y, x: self.scores(keys, z, y, x)), *self.maxima()]
        stages += [self.phase("weights", self.weights), self.phase("context", self.context)]
        return allocated((self.score, self.most, self.shared.weights), seq(*stages))

    def scores(self, keys: Expr, z: Expr, y: Expr, x: Expr) -> Stmt:
        """The scores of a thread's rows and keys, and their maxima over the thread's keys."""
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
            loaded(a, tile.rows, shared.query, lambda at: self.row(y, at)),
            loaded(b, tile.keys, shared.key, key),
            nest([(e, VECTOR), (r, tile.rows), (n, tile.keys)], add, kind="unroll"),
        )
        r0, n0, r1, n1 = (Var(f"scores.{v}") for v in ("r0", "n0", "r1", "n1"))
        clear = Assign.to("scores.init", self.score[z, y, x, r0, n0], _NOTHING)
        masked = self.score[z, y, x, r1, n1]
        finished = seq(
            Assign.to("scores.most.init", self.most[z, y, r1, x], _LOWEST),
            self.unrolled(
                n1.name,
                tile.keys,
                lambda n: seq(
                    Assign.to("scores.masked", masked, self.masked(masked, y, r1, keys + key(n))),
                    Reduce.into("scores.most", "max", self.most[z, y, r1, x], masked),
                ),
            ),
        )
        return seq(
            nest([(r0, tile.rows), (n0, tile.keys)], clear, kind="unroll"),
            allocated((a, b), nest([(d, ceil_div(self.sizes.depth, VECTOR))], products)),
            nest([(r1, tile.rows)], finished, kind="unroll"),
        )

    def masked(self, score: Expr, y: Expr, r: Expr, key: Expr) -> Expr:
        """The value of the expression `scores` for `score`, an element of Q K^T; -inf for keys beyond the last key."""
        sizes, tile = self.sizes, self.tile
        row = self.grid[2][0] * tile.block_rows + self.row(y, r)
        whole_rows, whole_keys = sizes.rows % tile.block_rows == 0, sizes.keys % tile.step_keys == 0
        full = (
            *self.batch,
            row if whole_rows else minimum(row, sizes.rows - 1),
            key if whole_keys else minimum(key, sizes.keys - 1),
        )
        values: dict[str, Expr] = {ELEMENT.name: score}
        for i, operand in enumerate(self.operands):
            own = full[len(full) - len(operand.shape) :]
            at = tuple([_ZERO if n == 1 else index for n, index in zip(operand.shape, own, strict=True)])
            values[argument(3 + i).name] = operand[at]
        result = substitute_expr(sizes.scores, values)
        return result if whole_keys else select(key < sizes.keys, result, _LOWEST)

    def maxima(self) -> list[Stmt]:
        """Stages that compute the greatest score of each row from the greatest scores of the row's threads."""
        return self.joined("most", "max", self.most)

    def joined(self, name: str, op: str, own: Buffer) -> list[Stmt]:
        """Stages that replace each thread's value of a row by the sum or maximum of the row's threads."""
        tile, r, operator = self.tile, Var(f"{name}.r"), "max" if op == "max" else "add"
        if tile.lanes == 1:
            return []
        if self.shuffles:

            def exchange(z: Expr, y: Expr, _: Expr) -> Stmt:
                joined = all_lanes(name, operator, own, (z, y, r))
                return nest([(r, tile.rows)], joined, kind="unroll")

            return [self.phase(name, exchange, "zy")]
        partial = self.shared.most
        assert partial is not None
        g, h = Var(f"{name}.g"), Var(f"{name}.h")

        def give(z: Expr, y: Expr, x: Expr) -> Stmt:
            to = partial[self.of_split(z, y, g), x]
            return nest([(g, tile.rows)], Assign.to(f"{name}.give", to, own[z, y, g, x]), kind="unroll")

        def take(z: Expr, y: Expr, x: Expr) -> Stmt:
            total, other = own[z, y, r, x], partial[self.of_split(z, y, r), h]
            start = _LOWEST if operator == "max" else _NOTHING
            return nest(
                [(r, tile.rows)],
                seq(
                    Assign.to(f"{name}.init", total, start),
                    nest([(h, tile.lanes)], Reduce.into(name, operator, total, other)),
                ),
                kind="unroll",
            )

        return [self.phase(f"{name}.give", give), self.phase(name, take)]

    def weights(self, z: Expr, y: Expr, x: Expr) -> Stmt:
        """Updates m of each row, replaces a thread's scores by exp(score - m), and updates the thread's l and o."""
        tile, r, n, c, u = self.tile, *(Var(f"weights.{v}") for v in "rncu")
        new, base, factor = (
            Buffer(name=f"weights.{n}", shape=(1,), dtype=F32, scope="register")
            for n in ("new", "base", "factor")
        )
        zero = (_ZERO,)
        greatest, total = self.greatest[z, y, r, x], self.total[z, y, r, x]
        score, o = self.score[z, y, x, r, n], self.sum[z, y, x, r, c, u]
        kept = self.shared.weights[self.of_split(z, y, r), n * tile.lanes + x]
        # Rows all of whose scores are -inf so far: exp(-inf - 0) is 0, exp(-inf - -inf) would be NaN.
        finite = select(equal(new[zero], _LOWEST), _NOTHING, new[zero])
        body = seq(
            Assign.to("weights.new", new[zero], maximum(greatest, self.most[z, y, r, x])),
            Assign.to("weights.base", base[zero], finite),
            Assign.to("weights.factor", factor[zero], exp(greatest - base[zero])),
            Assign.to("weights.greatest", greatest, new[zero]),
            Assign.to("weights.total", total, total * factor[zero]),
            nest(
                [(n, tile.keys)],
                seq(
                    Assign.to("weights", score, exp(score - base[zero])),
                    Assign.to("weights.kept", kept, score),
                    Reduce.into("weights.sum", "add", total, score),
                ),
                kind="unroll",
            ),
            nest(
                [(c, self.vectors), (u, tile.wide)],
                Assign.to("weights.scaled", o, o * factor[zero]),
                kind="unroll",
            ),
        )
        return nest([(r, tile.rows)], allocated((new, base, factor), body), kind="unroll")

    def context(self, z: Expr, y: Expr, x: Expr) -> Stmt:
        """Adds the products of a step's weights and its rows of V to o."""
        tile, shared = self.tile, self.shared
        width = VECTOR if tile.split_keys % VECTOR == 0 else 1
        j, e, r, c, u = (Var(f"context.{v}") for v in "jercu")
        a = Buffer(name="context.p", shape=(tile.rows, width), dtype=F32, scope="register")
        b = Buffer(name="context.v", shape=(self.vectors, tile.wide), dtype=F32, scope="register")
        at, vector = Var("context.p.row"), Var("context.v.vector")
        weights = Copy(
            name="context.p",
            destination=region(a, (at, 1), (0, width)),
            source=region(shared.weights, (self.of_split(z, y, at), 1), (j * width, width)),
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
            self.unrolled(
                e.name,
                width,
                lambda _: seq(
                    nest([(vector, self.vectors)], values, kind="unroll"),
                    nest([(r, tile.rows), (c, self.vectors), (u, tile.wide)], add, kind="unroll"),
                ),
            ),
        )
        return allocated((a, b), nest([(j, tile.split_keys // width)], products))

    def finish(self) -> Stmt:
        """The stages after all steps, which compute and store the result of each row from the results of all splits."""
        stages = self.joined("total", "add", self.total)
        shared = self.shared
        if shared.sums is None or shared.bounds is None:
            post = self.phase(
                "post",
                lambda z, y, x: self.stored(
                    y, x, lambda r, c, u: divide(self.sum[z, y, x, r, c, u], self.total[z, y, r, x])
                ),
            )
            return seq(*stages, post)
        sums, bounds, tile = shared.sums, shared.bounds, self.tile
        g, r, c, u = (Var(f"give.{v}") for v in "grcu")

        def give_bounds(z: Expr, y: Expr, _: Expr) -> Stmt:
            row = self.of_split(z, y, g)
            return nest(
                [(g, tile.rows)],
                seq(
                    Assign.to("give.greatest", bounds[0, row], self.greatest[z, y, g, 0]),
                    Assign.to("give.total", bounds[1, row], self.total[z, y, g, 0]),
                ),
                kind="unroll",
            )

        def give(z: Expr, y: Expr, x: Expr) -> Stmt:
            to = sums[self.of_split(z, y, r), (c * tile.lanes + x) * tile.wide + u]
            loops = [(r, tile.rows), (c, self.vectors), (u, tile.wide)]
            return nest(loops, Assign.to("give", to, self.sum[z, y, x, r, c, u]), kind="unroll")

        stages += [self.phase("give.bounds", give_bounds, "zy"), self.phase("give", give)]
        stages.append(self.phase("post", lambda _, y, x: self.over_splits(sums, bounds, y, x), "yx"))
        return allocated((sums, bounds), seq(*stages))

    def over_splits(self, sums: Buffer, bounds: Buffer, y: Expr, x: Expr) -> Stmt:
        """The result for a thread's rows, computed from m, l and o of all splits."""
        tile = self.tile
        factors = Buffer(name="post.factors", shape=(tile.splits,), dtype=F32, scope="register")
        most, total, value = (
            Buffer(name=f"post.{n}", shape=(1,), dtype=F32, scope="register")
            for n in ("most", "total", "value")
        )
        zero, s0, s1, s2 = (_ZERO,), Var("post.s0"), Var("post.s1"), Var("post.s2")

        def begin(r: Expr) -> Stmt:
            return seq(
                Assign.to("post.most.init", most[zero], _LOWEST),
                self.unrolled(
                    s0.name,
                    tile.splits,
                    lambda s: Reduce.into("post.most", "max", most[zero], bounds[0, self.of_split(s, y, r)]),
                ),
                Assign.to("post.total.init", total[zero], _NOTHING),
                self.unrolled(
                    s1.name,
                    tile.splits,
                    lambda s: seq(
                        Assign.to(
                            "post.factor", factors[s], exp(bounds[0, self.of_split(s, y, r)] - most[zero])
                        ),
                        Reduce.into(
                            "post.total", "add", total[zero], bounds[1, self.of_split(s, y, r)] * factors[s]
                        ),
                    ),
                ),
            )

        def element(r: Expr, c: Expr, u: Expr) -> Stmt:
            column = (c * tile.lanes + x) * tile.wide + u
            return seq(
                Assign.to("post.value.init", value[zero], _NOTHING),
                self.unrolled(
                    s2.name,
                    tile.splits,
                    lambda s: Reduce.into(
                        "post.value", "add", value[zero], sums[self.of_split(s, y, r), column] * factors[s]
                    ),
                ),
            )

        stored = self.stored(
            y, x, lambda r, c, u: divide(value[zero], total[zero]), begin=begin, element=element
        )
        return allocated((factors, most, total, value), stored)

    def stored(
        self,
        y: Expr,
        x: Expr,
        value: Callable[[Expr, Expr, Expr], Expr],
        *,
        begin: Callable[[Expr], Stmt] | None = None,
        element: Callable[[Expr, Expr, Expr], Stmt] | None = None,
    ) -> Stmt:
        """Stores `value(r, c, u)` for each element of a thread (row r, vector c, element u of the vector) inside the
        result. `begin(r)`, `element(r, c, u)`: statements to run before each row and before each element.
        """
        sizes, tile = self.sizes, self.tile
        r, c, u, i, j = (Var(f"post.{v}") for v in "rcuij")
        row = self.grid[2][0] * tile.block_rows + self.row(y, r)
        column = (c * tile.lanes + x) * tile.wide + u
        inside_rows, inside_columns = minimum(1, sizes.rows - row), minimum(1, sizes.columns - column)
        ragged_rows = sizes.rows % tile.block_rows != 0
        ragged_columns = sizes.columns % (tile.lanes * tile.wide) != 0
        place = sizes.result.box(
            self.batch,
            (row + i if ragged_rows else row, 1),
            (column + j if ragged_columns else column, 1),
        )
        store = Assign.to("post", self.y[tuple([start for start, _ in place])], value(r, c, u))
        one = store if element is None else seq(element(r, c, u), store)
        if ragged_columns:
            one = nest([(j, inside_columns)], one)
        elements = nest([(c, self.vectors), (u, tile.wide)], one, kind="unroll")
        each_row = elements if begin is None else seq(begin(r), elements)
        if ragged_rows:
            each_row = nest([(i, inside_rows)], each_row)
        return nest([(r, tile.rows)], each_row, kind="unroll")
