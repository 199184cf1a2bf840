"""Attention as one program: for one tile of queries after the other it computes scores, softmax and context, without
partial results in DRAM.

A tile's scores are summed in the accumulators and requantized into the chain memory (on-chip memory for tensors between
layers). A product with the unit matrix then loads the stored int8 values back into accumulators, since row statistics
must be of these values, not of the sums. The softmax's results (shares) are written to the chain memory, where the
context's product reads them. Array and store unit work on two tiles at a time: while the array sums the scores of one,
the store unit computes the softmax of the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from vdla.isa.config import Config

from ...ir.expr import Buffer, Const, Expr, Var, equal, minimum
from ...ir.stmt import Copy, For, Intrinsic, Program, Region, Stmt, allocated, parameters_of, seq, whole
from ...ir.types import DType
from ...te.blocks import Blocks, Pair, ceil_div
from ...te.ops.common import CHAIN
from ...te.ops.rows import Shares, rows_attributes, rows_declaration
from ...te.post import Post
from ..columns import Values
from .pipelined_tiles import ALWAYS, bank_aligned_blocks, box, element, held, multiplied, pipelined, stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """The places of several matrices inside one tensor. An address is a pair (block, position): number of the block of
    channels, counted over all images, and number of the position.

    `size`: numbers of blocks and of positions of the tensor. `first`: address at which the first matrix begins.
    `steps`: for each loop over matrices, the distance (blocks, positions) from one matrix to the next.
    """

    size: Pair
    first: Pair
    steps: tuple[Pair, ...]

    def at(self, digits: tuple[Expr, ...]) -> tuple[Expr, Expr]:
        """Address (block, position) of the matrix that the loops visit at the indices `digits`."""
        return self._along(digits, 0), self._along(digits, 1)

    def _along(self, digits: tuple[Expr, ...], axis: int) -> Expr:
        place: Expr = Const(self.first[axis])
        for digit, step in zip(digits, self.steps, strict=True):
            if step[axis]:
                place = place + digit * step[axis]
        return place


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionShape:
    """Sizes of several attentions that are computed by one kernel, one matrix after the other. `loops`: extents of the
    loops over the matrices, outermost first.

    Each matrix of queries has `rows` queries of `depth` channels, and is combined with `keys` keys and as many values;
    a value and a row of the result (the context) have `width` channels. In memory `depth`, `keys` and `width` are
    padded to whole blocks. Fields whose name ends in `_in` hold the addresses of the matrices in their tensors.
    """

    loops: tuple[int, ...]
    rows: int
    depth: int
    keys: int
    width: int
    queries_in: Stack
    keys_in: Stack
    values_in: Stack
    context_in: Stack


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic:
    """The arithmetic of an attention: `scores` and `context` are the post-processing of the two products, `shares` is
    the softmax between them, and `shared` is the post-processing of the softmax. `zero_points`: for each product, the
    zero points of its two factors.
    """

    scores: Post
    shares: Shares
    shared: Post
    context: Post
    zero_points: tuple[Pair, Pair]


def attention_program(
    config: Config, shape: AttentionShape, arithmetic: Arithmetic, name: str, values: Values
) -> Program:
    """The program of attention by tiles of `values["rows"]` queries. The last tile of a matrix ends where the matrix
    ends and may overlap the tile before it.

    Parameters: Q, K, V and Y int8, tensors in their memory layout (K and V as weight tiles); P int32[3, 2, co],
    post-processing of scores, shares and context; U int8[1, co, ci], the unit matrix; T int8[768], the softmax's table;
    L int8[256] if scores pass a table; S (scores) and H (shares) int8[1, key blocks, 1, tile, 1, co], chain memory
    (on-chip memory for tensors between layers).
    """
    return _Attention(config, shape, arithmetic, name, values["rows"]).program()


class _Attention:
    def __init__(
        self, config: Config, shape: AttentionShape, arithmetic: Arithmetic, name: str, tile: int
    ) -> None:
        self._config, self._shape, self._arithmetic = config, shape, arithmetic
        self._tile, self._name, lanes = tile, name, config.block_out
        self._lanes = lanes
        self._depth, self._keys, self._width = (
            ceil_div(size, lanes) for size in (shape.depth, shape.keys, shape.width)
        )
        # Number of tiles of queries in one matrix.
        self._tiles = ceil_div(shape.rows, tile)
        vectors, tiles = (1, lanes), (lanes, lanes)

        def tensor(letter: str, stack: Stack, element: Pair) -> Buffer:
            blocks, positions = stack.size
            return Buffer(name=letter, shape=(blocks, positions // element[0], *element), dtype=DType.INT8)

        self.q, self.k, self.v, self.y = (
            tensor("Q", shape.queries_in, vectors),
            tensor("K", shape.keys_in, tiles),
            tensor("V", shape.values_in, tiles),
            tensor("Y", shape.context_in, vectors),
        )
        self.p = Buffer(name="P", shape=(3, 2, lanes), dtype=DType.INT32)
        self.u = Buffer(name="U", shape=(1, *tiles), dtype=DType.INT8)
        self.t = Buffer(name="T", shape=(768,), dtype=DType.INT8)
        self.looked_up = Buffer(name="L", shape=(256,), dtype=DType.INT8)
        self.s, self.h = (held(letter, CHAIN, 1, self._keys, 1, tile, of=vectors) for letter in "SH")
        # Double buffering of tiles of queries, of matrices of keys and values, and of the sums of scores and
        # of contexts.
        self.queries = held("queries", "inp", 2, self._depth, tile, of=vectors)
        self.key_tiles = held("keys", "wgt", 2, self._depth, self._keys, of=tiles)
        self.value_tiles = held("values", "wgt", 2, self._keys, self._width, of=tiles)
        self.unit = held("unit", "wgt", 1, of=tiles)
        # The sums of two tiles are in different banks, if there is room: the store unit reads one while the
        # array writes the other.
        room = tiles_apart(config, self._keys, self._width, tile)
        self._steps = tuple(
            [
                bank_aligned_blocks(config, blocks, tile) if room else blocks
                for blocks in (self._keys, self._width)
            ]
        )
        blocks = 2 * self._steps[0] + self._steps[1] + self._width
        self.sums = held("sums", "acc", blocks, tile, of=vectors, dtype=DType.INT32)
        self.entries = held("entries", "par", 3, of=(2, lanes), dtype=DType.INT32)

    def program(self) -> Program:
        """The loop over all tiles: iteration t computes the scores of tile t, the context of tile t - 1, and stores the
        context of tile t - 2.
        """
        loop = pipelined(
            prod(self._shape.loops) * self._tiles,
            ("score", 0, lambda t: seq(*self._loads(t), self._scored(t))),
            ("share", 1, self._shared),
            ("keep", 0, self._kept),
            ("sum", 1, self._summed),
            ("widen", 0, self._widened),
            ("store", 2, self._stored),
        )
        constants = [
            Copy(name=f"load.{to.name}", destination=whole(to), source=whole(source))
            for to, source in ((self.unit, self.u), (self.entries, self.p))
        ]
        buffers = (self.sums, self.queries, self.value_tiles, self.key_tiles, self.unit, self.entries)
        table = self.looked_up if self._arithmetic.scores.table else None
        parameters = (self.q, self.k, self.v, self.p, self.u, self.t, table, self.s, self.h, self.y)
        return Program(
            name=self._name,
            parameters=parameters_of(*parameters),
            body=allocated(buffers, seq(*constants, loop)),
        )

    def _digits(self, t: Expr) -> tuple[Expr, ...]:
        group, found = t // self._tiles, []
        for place, extent in enumerate(self._shape.loops):
            inside = prod(self._shape.loops[place + 1 :])
            found.append(group // inside % extent)
        return tuple(found)

    def _row(self, t: Expr) -> Expr:
        """The first query of tile `t` in its matrix."""
        return minimum(t % self._tiles * self._tile, self._shape.rows - self._tile)

    def _scores(self, t: Expr) -> Expr:
        """Offset, in blocks, of the scores of tile `t` in the accumulators."""
        return t % 2 * self._steps[0]

    def _context(self, t: Expr) -> Expr:
        return t % 2 * self._steps[1] + 2 * self._steps[0]

    def _loads(self, t: Expr) -> list[Stmt]:
        shape, digits, lanes = self._shape, self._digits(t), self._lanes

        def load(to: Buffer, slot: Expr, source: Buffer, *starts: Expr) -> Copy:
            return Copy(
                name=f"load.{to.name}",
                destination=box(to, (slot, 1)),
                source=box(source, *zip(starts, to.shape[1:3], strict=True)),
                pad=Const(0, DType.INT8),
            )

        def of_matrix(to: Buffer, source: Buffer, stack: Stack) -> Stmt:
            block, position = stack.at(digits)
            copy = load(to, t // self._tiles % 2, source, block, position // lanes)
            first = 1 - minimum(t % self._tiles, 1)
            return For(var=Var(f"first.{to.name}"), extent=first, body=copy)

        block, position = shape.queries_in.at(digits)
        return [
            of_matrix(self.key_tiles, self.k, shape.keys_in),
            load(self.queries, t % 2, self.q, block, position + self._row(t)),
            of_matrix(self.value_tiles, self.v, shape.values_in),
        ]

    def _scored(self, t: Expr) -> Stmt:
        n, m, c = (Var(f"scores.gemm.{letter}") for letter in "nmc")
        return multiplied(
            self._config,
            "scores.gemm",
            [(n, self._tile), (m, self._keys), (c, self._depth)],
            (
                element(self.sums, self._scores(t) + m, n),
                element(self.queries, t % 2, c, n),
                element(self.key_tiles, t // self._tiles % 2, c, m),
            ),
            equal(c, 0) if self._depth > 1 else ALWAYS,
            self._arithmetic.zero_points[0],
        )

    def _widened(self, t: Expr) -> Stmt:
        n, m = Var("widen.n"), Var("widen.m")
        kept, sums = element(self.s, 0, m, 0, n), element(self.sums, self._scores(t) + m, n)
        loops = [(n, self._tile), (m, self._keys)]
        return multiplied(self._config, "widen.gemm", loops, (sums, kept, element(self.unit, 0)))

    def _summed(self, t: Expr) -> Stmt:
        n, m, c = (Var(f"context.gemm.{letter}") for letter in "nmc")
        return multiplied(
            self._config,
            "context.gemm",
            [(n, self._tile), (m, self._width), (c, self._keys)],
            (
                element(self.sums, self._context(t) + m, n),
                element(self.h, 0, c, 0, n),
                element(self.value_tiles, t // self._tiles % 2, c, m),
            ),
            equal(c, 0) if self._keys > 1 else ALWAYS,
            self._arithmetic.zero_points[1],
        )

    def _kept(self, t: Expr) -> Stmt:
        n, m = Var("keep.n"), Var("keep.m")
        post = self._arithmetic.scores
        table: list[Region] = [whole(self.looked_up)] if post.table else []
        out, sums = element(self.s, 0, m, 0, n), element(self.sums, self._scores(t) + m, n)
        loops = [(m, self._keys), (n, self._tile)]
        return stored(self._config, "keep.post", loops, post, out, sums, element(self.entries, 0), *table)

    def _shared(self, t: Expr) -> Stmt:
        shares, post = self._arithmetic.shares, self._arithmetic.shared
        sums = box(self.sums, (self._scores(t), self._keys))
        blocks = Blocks.of(self._config)
        return Intrinsic(
            name="share.rows",
            declaration=rows_declaration(blocks, self._keys, self._tile, shares, post, chained=True),
            operands=(whole(self.h), sums, element(self.entries, 1), whole(self.t)),
            attributes=rows_attributes(shares, post, self._lanes),
        )

    def _stored(self, t: Expr) -> Stmt:
        n, m = Var("store.n"), Var("store.m")
        block, position = self._shape.context_in.at(self._digits(t))
        out = element(self.y, block + m, position + self._row(t) + n)
        sums = element(self.sums, self._context(t) + m, n)
        loops, post = [(m, self._width), (n, self._tile)], self._arithmetic.context
        return stored(self._config, "store.post", loops, post, out, sums, element(self.entries, 2))


def tiles_apart(config: Config, keys: int, width: int, tile: Any) -> Any:
    """Whether the accumulators can hold two tiles at once, with scores and contexts in separate banks. `keys`: blocks
    of scores in a tile. `width`: blocks of contexts in a tile. `tile`: accumulators that each block takes.
    """
    blocks = 2 * bank_aligned_blocks(config, keys, tile) + bank_aligned_blocks(config, width, tile) + width
    return blocks * tile <= config.acc_depth
