"""The STORE.POST pipeline: window reduction and bias in every lane, then stage A (requantization to int8) and stage B
(rescale, add or multiply) of `vdla.isa.arithmetic`.

Stages A and B are large, so a configuration may have fewer of them than lanes: a vector then goes through them in
passes.
"""

from __future__ import annotations

from functools import partial

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Member, Out

from vdla.isa.config import Config
from vdla.isa.rows import DIFFERENCE_BITS, FACTOR_BITS, PLANES, SHIFT_BITS, VALUE_BITS
from vdla.isa.store_stages import TABLE_BYTES, StoreParts, cycles_before, stage_cycles
from vdla.isa.timing import post_latency

from ..copies import KINDS
from ..layouts import register_layout, view
from ..shared_modules import place
from . import requantize, row_lanes
from .combine import COMBINE_STAGES
from .constants import Constants
from .lanes import REDUCTION, STAGE_B, Reduction, StageB
from .pipeline import register
from .requantize import REQUANTIZE_STAGES, SCALE_STAGE, Requantize
from .rows import row_flags

SETTINGS = ("REQUANTIZE", "RATIO", "COMBINE")
"""Names of the configuration registers that the pipeline reads."""

_REDUCED = 3  # capture, reduction, bias


def _before(config: Config) -> int:
    """Cycles from a vector's last accumulator read to the addition of its bias in the first pass; stage A
    (requantization) begins in the next cycle.
    """
    return cycles_before(config, "requantize") - 1


def _in_parts(config: Config) -> bool:
    """Whether a vector [batch][block_out] needs so many passes through the arithmetic that a pass has only some of the
    block_out elements of one batch item.
    """
    return config.post_passes > config.batch


def flags_layout(config: Config) -> data.StructLayout:
    """Layout of the flags of STORE.POST and of the flag `sum` of register WINDOW (1: sum, 0: maximum). The flag `table`
    exists only on machines with look-up tables.
    """
    names = ("combine", "operand", "multiply", "swap", "unsigned", "sum")
    return data.StructLayout(dict.fromkeys((*names, *(("table",) if StoreParts.of(config).table else ())), 1))


def scales_after_biases(config: Config) -> int:
    """Cycles from a vector's biases to its scales: the number of cycles from the addition of the bias to the
    multiplication by the scale in stage A (requantization).

    It is one cycle less if a pass is a part of a row, because the selection of parts takes a cycle.
    """
    # With the extension `rows` the biases are selected by part, too.
    return SCALE_STAGE + 1 - (_in_parts(config) and not StoreParts.of(config).rows)


def biases_after_reads(config: Config) -> int:
    """Number of cycles from the arrival of a vector's last accumulator (two cycles after its read) to the cycle in
    which the vector's biases are needed. Above 0 only with the extension `rows`.
    """
    return stage_cycles(config, "rows") - _in_parts(config) if StoreParts.of(config).rows else 0


_TO_LANES = ("subtrahend", "offset", "factor", "shift")


def row_members(lanes: int, config: Config) -> dict[str, Member]:
    """Additional ports, by name, of the pipeline with the extension `rows`: most connect to `Rows`; the others write
    the look-up table that instruction ROWS reads.
    """
    return {
        "row_flags": In(row_flags()),
        "setting_of_rows": In(64),
        "pass_valid": Out(1),
        "pass_first": Out(1),
        "pass_last": Out(1),
        "differences": Out(DIFFERENCE_BITS * lanes),
        "elements": Out(row_lanes.ELEMENT_BITS * lanes),
        "last_soon": In(1),
        "subtrahend": In(signed(DIFFERENCE_BITS)),
        "offset": In(signed(VALUE_BITS)),
        "factor": In(FACTOR_BITS),
        "shift": In(SHIFT_BITS),
        "row_write": In(PLANES),
        "row_at": In(range(TABLE_BYTES // config.memory.bus_bytes)),
        "row_data": In(8 * config.memory.bus_bytes),
    }


class PostPipeline(wiring.Component):
    """Makes an output vector from each window of accumulators: reduces the window to one accumulator, then converts it
    to int8. It takes at most one accumulator in a cycle. The conversion takes `post_passes` passes of one cycle each,
    each for a part of the vector, so the last reads of consecutive windows are at least `post_passes` cycles apart.

    Members:

    - `read`: 1 in a cycle r in which an accumulator is read from memory. `first`, `last`: the accumulator is the first
      or last one of its window. `data`: the accumulator, which arrives in cycle r + 2.
    - `operand`: a second input of the window's outputs, sampled with its first read if the flag `operand` is set.
    - `biases`: the biases of a window, valid `biases_after_reads` cycles after the data of its last read. `scales`: the
      scales, valid `scales_after_biases` cycles after the biases. Both stay stable during all passes of the window.
    - `flags`, and the registers in SETTINGS by lower-case name: do not change before all vectors have left.
    - `put`: 1 if `vector` is an output vector, post_latency - 1 cycles after the window's last read (the writer adds
      one).
    - `requantized`, `looked_up`: exist only with look-up tables. `requantized` gives the results of stage A
      (requantization). `looked_up` takes the table entries for these results TABLE_CYCLES later; the entries enter
      stage B (add, multiply or rescale).
    """

    def __init__(self, *, config: Config) -> None:
        """`config` determines the number of lanes (elements of a vector, [batch][block_out]) and the number of passes
        in which a vector goes through the lanes.
        """
        self._config, self._parts = config, StoreParts.of(config)
        self._passes = config.post_passes
        self._lanes = config.out_bytes // self._passes
        self._stage_a = _before(config) + 1
        self._stage_b = cycles_before(config, "combine")
        self._latency = self._stage_b + COMBINE_STAGES
        after_a = self._stage_a + REQUANTIZE_STAGES + stage_cycles(config, "table")
        if after_a != self._stage_b or post_latency(config) != self._latency + self._passes:
            raise ValueError(f"no post-processing pipeline with {post_latency(config)} stages is implemented")
        super().__init__(
            {
                "read": In(1),
                "first": In(1),
                "last": In(1),
                "data": In(8 * config.acc_bytes),
                "operand": In(8 * config.out_bytes),
                "biases": In(4 * config.par_bytes),
                "scales": In(4 * config.par_bytes),
                "flags": In(flags_layout(config)),
                **{name.lower(): In(64) for name in SETTINGS},
                "put": Out(1),
                "vector": Out(8 * config.out_bytes),
                **(row_members(self._lanes, config) if self._parts.rows else {}),
                **(
                    {"requantized": Out(8 * self._lanes), "looked_up": In(8 * self._lanes)}
                    if self._parts.table
                    else {}
                ),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Builds the lanes in parallel, and a ring buffer that holds operands until stage B (the operation after
        requantization).
        """
        m = Module()
        config, flags = self._config, self.flags
        # `read` arrives late in its cycle, so no other logic follows it there.
        read_2, first_2, last_1, later = (
            Signal(2),
            Signal(2),
            Signal(),
            Signal(self._latency + self._passes - 2),
        )
        valid = Cat(read_2[0] & last_1, later)  # bit k: a window's last read was k + 1 cycles ago
        m.d.sync += [
            later.eq(valid),
            last_1.eq(self.last),
            read_2.eq(Cat(self.read, read_2)),
            first_2.eq(Cat(self.first, first_2)),
        ]
        # The outputs of the parameter memories arrive late in the cycle.
        biases, scales = register(m, self.biases, "biases_late"), register(m, self.scales, "scales_late")
        m.d.comb += self.put.eq(valid[-1])

        first = view(register_layout("REQUANTIZE"), self.requantize)
        ratio = view(register_layout("RATIO"), self.ratio)
        last = view(register_layout("COMBINE"), self.combine)
        m.submodules.constants = constants = Constants()
        multiply = Signal()
        m.d.comb += [
            multiply.eq(flags.multiply | ~flags.operand),
            constants.ratio_self.eq(ratio["ratio_self"]),
            constants.ratio_operand.eq(ratio["ratio_operand"]),
            constants.offset.eq(last["offset"]),
            constants.zero_point.eq(last["zero_point"]),
            constants.multiply.eq(multiply),
            constants.operand_used.eq(flags.operand),
            constants.swap.eq(flags.swap),
            constants.unsigned.eq(flags.unsigned),
        ]
        operand = self._operands(m, read_2[0] & first_2[0], valid[self._stage_b - 2])
        operands = [operand.word_select(lane, 8) for lane in range(config.out_bytes)]
        operands = self._in_passes(m, operands, valid[self._stage_b - 2], "operand")
        scales = self._scales(m, scales, valid[self._stage_a + SCALE_STAGE - 3], "scales")
        of_reductions: Value = biases
        if self._parts.rows:
            of_reductions = Const(0, len(biases))
            biases = self._scales(m, biases, valid[_before(config) - 3], "biases")

        totals: list[Value] = []
        for lane in range(config.out_bytes):
            reduction = place(
                m,
                platform,
                f"reduction_{lane}",
                REDUCTION,
                Reduction,
                value=self.data.word_select(lane, 32),
                take=read_2[-1],
                first=first_2[-1],
                sum=flags.sum,
                bias=of_reductions.word_select(lane % config.block_out, 32),
            )
            totals.append(reduction.total)
        totals = self._in_passes(m, totals, valid[_REDUCED - 1], "total")
        if self._parts.rows:
            totals = self._rows(m, platform, totals, biases, valid)

        settings: dict[str, Value] = {
            "combine": flags.combine,
            "multiply": multiply,
            "operand_used": flags.operand,
            "swap": flags.swap,
            "unsigned": flags.unsigned,
            "zero_point": self._own_zero_point(first),
            "operand_zero_point": first["operand_zero_point"],
            "low": last["low"],
            "high": last["high"],
            "constants": constants.constants,
        }
        results: list[Value] = []
        requantized: list[Value] = []
        for lane in range(self._lanes):
            kind = lane % KINDS
            stage_a = place(
                m,
                platform,
                f"requantize_{lane}",
                requantize.LANE,
                Requantize,
                total=totals[lane],
                scale=scales.word_select(lane % config.block_out, 32),
                **{name: first[name] for name in ("zero_point", "low", "high")},
            )
            requantized.append(stage_a.result)
            stage_b = place(
                m,
                platform,
                f"stage_b_{lane}",
                f"{STAGE_B}_{kind}",
                partial(StageB, number=kind),
                value=self.looked_up.word_select(lane, 8) if self._parts.table else stage_a.result,
                operand=operands[lane],
                **settings,
            )
            results.append(stage_b.result)
        if self._parts.table:
            m.d.comb += self.requantized.eq(Cat(*requantized))
        passes = [Cat(*results)]  # results of the last pass, then of earlier passes
        for number in range(self._passes - 1):
            passes.append(register(m, passes[-1], f"results_{number}"))
        m.d.comb += self.vector.eq(Cat(*reversed(passes)))
        return m

    def _rows(
        self, m: Module, platform: object, values: list[Signal], biases: Value, valid: Value
    ) -> list[Signal]:
        """Adds a row lane (`row_lanes.RowLane`) for each of `values`, the reduced windows of accumulators, and adds
        `biases` to the lanes' results. Returns the sums, which are the inputs of stage A (requantization). In stores
        with the flag `shares` the row lanes scale the values by their row's factor; in other stores the values pass
        unchanged.

        `valid`: bit k is 1 if the last read of a window was k + 1 cycles ago.
        """
        setting = view(register_layout("ROWS"), self.setting_of_rows)
        passes = valid[_REDUCED : _REDUCED + self._passes]
        m.d.comb += [
            self.pass_valid.eq(passes.any()),
            self.pass_first.eq(passes[0]),
            self.pass_last.eq(passes[-1]),
        ]
        spare = self._spare_lanes(m, setting["lanes"], valid)
        differences: list[Value] = []
        elements: list[Value] = []
        totals: list[Signal] = []
        for lane, value in enumerate(values):
            made = place(
                m,
                platform,
                f"row_{lane}",
                row_lanes.LANE,
                partial(row_lanes.RowLane, config=self._config),
                value=value,
                off=spare[lane],
                maximum=self.row_flags.maximum,
                look_up=setting["look_up"],
                squares=self.row_flags.counts,
                length=setting["length"],
                shares=self.row_flags.shares,
                **{name: getattr(self, name) for name in _TO_LANES},
                write=self.row_write,
                at=self.row_at,
                data=self.row_data,
            )
            differences.append(made.difference)
            elements.append(made.element)
            total = Signal(signed(32), name=f"row_total_{lane}", reset_less=True)
            m.d.sync += total.eq(made.result + biases.word_select(lane, 32))
            totals.append(total)
        m.d.comb += [self.differences.eq(Cat(*differences)), self.elements.eq(Cat(*elements))]
        return totals

    def _spare_lanes(self, m: Module, elements: Value, valid: Value) -> list[Signal]:
        """For each lane of a pass, a signal that is 1 if the lane has no element of the row. In a row's last vector
        these are the lanes of the elements with index `elements` (field `lanes` of register ROWS) and above, or none if
        the field is 0. Bit k of `valid`: a window's last read was k + 1 cycles ago.
        """
        beyond = register(
            m,
            Cat(*((elements != 0) & (elements <= lane) for lane in range(self._config.block_out))),
            "lanes_beyond",
        )
        # One cycle before the pass enters the lanes.
        soon = valid[_REDUCED - 1 : _REDUCED - 1 + self._passes] & self.last_soon.replicate(self._passes)
        return [
            register(
                m,
                Cat(*(soon[part] & beyond[part * self._lanes + lane] for part in range(self._passes))).any(),
                f"lane_off_{lane}",
            )
            for lane in range(self._lanes)
        ]

    def _own_zero_point(self, first: data.View) -> Value:
        """The zero point of the values that enter stage B (the operation after requantization): with a look-up table,
        that of its entries. `first`: the fields of register REQUANTIZE.
        """
        if not self._parts.table:
            return first["zero_point"]
        return Mux(self.flags.table, first["table_zero_point"], first["zero_point"])

    def _in_passes(self, m: Module, values: list[Value], load: Value, name: str) -> list[Signal]:
        """Builds shift registers that give the lanes the elements of `values` pass by pass, one pass in each cycle.
        `load` loads `values`; the elements of the first pass are valid one cycle later. Returns the registers of the
        lanes.
        """
        late: list[Signal] = []
        for lane in reversed(range(len(values))):
            value, shape = values[lane], values[lane].shape()
            if lane + self._lanes < len(values):
                value = Signal(shape, name=f"{name}_next_{lane}")
                m.d.comb += value.eq(Mux(load, values[lane], late[-self._lanes]))
            late.append(register(m, value, f"{name}_{lane}"))
        return late[: -self._lanes - 1 : -1]

    def _scales(self, m: Module, scales: Value, load: Value, name: str) -> Value:
        """Selects, from `scales` (or biases) of a whole vector, those that the lanes need in the current pass. `load`:
        the first pass of a vector comes two cycles later; the other passes follow in consecutive cycles.

        If passes are whole rows of [batch][block_out], all passes use the same scales.
        """
        parts = self._config.block_out // self._lanes
        if parts <= 1:
            return scales
        part = Signal(range(self._passes), name=f"{name}_part")
        # The part number stays at the last one: changing scales would keep the multipliers switching.
        m.d.sync += part.eq(Mux(load, 0, Mux(part == self._passes - 1, part, part + 1)))
        here = part[: (parts - 1).bit_length()]
        return register(m, scales.word_select(here, 32 * self._lanes), name)

    def _operands(self, m: Module, first_read: Value, used: Value) -> Signal:
        """Builds a ring buffer for operands: an operand enters in the cycle after the first read of its window, and
        leaves when stage B (the operation after requantization) uses it. Returns the oldest operand in the buffer.

        `first_read`: the first read of a window happened in the previous cycle. `used`: stage B uses the oldest operand
        in this cycle.
        """
        # At most one operand is between the first and the last read of its window; after its last read, operands are
        # as far apart as vectors.
        depth = 1 << (self._stage_b // self._passes + 1).bit_length()
        m.submodules.operands = ring = memory.Memory(shape=8 * self._config.out_bytes, depth=depth, init=[])
        write, read = ring.write_port(), ring.read_port(domain="comb")
        newest, oldest = (Signal(range(depth), name=name) for name in ("newest", "oldest"))
        late = register(m, self.operand, "operand_late")
        taken = first_read & self.flags.operand
        m.d.comb += [
            write.addr.eq(newest),
            write.data.eq(late),
            write.en.eq(taken),
            read.addr.eq(oldest),
        ]
        m.d.sync += [newest.eq(newest + taken), oldest.eq(oldest + (used & self.flags.operand))]
        return read.data
