"""The matrix array: batch x block_out dot products of block_in int8 pairs, or one product a lane for DEPTHWISE."""

from __future__ import annotations

from functools import partial

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from vdla.isa.config import Config

from ..copies import copies
from ..shared_modules import place


def operand_bits(config: Config) -> int:
    """Width of a factor: an int8, or one less a zero point."""
    return 9 if config.has("zero_points") else 8


def product_bits(config: Config) -> int:
    """Width of a product: -128 x -128 needs 16 bits, 255 x 255 needs 17."""
    return 2 * operand_bits(config) - config.has("zero_points")


def sum_bits(config: Config) -> int:
    """Width of a dot product of `block_in` products."""
    return product_bits(config) + tree_levels(config)


def tree_levels(config: Config) -> int:
    """Levels of the adder tree, one cycle each."""
    return (config.block_in - 1).bit_length()


def array_latency(config: Config) -> int:
    """Cycles from operands to sums: operand registers, chosen operands, product registers, tree."""
    return 2 + config.multiplier_stages + tree_levels(config)


COLUMN, ROW = "array_column", "array_row"
"""Names of the one Verilog module that all columns are, and of the one that all rows are."""


class Column(wiring.Component):
    """One dot product of `block_in` pairs of `operand_bits` a cycle; its `sum` is there `multiplier_stages` +
    `tree_levels` later.

    Members: `vector`, `weights`, first element lowest; on machines with DEPTHWISE also `masks`, one bit for each
    product that the tree takes as 0. Masks belong to the pairs of `multiplier_stages` cycles before.
    """

    def __init__(self, *, config: Config) -> None:
        self.config = config
        self.masked = config.has("depthwise")
        super().__init__(
            {
                "vector": In(operand_bits(config) * config.block_in),
                "weights": In(operand_bits(config) * config.block_in),
                **({"masks": In(config.block_in)} if self.masked else {}),
                "sum": Out(signed(sum_bits(config))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """`multiplier_stages` registers for each product, which synthesis may move into it; one for every sum."""
        m = Module()
        bits = product_bits(self.config)
        factors = data.ArrayLayout(signed(operand_bits(self.config)), self.config.block_in)
        vector, weights = data.View(factors, self.vector), data.View(factors, self.weights)
        terms: list[Value] = []
        for i in range(self.config.block_in):
            product = Signal(signed(bits), name=f"product_{i}", reset_less=True)
            m.d.sync += product.eq(vector[i] * weights[i])
            for stage in range(1, self.config.multiplier_stages):
                later = Signal(signed(bits), name=f"product_{i}_{stage}", reset_less=True)
                m.d.sync += later.eq(product)
                product = later
            terms.append(Mux(self.masks[i], 0, product) if self.masked else product)
        for level in range(tree_levels(self.config)):
            sums: list[Value] = []
            for left, right in zip(terms[::2], terms[1::2], strict=True):
                total = Signal(signed(bits + level + 1), name=f"sum_{level}_{len(sums)}", reset_less=True)
                m.d.sync += total.eq(left + right)
                sums.append(total)
            terms = sums
        m.d.comb += self.sum.eq(terms[0])
        return m


def _differences(elements: Value, zero: Value | None) -> Value:
    """int8 elements less `zero`, 9 bits each; without one as they are."""
    if zero is None:
        return elements
    parts = [elements.word_select(i, 8).as_signed() for i in range(len(elements) // 8)]
    return Cat(*((part - zero.as_signed())[:9] for part in parts))


class Row(wiring.Component):
    """The columns of one row of the tile, a dot product with each vector of the batch; one register holds the weights.

    Members: `vectors`, [batch][block_in] of `operand_bits`, first element lowest; `weights`, int8 of the cycle before,
    and on machines with zero points `zero`, theirs; `masks` as a column has them; `sums`, `sum_bits` each, signed.
    """

    def __init__(self, *, config: Config) -> None:
        self.config = config
        self.masked = config.has("depthwise")
        super().__init__(
            {
                "vectors": In(operand_bits(config) * config.inp_bytes),
                "weights": In(8 * config.block_in),
                **({"zero": In(8)} if config.has("zero_points") else {}),
                **({"masks": In(config.block_in)} if self.masked else {}),
                "sums": Out(config.batch * sum_bits(config)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """The register, and the columns."""
        m = Module()
        config = self.config
        vector_bits = operand_bits(config) * config.block_in
        weights = Signal(vector_bits, name="held_weights", reset_less=True)
        zero = self.zero if config.has("zero_points") else None
        m.d.sync += weights.eq(_differences(self.weights, zero))
        masks = {"masks": self.masks} if self.masked else {}
        for b in range(config.batch):
            column = place(
                m,
                platform,
                f"column_{b}",
                COLUMN,
                partial(Column, config=config),
                vector=self.vectors.word_select(b, vector_bits),
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
    inp_zero, wgt_zero : In
        On machines with zero points: int8, what is taken off every element of the vector and of the tile.
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
                **({"inp_zero": In(8), "wgt_zero": In(8)} if config.has("zero_points") else {}),
                "sums": Out(config.batch * config.block_out * sum_bits(config)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Registers after the memories, the operand selection, and a row of columns for every output channel."""
        m = Module()
        config = self.config
        # Data needs no reset; what it means comes along in the pipeline beside the array.
        read_vector, tile = (
            Signal.like(signal, name=name, reset_less=True)
            for signal, name in ((self.vector, "read_vector"), (self.tile, "tile"))
        )
        vector = Signal(operand_bits(config) * config.inp_bytes, reset_less=True)
        inp_zero: Value | None = None
        zeros: dict[str, Value] = {}
        if config.has("zero_points"):
            inp_zero, wgt_zero = Signal(8, reset_less=True), Signal(8, reset_less=True)
            m.d.sync += [inp_zero.eq(self.inp_zero), wgt_zero.eq(self.wgt_zero)]
            zeros["zero"] = wgt_zero
        m.d.sync += [
            read_vector.eq(self.vector),
            vector.eq(_differences(read_vector, inp_zero)),
            tile.eq(self.tile),
        ]
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
            inputs: dict[str, Value] = {"vectors": vector, "weights": weights, **zeros}
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
