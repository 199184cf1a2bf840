"""The matrix array: batch x block_out dot products of block_in int8 pairs, or one product a lane for DEPTHWISE."""

from __future__ import annotations

from functools import partial

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from vdla.isa.config import Config

from ..copies import copies
from ..shared_modules import place

PRODUCT_BITS = 16


def vector_layout(config: Config) -> data.ArrayLayout:
    """An input vector, [batch][block_in] int8."""
    return data.ArrayLayout(data.ArrayLayout(signed(8), config.block_in), config.batch)


def tile_layout(config: Config) -> data.ArrayLayout:
    """A weight tile, [block_out][block_in] int8."""
    return data.ArrayLayout(data.ArrayLayout(signed(8), config.block_in), config.block_out)


def sum_bits(config: Config) -> int:
    """Width of a dot product: |sum| <= block_in x 2**14."""
    return PRODUCT_BITS + tree_levels(config)


def tree_levels(config: Config) -> int:
    """Levels of the adder tree, one cycle each."""
    return (config.block_in - 1).bit_length()


def array_latency(config: Config) -> int:
    """Cycles from operands to sums: operand registers, chosen operands, product registers, tree."""
    return 3 + tree_levels(config)


COLUMN = "array_column"
"""Name of the one Verilog module that all columns are."""


class Column(wiring.Component):
    """One dot product of `block_in` int8 pairs a cycle; its `sum` is there 1 + `tree_levels` cycles later.

    Members: `vector`, `weights`; on machines with DEPTHWISE also `masks`, one bit for each product that the tree takes
    as 0. Masks belong to the pairs of the cycle before.
    """

    def __init__(self, *, config: Config) -> None:
        self.config = config
        self.masked = config.has("depthwise")
        operands = data.ArrayLayout(signed(8), config.block_in)
        super().__init__(
            {
                "vector": In(operands),
                "weights": In(operands),
                **({"masks": In(config.block_in)} if self.masked else {}),
                "sum": Out(signed(sum_bits(config))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """A register for each product, and one for every sum of the tree."""
        m = Module()
        terms: list[Value] = []
        for i in range(self.config.block_in):
            product = Signal(signed(PRODUCT_BITS), name=f"product_{i}", reset_less=True)
            m.d.sync += product.eq(self.vector[i] * self.weights[i])
            terms.append(Mux(self.masks[i], 0, product) if self.masked else product)
        for level in range(tree_levels(self.config)):
            sums: list[Value] = []
            for left, right in zip(terms[::2], terms[1::2], strict=True):
                total = Signal(
                    signed(PRODUCT_BITS + level + 1), name=f"sum_{level}_{len(sums)}", reset_less=True
                )
                m.d.sync += total.eq(left + right)
                sums.append(total)
            terms = sums
        m.d.comb += self.sum.eq(terms[0])
        return m


class MultiplyArray(wiring.Component):
    """Operands of cycle t give `sums` in cycle t + `array_latency`; a new set every cycle.

    DEPTHWISE multiplies element j of the input vector by element j of row `row` of the tile. It uses the
    multiplier (j, j) of each batch row, whose weight comes from that row; the tree lets only its product through.

    Members
    -------
    vector, tile, depthwise, row : In
        Operands: one input vector, one tile and how to combine them. They may come straight from a memory's output.
    sums : Out
        Lane b * block_out + o: the dot product of vector[b] and tile[o], or the product of lane o.
    """

    def __init__(self, *, config: Config) -> None:
        self.config = config
        self.diagonal = config.has("depthwise")
        super().__init__(
            {
                "vector": In(vector_layout(config)),
                "tile": In(tile_layout(config)),
                "depthwise": In(1),
                "row": In(max(1, (config.block_out - 1).bit_length())),
                "sums": Out(data.ArrayLayout(signed(sum_bits(config)), config.batch * config.block_out)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Registers after the memories, the operand selection, and a column for every sum."""
        m = Module()
        config = self.config
        layouts = (vector_layout(config), tile_layout(config))
        # Data needs no reset; what it means comes along in the pipeline beside the array.
        read_vector, read_tile = (Signal(layout, reset_less=True) for layout in layouts)
        vector, tile = (Signal(layout, reset_less=True) for layout in layouts)
        m.d.sync += [
            read_vector.eq(self.vector),
            read_tile.eq(self.tile),
            vector.eq(read_vector),
            tile.eq(read_tile),
        ]
        alone = Signal(2)  # DEPTHWISE, as it passes the operand registers
        masks = [Const(0)] * config.block_out  # and the product registers, for every column
        if self.diagonal:
            row = Signal.like(self.row)
            m.d.sync += [alone.eq((alone << 1) | self.depthwise), row.eq(self.row)]
            masks = copies(m, alone[1], config.block_out, "alone")
            chosen = Signal(data.ArrayLayout(signed(8), config.block_in))
            # Not read_tile[row], a shift of the whole tile: Amaranth follows every bit of it to every bit of a row.
            rows: list[Value] = [read_tile[o].as_value() for o in range(config.block_out)]
            for bit in row:
                if len(rows) > 1:
                    pairs = zip(rows[::2], rows[1::2], strict=True)
                    rows = [Mux(bit, higher, lower) for lower, higher in pairs]
            m.d.comb += chosen.eq(rows[0])
            for j in range(config.block_in):
                m.d.sync += tile[j][j].eq(Mux(alone[0], chosen[j], read_tile[j][j]))
        for b in range(config.batch):
            for o in range(config.block_out):
                column = place(m, platform, f"column_{b}_{o}", COLUMN, partial(Column, config=config))
                m.d.comb += [
                    column.vector.eq(vector[b]),
                    column.weights.eq(tile[o]),
                    self.sums[b * config.block_out + o].eq(column.sum),
                ]
                if self.diagonal:
                    m.d.comb += column.masks.eq(
                        Cat(masks[o] if i != o else Const(0) for i in range(config.block_in))
                    )
        return m
