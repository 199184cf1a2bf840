"""The writer of rectangular loads: pads and data elements, one step a cycle (hw/README.md section 6)."""

from __future__ import annotations

from amaranth.hdl import Array, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from vdla.isa.config import Config

from .read_fifo import word_layout


def job_layout(config: Config, kinds: int) -> data.StructLayout:
    """A load: the instruction's sizes, `kind` (index into the writer's element sizes), and where in a bus word its
    first row starts (`offset`), how far the rows are apart modulo the bus (`pitch`), and whether they are one run.
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
    """Bytes of DRAM that a step takes."""
    return min(element_bytes, config.memory.bus_bytes)


class ElementWriter(wiring.Component):
    """Steps of one load after the other, without a gap between them.

    Members: `job` is taken in the cycle before its first step may happen (valid in the cycle of an instruction's
    begin for a step in b + 1). `words` is the client's FIFO. In a cycle with `step`: `write` unless it is an
    empty load's step; `address` of the element; `pad`: the whole element gets the pad value in this step; else
    `part` (step within the element) gets the low `step_width` bytes of `data`. `last`: the load's last step; it ends
    in the next cycle. `kind` is the load's. `idle`: no load in the registers. All of these depend on `words.valid`.
    """

    def __init__(self, *, config: Config, element_bytes: tuple[int, ...]) -> None:
        """`element_bytes`: DRAM bytes of an element of each kind, powers of two."""
        if not element_bytes or any(size & (size - 1) for size in element_bytes):
            raise ValueError(f"element_bytes = {element_bytes}: must be powers of two")
        self._config, self._sizes = config, element_bytes
        self._parts = tuple(size // step_width(config, size) for size in element_bytes)
        super().__init__(
            {
                "job": In(stream.Signature(job_layout(config, len(element_bytes)))),
                "words": In(stream.Signature(word_layout(config))),
                "step": Out(1),
                "write": Out(1),
                "last": Out(1),
                "pad": Out(1),
                "kind": Out(range(max(2, len(element_bytes)))),
                "address": Out(16),
                "part": Out(range(max(2, *self._parts))),
                "data": Out(8 * config.memory.bus_bytes),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Counters of row, column and part; whether an element is a pad follows from comparing them."""
        m = Module()
        bus = self._config.memory.bus_bytes
        job = Signal(job_layout(self._config, len(self._sizes)))
        busy = Signal()
        y, x = Signal(17), Signal(17)
        rows, columns = Signal(17), Signal(17)
        part = Signal.like(self.part)
        address = Signal(16)
        row_offset, offset = Signal.like(job.offset), Signal.like(job.offset)

        def by_kind(values: tuple[int, ...]):
            width = max(values).bit_length()
            choices = [Const(value, width) for value in values]
            return choices[0] if len(choices) == 1 else Array(choices)[job.kind]

        widths = by_kind(tuple(step_width(self._config, size) for size in self._sizes))
        m.d.comb += [
            rows.eq(job.y_pad_0 + job.y_size + job.y_pad_1),
            columns.eq(job.x_pad_0 + job.x_size + job.x_pad_1),
        ]
        empty = Signal()
        data_row, data_column, last_row, last_column = Signal(), Signal(), Signal(), Signal()
        last_data_column, last_data_row, last_part = Signal(), Signal(), Signal()
        m.d.comb += [
            empty.eq((job.x_size == 0) | (rows == 0)),
            data_row.eq((y >= job.y_pad_0) & (y < job.y_pad_0 + job.y_size)),
            data_column.eq((x >= job.x_pad_0) & (x < job.x_pad_0 + job.x_size)),
            last_row.eq(y + 1 == rows),
            last_column.eq(x + 1 == columns),
            last_data_column.eq(x + 1 == job.x_pad_0 + job.x_size),
            last_data_row.eq(y + 1 == job.y_pad_0 + job.y_size),
            self.pad.eq(~(data_row & data_column)),
            last_part.eq(self.pad | (part == by_kind(tuple(count - 1 for count in self._parts)))),
        ]
        next_offset = Signal(range(bus + 1))
        run_ends = Signal()
        takes = Signal()
        m.d.comb += [
            takes.eq(busy & ~empty & ~self.pad),
            next_offset.eq(offset + widths),
            run_ends.eq(last_part & last_data_column & (last_data_row | ~job.one_run)),
            self.step.eq(busy & (empty | self.pad | self.words.valid)),
            self.words.ready.eq(takes & ((next_offset == bus) | run_ends)),
            self.write.eq(self.step & ~empty),
            self.last.eq(self.step & (empty | (last_part & last_row & last_column))),
            self.kind.eq(job.kind),
            self.address.eq(address),
            self.part.eq(part),
            self.data.eq(self.words.payload.data >> (offset << 3)),
            self.idle.eq(~busy),
            self.job.ready.eq(~busy | self.last),
        ]
        with m.If(self.write):
            m.d.sync += part.eq(Mux(last_part, 0, part + 1))
            with m.If(last_part):
                m.d.sync += [address.eq(address + 1), x.eq(Mux(last_column, 0, x + 1)), y.eq(y + last_column)]
            with m.If(~self.pad):
                m.d.sync += offset.eq(next_offset)
                with m.If(run_ends):
                    m.d.sync += [offset.eq(row_offset + job.pitch), row_offset.eq(row_offset + job.pitch)]
        with m.If(self.last):
            m.d.sync += busy.eq(0)
        with m.If(self.job.valid & self.job.ready):
            m.d.sync += [
                busy.eq(1),
                job.eq(self.job.payload),
                y.eq(0),
                x.eq(0),
                part.eq(0),
                address.eq(self.job.payload.sram_base),
                row_offset.eq(self.job.payload.offset),
                offset.eq(self.job.payload.offset),
            ]
        return m
