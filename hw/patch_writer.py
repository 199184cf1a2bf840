"""The writer of LOAD.PATCH, which makes overlapping patches of image rows (hw/README.md section 6, isa/README.md).

A generator walks over the vectors; the stages after it compute, for each vector, the bus words that it needs and the
masks of its lanes. The stages never wait: a ring buffer after them stores vectors until their steps happen. The bus
words of the current row are in a second ring buffer, the window. It has small banks, so that the bytes of a vector are
read in one cycle from any byte offset, together with the FIFO's word if the step takes it.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from vdla.isa.config import Config
from vdla.isa.timing import PATCH_WINDOW_BYTES

from .counting import counted, will_be_some
from .element_writer import Walk, job_layout
from .read_fifo import word_layout

POSITION = signed(28)
"""Shape of a byte position in a row of patches: at most 65535 x 255 + 255, at least minus the left pad."""

_AHEAD = 8
"""Depth of the ring buffer of prepared vectors. Also the largest number of vectors that the generator has made and that
are not written yet. Up to six of these are outside the ring: in the four stages before it and in the two registers
behind it.
"""

WORDS_BITS = 17
"""Width in bits of a number of bus words in a row, which has at most 65535 bytes."""


def _batch_bits(config: Config) -> int:
    return 2 if config.batch <= 4 else 3


def patch_layout(config: Config) -> data.StructLayout:
    """Layout of the parameters of a LOAD.PATCH: the fields of register PATCH, and `length`, the number of bytes that
    the load reads from each row of the image.
    """
    bytes_ = dict.fromkeys(("run", "step", "pitch", "pad_left"), 8)
    return data.StructLayout({**bytes_, "row_bytes": 16, "batch_row": _batch_bits(config), "length": 16})


class PatchWriter(wiring.Component):
    """Executes LOAD.PATCHes one after the other, in steps; a step writes some or all lanes (elements) of one input
    vector.

    Members that control the steps:

    - `job`: the next load; if it is accepted in cycle j, its first step is in j + 8 or later. `job.sizes`: sizes of the
      instruction (x_size patches), and position and distance of the rows in bus words (`offset`, `pitch`). `job.patch`:
      the fields of register PATCH.
    - `words`: the FIFO of bus words.
    - `may`: the writer may do steps of its current load (registered).
    - `steps_last`: the last step of a load happens in this cycle.

    The other members describe a write, two cycles after its step:

    - `write`: the write happens (0 for the only step of an empty load). `last`: this is the load's last write.
    - `address`: index of the vector. `batch_row`: number of the batch item in the vector.
    - `lanes`: a bit for each lane, 1 if it is written. `from_dram`: a bit for each lane: 1 to write the lane's byte of
      `data`, 0 to write the pad value.
    - `tag`: the `job_tag` that came with the load.
    """

    def __init__(self, *, config: Config, tag_bits: int = 0) -> None:
        """`config` determines block_in and the width of the bus. `tag_bits`: width of a job's tag."""
        self._config = config
        block = config.block_in
        job = data.StructLayout({"sizes": job_layout(config, 2), "patch": patch_layout(config)})
        super().__init__(
            {
                "job": In(stream.Signature(job)),
                "job_tag": In(tag_bits),
                "words": In(stream.Signature(word_layout(config))),
                "may": In(1, init=1),
                "steps_last": Out(1),
                "write": Out(1),
                "last": Out(1),
                "tag": Out(tag_bits),
                "address": Out(16),
                "batch_row": Out(_batch_bits(config)),
                "data": Out(8 * block),
                "lanes": Out(block),
                "from_dram": Out(block),
            }
        )

    def _step_layout(self) -> data.StructLayout:
        """Layout of the fields of a step that every pipeline stage carries."""
        return data.StructLayout(
            {
                "valid": 1,
                "empty": 1,
                "last": 1,
                "new_row": 1,
                "address": 16,
                "batch_row": _batch_bits(self._config),
                "tag": self.tag.shape(),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Builds a pipeline of registers: the generator, four stages, the ring buffer of prepared vectors, and the next
        step. The next step counts the bus words that it must still wait for. Behind it are registers for the last of
        these words and for the bytes that the step writes.
        """
        m = Module()
        bus = self._config.memory.bus_bytes
        layout = self._vector_layout()
        # The stages never wait: the ring buffer after them has room for all vectors that the generator has begun.
        staged, there = (Signal(layout, name=name) for name in ("staged", "there"))
        known, written = (Signal(layout, name=name, reset_less=True) for name in ("known", "written"))
        may_generate, generates = Signal(), Signal()
        self._stages(m, may_generate, generates, staged)
        taken = Signal(WORDS_BITS)  # words of the row in the window
        take, happens, goes = Signal(), Signal(), Signal()
        m.d.comb += [
            self.words.ready.eq(there.step.valid & self.may & there.short),
            take.eq(self.words.valid & self.words.ready),
            happens.eq(there.step.valid & self.may & (~there.short | (there.one_short & self.words.valid))),
            goes.eq(happens | ~there.step.valid),
            self.steps_last.eq(happens & there.step.last),
        ]
        # Whether the step happens is known late in the cycle. So there is a spare register after the ring: the ring
        # gives its next vector whenever the spare register was free.
        spare, following = Signal(layout), Signal(layout)
        spare_free = Signal(init=1)  # `spare` is not valid: a separate register, which enables many others
        queued = self._ring(m, staged, spare_free, may_generate, generates)
        m.d.comb += following.eq(Mux(spare.step.valid, spare, queued))
        with m.If(goes & following.step.valid & following.step.new_row):
            m.d.sync += taken.eq(0)
        with m.Elif(take):
            m.d.sync += taken.eq(taken + 1)
        with m.If(goes):
            m.d.sync += there.eq(following)
        with m.Elif(take):
            m.d.sync += [
                there.missing.eq(there.missing - 1),
                there.short.eq(~there.one_short),
                there.one_short.eq(there.missing == 2),
            ]

        with m.If(spare_free):
            m.d.sync += [spare.eq(queued), spare_free.eq(~queued.step.valid)]
        with m.If(goes):
            m.d.sync += [spare.step.valid.eq(0), spare_free.eq(1)]

        stepped, took = Signal(), Signal()
        word = Signal(8 * bus, reset_less=True)
        m.d.sync += [
            stepped.eq(happens),
            took.eq(take),
            word.eq(self.words.payload.data),
            known.eq(there),
            self.write.eq(stepped & ~known.step.empty),
            self.last.eq(stepped & known.step.last),
            written.eq(known),
        ]
        m.d.comb += [
            *(getattr(self, name).eq(written.step[name]) for name in ("tag", "address", "batch_row")),
            self.lanes.eq(written.lanes),
            self.from_dram.eq(written.from_dram),
        ]
        m.d.comb += self.data.eq(self._window(m, taken, there.begin, took, word))
        return m

    def _vector_layout(self) -> data.StructLayout:
        """Layout of the record of a vector in the pipeline. `step`: the step that writes it. `lanes`: mask of the lanes
        that the step fills. `from_dram`: mask of the lanes whose byte comes from DRAM, not from a pad. `begin`:
        position of lane 0 in the row of the image, in bytes. `missing`: number of bus words that must still enter the
        window before the vector can be read there. `short` is 1 if `missing` is above 0; `one_short` is 1 if `missing`
        is 1.
        """
        block = self._config.block_in
        return data.StructLayout(
            {
                "step": self._step_layout(),
                "lanes": block,
                "from_dram": block,
                "begin": POSITION,
                "missing": WORDS_BITS,
                "short": 1,
                "one_short": 1,
            }
        )

    def _ring(
        self, m: Module, staged: data.View, goes: Value, may_generate: Signal, generates: Value
    ) -> data.View:
        """Adds the ring buffer of prepared vectors and the register after it, and returns this register. If `goes` is
        1, the register takes the oldest vector in the ring or, if the ring is empty, the vector `staged`, which leaves
        the stages before the ring.

        `generates`: input, a vector enters the first stage in this cycle. `may_generate`: output, driven here; the ring
        has room for one more vector.
        """
        layout = self._vector_layout()
        m.submodules.ring = ring = memory.Memory(shape=layout.size, depth=_AHEAD, init=[])
        write, read = ring.write_port(), ring.read_port(domain="comb")
        newest, oldest = Signal(range(_AHEAD)), Signal(range(_AHEAD))
        kept, waiting = Signal(range(_AHEAD + 1)), Signal()  # vectors in the ring; any
        ahead = Signal(range(_AHEAD + 1))  # vectors that have left the generator and not reached their step
        following = Signal(layout)
        stores, takes, loads = Signal(), Signal(), Signal()
        m.d.comb += [
            loads.eq(goes | ~following.step.valid),
            stores.eq(staged.step.valid & ~(loads & ~waiting)),
            takes.eq(loads & waiting),
            write.en.eq(staged.step.valid),  # and again in the same place, if it was taken from the stages
            write.addr.eq(newest),
            write.data.eq(staged),
            read.addr.eq(oldest),
        ]
        with m.If(loads):
            m.d.sync += following.eq(Mux(waiting, read.data, staged))
        leaves = goes & following.step.valid
        m.d.sync += [
            newest.eq(newest + stores),
            oldest.eq(oldest + takes),
            kept.eq(counted(kept, up=stores, down=takes)),
            waiting.eq(will_be_some(kept, up=stores, down=takes)),
            ahead.eq(counted(ahead, up=generates, down=leaves)),
            may_generate.eq((ahead < _AHEAD - 1) | ((ahead == _AHEAD - 1) & ~generates)),
        ]
        return following

    def _stages(self, m: Module, may_generate: Value, generates: Signal, vector: data.View) -> None:
        """Builds the four pipeline stages after the generator; drives `vector`, the output of the last stage.
        `may_generate`: input, the generator may go on. `generates`: output, driven here; a vector enters the first
        stage in this cycle.
        """
        bus, block = self._config.memory.bus_bytes, self._config.block_in
        shift = bus.bit_length() - 1
        steps = [Signal(self._step_layout(), name=f"step_{k}") for k in range(1, 4)]
        stage_4 = Signal(self._vector_layout())
        # Number of words of the row that the vector needs, and this number less one.
        wanted_4, wanted_4_less_1 = (
            Signal(WORDS_BITS, name=name, reset_less=True) for name in ("wanted_4", "wanted_4_less_1")
        )
        now = self._generate(m, may_generate)
        m.d.comb += generates.eq(may_generate & now["step"].valid)
        lane_bits = range(block + 1)

        # 1: end (exclusive) of the vector's bytes within the patch.
        start_1, end_1 = Signal(signed(12), reset_less=True), Signal(signed(12), reset_less=True)
        patch_1 = Signal(POSITION, reset_less=True)
        # 2: positions in the row; number of lanes within the patch.
        reach_2, first_2 = Signal(POSITION, reset_less=True), Signal(POSITION, reset_less=True)
        low_2, high_2 = Signal(lane_bits, reset_less=True), Signal(lane_bits, reset_less=True)
        # 3: the last position needed; lanes with bytes of the row.
        need_3, none_3 = Signal(POSITION, reset_less=True), Signal(reset_less=True)
        begin_3, lanes_3 = Signal(POSITION, reset_less=True), Signal(block, reset_less=True)
        low_3, high_3 = Signal(lane_bits, reset_less=True), Signal(lane_bits, reset_less=True)
        # The row's own numbers, delayed with the stages.
        row = data.StructLayout({"data": 1, "offset": shift, "length": 16, "row_bytes": 16})
        rows = [Signal(row, name=f"row_{k}", reset_less=True) for k in range(1, 4)]

        def clipped(value: Value) -> Value:
            """`value`, a signed number of lanes, clipped to 0 .. block_in."""
            return Mux(value < 0, 0, Mux(value > block, block, value))

        before, behind = clipped(-first_2), clipped(rows[1].row_bytes - first_2)
        m.d.sync += [
            steps[0].eq(now["step"]),
            steps[0].valid.eq(generates),
            rows[0].data.eq(now["data"]),
            rows[0].offset.eq(now["offset"]),
            rows[0].length.eq(now["length"]),
            rows[0].row_bytes.eq(now["row_bytes"]),
            start_1.eq(now["start"]),
            end_1.eq(now["end"]),
            patch_1.eq(now["patch"]),
        ]
        m.d.sync += [
            steps[1].eq(steps[0]),
            rows[1].eq(rows[0]),
            reach_2.eq(patch_1 + end_1 - 1),
            first_2.eq(patch_1 + start_1),
            low_2.eq(Mux(start_1 < 0, -start_1, 0)),
            high_2.eq(end_1 - start_1),
        ]
        m.d.sync += [
            steps[2].eq(steps[1]),
            rows[2].eq(rows[1]),
            need_3.eq(Mux(reach_2 < rows[1].length, reach_2, rows[1].length - 1)),
            none_3.eq((reach_2 < 0) | ~rows[1].data),
            begin_3.eq(first_2 + rows[1].offset),
            lanes_3.eq(Cat(*((low_2 <= lane) & (lane < high_2) for lane in range(block)))),
            low_3.eq(before),
            high_3.eq(Mux(rows[1].data, behind, 0)),
        ]
        last_word = (need_3 + rows[2].offset) >> shift
        m.d.sync += [
            stage_4.step.eq(steps[2]),
            wanted_4.eq(Mux(none_3, 0, last_word + 1)),
            wanted_4_less_1.eq(Mux(none_3, -1, last_word)),
            stage_4.begin.eq(begin_3),
            stage_4.lanes.eq(lanes_3),
            stage_4.from_dram.eq(Cat(*((low_3 <= lane) & (lane < high_3) for lane in range(block)))),
        ]
        # Steps take words only when they need them: after all earlier steps, the window has as many words of the row as
        # the largest need so far.
        most, there = Signal(WORDS_BITS), Signal(WORDS_BITS)
        m.d.comb += [
            vector.eq(stage_4),
            there.eq(Mux(stage_4.step.new_row, 0, most)),
            vector.missing.eq(wanted_4 - there),
            vector.short.eq(wanted_4 > there),
            vector.one_short.eq(wanted_4_less_1 == there),
        ]
        with m.If(stage_4.step.valid):
            m.d.sync += most.eq(Mux(wanted_4 > there, wanted_4, there))

    def _generate(self, m: Module, goes: Value) -> dict[str, Value]:
        """Builds the generator, which walks over rows, patches, and the vectors of each patch; `goes` advances it to
        the next vector. Returns the current vector's signals by name.
        """
        config = self._config
        block = config.block_in
        shift, block_bits = config.memory.bus_bytes.bit_length() - 1, block.bit_length() - 1
        waiting, waits = Signal(self.job.payload.shape(), reset_less=True), Signal()
        waiting_tag = Signal.like(self.job_tag)
        job, busy, empty = Signal(self.job.payload.shape(), reset_less=True), Signal(), Signal()
        tag = Signal.like(self.job_tag)
        sizes, patch = job.sizes, job.patch
        m.submodules.rows = rows = Walk()
        patches_left, last_patch = Signal(16), Signal()
        # Position of the patch's first byte in the row, and of the vector's first lane in the patch (negative if the
        # patch begins within the vector).
        patch_start, vector_start = Signal(POSITION), Signal(signed(12))
        # The value from which on `vector_start` shows that the next vector is the patch's last.
        near = Signal(signed(12))
        # Whether this vector is the last of its patch, and whether the first vector of the row's patches is the last.
        last_vector, first_is_last = Signal(), Signal()
        # Start of the row's bytes: the lane of the first byte, and the address of its vector in the first patch.
        row_lane, row_address = Signal(block_bits), Signal(16)
        row_end = Signal(range(block + 256))  # row_lane + run, the start of the next row
        patch_address, address = (
            Signal(16),
            Signal(16),
        )  # addresses of the patch's first vector in this row, and of this vector
        row_offset, new_row = Signal(shift), Signal()

        last_of_row, last = Signal(), Signal()
        next_end = Signal.like(row_end)
        next_is_last = next_end <= block
        m.d.comb += [
            next_end.eq(row_end[:block_bits] + patch.run),
            last_of_row.eq(last_vector & last_patch),
            last.eq(empty | (last_of_row & rows.ends)),
        ]
        with m.If(goes):
            m.d.sync += [
                vector_start.eq(vector_start + block),
                last_vector.eq(vector_start >= near),
                address.eq(address + 1),
                new_row.eq(0),
            ]
            with m.If(last_vector):
                m.d.sync += [
                    vector_start.eq(-row_lane),
                    last_vector.eq(first_is_last),
                    patches_left.eq(patches_left - 1),
                    last_patch.eq(patches_left == 2),
                    patch_start.eq(patch_start + patch.step),
                    patch_address.eq(patch_address + patch.pitch),
                    address.eq(patch_address + patch.pitch),
                ]
            with m.If(last_of_row):
                base = row_address + (row_end >> block_bits)
                m.d.sync += [
                    patches_left.eq(sizes.x_size),
                    last_patch.eq(sizes.x_size == 1),
                    patch_start.eq(-patch.pad_left),
                    patch_address.eq(base),
                    address.eq(base),
                    row_lane.eq(row_end),
                    row_end.eq(next_end),
                    vector_start.eq(-(row_end[:block_bits])),
                    last_vector.eq(next_is_last),
                    first_is_last.eq(next_is_last),
                    row_address.eq(base),
                    new_row.eq(1),
                ]
                with m.If(rows.is_data):
                    m.d.sync += row_offset.eq(row_offset + sizes.pitch)
        m.d.comb += [
            rows.next.eq(goes & last_of_row),
            rows.start.eq(~busy),
            rows.before.eq(waiting.sizes.y_pad_0),
            rows.size.eq(waiting.sizes.y_size),
            rows.behind.eq(waiting.sizes.y_pad_1),
            self.job.ready.eq(~waits | ~busy),
        ]
        with m.If(goes & last):
            m.d.sync += busy.eq(0)
        new = waiting
        no_rows = (new.sizes.y_pad_0 == 0) & (new.sizes.y_size == 0) & (new.sizes.y_pad_1 == 0)
        with m.If(~busy):
            m.d.sync += [
                busy.eq(waits),
                job.eq(new),
                tag.eq(waiting_tag),
                empty.eq((new.sizes.x_size == 0) | no_rows | (new.patch.run == 0)),
                patches_left.eq(new.sizes.x_size),
                last_patch.eq(new.sizes.x_size == 1),
                row_lane.eq(0),
                row_end.eq(new.patch.run),
                row_address.eq(new.sizes.sram_base),
                vector_start.eq(0),
                near.eq(new.patch.run - 2 * block),
                last_vector.eq(new.patch.run <= block),
                first_is_last.eq(new.patch.run <= block),
                patch_start.eq(-new.patch.pad_left),
                patch_address.eq(new.sizes.sram_base),
                address.eq(new.sizes.sram_base),
                row_offset.eq(new.sizes.offset),
                new_row.eq(1),
            ]
        with m.If(~waits | ~busy):
            m.d.sync += [
                waits.eq(self.job.valid),
                waiting.eq(self.job.payload),
                waiting_tag.eq(self.job_tag),
            ]
        step = Signal(self._step_layout(), name="step_0")
        m.d.comb += [
            step.valid.eq(busy),
            step.empty.eq(empty),
            step.last.eq(last),
            step.new_row.eq(new_row),
            step.address.eq(address),
            step.batch_row.eq(patch.batch_row),
            step.tag.eq(tag),
        ]
        return {
            "step": step,
            "data": ~empty & rows.is_data & (patch.length != 0),
            "offset": row_offset,
            "length": patch.length,
            "row_bytes": patch.row_bytes,
            "start": vector_start,
            "end": Mux(last_vector, patch.run, vector_start + block),
            "patch": patch_start,
        }

    def _window(self, m: Module, taken: Value, begin: Value, take: Value, word_taken: Value) -> Value:
        """Builds the window, a ring buffer that holds the bus words of the current row of the image. Returns the
        block_in bytes of the row from byte `begin` on, two cycles later.

        `take`: stores `word_taken`, a bus word that has just arrived. `taken`: number of this word in the row, given
        one cycle before, together with `begin`; so the addresses of the banks are registers. The returned bytes may
        come from this word.
        """
        bus, block = self._config.memory.bus_bytes, self._config.block_in
        shift = bus.bit_length() - 1
        spanned = (block + bus - 2) // bus + 1
        bank_bits = (spanned - 1).bit_length()
        ring_bits = max(bank_bits + 1, (2 * PATCH_WINDOW_BYTES // bus).bit_length() - 1)
        word, newest, turn = Signal(ring_bits), Signal(ring_bits), Signal(bank_bits)
        m.d.comb += word.eq(begin >> shift)
        m.d.sync += [newest.eq(taken), turn.eq(word)]
        words = []
        for bank in range(1 << bank_bits):
            rows = memory.Memory(shape=8 * bus, depth=1 << (ring_bits - bank_bits), init=[])
            m.submodules[f"window_{bank}"] = rows
            write, read = rows.write_port(), rows.read_port(domain="comb")
            place = Signal(ring_bits, name=f"place_{bank}")
            distance = Signal(bank_bits, name=f"distance_{bank}")
            address = Signal(ring_bits - bank_bits, name=f"address_{bank}")
            is_newest = Signal(name=f"is_newest_{bank}")
            shown = Signal(8 * bus, name=f"shown_{bank}")
            m.d.comb += [
                distance.eq(bank - word[:bank_bits]),
                place.eq(word + distance),
                write.addr.eq(newest[bank_bits:]),
                write.data.eq(word_taken),
                write.en.eq(take & (newest[:bank_bits] == bank)),
                read.addr.eq(address),
                shown.eq(Mux(take & is_newest, word_taken, read.data)),
            ]
            m.d.sync += [address.eq(place[bank_bits:]), is_newest.eq(place == taken[:ring_bits])]
            words.append(shown)
        in_order = [Cat(*words).word_select((turn + k)[:bank_bits], 8 * bus) for k in range(len(words))]
        span = Signal(8 * bus * len(words), reset_less=True)
        within, offset = (Signal(shift, name=name, reset_less=True) for name in ("within", "offset"))
        m.d.sync += [within.eq(begin), offset.eq(within), span.eq(Cat(*in_order))]
        return (span >> (offset << 3))[: 8 * block]
