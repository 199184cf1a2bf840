"""The fetch unit: instructions from memory into the three command queues (hw/README.md section 4)."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import fifo, memory, wiring
from amaranth.lib.wiring import In, Out
from vdla.isa.config import Config
from vdla.isa.layout import INSTRUCTION_BYTES, MemoryType, Opcode, Unit
from vdla.isa.timing import AXI_BOUNDARY, READ_BURST_BEATS

from .interfaces import ADDRESS_BITS, INSTRUCTION_BITS, Kind, commands, read_client
from .layouts import instruction_layout, view

COUNT_BITS = 32
"""Width of the number of instructions of a program."""


def instructions_per_burst(config: Config) -> int:
    """Most instructions of one request. A power of two, so bursts start at its multiples and no page is crossed."""
    beats_worth = max(1, READ_BURST_BEATS * config.memory.bus_bytes // INSTRUCTION_BYTES)
    return min(config.fetch_buffer_depth // 2, beats_worth, AXI_BOUNDARY // INSTRUCTION_BYTES)


class FetchUnit(wiring.Component):
    """Reads `count` instructions from byte address `program` (a multiple of 4096; both stay during a run).

    Members: `read` its read client; `load`, `compute`, `store` the heads of the command queues, from the queues' side.
    """

    def __init__(self, *, config: Config) -> None:
        """`config` gives buffer, queues and bus."""
        self._config = config
        super().__init__(
            {
                "program": In(ADDRESS_BITS),
                "count": In(COUNT_BITS),
                "read": Out(read_client(config)),
                **{unit.name.lower(): Out(commands()) for unit in Unit},
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Counts of instructions requested, received and dispatched; the buffer is addressed by their low bits."""
        m = Module()
        requested, received, dispatched = (
            Signal(COUNT_BITS, name=name) for name in ("requested", "received", "dispatched")
        )
        self._request(m, requested, dispatched)
        head = self._receive(m, received, dispatched)
        self._dispatch(m, head, dispatched != received, dispatched)
        return m

    def _request(self, m: Module, requested: Signal, dispatched: Signal) -> None:
        config = self._config
        bus, most = config.memory.bus_bytes, instructions_per_burst(config)
        left, number = Signal(COUNT_BITS), Signal(range(most + 1))
        held = Signal(range(config.fetch_buffer_depth + 1))
        burst = self.read.request.payload
        m.d.comb += [
            left.eq(self.count - requested),
            number.eq(Mux(left < most, left, most)),
            held.eq(requested - dispatched),
            self.read.request.valid.eq((left != 0) & (config.fetch_buffer_depth - held >= number)),
            burst.address.eq(self.program + INSTRUCTION_BYTES * requested),
            burst.bytes.eq(INSTRUCTION_BYTES * number),
            burst.beats.eq(
                (burst.address[: bus.bit_length() - 1] + INSTRUCTION_BYTES * number + (bus - 1))
                >> (bus.bit_length() - 1)
            ),
            burst.kind.eq(Kind.INSTRUCTION),
        ]
        with m.If(self.read.request.valid & self.read.request.ready):
            m.d.sync += requested.eq(requested + number)

    def _receive(self, m: Module, received: Signal, dispatched: Signal) -> Value:
        """Put the instructions of each beat into the buffer's banks; returns the one to dispatch next."""
        config = self._config
        bus, depth, most = config.memory.bus_bytes, config.fetch_buffer_depth, instructions_per_burst(config)
        lanes = max(1, bus // INSTRUCTION_BYTES)
        banks = min(lanes, depth)
        # Instructions that a beat carries: a burst starts at a multiple of `most`, so a beat never holds parts of two.
        per_beat = min(lanes, most)
        lane_bits, bank_bits = lanes.bit_length() - 1, banks.bit_length() - 1
        first_half = Signal(init=1)
        complete = self.read.beat_valid
        if bus < INSTRUCTION_BYTES:
            complete = self.read.beat_valid & ~first_half
            with m.If(self.read.beat_valid):
                m.d.sync += first_half.eq(~first_half)
        left = self.count - received
        heads = []
        for bank in range(banks):
            buffer = memory.Memory(shape=INSTRUCTION_BITS, depth=max(2, depth // banks), init=[])
            m.submodules[f"buffer_{bank}"] = buffer
            write = buffer.write_port(granularity=min(INSTRUCTION_BITS, 8 * bus))
            read = buffer.read_port(domain="comb")
            # The instruction of this beat that goes to this bank: its distance from the first one of the beat.
            distance = Signal(range(max(2, banks)), name=f"distance_{bank}")
            place = Signal(COUNT_BITS, name=f"place_{bank}")
            m.d.comb += [
                distance.eq(bank - received[:bank_bits] if bank_bits else 0),
                place.eq(received + distance),
                write.addr.eq(place[bank_bits:]),
                read.addr.eq(dispatched[bank_bits:]),
            ]
            here = (distance < per_beat) & (distance < left)
            if bus < INSTRUCTION_BYTES:
                m.d.comb += [
                    write.data.eq(self.read.beat_data.replicate(2)),
                    write.en.eq(Cat(self.read.beat_valid & first_half, complete)),
                ]
            else:
                lane = self.read.beat_data.word_select(place[:lane_bits], INSTRUCTION_BITS)
                m.d.comb += [write.data.eq(lane), write.en.eq(complete & here)]
            heads.append(read.data)
        with m.If(complete):
            m.d.sync += received.eq(received + Mux(left < per_beat, left, per_beat))
        head = Signal(INSTRUCTION_BITS)
        m.d.comb += head.eq(Cat(*heads).word_select(dispatched[:bank_bits], INSTRUCTION_BITS))
        return head

    def _dispatch(self, m: Module, head: Value, there: Value, dispatched: Signal) -> None:
        finished = Signal()
        to = {unit: Signal(name=f"to_{unit.name.lower()}") for unit in Unit}
        unit_field = view(instruction_layout(self._config, "CONFIG"), head)["unit"]
        fields = view(instruction_layout(self._config, "LOAD.INP"), head)
        with m.Switch(fields["opcode"]):
            with m.Case(Opcode.LOAD), m.Switch(fields["memory_type"]):
                with m.Case(MemoryType.INP, MemoryType.WGT, MemoryType.PATCH):
                    m.d.comb += to[Unit.LOAD].eq(1)
                with m.Case(MemoryType.PAR):
                    m.d.comb += to[Unit.STORE].eq(1)
                with m.Default():
                    m.d.comb += to[Unit.COMPUTE].eq(1)
            with m.Case(Opcode.STORE):
                m.d.comb += to[Unit.STORE].eq(1)
            with m.Case(Opcode.CONFIG), m.Switch(unit_field):
                for unit in Unit:
                    with m.Case(unit):
                        m.d.comb += to[unit].eq(1)
            with m.Default():
                m.d.comb += to[Unit.COMPUTE].eq(1)
        moved = []
        for unit in Unit:
            name = unit.name.lower()
            m.submodules[f"{name}_queue"] = queue = fifo.SyncFIFO(
                width=INSTRUCTION_BITS, depth=self._config.command_queue_depth
            )
            port = getattr(self, name)
            m.d.comb += [
                queue.w_data.eq(head),
                queue.w_en.eq(there & to[unit] & ~finished),
                port.valid.eq(queue.r_rdy),
                port.payload.eq(queue.r_data),
                queue.r_en.eq(port.ready),
            ]
            moved.append(queue.w_en & queue.w_rdy)
        with m.If(Cat(*moved).any()):
            m.d.sync += dispatched.eq(dispatched + 1)
            with m.If(fields["opcode"] == Opcode.FINISH):
                m.d.sync += finished.eq(1)
