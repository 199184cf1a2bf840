"""The matrix array: batch x block_out dot products of block_in int8 pairs, or of one or a few products a lane."""

from __future__ import annotations

from functools import partial

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from vdla.isa.config import Config
from vdla.isa.extensions import TAPS

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


def _choice(index: Value, choices: list[Value]) -> Value:
    """The element `index` of `choices`, as many as it has values or fewer."""
    # Not a shift of all of them: Amaranth follows every bit of it to every bit of a row.
    for bit in index:
        if len(choices) > 1:
            pairs = zip(choices[::2], choices[1::2], strict=True)
            choices = [Mux(bit, higher, lower) for lower, higher in pairs]
    return choices[0]


class MultiplyArray(wiring.Component):
    """Operands of cycle t give `sums` in cycle t + `array_latency`; a new set every cycle.

    DEPTHWISE multiplies element j of the input vector by element j of row `row` of the tile. It uses the
    multiplier (j, j) of each batch row, whose weight comes from that row; the tree lets only its product through.

    TAPS does that with TAPS neighbouring vectors and rows and adds up: lane j takes vector and row t to its multiplier
    (j, j xor t), those that this number pairs being the same few for a few lanes. So a multiplexer stands in front of
    TAPS - 1 elements of the vectors that a row takes; its weights are chosen behind the choice of the rows.

    Members
    -------
    vector, tile, depthwise, row : In
        Operands: one input vector ([batch][block_in] int8), one tile ([block_out][block_in] int8), first element
        lowest, and how to combine them. They may come straight from a memory's output. On machines with `taps` there
        are TAPS vectors, of which number `first` is the first one and those behind it follow, the last one's next being
        number 0.
    taps, first : In
        There: the operation is TAPS (and `depthwise` as well), of the rows from `row`, a multiple of TAPS, on.
    inp_zero, wgt_zero : In
        On machines with zero points: int8, what is taken off every element of the vector and of the tile.
    sums : Out
        Lane b * block_out + o, `sum_bits` each, signed: the dot product of vector[b] and tile[o], or the product of
        lane o.
    """

    # Bits, not layouts: Amaranth names every element of every register of a layout, thousands in a large tile.

    def __init__(self, *, config: Config) -> None:
        self.config = config
        self.diagonal, self.several = config.has("depthwise"), config.has("taps")
        super().__init__(
            {
                "vector": In(8 * config.inp_bytes * (TAPS if self.several else 1)),
                **({"taps": In(1), "first": In(range(TAPS))} if self.several else {}),
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
            inp_zero, wgt_zero = Signal(8, reset_less=True), Signal(8, name="wgt_zero", reset_less=True)
            m.d.sync += [inp_zero.eq(self.inp_zero), wgt_zero.eq(self.wgt_zero)]
            zeros["zero"] = wgt_zero
        vectors = self._in_order(m, read_vector) if self.several else [read_vector]
        vectors = [_differences(item, inp_zero) for item in vectors]
        m.d.sync += [
            read_vector.eq(self.vector),
            vector.eq(vectors[0]),
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
            choices: list[Value] = rows
            group: list[Value] = []
            if self.several:
                group = [Signal(8 * config.block_in, name=f"group_{t}") for t in range(TAPS)]
                m.d.comb += [item.eq(_choice(row[2:], rows[t::TAPS])) for t, item in enumerate(group)]
                choices = group
            chosen = Signal(8 * config.block_in)
            m.d.comb += chosen.eq(_choice(row, choices))
            rows = [self._with_diagonal(o, own, chosen, alone[0]) for o, own in enumerate(rows)]
            if self.several:
                taps, single = Signal(), Signal(1 + config.multiplier_stages)
                m.d.sync += [taps.eq(self.taps), single.eq((single << 1) | (self.depthwise & ~self.taps))]
                singles = copies(m, single[-1], config.block_out, "single")
                rows = [self._with_taps(o, own, group, taps) for o, own in enumerate(rows)]
        for o, weights in enumerate(rows):
            inputs: dict[str, Value] = {"vectors": vector, "weights": weights, **zeros}
            if self.diagonal:
                inputs["masks"] = Cat(masks[o] if i != o else Const(0) for i in range(config.block_in))
            if self.several:
                inputs["vectors"] = self._own_vectors(m, o, vector, vectors, taps)
                passed = {o ^ t: singles[o] if t else Const(0) for t in range(TAPS)}
                inputs["masks"] = Cat(passed.get(i, masks[o]) for i in range(config.block_in))
            made = place(m, platform, f"row_{o}", ROW, partial(Row, config=config), **inputs)
            for b in range(config.batch):
                lane = self.sums.word_select(b * config.block_out + o, sum_bits(config))
                m.d.comb += lane.eq(made.sums.word_select(b, sum_bits(config)))
        return m

    def _in_order(self, m: Module, read: Value) -> list[Value]:
        """The vectors that were read, the first one first."""
        first = Signal.like(self.first)
        m.d.sync += first.eq(self.first)
        vectors: list[Value] = [read.word_select(bank, len(read) // TAPS) for bank in range(TAPS)]
        for distance, bit in enumerate(first):
            moved = [vectors[(t + (1 << distance)) % TAPS] for t in range(TAPS)]
            vectors = [Mux(bit, there, here) for here, there in zip(vectors, moved, strict=True)]
        for t, item in enumerate(vectors):
            vectors[t] = Signal(len(item), name=f"vector_{t}")
            m.d.comb += vectors[t].eq(item)
        return vectors

    def _own_vectors(self, m: Module, o: int, vector: Signal, vectors: list[Value], taps: Value) -> Value:
        """What row `o` takes of the batch: `vector`, the register of the first of `vectors`, but with `taps` element o
        of the others."""
        config, bits = self.config, operand_bits(self.config)
        parts: list[Value] = []
        for b in range(config.batch):
            start = b * config.block_in
            for i in range(config.block_in):
                if not 0 < i ^ o < TAPS:
                    parts.append(vector.word_select(start + i, bits))
                    continue
                own = Signal(bits, name=f"own_{o}_{b}_{i ^ o}", reset_less=True)
                there, here = (vectors[t].word_select(start + j, bits) for t, j in ((i ^ o, o), (0, i)))
                m.d.sync += own.eq(Mux(taps, there, here))
                parts.append(own)
        return Cat(*parts)

    @staticmethod
    def _with_taps(o: int, own: Value, group: list[Value], taps: Value) -> Value:
        """The weights `own` of row `o`, with `taps` element o of each other row of `group` where `_own_vectors` has its
        vector's."""
        elements = [own.word_select(i, 8) for i in range(len(own) // 8)]
        for t in range(1, TAPS):
            elements[o ^ t] = Mux(taps, group[t].word_select(o, 8), elements[o ^ t])
        return Cat(*elements)

    @staticmethod
    def _with_diagonal(o: int, own: Value, chosen: Value, alone: Value) -> Value:
        """The weights `own` of row `o`, element o taken from `chosen` with `alone`."""
        elements = [own.word_select(i, 8) for i in range(len(own) // 8)]
        elements[o] = Mux(alone, chosen.word_select(o, 8), elements[o])
        return Cat(*elements)
