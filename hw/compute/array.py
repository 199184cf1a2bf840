"""The matrix array: batch x columns dot products of block_in int8 pairs (GEMM), or one or a few products
for each lane.
"""

from __future__ import annotations

from functools import partial

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vdla.isa.array_modes import SWEEP_MODE, TAPS, modes_of
from vdla.isa.array_shape import ArrayShape
from vdla.isa.config import Config

from ..copies import copies
from ..shared_modules import place
from .columns import ROW, Row, differences, sum_bits, tree_levels


def array_latency(config: Config) -> int:
    """Cycles from operands to sums: 1 for the operand registers, 1 for the selected operands, `multiplier_stages` for
    the products, and 1 for each level of the adder tree.
    """
    return 2 + config.multiplier_stages + tree_levels(config)


def _choice(index: Value, choices: list[Value]) -> Value:
    """A multiplexer: `choices[index]`. There are at most as many choices as values of `index`."""
    # A shift of all choices would be simpler, but Amaranth would process every bit of them for each bit of a row.
    for bit in index:
        if len(choices) > 1:
            pairs = zip(choices[::2], choices[1::2], strict=True)
            choices = [Mux(bit, higher, lower) for lower, higher in pairs]
    return choices[0]


def _group_name(t: int, k: int, each: int) -> str:
    return f"group_{t}" if each == 1 else f"group_{t}_{k}"


def _chosen_name(k: int) -> str:
    return f"chosen_{k}" if k else "chosen"


class MultiplyArray(wiring.Component):
    """The multipliers and adder trees of the matrix array. Operands of cycle t give `sums` in cycle t +
    `array_latency`; new operands may come in each cycle. Multiplier (o, i) is number i of array row o; each batch row
    has its own set of multipliers.

    GEMM: array row o computes the dot product of the input vector and row o of the weight tile.

    DEPTHWISE: lane j multiplies element j of the input vector by element j of row `row` of the tile. It uses multiplier
    (j, j), which gets its weight from row `row`; masks exclude all other products from the adder tree.

    TAPS: lane j does the same for TAPS neighbouring positions (pixels) and TAPS rows of weights, and adds the products.
    Multiplier (j, j xor t) multiplies position t by weight row t, so that few lanes share a multiplier's operands. For
    this, TAPS - 1 of the vector elements of an array row need a multiplexer.

    If block_out > block_in, lane j of DEPTHWISE and TAPS multiplies element j mod block_in of input vector j div
    block_in of a position. If block_out < block_in, it multiplies element j of the part of the input vector that the
    low bits of `row` select. In both cases multiplier (j, (j mod block_in) xor t) multiplies position t, and position 0
    needs a multiplexer, too.

    Sweep: a TAPS operation also multiplies the positions of the `swept` - 1 TAPS operations before it. Registers of
    each lane hold the elements of the earlier operations. Multiplier (j, j xor (TAPS x a + t)) multiplies position t of
    the operation that came a operations before the current one.

    With the extension `fold` (isa/README.md), the multipliers of an array row form groups of neighbours; each group has
    a sum of its own. For GEMM a multiplexer selects the part of the input vector that all groups multiply. DEPTHWISE
    and TAPS use the largest number of groups: group k of array row o computes lane o + k * `columns`.

    Members
    -------
    vector, tile, depthwise, row : In
        The operands, first element lowest. `vector`: an input vector ([batch][block_in] int8). `tile`: a weight tile
        ([columns][block_in] int8). `depthwise`: the operation is DEPTHWISE; then `row` is the index of its row of
        weights in the tile. The operands may come directly from memories. With the extension `taps`, `vector` has TAPS
        positions, one from each bank; bank number `first` has the first position, the banks after it (bank 0 after the
        last) have the others in order.
    taps, first, part : In
        With the extension `taps`. `taps`: the operation is TAPS (then `depthwise` is 1, too, and `row` is the first row
        of its group). `first`: the bank of the first position. `part`: the index, within the first position, of the
        input vector that GEMM uses.
    sweep : In
        With the extension `sweep`: the operation belongs to a sweep (then `taps` and `depthwise` are 1, too).
    shape, tile_part : In
        With the extension `fold`, for GEMM. `shape`: log2 of the number of groups in an array row. `tile_part`: the
        index of this weight tile among the `tile_parts` tiles that together have the weights [block_out][block_in].
    inp_zero, wgt_zero : In
        With the extension `zero_points`: int8 numbers that are subtracted from each element of the vector and of the
        tile.
    sums : Out
        Signed numbers of `sum_bits` bits each. Number b * block_out + o is the dot product of vector[b] and tile[o], or
        the sum of lane o in DEPTHWISE and TAPS. With `fold`, a GEMM puts the sum of group k mod 2^shape of array row c
        in lane k * columns + c.
    """

    # Members are plain bits, not layouts: Amaranth names each element of a layout's registers, thousands for a tile.

    def __init__(self, *, config: Config) -> None:
        self.config = config
        self.built = built = ArrayShape.of(config)
        self.several, self.sweeps = built.positions > 1, SWEEP_MODE in modes_of(config)
        self.inputs = config.position_inputs if self.several else 1
        self.outputs = config.position_outputs if self.several else 1
        self.fold_levels = built.fold_levels
        super().__init__(
            {
                "vector": In(8 * config.inp_bytes * self.inputs * built.positions),
                **({"taps": In(1), "first": In(range(TAPS))} if self.several else {}),
                **({"part": In(range(self.inputs))} if self.inputs > 1 else {}),
                **({"sweep": In(1)} if self.sweeps else {}),
                **({"shape": In(range(self.fold_levels + 1))} if self.fold_levels else {}),
                **({"tile_part": In(range(config.tile_parts))} if self.fold_levels else {}),
                "tile": In(8 * config.wgt_bytes),
                "depthwise": In(1),
                "row": In(max(1, (config.tile_rows - 1).bit_length())),
                **({"inp_zero": In(8), "wgt_zero": In(8)} if built.zero_points else {}),
                "sums": Out(config.batch * config.block_out * sum_bits(config)),
            }
        )

    @property
    def tap_bits(self) -> int:
        """Number of low bits of `row`, the index of a row of weights. These bits select one of the rows that belong to
        an input position (pixel); the higher bits select the position.
        """
        return (self.inputs * self.outputs).bit_length() - 1

    @property
    def alike(self) -> bool:
        """Whether input and output vectors have the same number of elements."""
        return self.config.block_in == self.config.block_out

    def elaborate(self, platform: object) -> Module:
        """Builds the registers after the memories, the operand selection, and a `columns.Row` for each tile row."""
        m = Module()
        config = self.config
        # Data registers need no reset: the pipeline beside the array has their valid bits.
        read_vector, tile = (
            Signal.like(signal, name=name, reset_less=True)
            for signal, name in ((self.vector, "read_vector"), (self.tile, "tile"))
        )
        vector = Signal(self.built.factor_bits * config.inp_bytes, reset_less=True)
        inp_zero: Value | None = None
        zeros: dict[str, Value] = {}
        if self.built.zero_points:
            inp_zero, wgt_zero = Signal(8, reset_less=True), Signal(8, name="wgt_zero", reset_less=True)
            m.d.sync += [inp_zero.eq(self.inp_zero), wgt_zero.eq(self.wgt_zero)]
            zeros["zero"] = wgt_zero
        vectors = self._in_order(m, read_vector) if self.several else [read_vector]
        vectors = [differences(item, inp_zero) for item in vectors]
        own_vector: Value = vectors[0]
        if self.inputs > 1:
            part = Signal.like(self.part)
            m.d.sync += part.eq(self.part)
            own_vector = vectors[0].word_select(part, len(vector))
        if self.fold_levels:
            own_vector = self._folded(m, own_vector)
        m.d.sync += [
            read_vector.eq(self.vector),
            vector.eq(own_vector),
            tile.eq(self.tile),
        ]
        rows = [tile.word_select(o, 8 * config.block_in) for o in range(config.columns)]
        masks: list[Value] = []  # delayed as DEPTHWISE passes the product registers, one copy for every row
        row: Value = Const(0)
        if self.built.by_lane:
            alone = Signal(
                1 + config.multiplier_stages
            )  # DEPTHWISE, delayed with the operand and product registers
            row = Signal.like(self.row)
            m.d.sync += [alone.eq((alone << 1) | self.depthwise), row.eq(self.row)]
            masks = copies(m, alone[-1], config.columns, "alone")
            # For each position of a group of rows, its rows, selected by the group's number in `row`.
            groups: list[list[Value]] = []
            low = self.tap_bits
            if self.several:
                each, every = self.inputs, self.inputs * TAPS
                groups = [
                    [Signal(8 * config.block_in, name=_group_name(t, k, each)) for k in range(each)]
                    for t in range(TAPS)
                ]
                chosen_group = row[low + TAPS.bit_length() - 1 :]
                for t, items in enumerate(groups):
                    for k, item in enumerate(items):
                        m.d.comb += item.eq(_choice(chosen_group, rows[t * each + k :: every]))
                alone_rows = [[items[k] for items in groups] for k in range(each)]
            else:
                alone_rows = [rows]
            chosen = [Signal(8 * config.block_in, name=_chosen_name(k)) for k in range(len(alone_rows))]
            m.d.comb += [item.eq(_choice(row[low:], of)) for item, of in zip(chosen, alone_rows, strict=True)]
            own_rows = rows
            rows = [self._with_diagonal(o, own, chosen, alone[0], row) for o, own in enumerate(own_rows)]
            if self.several:
                taps, single = Signal(), Signal(1 + config.multiplier_stages)
                m.d.sync += [taps.eq(self.taps), single.eq((single << 1) | (self.depthwise & ~self.taps))]
                singles = copies(m, single[-1], config.columns, "single")
                rows = [self._with_taps(o, own, groups, taps, row) for o, own in enumerate(rows)]
            if self.sweeps:
                sweep, unswept = Signal(), Signal(1 + config.multiplier_stages)
                m.d.sync += [
                    sweep.eq(self.sweep),
                    unswept.eq((unswept << 1) | (self.depthwise & ~self.sweep)),
                ]
                pairs = copies(m, unswept[-1], config.columns, "unswept")
                rows = [self._with_sweep(o, own, tile, sweep, row) for o, own in enumerate(rows)]
        aparts = self._aparts(m)
        for o, weights in enumerate(rows):
            inputs: dict[str, Value] = {"vectors": vector, "weights": weights, **zeros}
            distances = [i ^ self._lane_at(o, i) % config.block_in for i in range(config.block_in)]
            if self.built.by_lane:
                inputs["masks"] = Cat(masks[o] if t else Const(0) for t in distances)
            if self.several:
                own_modes = (taps, alone[0], sweep if self.sweeps else Const(0))
                inputs["vectors"] = self._own_vectors(m, o, vector, own_vector, vectors, own_modes, row)
                passed = {t: singles[o] if t else Const(0) for t in range(TAPS)}
                if self.sweeps:
                    passed |= dict.fromkeys(range(TAPS, TAPS * SWEEP_MODE.operations(config)), pairs[o])
                inputs["masks"] = Cat(passed.get(t, masks[o]) for t in distances)
            if self.fold_levels:
                inputs["apart"] = Cat(apart[o] for apart in aparts)
            made = place(m, platform, f"row_{o}", ROW, partial(Row, config=config), **inputs)
            for b in range(config.batch):
                for k, lane in enumerate(self._lanes(o)):
                    total = self.sums.word_select(b * config.block_out + lane, sum_bits(config))
                    own = made.sums.word_select(b * config.tile_parts + k, sum_bits(config))
                    m.d.comb += total.eq(own)
        return m

    def _lanes(self, o: int) -> range:
        """The lanes of array row `o` in DEPTHWISE and TAPS: one lane or, with the extension `fold`, one for each group
        of the row's multipliers.
        """
        return range(o, self.config.block_out, self.config.columns)

    def _lane_at(self, o: int, i: int) -> int:
        """The lane to which multiplier `i` of array row `o` belongs in DEPTHWISE and TAPS."""
        return self._lanes(o)[i // self.config.columns] if self.fold_levels else o

    def _folded(self, m: Module, vector: Value) -> Value:
        """Arranges the input of the array's rows with the extension `fold`. For a GEMM, the multipliers of a row form
        groups, and each group gets the part of `vector` ([batch][block_in]) that it multiplies. For other operations,
        the rows get `vector` unchanged. Returns the result for all rows, of the same shape as `vector`.
        """
        config, levels = self.config, self.fold_levels
        width = self.built.factor_bits * config.columns
        sources: list[Signal] = []
        for k in range(config.tile_parts):
            # Number of the part: its low bits number the parts of a group, its high bits the group's part of the
            # vector.
            source = Signal(levels, name=f"source_{k}", reset_less=True)
            wanted: Value = Const(k, levels)
            for shape in range(1, levels + 1):
                low = Const(k, levels)[: levels - shape]
                wanted = Mux(self.shape >= shape, Cat(low, self.tile_part[:shape]), wanted)
            m.d.sync += source.eq(Mux(self.depthwise, k, wanted))
            sources.append(source)
        return Cat(
            _choice(
                source, [vector.word_select(b * config.tile_parts + k, width) for k in range(len(sources))]
            )
            for b in range(config.batch)
            for source in sources
        )

    def _aparts(self, m: Module) -> list[list[Value]]:
        """Computes the bits that keep sums of groups of multipliers separate (extension `fold`). Returns a list for
        each of the last `fold_levels` levels of the adder tree, in their order, with a bit for each array row. The bit
        is 1 if the sums of the groups are complete before this level and must not be added to each other. DEPTHWISE and
        TAPS use the largest number of groups. Without `fold` the result is empty.
        """
        config, levels, found = self.config, self.fold_levels, []
        for level in range(levels):
            cycles = config.multiplier_stages + tree_levels(config) - levels + level
            passing = Signal(1 + cycles, name=f"apart_{level}")
            m.d.sync += passing.eq((passing << 1) | self.depthwise | (self.shape >= levels - level))
            found.append(copies(m, passing[-1], config.columns, f"apart_{level}"))
        return found

    def _in_order(self, m: Module, read: Value) -> list[Value]:
        """Rotates `read`, the input vectors from all banks in the order of the banks, and returns TAPS vectors in the
        order of their positions (pixels). The vector of the first position is in the bank whose number is the input
        `first`.
        """
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

    def _own_vectors(
        self,
        m: Module,
        o: int,
        vector: Signal,
        own_vector: Value,
        vectors: list[Value],
        modes: tuple[Value, Value, Value],
        row: Value,
    ) -> Value:
        """Selects the input elements of the multipliers in array row `o`; returns them, [batch][block_in] as in
        `vector`.

        In a GEMM, the multipliers get the elements of `vector`, which is the registered value of `own_vector`. In
        DEPTHWISE and TAPS, some multipliers get an element of one of the input positions (pixels) `vectors` instead. In
        a sweep, a TAPS operation also multiplies the positions of earlier operations: further multipliers get elements
        of these positions.

        `modes`: three signals, which are 1 for TAPS, for DEPTHWISE and TAPS, and for a sweep. `row`: index of the
        operation's row of weights; it selects the part of an input vector to multiply if the vector has more elements
        than there are lanes.
        """
        config, bits = self.config, self.built.factor_bits
        parts: list[Value] = []
        for b in range(config.batch):
            start = b * config.block_in
            held = {
                lane: self._held(
                    m, lane, b, [self._lane_of(item, lane, b, bits, row) for item in vectors], modes[2]
                )
                for lane in self._lanes(o)
            }
            for i in range(config.block_in):
                lane = self._lane_at(o, i)
                t = i ^ lane % config.block_in
                if TAPS <= t < TAPS * (1 + len(held[lane])):
                    own = Signal(bits, name=f"own_{lane}_{b}_{t}", reset_less=True)
                    there = held[lane][t // TAPS - 1][t % TAPS]
                    m.d.sync += own.eq(Mux(modes[2], there, own_vector.word_select(start + i, bits)))
                    parts.append(own)
                    continue
                if t >= TAPS or (t == 0 and self.alike):
                    parts.append(vector.word_select(start + i, bits))
                    continue
                own = Signal(bits, name=f"own_{lane}_{b}_{t}", reset_less=True)
                there = self._lane_of(vectors[t], lane, b, bits, row)
                m.d.sync += own.eq(Mux(modes[t == 0], there, own_vector.word_select(start + i, bits)))
                parts.append(own)
        return Cat(*parts)

    def _held(self, m: Module, o: int, b: int, newest: list[Value], sweep: Value) -> list[list[Signal]]:
        """Builds the registers of lane `o` that keep input elements of earlier operations for a sweep (TAPS operations
        that also multiply the input positions of the operations before them). `b`: number of the batch item. `newest`:
        the lane's elements of the current operation, one for each position. Returns one such list of registers for each
        earlier operation, the latest one first (none without the extension `sweep`). Their contents move on by one
        operation in each cycle in which `sweep` is 1.
        """
        held: list[list[Signal]] = []
        if not self.sweeps:
            return held
        for age in range(1, SWEEP_MODE.operations(self.config)):
            items = [Signal(len(item), name=f"held_{o}_{b}_{age}_{t}") for t, item in enumerate(newest)]
            with m.If(sweep):
                m.d.sync += [item.eq(before) for item, before in zip(items, newest, strict=True)]
            held.append(items)
            newest = list(items)
        return held

    def _with_sweep(self, o: int, own: Value, tile: Value, sweep: Value, row: Value) -> Value:
        """Selects the weights of array row `o`: returns `own`, the weights for other operations, with some of them
        replaced while `sweep` is 1. In a sweep, a TAPS operation also multiplies the input positions (pixels) of
        earlier operations.

        In a sweep, the multipliers of a lane take one weight for each of these positions. The weights come from a group
        of weight rows in `tile`, one weight row for each position; the high bits of the input `row` select the group.
        """
        config = self.config
        elements = [own.word_select(i, 8) for i in range(len(own) // 8)]
        narrow, group = min(config.block_in, config.block_out), SWEEP_MODE.group(config)
        count = TAPS * SWEEP_MODE.operations(config)
        for lane in self._lanes(o):
            for u in range(count):
                # The first multipliers have the newest positions, which the last weights of a group multiply.
                place = (count - TAPS * (u // TAPS + 1) + u % TAPS) * self.inputs + lane // narrow
                starts = range(place, config.tile_rows, group)
                weights: list[Value] = [
                    tile.word_select(start * narrow + lane % narrow, 8) for start in starts
                ]
                chosen = _choice(row[group.bit_length() - 1 :], weights)
                i = lane % config.block_in ^ u
                elements[i] = Mux(sweep, chosen, elements[i])
        return Cat(*elements)

    def _with_taps(self, o: int, own: Value, groups: list[list[Value]], taps: Value, row: Value) -> Value:
        """Selects the weights of array row `o`: returns `own`, the weights for other operations, with some of them
        replaced while `taps` is 1 (mode TAPS). In this mode each lane also has a multiplier for each input position
        (pixel) t > 0. The multiplier gets the lane's weight from `groups[t]`, the rows of weights for position t.
        `row`: the input `row`, as `_weight_of` uses it.
        """
        elements = [own.word_select(i, 8) for i in range(len(own) // 8)]
        for lane in self._lanes(o):
            element = lane % self.config.block_in
            for t in range(1, TAPS):
                weight = self._weight_of(groups[t], lane, row)
                elements[element ^ t] = Mux(taps, weight, elements[element ^ t])
        return Cat(*elements)

    def _with_diagonal(self, o: int, own: Value, chosen: list[Signal], alone: Value, row: Value) -> Value:
        """Selects the weights of array row `o`: returns `own`, the weights for a GEMM, with some of them replaced while
        `alone` is 1 (modes DEPTHWISE and TAPS).

        In these modes, a lane multiplies only one element of the first input position (pixel), so it needs one weight.
        This weight is an element of `chosen`, the rows of weights for the position. It replaces the weight of the
        multiplier that gets the element. `row`: the input `row`, as `_weight_of` uses it.
        """
        elements = [own.word_select(i, 8) for i in range(len(own) // 8)]
        for lane in self._lanes(o):
            element = lane % self.config.block_in
            elements[element] = Mux(alone, self._weight_of(list(chosen), lane, row), elements[element])
        return Cat(*elements)

    def _weight_of(self, rows: list[Value], o: int, row: Value) -> Value:
        """Selects the weight, 8 bits, by which lane `o` multiplies one input position (pixel). `rows`: the rows of
        weights for this position, one for each of its input vectors. `row`: the input `row` of the array. If a position
        has more elements than there are lanes, the low `tap_bits` bits of `row` select the part to multiply; else `row`
        has no effect.
        """
        config = self.config
        if self.outputs == 1:
            return rows[o // config.block_in].word_select(o % config.block_in, 8)
        parts = [rows[0].word_select(q * config.block_out + o, 8) for q in range(self.outputs)]
        return _choice(row[: self.tap_bits], parts)

    def _lane_of(self, position: Value, o: int, b: int, bits: int, row: Value) -> Value:
        """Selects the element of a position (pixel) that lane `o` multiplies, for batch item `b`. `position`: the input
        vectors of the pixel. `bits`: width of an element. `row`: the input `row` of the array; its low `tap_bits` bits
        select the part of an input vector to multiply if the vector has more elements than there are lanes.
        """
        config = self.config
        if self.outputs == 1:
            k, element = divmod(o, config.block_in)
            return position.word_select((k * config.batch + b) * config.block_in + element, bits)
        start = b * config.block_in + o
        parts = [position.word_select(start + q * config.block_out, bits) for q in range(self.outputs)]
        return _choice(row[: self.tap_bits], parts)
