"""The columns of the matrix array, which compute dot products of int8 pairs, and the rows that contain them."""

from __future__ import annotations

from functools import partial

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.isa.config import Config

from ..shared_modules import place


def operand_bits(config: Config) -> int:
    """Width of a factor: 8 bits, or 9 with zero points, which are subtracted from int8."""
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


def fold_levels(config: Config) -> int:
    """The last levels of the tree, which add the sums of groups; 0 for an array that does not fold."""
    return config.tile_parts.bit_length() - 1


COLUMN, ROW = "array_column", "array_row"
"""Names of the one Verilog module of all columns, and of the one of all rows."""


class Column(wiring.Component):
    """One dot product of `block_in` pairs of `operand_bits` a cycle; its `sum` is there `multiplier_stages` +
    `tree_levels` later.

    Members: `vector`, `weights`, first element lowest; on machines with DEPTHWISE also `masks`, one bit for each
    product that the tree takes as 0. Masks belong to the pairs of `multiplier_stages` cycles before.

    Where the array folds, `sum` is a sum for each of `tile_parts`, first one lowest, and `apart` has a bit for each of
    the last levels of the tree: the groups are those whose sums stood before this level. Number k is the sum of group k
    mod f where they are f. A bit belongs to the pairs whose sums are before its level in this cycle.
    """

    def __init__(self, *, config: Config) -> None:
        self.config = config
        self.masked, self.levels = config.has("depthwise"), fold_levels(config)
        whole = signed(sum_bits(config))
        super().__init__(
            {
                "vector": In(operand_bits(config) * config.block_in),
                "weights": In(operand_bits(config) * config.block_in),
                **({"masks": In(config.block_in)} if self.masked else {}),
                **({"apart": In(self.levels)} if self.levels else {}),
                "sum": Out(config.tile_parts * sum_bits(config) if self.levels else whole),
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
            pairs = self.config.block_in >> level + 1
            added: list[Value] = [terms[2 * k] + terms[2 * k + 1] for k in range(pairs)]
            if pairs < self.config.tile_parts:
                apart = self.apart[level - tree_levels(self.config) + self.levels]
                added = [Mux(apart, term, added[k % pairs]) for k, term in enumerate(terms)]
            terms = []
            for value in added:
                total = Signal(signed(bits + level + 1), name=f"sum_{level}_{len(terms)}", reset_less=True)
                m.d.sync += total.eq(value)
                terms.append(total)
        m.d.comb += self.sum.eq(Cat(terms))
        return m


def differences(elements: Value, zero: Value | None) -> Value:
    """int8 elements minus `zero`, 9 bits each; `elements` unchanged if `zero` is None."""
    if zero is None:
        return elements
    parts = [elements.word_select(i, 8).as_signed() for i in range(len(elements) // 8)]
    return Cat(*((part - zero.as_signed())[:9] for part in parts))


class Row(wiring.Component):
    """The columns of one row of the tile: a dot product with each vector of the batch. One register holds the weights.

    Members: `vectors`, [batch][block_in] of `operand_bits`, first element lowest; `weights`, int8 of the previous
    cycle, and on machines with zero points `zero`, the weights' zero point; `masks` and `apart` as in a column; `sums`,
    `sum_bits` each, signed, a column's sums side by side.
    """

    def __init__(self, *, config: Config) -> None:
        self.config = config
        self.masked, self.folds = config.has("depthwise"), config.has("fold")
        super().__init__(
            {
                "vectors": In(operand_bits(config) * config.inp_bytes),
                "weights": In(8 * config.block_in),
                **({"zero": In(8)} if config.has("zero_points") else {}),
                **({"masks": In(config.block_in)} if self.masked else {}),
                **({"apart": In(fold_levels(config))} if self.folds else {}),
                "sums": Out(config.batch * config.tile_parts * sum_bits(config)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """The weight register, and the columns."""
        m = Module()
        config = self.config
        vector_bits = operand_bits(config) * config.block_in
        weights = Signal(vector_bits, name="held_weights", reset_less=True)
        zero = self.zero if config.has("zero_points") else None
        m.d.sync += weights.eq(differences(self.weights, zero))
        masks = {"masks": self.masks} if self.masked else {}
        apart = {"apart": self.apart} if self.folds else {}
        sum_width = config.tile_parts * sum_bits(config)
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
                **apart,
            )
            m.d.comb += self.sums.word_select(b, sum_width).eq(column.sum)
        return m
