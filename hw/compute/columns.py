"""Columns and rows of the matrix array. A column computes a dot product of int8 pairs; a row consists of columns that
multiply the same input vector by different weights.
"""

from __future__ import annotations

from functools import partial

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.isa.array_shape import ArrayShape
from vdla.isa.config import Config

from ..shared_modules import place


def sum_bits(config: Config) -> int:
    """Width in bits of a dot product of `block_in` products."""
    return ArrayShape.of(config).product_bits + tree_levels(config)


def tree_levels(config: Config) -> int:
    """Number of levels of the adder tree, a cycle each."""
    return (config.block_in - 1).bit_length()


COLUMN, ROW = "array_column", "array_row"
"""Names of the Verilog module that all columns share, and of the module that all rows share."""


class Column(wiring.Component):
    """Computes a dot product of `block_in` pairs of factors, each of `ArrayShape.factor_bits` bits, in every cycle;
    `sum` is valid `multiplier_stages` + `tree_levels` cycles after the operands.

    Members: `vector`, `weights`: the operands, first element lowest. `masks` (only with DEPTHWISE): a bit for each
    product; 1 makes the adder tree add 0 in place of the product. Masks come `multiplier_stages` cycles after their
    operands.

    With the extension `fold`, the products form f groups of neighbours, and `sum` is a concatenation of `tile_parts`
    sums, the first one lowest: number k is the sum of group k mod f. `apart` has a bit for each of the last levels of
    the tree. The bit is 1 if the sums of the groups are complete before this level and must stay separate. The bit must
    reach this level together with the numbers to which it applies.
    """

    def __init__(self, *, config: Config) -> None:
        self.config = config
        self.built = built = ArrayShape.of(config)
        whole = signed(sum_bits(config))
        super().__init__(
            {
                "vector": In(built.factor_bits * config.block_in),
                "weights": In(built.factor_bits * config.block_in),
                **({"masks": In(config.block_in)} if built.by_lane else {}),
                **({"apart": In(built.fold_levels)} if built.fold_levels else {}),
                "sum": Out(config.tile_parts * sum_bits(config) if built.fold_levels else whole),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Builds `multiplier_stages` registers for each product, which synthesis may move into the multiplier, and one
        register for each sum of the tree.
        """
        m = Module()
        bits = self.built.product_bits
        factors = data.ArrayLayout(signed(self.built.factor_bits), self.config.block_in)
        vector, weights = data.View(factors, self.vector), data.View(factors, self.weights)
        terms: list[Value] = []
        for i in range(self.config.block_in):
            product = Signal(signed(bits), name=f"product_{i}", reset_less=True)
            m.d.sync += product.eq(vector[i] * weights[i])
            for stage in range(1, self.config.multiplier_stages):
                later = Signal(signed(bits), name=f"product_{i}_{stage}", reset_less=True)
                m.d.sync += later.eq(product)
                product = later
            terms.append(Mux(self.masks[i], 0, product) if self.built.by_lane else product)
        for level in range(tree_levels(self.config)):
            pairs = self.config.block_in >> level + 1
            added: list[Value] = [terms[2 * k] + terms[2 * k + 1] for k in range(pairs)]
            if pairs < self.config.tile_parts:
                apart = self.apart[level - tree_levels(self.config) + self.built.fold_levels]
                added = [Mux(apart, term, added[k % pairs]) for k, term in enumerate(terms)]
            terms = []
            for value in added:
                total = Signal(signed(bits + level + 1), name=f"sum_{level}_{len(terms)}", reset_less=True)
                m.d.sync += total.eq(value)
                terms.append(total)
        m.d.comb += self.sum.eq(Cat(terms))
        return m


def differences(elements: Value, zero: Value | None) -> Value:
    """The int8 `elements` (side by side) each minus the int8 `zero`, as side-by-side signed numbers of 9 bits;
    `elements` unchanged if `zero` is None.
    """
    if zero is None:
        return elements
    parts = [elements.word_select(i, 8).as_signed() for i in range(len(elements) // 8)]
    return Cat(*((part - zero.as_signed())[:9] for part in parts))


class Row(wiring.Component):
    """One row of the array: for each vector of the batch, a column that computes its dot product with one row of the
    weight tile. A register that all columns share holds the weights.

    Members:

    - `vectors`: [batch][block_in] elements of `ArrayShape.factor_bits` bits, first element lowest.
    - `weights`: int8, one cycle before their vectors. `zero`, with the extension `zero_points`: zero point of the
      weights.
    - `masks`: a bit for each product, 1 to add 0 in its place; `multiplier_stages` cycles after the vectors.
    - `apart`, with the extension `fold`: a bit for each of the adder tree's last levels, 1 if the sums of groups of
      products stay separate there.
    - `sums`: numbers of `sum_bits` bits, first those of the first column, then those of the next.
    """

    def __init__(self, *, config: Config) -> None:
        self.config = config
        self.built = built = ArrayShape.of(config)
        super().__init__(
            {
                "vectors": In(built.factor_bits * config.inp_bytes),
                "weights": In(8 * config.block_in),
                **({"zero": In(8)} if built.zero_points else {}),
                **({"masks": In(config.block_in)} if built.by_lane else {}),
                **({"apart": In(built.fold_levels)} if built.fold_levels else {}),
                "sums": Out(config.batch * config.tile_parts * sum_bits(config)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Builds the register of weights, and the columns."""
        m = Module()
        config = self.config
        vector_bits = self.built.factor_bits * config.block_in
        weights = Signal(vector_bits, name="held_weights", reset_less=True)
        zero = self.zero if self.built.zero_points else None
        m.d.sync += weights.eq(differences(self.weights, zero))
        masks = {"masks": self.masks} if self.built.by_lane else {}
        apart = {"apart": self.apart} if self.built.fold_levels else {}
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
