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


def sum_bits(config: Config) -> int:
    """Width of a dot product: |sum| <= block_in x 2**14."""
    return PRODUCT_BITS + tree_levels(config)


def tree_levels(config: Config) -> int:
    """Levels of the adder tree, one cycle each."""
    return (config.block_in - 1).bit_length()


def array_latency(config: Config) -> int:
    """Cycles from operands to sums: operand registers, chosen operands, product registers, tree."""
    return 2 + config.multiplier_stages + tree_levels(config)


COLUMN, ROW = "array_column", "array_row"
"""Names of the one Verilog module that all columns are, and of the one that all rows are."""


class Column(wiring.Component):
    """One dot product of `block_in` int8 pairs a cycle; its `sum` is there `multiplier_stages` + `tree_levels` later.

    Members: `vector`, `weights`, first element lowest; on machines with DEPTHWISE also `masks`, one bit for each
    product that the tree takes as 0. Masks belong to the pairs of `multiplier_stages` cycles before.
    """

    def __init__(self, *, config: Config) -> None:
        self.config = config
        self.masked = config.has("depthwise")
        super().__init__(
            {
                "vector": In(8 * config.block_in),
                "weights": In(8 * config.block_in),
                **({"masks": In(config.block_in)} if self.masked else {}),
                "sum": Out(signed(sum_bits(config))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """`multiplier_stages` registers for each product, which synthesis may move into it; one for every sum."""
        m = Module()
        int8s = data.ArrayLayout(signed(8), self.config.block_in)
        vector, weights = data.View(int8s, self.vector), data.View(int8s, self.weights)
        terms: list[Value] = []
        for i in range(self.config.block_in):
            product = Signal(signed(PRODUCT_BITS), name=f"product_{i}", reset_less=True)
            m.d.sync += product.eq(vector[i] * weights[i])
            for stage in range(1, self.config.multiplier_stages):
                later = Signal(signed(PRODUCT_BITS), name=f"product_{i}_{stage}", reset_less=True)
                m.d.sync += later.eq(product)
                product = later
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


class Row(wiring.Component):
    """The columns of one row of the tile, a dot product with each vector of the batch; one register holds the weights.

    Members: `vectors`, [batch][block_in] int8, first element lowest; `weights`, of the cycle before; `masks` as a
    column has them; `sums`, `sum_bits` each, signed.
    """

    def __init__(self, *, config: Config) -> None:
        self.config = config
        self.masked = config.has("depthwise")
        super().__init__(
            {
                "vectors": In(8 * config.inp_bytes),
                "weights": In(8 * config.block_in),
                **({"masks": In(config.block_in)} if self.masked else {}),
                "sums": Out(config.batch * sum_bits(config)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """The register, and the columns."""
        m = Module()
        config = self.config
        weights = Signal.like(self.weights, name="held_weights", reset_less=True)
        m.d.sync += weights.eq(self.weights)
        masks = {"masks": self.masks} if self.masked else {}
        for b in range(config.batch):
            column = place(
                m,
                platform,
                f"column_{b}",
                COLUMN,
                partial(Column, config=config),
                vector=self.vectors.word_select(b, 8 * config.block_in),
                weights=weights,
                **masks,
            )
            m.d.comb += self.sums.word_select(b, sum_bits(config)).eq(column.sum)
        return m


class MultiplyArray(wiring.Component):
    """Operands of cycle t give `sums` in cycle t + `array_latency`; a new set every cycle.

    DEPTHWISE multiplies element j of the input vector by element j of row `row` of the tile. It uses the
    multiplier (j, j) of each batch row, whose weight comes from that row; the tree lets only its product through.

    Members
    -------
    vector, tile, depthwise, row : In
        Operands: one input vector ([batch][block_in] int8), one tile ([block_out][block_in] int8), first element
        lowest, and how to combine them. They may come straight from a memory's output.
    sums : Out
        Lane b * block_out + o, `sum_bits` each, signed: the dot product of vector[b] and tile[o], or the product of
        lane o.
    """

    # Bits, not layouts: Amaranth names every element of every register of a layout, thousands in a large tile.

    def __init__(self, *, config: Config) -> None:
        self.config = config
        self.diagonal = config.has("depthwise")
        super().__init__(
            {
                "vector": In(8 * config.inp_bytes),
                "tile": In(8 * config.wgt_bytes),
                "depthwise": In(1),
                "row": In(max(1, (config.block_out - 1).bit_length())),
                "sums": Out(config.batch * config.block_out * sum_bits(config)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Registers after the memories, the operand selection, and a row of columns for every output channel."""
        m = Module()
        config = self.config
        # Data needs no reset; what it means comes along in the pipeline beside the array.
        read_vector, vector, tile = (
            Signal.like(signal, name=name, reset_less=True)
            for signal, name in ((self.vector, "read_vector"), (self.vector, "vector"), (self.tile, "tile"))
        )
        m.d.sync += [read_vector.eq(self.vector), vector.eq(read_vector), tile.eq(self.tile)]
        rows = [tile.word_select(o, 8 * config.block_in) for o in range(config.block_out)]
        masks: list[Value] = []  # as DEPTHWISE passes the product registers, for every row
        if self.diagonal:
            alone = Signal(
                1 + config.multiplier_stages
            )  # DEPTHWISE, as it passes operand and product registers
            row = Signal.like(self.row)
            m.d.sync += [alone.eq((alone << 1) | self.depthwise), row.eq(self.row)]
            masks = copies(m, alone[-1], config.block_out, "alone")
            # Not an index, a shift of the whole tile: Amaranth follows every bit of it to every bit of a row.
            choices: list[Value] = rows
            for bit in row:
                if len(choices) > 1:
                    pairs = zip(choices[::2], choices[1::2], strict=True)
                    choices = [Mux(bit, higher, lower) for lower, higher in pairs]
            chosen = Signal(8 * config.block_in)
            m.d.comb += chosen.eq(choices[0])
            rows = [self._with_diagonal(o, own, chosen, alone[0]) for o, own in enumerate(rows)]
        for o, weights in enumerate(rows):
            inputs: dict[str, Value] = {"vectors": vector, "weights": weights}
            if self.diagonal:
                inputs["masks"] = Cat(masks[o] if i != o else Const(0) for i in range(config.block_in))
            made = place(m, platform, f"row_{o}", ROW, partial(Row, config=config), **inputs)
            for b in range(config.batch):
                lane = self.sums.word_select(b * config.block_out + o, sum_bits(config))
                m.d.comb += lane.eq(made.sums.word_select(b, sum_bits(config)))
        return m

    @staticmethod
    def _with_diagonal(o: int, own: Value, chosen: Value, alone: Value) -> Value:
        """The weights `own` of row `o`, element o taken from `chosen` with `alone`."""
        elements = [own.word_select(i, 8) for i in range(len(own) // 8)]
        elements[o] = Mux(alone, chosen.word_select(o, 8), elements[o])
        return Cat(*elements)
