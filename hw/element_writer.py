"""The writer of rectangular loads: writes pads and data elements, one step a cycle (hw/README.md section 6).

A generator computes each step a cycle before it may happen, so that the decision whether it happens depends on few
registers. The write of a step comes two cycles after it.
"""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from vdla.isa.config import Config

from .read_fifo import word_layout
from .wide_walk import WideWalk


def job_layout(config: Config, kinds: int) -> data.StructLayout:
    """Layout of a job, which is one load. It has the size and pad fields of the load instruction. `kind`: index of the
    element size in the writer's `element_bytes`, which has `kinds` sizes. `offset`: position of the first row's first
    byte in its bus word. `pitch`: low bits of the distance in bytes from row to row; they give the position of each
    further row's first byte in its bus word. `one_run`: 1 if there are no gaps between rows.
    """
    shift = config.memory.bus_bytes.bit_length() - 1
    return data.StructLayout(
        {
            "kind": range(max(2, kinds)),
            "sram_base": 16,
            "y_size": 16,
            "x_size": 16,
            "y_pad_0": 4,
            "y_pad_1": 4,
            "x_pad_0": 4,
            "x_pad_1": 4,
            "offset": shift,
            "pitch": shift,
            "one_run": 1,
        }
    )


def step_width(config: Config, element_bytes: int) -> int:
    """Number of DRAM bytes that the writer takes from the FIFO in one step of an element of `element_bytes` bytes."""
    return min(element_bytes, config.memory.bus_bytes)


class Walk(wiring.Component):
    """A counter that goes through `before` pads, `size` data elements and `behind` pads, in this order; a phase without
    elements is skipped.

    Members: `start` loads the three numbers, of which at least one is not 0. `next` moves to the next element, and from
    the last one back to the first. `is_data`: the current element is data, not a pad. `phase_last`: the current element
    is the last of its phase. `ends`: the current element is the last of all. `next_is_data`: the element after the
    current one is data. `first_is_data`: the first element is data.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "start": In(1),
                "before": In(4),
                "size": In(16),
                "behind": In(4),
                "next": In(1),
                "is_data": Out(1),
                "next_is_data": Out(1),
                "first_is_data": Out(1),
                "phase_last": Out(1),
                "ends": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Builds a down counter of the elements left in the current phase. Registers hold the counts and properties of
        the current phase, of the two phases that may follow it, and of the first phase, with which the counter starts
        again.
        """
        m = Module()
        state = data.StructLayout(
            {"count": 16, "is_before": 1, "is_data": 1, "phase_last": 1, "final": 1, "ends": 1}
        )
        present, entry, data_phase, behind_phase = (
            Signal(state, name=name, reset_less=True)
            for name in ("present", "entry", "data_phase", "behind_phase")
        )
        has_data = Signal(reset_less=True)

        def phase(name: str, number: Value, final: Value) -> data.View:
            found = Signal(state, name=f"given_{name}")
            m.d.comb += [
                found.count.eq(number),
                found.is_before.eq(name == "before"),
                found.is_data.eq(name == "data"),
                found.phase_last.eq(number == 1),
                found.final.eq(final),
                found.ends.eq((number == 1) & final),
            ]
            return found

        no_data, no_behind = self.size == 0, self.behind == 0
        before = phase("before", self.before, no_data & no_behind)
        size, behind = phase("data", self.size, no_behind), phase("behind", self.behind, Const(1))
        first, successor = Signal(state), Signal(state)
        m.d.comb += [
            first.eq(Mux(self.before != 0, before, Mux(no_data, behind, size))),
            successor.eq(
                Mux(present.ends, entry, Mux(present.is_before & has_data, data_phase, behind_phase))
            ),
            self.first_is_data.eq(first.is_data),
            self.next_is_data.eq(Mux(present.phase_last, successor.is_data, present.is_data)),
        ]
        with m.If(self.start):
            m.d.sync += [
                present.eq(first),
                entry.eq(first),
                data_phase.eq(size),
                behind_phase.eq(behind),
                has_data.eq(~no_data),
            ]
        with m.Elif(self.next):
            m.d.sync += [
                present.count.eq(present.count - 1),
                present.phase_last.eq(present.count == 2),
                present.ends.eq((present.count == 2) & present.final),
            ]
            with m.If(present.phase_last):
                m.d.sync += present.eq(successor)
        m.d.comb += [getattr(self, name).eq(present[name]) for name in ("is_data", "phase_last", "ends")]
        return m


class ElementWriter(wiring.Component):
    """Executes loads one after the other: takes words from a FIFO and writes elements, and the pads around them, to a
    scratchpad. A step is the write of a pad, of an element, or of a part of an element; there is one step in a cycle.
    There is at least one cycle without a step between two loads (STEP_GAP).

    Inputs and outputs that control the steps:

    - `job`: the next load; if it is accepted in cycle j, its first step is in j + 3 or later. `words`: the FIFO.
    - `may`: the writer may do steps of its current load (registered).
    - `steps_last`: the last step of a load happens in this cycle.

    The other members describe a write, two cycles after its step (registered):

    - `write`: the write happens (0 for the only step of an empty load). `address`: index of the element in the
      scratchpad.
    - `pad`: the whole element gets the pad value. Otherwise part number `part` of it gets the low `step_width` bytes of
      `data`.
    - `last`: this is the last write of its load, which ends in the next cycle.
    - `kind`: kind of the load's elements, an index into `element_bytes`. `tag`: the `job_tag` that came with the load.
    - `count`: number of elements written, for elements of kind 0. A step of this kind writes several neighbours of a
      row at once, up to the next multiple of `together` elements.
    """

    def __init__(
        self, *, config: Config, element_bytes: tuple[int, ...], tag_bits: int = 0, together: int = 1
    ) -> None:
        """`element_bytes`: for each kind of element, its bytes in DRAM, a power of two. `tag_bits`: width of `job_tag`,
        a number that comes with a load and that the output `tag` repeats with every write of the load. `together`:
        largest number of elements of kind 0 that a step writes, a power of two.
        """
        if not element_bytes or any(size & (size - 1) for size in element_bytes):
            raise ValueError(f"element_bytes = {element_bytes}: must be powers of two")
        self._config, self._sizes, self._together = config, element_bytes, together
        self._parts = tuple(size // step_width(config, size) for size in element_bytes)
        super().__init__(
            {
                "job": In(stream.Signature(job_layout(config, len(element_bytes)))),
                "job_tag": In(tag_bits),
                "words": In(stream.Signature(word_layout(config))),
                "may": In(1, init=1),
                "steps_last": Out(1),
                "write": Out(1),
                "last": Out(1),
                "pad": Out(1),
                "kind": Out(range(max(2, len(element_bytes)))),
                "tag": Out(tag_bits),
                "address": Out(16),
                "part": Out(range(max(2, *self._parts))),
                **({"count": Out(range(together + 1))} if together > 1 else {}),
                "data": Out(8 * config.memory.bus_bytes),
            }
        )

    def _step_layout(self) -> data.StructLayout:
        """Layout of the fields of a step that are known before its bus word arrives."""
        return data.StructLayout(
            {
                "valid": 1,
                "empty": 1,
                "last": 1,
                "pad": 1,
                "needs_word": 1,
                "pops": 1,
                "kind": self.kind.shape(),
                "tag": self.tag.shape(),
                "address": 16,
                "part": self.part.shape(),
                **({"count": self.count.shape()} if self._together > 1 else {}),
                "offset": range(self._config.memory.bus_bytes),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Builds a pipeline of registers: the job, the generator of its steps, the next step, the bus word that this
        step uses, and the word's data, aligned to the element.

        It is known only late in a cycle whether the next step happens, too late to tell the generator. A spare register
        between generator and next step takes the generated step if the next one has to wait.
        """
        m = Module()
        layout = self._step_layout()
        generated, spare, step = (Signal(layout, name=name) for name in ("generated", "spare", "step"))
        taken = Signal(layout, reset_less=True)
        happens = Signal()
        m.d.comb += [
            happens.eq(step.valid & self.may & (~step.needs_word | self.words.valid)),
            self.words.ready.eq(step.valid & self.may & step.pops),
            self.steps_last.eq(happens & step.last),
        ]
        self._generate(m, ~spare.valid, generated)
        with m.If(happens | ~step.valid):
            m.d.sync += [step.eq(Mux(spare.valid, spare, generated)), spare.valid.eq(0)]
        with m.Elif(~spare.valid):
            m.d.sync += spare.valid.eq(generated.valid)
        with m.If(~spare.valid):
            m.d.sync += [spare[name].eq(generated[name]) for name in layout.members if name != "valid"]

        stepped, word = Signal(), Signal(8 * self._config.memory.bus_bytes, reset_less=True)
        m.d.sync += [stepped.eq(happens), taken.eq(step), word.eq(self.words.payload.data)]
        # Elements start at multiples of the smallest step width.
        low = (min(step_width(self._config, size) for size in self._sizes)).bit_length() - 1
        aligned = word >> Cat(Const(0, 3 + low), taken.offset[low:])
        written = Signal(layout, reset_less=True)
        shown = Signal(8 * self._config.memory.bus_bytes, reset_less=True)
        m.d.sync += [
            self.write.eq(stepped & ~taken.empty),
            self.last.eq(stepped & taken.last),
            written.eq(taken),
            shown.eq(aligned),
        ]
        m.d.comb += [
            *(getattr(self, name).eq(written[name]) for name in ("pad", "kind", "tag", "address", "part")),
            self.data.eq(shown),
        ]
        if self._together > 1:
            m.d.comb += self.count.eq(written["count"])
        return m

    def _by_kind(self, values: tuple[int, ...], kind: Value) -> Value:
        width = max(1, max(values).bit_length())
        choices = [Const(value, width) for value in values]
        return choices[0] if len(choices) == 1 else Array(choices)[kind]

    def _room(self, offset: Value, many: Value) -> Value:
        """Number of elements of kind 0 that a step may write, if it begins at byte `offset` of a bus word: the elements
        from there to the end of the aligned block of `together` elements, or 1 if `many` is 0.
        """
        low = self._sizes[0].bit_length() - 1
        inside = offset[low : low + self._together.bit_length() - 1]
        return Mux(many, self._together - inside, 1)

    def _generate(self, m: Module, goes: Value, step: data.View) -> None:
        """Builds the generator, which goes through the rows of a load and the elements of each row, and describes one
        step at a time. It drives `step`, the description of the current step. `goes`: input, moves on to the next step.
        """
        bus = self._config.memory.bus_bytes
        layout = job_layout(self._config, len(self._sizes))
        waiting, waits = Signal(layout, reset_less=True), Signal()
        waiting_tag = Signal.like(self.tag, reset_less=True)
        job, busy, empty = Signal(layout, reset_less=True), Signal(), Signal()
        tag = Signal.like(self.tag, reset_less=True)
        m.submodules.rows = rows = Walk()
        wide = self._together > 1
        m.submodules.columns = columns = WideWalk(most=self._together) if wide else Walk()
        part, address, part_is_last = Signal.like(self.part), Signal(16), Signal()
        row_offset, offset = Signal(range(bus)), Signal(range(bus))

        pad = Signal()  # the current element is a pad: registered, because most other signals depend on it
        last_part, run_ends, last = Signal(), Signal(), Signal()
        next_offset = Signal(range(bus + 1))
        widths = tuple(step_width(self._config, size) for size in self._sizes)
        m.d.comb += [
            last_part.eq(pad | part_is_last),
            run_ends.eq(last_part & columns.phase_last & (rows.phase_last | ~job.one_run)),
            last.eq(empty | (last_part & rows.ends & columns.ends)),
        ]
        width = self._by_kind(widths, job.kind)
        if isinstance(columns, WideWalk):
            width = Mux(job.kind == 0, columns.taken << (widths[0].bit_length() - 1), width)
            m.d.comb += step.count.eq(columns.taken)
        m.d.comb += next_offset.eq(offset + width)
        m.d.comb += [
            step.valid.eq(busy),
            step.empty.eq(empty),
            step.last.eq(last),
            step.pad.eq(pad),
            step.needs_word.eq(~empty & ~pad),
            step.pops.eq(~empty & ~pad & ((next_offset == bus) | run_ends)),
            step.kind.eq(job.kind),
            step.tag.eq(tag),
            step.address.eq(address),
            step.part.eq(part),
            step.offset.eq(offset),
        ]
        last_of = tuple(count - 1 for count in self._parts)
        row_is_data = Mux(columns.ends, rows.next_is_data, rows.is_data)
        if isinstance(columns, WideWalk):
            following = Signal.like(offset, name="following_offset")
            m.d.comb += [
                following.eq(Mux(pad, offset, Mux(run_ends, row_offset + job.pitch, next_offset))),
                columns.room.eq(self._room(following, row_is_data & (job.kind == 0))),
                columns.first_room.eq(self._room(waiting.offset, rows.first_is_data & (waiting.kind == 0))),
            ]
        with m.If(goes):
            m.d.sync += [
                part.eq(Mux(last_part, 0, part + 1)),
                part_is_last.eq(Mux(last_part, 0, part + 1) == self._by_kind(last_of, job.kind)),
            ]
            with m.If(last_part):
                m.d.sync += [
                    address.eq(address + (columns.taken if isinstance(columns, WideWalk) else 1)),
                    pad.eq(~(row_is_data & columns.next_is_data)),
                ]
            with m.If(~pad):
                m.d.sync += offset.eq(next_offset)
                with m.If(run_ends):
                    m.d.sync += [offset.eq(row_offset + job.pitch), row_offset.eq(row_offset + job.pitch)]
        m.d.comb += [
            columns.next.eq(goes & last_part),
            rows.next.eq(goes & last_part & columns.ends),
            rows.start.eq(~busy),
            rows.before.eq(waiting.y_pad_0),
            rows.size.eq(waiting.y_size),
            rows.behind.eq(waiting.y_pad_1),
            columns.start.eq(~busy),
            columns.before.eq(waiting.x_pad_0),
            columns.size.eq(waiting.x_size),
            columns.behind.eq(waiting.x_pad_1),
        ]
        with m.If(goes & last):
            m.d.sync += busy.eq(0)
        # One cycle without a load between two loads (STEP_GAP): the next load is taken while none is under way.
        no_rows = (waiting.y_pad_0 == 0) & (waiting.y_size == 0) & (waiting.y_pad_1 == 0)
        with m.If(~busy):
            m.d.sync += [
                busy.eq(waits),
                job.eq(waiting),
                tag.eq(waiting_tag),
                empty.eq((waiting.x_size == 0) | no_rows),
                pad.eq(~(rows.first_is_data & columns.first_is_data)),
                part.eq(0),
                part_is_last.eq(self._by_kind(last_of, waiting.kind) == 0),
                address.eq(waiting.sram_base),
                row_offset.eq(waiting.offset),
                offset.eq(waiting.offset),
            ]
        m.d.comb += self.job.ready.eq(~waits | ~busy)
        with m.If(~waits | ~busy):
            m.d.sync += [
                waits.eq(self.job.valid),
                waiting.eq(self.job.payload),
                waiting_tag.eq(self.job_tag),
            ]
