"""The writer of LOAD.PATCH: rows of an image become overlapping patches (hw/README.md section 6, isa/README.md).

The window is a ring of bus words in small banks, so that a vector at any byte offset is read in one cycle: with the
word that the FIFO shows, if the step takes it.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from vdla.isa.config import Config
from vdla.isa.timing import PATCH_WINDOW_BYTES

from .element_writer import job_layout
from .read_fifo import word_layout

POSITION = signed(28)
"""A byte position in a row of patches: up to 65535 x 255 + 255, or as far below zero as the left pad."""


def patch_layout() -> data.StructLayout:
    """What a patch load takes from register PATCH, and `length`, the bytes read of each row."""
    return data.StructLayout(
        {"run": 8, "step": 8, "pitch": 8, "pad_left": 8, "row_bytes": 16, "batch_row": 2, "length": 16}
    )


class PatchWriter(wiring.Component):
    """Steps of one patch load after the other.

    Members: `job` is taken as by ElementWriter: `sizes` are the instruction's (x_size patches, the rows' `offset` and
    `pitch` in a bus word), `patch` the register's. In a cycle with `step`: `write` unless the load is empty; lane i
    of vector `address` gets byte i of `data` where `lanes` says so, from DRAM where `from_dram` does, else the pad
    value; `batch_row` is the row of the vector that they go to. `last` and `idle` as in ElementWriter.
    """

    def __init__(self, *, config: Config) -> None:
        """`config` gives block_in and the bus."""
        self._config = config
        block = config.block_in
        job = data.StructLayout({"sizes": job_layout(config, 2), "patch": patch_layout()})
        super().__init__(
            {
                "job": In(stream.Signature(job)),
                "words": In(stream.Signature(word_layout(config))),
                "step": Out(1),
                "write": Out(1),
                "last": Out(1),
                "address": Out(16),
                "batch_row": Out(2),
                "data": Out(8 * block),
                "lanes": Out(block),
                "from_dram": Out(block),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Counters of row, patch and vector, with the byte positions that follow from them."""
        m = Module()
        bus, block = self._config.memory.bus_bytes, self._config.block_in
        shift, block_bits = bus.bit_length() - 1, block.bit_length() - 1
        job = Signal(self.job.payload.shape())
        sizes, patch = job.sizes, job.patch
        busy = Signal()
        y, w = Signal(17), Signal(16)
        # Position of the patch's first byte in the row; of the vector's first lane in the patch (negative if the patch
        # begins within the vector).
        patch_start, vector_start = Signal(POSITION), Signal(signed(12))
        # Where the row's bytes go: lane of the first, and its vector within the patch.
        row_lane, row_vector = Signal(block_bits), Signal(16)
        vector, patch_address = Signal(16), Signal(16)
        row_offset, taken = Signal(shift), Signal(17)

        rows, empty, data_row = Signal(17), Signal(), Signal()
        m.d.comb += [
            rows.eq(sizes.y_pad_0 + sizes.y_size + sizes.y_pad_1),
            empty.eq((patch.run == 0) | (sizes.x_size == 0) | (rows == 0)),
            data_row.eq((y >= sizes.y_pad_0) & (y < sizes.y_pad_0 + sizes.y_size) & (patch.length != 0)),
        ]
        end = Signal(signed(12))  # of this vector's bytes within the patch, exclusive
        last_vector, last_patch, last_row = Signal(), Signal(), Signal()
        reach, need = Signal(POSITION), Signal(POSITION)
        m.d.comb += [
            last_vector.eq(vector_start + block >= patch.run),
            end.eq(Mux(last_vector, patch.run, vector_start + block)),
            last_patch.eq(w + 1 == sizes.x_size),
            last_row.eq(y + 1 == rows),
            reach.eq(patch_start + end - 1),
            need.eq(Mux(reach < patch.length, reach, patch.length - 1)),
        ]
        # The row's words in the window cover its positions up to `covered`; with one word more, up to `next_covered`.
        covered, next_covered = Signal(POSITION), Signal(POSITION)
        missing, take = Signal(), Signal()
        m.d.comb += [
            covered.eq((taken << shift) - row_offset),
            next_covered.eq(covered + bus),
            missing.eq(data_row & (need >= 0) & (need >= covered)),
            take.eq(busy & ~empty & missing & self.words.valid),
            self.words.ready.eq(busy & ~empty & missing),
            self.step.eq(busy & (empty | ~missing | (take & (need < next_covered)))),
            self.write.eq(self.step & ~empty),
            self.last.eq(self.step & (empty | (last_vector & last_patch & last_row))),
            self.idle.eq(~busy),
            self.job.ready.eq(~busy | self.last),
            self.address.eq(patch_address + row_vector + vector),
            self.batch_row.eq(patch.batch_row),
        ]
        first = Signal(POSITION)  # the row position of lane 0
        m.d.comb += [
            first.eq(patch_start + vector_start),
            self.data.eq(self._window(m, taken, take, first + row_offset)),
        ]
        for lane in range(block):
            in_patch, position = vector_start + lane, first + lane
            m.d.comb += [
                self.lanes[lane].eq((in_patch >= 0) & (in_patch < patch.run)),
                self.from_dram[lane].eq(data_row & (position >= 0) & (position < patch.row_bytes)),
            ]

        with m.If(take):
            m.d.sync += taken.eq(taken + 1)
        next_lane = row_lane + patch.run
        with m.If(self.write):
            m.d.sync += [vector.eq(vector + 1), vector_start.eq(vector_start + block)]
            with m.If(last_vector):
                m.d.sync += [
                    vector.eq(0),
                    vector_start.eq(-row_lane),
                    w.eq(w + 1),
                    patch_start.eq(patch_start + patch.step),
                    patch_address.eq(patch_address + patch.pitch),
                ]
                with m.If(last_patch):
                    m.d.sync += [
                        y.eq(y + 1),
                        w.eq(0),
                        patch_start.eq(-patch.pad_left),
                        patch_address.eq(sizes.sram_base),
                        row_lane.eq(next_lane),
                        vector_start.eq(-(next_lane[:block_bits])),
                        row_vector.eq(row_vector + (next_lane >> block_bits)),
                        taken.eq(0),
                    ]
                    with m.If((y >= sizes.y_pad_0) & (y < sizes.y_pad_0 + sizes.y_size)):
                        m.d.sync += row_offset.eq(row_offset + sizes.pitch)
        with m.If(self.last):
            m.d.sync += busy.eq(0)
        with m.If(self.job.valid & self.job.ready):
            new = self.job.payload
            m.d.sync += [
                busy.eq(1),
                job.eq(new),
                y.eq(0),
                w.eq(0),
                vector.eq(0),
                row_lane.eq(0),
                row_vector.eq(0),
                vector_start.eq(0),
                patch_start.eq(-new.patch.pad_left),
                patch_address.eq(new.sizes.sram_base),
                row_offset.eq(new.sizes.offset),
                taken.eq(0),
            ]
        return m

    def _window(self, m: Module, taken: Value, take: Value, start: Value) -> Value:
        """Store the word taken; return block_in bytes from byte `start` of the row's words on."""
        bus, block = self._config.memory.bus_bytes, self._config.block_in
        shift = bus.bit_length() - 1
        spanned = (block + bus - 2) // bus + 1
        bank_bits = (spanned - 1).bit_length()
        ring_bits = max(bank_bits + 1, (2 * PATCH_WINDOW_BYTES // bus).bit_length() - 1)
        begin = Signal(POSITION)
        word = Signal(ring_bits)
        m.d.comb += [begin.eq(start), word.eq(begin >> shift)]
        words = []
        for bank in range(1 << bank_bits):
            rows = memory.Memory(shape=8 * bus, depth=1 << (ring_bits - bank_bits), init=[])
            m.submodules[f"window_{bank}"] = rows
            write, read = rows.write_port(), rows.read_port(domain="comb")
            place = Signal(ring_bits, name=f"place_{bank}")
            distance = Signal(bank_bits, name=f"distance_{bank}")
            shown = Signal(8 * bus, name=f"shown_{bank}")
            m.d.comb += [
                distance.eq(bank - word[:bank_bits]),
                place.eq(word + distance),
                write.addr.eq(taken[bank_bits:ring_bits]),
                write.data.eq(self.words.payload.data),
                write.en.eq(take & (taken[:bank_bits] == bank)),
                read.addr.eq(place[bank_bits:]),
                shown.eq(Mux(take & (place == taken[:ring_bits]), self.words.payload.data, read.data)),
            ]
            words.append(shown)
        in_order = [
            Cat(*words).word_select((word[:bank_bits] + k)[:bank_bits], 8 * bus) for k in range(len(words))
        ]
        return (Cat(*in_order) >> (begin[:shift] << 3))[: 8 * block]
