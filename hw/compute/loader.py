"""Executes LOAD.UOP, LOAD.ACC and LOAD.ACC8: moves data from the FIFO of a read client to the micro-op scratchpad or
the accumulators (hw/README.md section 6).
"""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vdla.isa.config import Config
from vdla.isa.layout import MemoryType

from ..element_writer import ElementWriter, job_layout, step_width
from ..interfaces import Kind, instruction_bits, read_client, scratchpad_write
from ..layouts import instruction_layout, view
from ..read_fifo import ReadFifo
from ..read_requests import ReadRequests
from .accumulators import lanes
from .alu import LANE

KINDS = (MemoryType.UOP, MemoryType.ACC, MemoryType.ACC8)


class Loader(wiring.Component):
    """Executes one load at a time. An element that the element writer outputs in cycle t is written to the memory in
    t + 1; the load ends in the cycle of its last write.

    Members
    -------
    start, instruction : In
        The LOAD `instruction` (micro-ops or accumulators) begins in this cycle; only while none is executing.
    pad_value : In
        Register COMPUTE_PAD, stable while a load is executing; pads of micro-ops are zero.
    last : Out
        The load ends in the next cycle.
    read : Out
        The read client.
    uop_write, acc_write : Out
        Write ports of the micro-op scratchpad and of the accumulators.
    """

    def __init__(self, *, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                "start": In(1),
                "instruction": In(instruction_bits(config)),
                "pad_value": In(LANE),
                "last": Out(1),
                "read": Out(read_client(config)),
                "uop_write": Out(
                    scratchpad_write(depth=config.uop_depth, width=8 * config.uop_bytes, lanes=1)
                ),
                "acc_write": Out(
                    scratchpad_write(depth=config.acc_depth, width=8 * config.acc_bytes, lanes=lanes(config))
                ),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Builds the read requests, the FIFO and the element writer, then a register before the memories."""
        m = Module()
        config = self.config
        sizes = (config.uop_bytes, config.acc_bytes, config.out_bytes)
        fifo_bytes = config.fifo_bytes("compute")
        m.submodules.requests = requests = ReadRequests(config=config, fifo_bytes=fifo_bytes)
        m.submodules.fifo = fifo = ReadFifo(config=config, fifo_bytes=fifo_bytes)
        m.submodules.writer = writer = ElementWriter(config=config, element_bytes=sizes)
        connect(m, requests.request, flipped(self.read.request))
        connect(m, fifo.words, writer.words)
        m.d.comb += [
            fifo.beat_valid.eq(self.read.beat_valid),
            fifo.beat_last.eq(self.read.beat_last),
            fifo.beat_data.eq(self.read.beat_data),
            requests.release.eq(fifo.release),
            requests.start.eq(self.start),
            self.last.eq(writer.last),
        ]

        load = view(instruction_layout(config, "LOAD.ACC"), self.instruction)
        job = Signal(job_layout(config, len(KINDS)))
        one_run = load.x_stride == load.x_size
        for name in ("sram_base", "y_size", "x_size", "y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1"):
            m.d.comb += job[name].eq(load[name])
        m.d.comb += [
            job.one_run.eq(one_run),
            requests.runs.rows.eq(load.y_size),
            requests.runs.joined.eq(one_run),
        ]
        m.d.sync += [writer.job.valid.eq(self.start), writer.job.payload.eq(job)]
        for number, (kind, size) in enumerate(zip(KINDS, sizes, strict=True)):
            shift = size.bit_length() - 1
            with m.If(load.memory_type == kind):
                m.d.comb += [
                    job.kind.eq(number),
                    job.offset.eq(load.dram_base << shift),
                    job.pitch.eq(load.x_stride << shift),
                    requests.runs.address.eq(load.dram_base << shift),
                    requests.runs.length.eq(load.x_size << shift),
                    requests.runs.pitch.eq(load.x_stride << shift),
                    requests.runs.kind.eq(Kind.UOP if kind == MemoryType.UOP else Kind.ACC),
                ]

        # The register before the memories.
        is_uop = writer.kind == KINDS.index(MemoryType.UOP)
        address = Signal(16, reset_less=True)
        uop = Signal(8 * config.uop_bytes, reset_less=True)
        vector = Signal(8 * config.acc_bytes, reset_less=True)
        m.d.sync += [
            self.uop_write.enable.eq(writer.write & is_uop),
            self.acc_write.enable.eq(0),
            address.eq(writer.address),
            uop.eq(Mux(writer.pad, 0, writer.data[: 8 * config.uop_bytes])),
        ]
        m.d.comb += [
            self.uop_write.address.eq(address),
            self.uop_write.data.eq(uop),
            self.acc_write.address.eq(address),
            self.acc_write.data.eq(vector),
        ]
        for kind, lane_bytes in ((MemoryType.ACC, 4), (MemoryType.ACC8, 1)):
            number = KINDS.index(kind)
            lanes_a_step = step_width(config, sizes[number]) // lane_bytes
            with m.If(writer.write & (writer.kind == number)):
                for lane in range(lanes(config)):
                    value = writer.data.word_select(lane % lanes_a_step, 8 * lane_bytes).as_signed()
                    mine = writer.pad | (writer.part == lane // lanes_a_step)
                    m.d.sync += [
                        self.acc_write.enable[lane].eq(mine),
                        vector.word_select(lane, LANE.width).eq(Mux(writer.pad, self.pad_value, value)),
                    ]
        return m
