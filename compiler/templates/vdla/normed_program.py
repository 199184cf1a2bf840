"""A product (1x1 convolution) and the normalization of its result as one program: while the array sums a tile of
positions, the store unit normalizes an earlier tile.

A tile's sums are stored as int8 in DRAM, where other nodes also read them. In the next iteration of the pipelined loop
the stored values are loaded into the input scratchpad and multiplied by the unit matrix into accumulators, because row
statistics must be of the stored int8 values. In the third iteration these accumulators are normalized. So no unit waits
for another one within an iteration. Weights are loaded once: before all tiles, or chunk by chunk with the first tile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vdla.isa.config import Config

from ...codegen.vdla import intrinsics
from ...ir.expr import Buffer, Const, Expr, Var, all_of, equal, maximum, minimum
from ...ir.stmt import Alloc, Copy, For, Intrinsic, Program, Region, Stmt, nest, region, seq, whole
from ...ir.types import DType
from ...te.blocks import Blocks, Pair, ceil_div
from ...te.ops.rows import Shares, rows_attributes, rows_declaration
from ...te.post import Post
from .attention_program import bank_aligned_blocks, element


@dataclass(frozen=True, slots=True, kw_only=True)
class NormedShape:
    """Sizes of a product with normalization: numbers of `images`, of `positions` of an image, of `channels` of the
    input, of `filters` of the product, and of positions in a `plane` of the normalized output.
    """

    images: int
    positions: int
    plane: int
    channels: int
    filters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NormedTiles:
    """Sizes of tiles: a tile has `rows` positions, and its inputs are loaded in chunks of `chunk` channel blocks.
    Successive chunks are loaded to `copies` buffers, one after the other.
    """

    rows: int
    chunk: int
    copies: int


def normed_program(
    config: Config,
    shape: NormedShape,
    product: Post,
    shares: Shares,
    shared: Post,
    tiles: NormedTiles,
    name: str,
) -> Program:
    """The program of a product and the normalization of its result, tile by tile. The last tile of an image ends where
    the image ends and may overlap the tile before it. `shared`: post-processing of the normalization.

    Let CB and OB be the numbers of blocks of channels and of filters, ci and co the lanes of an input and of an output
    vector. Parameters of the product: X int8[images * CB, positions, 1, ci]; W int8[OB, CB, co, ci]; P int32[OB, 2,
    co], biases and scales; L int8[256] if `product` has a table; R, of Y's shape, if `product` has an operand; the
    result Y int8[images * OB, positions, 1, co].

    Parameters of the normalization: N int32[OB, 2, co], or int32[1, 2, co] if all channels have the same parameters
    (`shares.own` is false); U int8[1, co, ci], the unit matrix; the result Z int8[images * OB, plane, 1, co], where an
    image has `plane` positions.
    """
    return _Normed(config, shape, product, shares, shared, tiles, name).program()


def parameter_groups(config: Config, blocks: int) -> int:
    """The smallest number of equal groups into which `blocks` blocks of filters can be divided such that the parameters
    of a group fit the parameter table.
    """
    return next(
        groups
        for groups in range(1, blocks + 1)
        if blocks % groups == 0 and blocks // groups <= config.par_depth
    )


def loads_ahead(config: Config, rows: Any) -> Any:
    """Whether all weights are loaded before the first products, while the preceding layer computes: true if the load of
    a weight tile takes longer than its products with a tile of `rows` positions."""
    return rows < config.whole_tile_bytes / config.memory.bus_bytes


def chunks_in_front(chunks: Any) -> Any:
    """Number of chunks that an iteration of the pipelined loop loads at its beginning, of a tile's `chunks` input
    chunks. The loads of the other chunks follow after the previous tile's sums have been loaded back from DRAM. The
    sums come so late in the iteration because stores need time to arrive in DRAM.
    """
    return np.maximum(1, chunks * 3 // 4)


def tiles_step(config: Config, blocks: int, rows: Any) -> Any:
    """Distance between two tiles in the accumulators, in blocks of `rows` accumulators; a tile has `blocks` blocks.

    If half of the accumulators has room for two tiles in separate banks, the tiles are in separate banks; otherwise
    they are adjacent.
    """
    apart = bank_aligned_blocks(config, blocks, rows)
    return np.where((apart + blocks) * rows <= config.acc_depth // 2, apart, blocks)


class _Normed:
    def __init__(
        self,
        config: Config,
        shape: NormedShape,
        product: Post,
        shares: Shares,
        shared: Post,
        tiles: NormedTiles,
        name: str,
    ) -> None:
        self._config, self._shape, self._tiles, self._name = config, shape, tiles, name
        self._product, self._shares, self._shared = product, shares, shared
        lanes = config.block_out
        rows = tiles.rows
        self._inputs, self._outputs = ceil_div(shape.channels, lanes), ceil_div(shape.filters, lanes)
        self._chunks = self._inputs // tiles.chunk
        self._ahead = bool(loads_ahead(config, rows))
        self._group = self._outputs // parameter_groups(config, self._outputs)
        vectors, matrix = (1, lanes), (lanes, lanes)

        def tensor(letter: str, blocks: int, positions: int) -> Buffer:
            return Buffer(name=letter, shape=(shape.images * blocks, positions, *vectors), dtype=DType.INT8)

        def held(name: str, scope: str, *sizes: int, of: Pair, dtype: DType = DType.INT8) -> Buffer:
            return Buffer(name=name, shape=(*sizes, *of), dtype=dtype, scope=scope)

        self.x = tensor("X", self._inputs, shape.positions)
        self.y, self.r = (tensor(letter, self._outputs, shape.positions) for letter in "YR")
        self.z = tensor("Z", self._outputs, shape.plane)
        self.w = Buffer(name="W", shape=(self._outputs, self._inputs, *matrix), dtype=DType.INT8)
        self.u = Buffer(name="U", shape=(1, *matrix), dtype=DType.INT8)
        self.table = Buffer(name="L", shape=(256,), dtype=DType.INT8)
        own = self._outputs if shares.own else 1
        wide = DType.INT32
        self.p, self.n = (
            Buffer(name=letter, shape=(count, 2, lanes), dtype=wide)
            for letter, count in (("P", self._outputs), ("N", own))
        )
        chunk = tiles.chunk
        self.data = held("data", "inp", tiles.copies, chunk, rows, of=vectors)
        self.made = held("made", "inp", 2, self._outputs, rows, of=vectors)
        self.weights = held("weights", "wgt", 1, self._chunks, self._outputs, chunk, of=matrix)
        self.unit = held("unit", "wgt", 1, of=matrix)
        # Two tiles of sums and two of widened results, each in separate banks if there is room.
        self._apart = int(tiles_step(config, self._outputs, rows))
        blocks = self._apart + self._outputs
        self.sums = held("sums", "acc", blocks, rows, of=vectors, dtype=wide)
        self.widened = held("widened", "acc", blocks, rows, of=vectors, dtype=wide)
        self.entries = held("entries", "par", self._group, of=(2, lanes), dtype=wide)

    def program(self) -> Program:
        """The loop over all tiles, as a software pipeline. Iteration t computes the products of tile t, loads the
        results of tile t - 1 back into the accumulators, and normalizes tile t - 2.

        The loop therefore has two more iterations than there are tiles.
        """
        count = self._shape.images * self._count
        t = Var("t")
        here = minimum(t, count - 1)
        before, last = (minimum(maximum(t - behind, 0), count - 1) for behind in (1, 2))
        left, begun, ending = 1 - minimum(t // count, 1), minimum(t, 1) - t // (count + 1), minimum(t // 2, 1)
        early = int(chunks_in_front(self._chunks))

        def only(name: str, times: Expr, *statements: Stmt) -> Stmt:
            return For(var=Var(name), extent=times, body=seq(*statements))

        # The first products of an iteration hide the wait for the previous iteration's results.
        iteration = seq(
            only("norm", ending, self._normalized(last)),
            only("head", left, self._summed("head", here, 0, early)),
            only("return", begun, self._returned(before)),
            *(
                [only("tail", left, self._summed("tail", here, early, self._chunks))]
                if early < self._chunks
                else []
            ),
            only("widen", begun, self._widened(before)),
            only("store", left, *self._stored(here)),
        )
        unit = Copy(name="load.unit", destination=whole(self.unit), source=whole(self.u))
        c = Var("ahead.chunk")
        ahead = [nest([(c, self._chunks)], self._weights("ahead", c))] if self._ahead else []
        body = seq(unit, *ahead, nest([(t, count + 2)], iteration))
        for buffer in (self.entries, self.unit, self.weights, self.data, self.made, self.widened, self.sums):
            body = Alloc(buffer=buffer, body=body)
        parameters = (
            *(self.x, self.w, self.p, self.n, self.u),
            *((self.table,) if self._product.table else ()),
            *((self.r,) if self._product.has_operand else ()),
            *(self.y, self.z),
        )
        return Program(name=self._name, parameters=parameters, body=body)

    @property
    def _count(self) -> int:
        """Number of tiles of positions in one image."""
        return ceil_div(self._shape.positions, self._tiles.rows)

    def _image(self, t: Expr) -> Expr:
        return t // self._count

    def _row(self, t: Expr) -> Expr:
        """The first position of tile `t` in its image."""
        return minimum(t % self._count * self._tiles.rows, self._shape.positions - self._tiles.rows)

    def _summed(self, name: str, t: Expr, low: int, high: int) -> Stmt:
        """Loads and products of chunks `low` to `high` - 1 of tile `t`."""
        chunk, rows, c = self._tiles.chunk, self._tiles.rows, Var(f"{name}.chunk")
        at = c + low
        slot = (t * self._chunks + at) % self._tiles.copies
        data = Copy(
            name=f"{name}.load.data",
            destination=_of(self.data, (slot, 1), (0, chunk), (0, rows)),
            source=_of(self.x, (self._image(t) * self._inputs + at * chunk, chunk), (self._row(t), rows)),
        )
        n, m, k = (Var(f"{name}.gemm.{letter}") for letter in "nmk")
        product = Intrinsic(
            name=f"{name}.gemm",
            declaration=intrinsics.gemm(self._config),
            operands=(
                element(self.sums, self._slot(t) + m, n),
                element(self.data, slot, k, n),
                element(self.weights, 0, at, m, k),
            ),
            first=all_of(equal(at, 0), equal(k, 0)),
        )
        with_first = For(var=Var(f"{name}.first"), extent=1 - minimum(t, 1), body=self._weights(name, at))
        body = seq(
            *([] if self._ahead else [with_first]),
            data,
            nest([(n, rows), (m, self._outputs), (k, chunk)], product),
        )
        return nest([(c, high - low)], body)

    def _weights(self, name: str, at: Expr) -> Copy:
        """The load of chunk `at` of the weights into the weight scratchpad."""
        chunk = self._tiles.chunk
        return Copy(
            name=f"{name}.load.weights",
            destination=_of(self.weights, (0, 1), (at, 1), (0, self._outputs), (0, chunk)),
            source=_of(self.w, (0, self._outputs), (at * chunk, chunk)),
        )

    def _stored(self, t: Expr) -> list[Stmt]:
        """The stores of tile `t` to DRAM, with a parameter load for each group of filters."""
        groups, found = self._outputs // self._group, list[Stmt]()
        for g in range(groups):
            first = g * self._group
            m, n = Var(f"store.{g}.m"), Var(f"store.{g}.n")
            place = (self._image(t) * self._outputs + first + m, self._row(t) + n)
            post = Intrinsic(
                name=f"store.{g}.post",
                declaration=intrinsics.post(self._config, self._product),
                operands=(
                    element(self.y, *place),
                    element(self.sums, self._slot(t) + first + m, n),
                    element(self.entries, m),
                    *([whole(self.table)] if self._product.table else []),
                    *([element(self.r, *place)] if self._product.has_operand else []),
                ),
                attributes=intrinsics.post_attributes(self._product),
            )
            entries = Copy(
                name=f"store.{g}.load.entries",
                destination=whole(self.entries),
                source=_of(self.p, (first, self._group)),
            )
            found += [entries, nest([(m, self._group), (n, self._tiles.rows)], post)]
        return found

    def _place(self, t: Expr) -> tuple[tuple[Expr, int], tuple[Expr, int]]:
        """The box of tile `t` in an output tensor: blocks and positions, each as (first, count)."""
        return (self._image(t) * self._outputs, self._outputs), (self._row(t), self._tiles.rows)

    def _slot(self, t: Expr) -> Expr:
        """Offset, in blocks, of the sums of tile `t` in the accumulators."""
        return t % 2 * self._apart

    def _returned(self, t: Expr) -> Stmt:
        destination = _of(self.made, (t % 2, 1), (0, self._outputs), (0, self._tiles.rows))
        return Copy(name="return.load", destination=destination, source=_of(self.y, *self._place(t)))

    def _widened(self, t: Expr) -> Stmt:
        n, m = Var("widen.n"), Var("widen.m")
        product = Intrinsic(
            name="widen.gemm",
            declaration=intrinsics.gemm(self._config),
            operands=(
                element(self.widened, self._slot(t) + m, n),
                element(self.made, t % 2, m, n),
                element(self.unit, 0),
            ),
            first=Const(True, DType.BOOL),
        )
        return nest([(n, self._tiles.rows), (m, self._outputs)], product)

    def _normalized(self, t: Expr) -> Stmt:
        blocks, rows = Blocks.of(self._config), self._tiles.rows
        accumulators = _of(self.widened, (self._slot(t), self._outputs), (0, rows))
        return Intrinsic(
            name="norm.rows",
            declaration=rows_declaration(blocks, self._outputs, rows, self._shares, self._shared),
            operands=(_of(self.z, *self._place(t)), accumulators, whole(self.n)),
            attributes=rows_attributes(self._shares, self._shared, self._config.block_out),
        )


def _of(buffer: Buffer, *boxes: tuple[Expr | int, int]) -> Region:
    """The region of a buffer given by `boxes`, (first, count) of each outer dimension; inner dimensions are whole."""
    return region(buffer, *boxes, *((0, size) for size in buffer.shape[len(boxes) :]))
