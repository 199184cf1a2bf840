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

from ...ir.expr import Buffer, Expr, Var, all_of, equal, minimum
from ...ir.stmt import Copy, For, Intrinsic, Program, Stmt, allocated, nest, parameters_of, seq, whole
from ...ir.types import DType
from ...te.blocks import Blocks, ceil_div
from ...te.ops.rows import Shares, rows_attributes, rows_declaration
from ...te.post import Post
from ..columns import Values
from .pipelined_tiles import bank_aligned_blocks, box, element, held, multiplied, pipelined, stored


@dataclass(frozen=True, slots=True, kw_only=True)
class NormedShape:
    """Sizes of a product with normalization. There are `images` images with `positions` positions each. The input has
    `channels` channels, the product has `filters` filters. A plane of the normalized output has `plane` positions.
    """

    images: int
    positions: int
    plane: int
    channels: int
    filters: int


def normed_program(
    config: Config, shape: NormedShape, product: Post, shares: Shares, shared: Post, name: str, values: Values
) -> Program:
    """The program of a product and the normalization of its result, tile by tile. The last tile of an image ends where
    the image ends and may overlap the tile before it. `product`, `shared`: post-processing of product and
    normalization.

    `values`: sizes of tiles. A tile has `rows` positions, and its inputs are loaded in chunks of `chunk` channel
    blocks. Successive chunks are loaded to `copies` buffers, one after the other.

    Let CB and OB be the numbers of blocks of channels and of filters, ci and co the lanes of an input and of an output
    vector. Parameters of the product: X int8[images * CB, positions, 1, ci]; W int8[OB, CB, co, ci]; P int32[OB, 2,
    co], biases and scales; L int8[256] if `product` has a table; R, of Y's shape, if `product` has an operand; the
    result Y int8[images * OB, positions, 1, co].

    Parameters of the normalization: N int32[OB, 2, co], or int32[1, 2, co] if all channels have the same parameters
    (`shares.own` is false); U int8[1, co, ci], the unit matrix; the result Z int8[images * OB, plane, 1, co], where an
    image has `plane` positions.
    """
    return _Normed(config, shape, product, shares, shared, name, values).program()


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
        name: str,
        values: Values,
    ) -> None:
        self._config, self._shape, self._name = config, shape, name
        self._product, self._shares, self._shared = product, shares, shared
        self._rows, self._chunk, self._copies = values["rows"], values["chunk"], values["copies"]
        lanes, rows, chunk = config.block_out, self._rows, self._chunk
        self._inputs, self._outputs = ceil_div(shape.channels, lanes), ceil_div(shape.filters, lanes)
        self._chunks = self._inputs // chunk
        # Number of tiles of positions in one image.
        self._count = ceil_div(shape.positions, rows)
        self._ahead = bool(loads_ahead(config, rows))
        self._group = self._outputs // parameter_groups(config, self._outputs)
        vectors, matrix = (1, lanes), (lanes, lanes)

        def tensor(letter: str, blocks: int, positions: int) -> Buffer:
            return Buffer(name=letter, shape=(shape.images * blocks, positions, *vectors), dtype=DType.INT8)

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
        self.data = held("data", "inp", self._copies, chunk, rows, of=vectors)
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
        """The loop over all tiles: iteration t computes the products of tile t, loads the results of tile t - 1 back
        into the accumulators, and normalizes tile t - 2.
        """
        early, chunks = int(chunks_in_front(self._chunks)), self._chunks
        # The first products of an iteration hide the wait for the previous iteration's results.
        tail = [("tail", 0, lambda t: self._summed("tail", t, early, chunks))] if early < chunks else []
        loop = pipelined(
            self._shape.images * self._count,
            ("norm", 2, self._normalized),
            ("head", 0, lambda t: self._summed("head", t, 0, early)),
            ("return", 1, self._returned),
            *tail,
            ("widen", 1, self._widened),
            ("store", 0, self._stored),
        )
        unit = Copy(name="load.unit", destination=whole(self.unit), source=whole(self.u))
        c = Var("ahead.chunk")
        ahead = [nest([(c, chunks)], self._weights("ahead", c))] if self._ahead else []
        buffers = (self.sums, self.widened, self.made, self.data, self.weights, self.unit, self.entries)
        table = self.table if self._product.table else None
        operand = self.r if self._product.has_operand else None
        parameters = (self.x, self.w, self.p, self.n, self.u, table, operand, self.y, self.z)
        return Program(
            name=self._name,
            parameters=parameters_of(*parameters),
            body=allocated(buffers, seq(unit, *ahead, loop)),
        )

    def _image(self, t: Expr) -> Expr:
        return t // self._count

    def _row(self, t: Expr) -> Expr:
        """The first position of tile `t` in its image."""
        return minimum(t % self._count * self._rows, self._shape.positions - self._rows)

    def _summed(self, name: str, t: Expr, low: int, high: int) -> Stmt:
        """Loads and products of chunks `low` to `high` - 1 of tile `t`."""
        chunk, rows, c = self._chunk, self._rows, Var(f"{name}.chunk")
        at = c + low
        slot = (t * self._chunks + at) % self._copies
        data = Copy(
            name=f"{name}.load.data",
            destination=box(self.data, (slot, 1), (0, chunk), (0, rows)),
            source=box(self.x, (self._image(t) * self._inputs + at * chunk, chunk), (self._row(t), rows)),
        )
        n, m, k = (Var(f"{name}.gemm.{letter}") for letter in "nmk")
        product = multiplied(
            self._config,
            f"{name}.gemm",
            [(n, rows), (m, self._outputs), (k, chunk)],
            (
                element(self.sums, self._slot(t) + m, n),
                element(self.data, slot, k, n),
                element(self.weights, 0, at, m, k),
            ),
            all_of(equal(at, 0), equal(k, 0)),
        )
        with_first = For(var=Var(f"{name}.first"), extent=1 - minimum(t, 1), body=self._weights(name, at))
        return nest([(c, high - low)], seq(*([] if self._ahead else [with_first]), data, product))

    def _weights(self, name: str, at: Expr) -> Copy:
        """The load of chunk `at` of the weights into the weight scratchpad."""
        chunk = self._chunk
        return Copy(
            name=f"{name}.load.weights",
            destination=box(self.weights, (0, 1), (at, 1), (0, self._outputs), (0, chunk)),
            source=box(self.w, (0, self._outputs), (at * chunk, chunk)),
        )

    def _stored(self, t: Expr) -> Stmt:
        """The stores of tile `t` to DRAM, with a parameter load for each group of filters."""
        groups, found = self._outputs // self._group, list[Stmt]()
        for g in range(groups):
            first = g * self._group
            m, n = Var(f"store.{g}.m"), Var(f"store.{g}.n")
            place = (self._image(t) * self._outputs + first + m, self._row(t) + n)
            entries = Copy(
                name=f"store.{g}.load.entries",
                destination=whole(self.entries),
                source=box(self.p, (first, self._group)),
            )
            post = stored(
                self._config,
                f"store.{g}.post",
                [(m, self._group), (n, self._rows)],
                self._product,
                element(self.y, *place),
                element(self.sums, self._slot(t) + first + m, n),
                element(self.entries, m),
                *([whole(self.table)] if self._product.table else []),
                *([element(self.r, *place)] if self._product.has_operand else []),
            )
            found += [entries, post]
        return seq(*found)

    def _place(self, t: Expr) -> tuple[tuple[Expr, int], tuple[Expr, int]]:
        """The box of tile `t` in an output tensor: blocks and positions, each as (first, count)."""
        return (self._image(t) * self._outputs, self._outputs), (self._row(t), self._rows)

    def _slot(self, t: Expr) -> Expr:
        """Offset, in blocks, of the sums of tile `t` in the accumulators."""
        return t % 2 * self._apart

    def _returned(self, t: Expr) -> Stmt:
        destination = box(self.made, (t % 2, 1), (0, self._outputs), (0, self._rows))
        return Copy(name="return.load", destination=destination, source=box(self.y, *self._place(t)))

    def _widened(self, t: Expr) -> Stmt:
        n, m = Var("widen.n"), Var("widen.m")
        made, sums = element(self.made, t % 2, m, n), element(self.widened, self._slot(t) + m, n)
        loops = [(n, self._rows), (m, self._outputs)]
        return multiplied(self._config, "widen.gemm", loops, (sums, made, element(self.unit, 0)))

    def _normalized(self, t: Expr) -> Stmt:
        accumulators = box(self.widened, (self._slot(t), self._outputs), (0, self._rows))
        blocks = Blocks.of(self._config)
        return Intrinsic(
            name="norm.rows",
            declaration=rows_declaration(blocks, self._outputs, self._rows, self._shares, self._shared),
            operands=(box(self.z, *self._place(t)), accumulators, whole(self.n)),
            attributes=rows_attributes(self._shares, self._shared, self._config.block_out),
        )
