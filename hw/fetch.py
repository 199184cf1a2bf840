"""The fetch unit: instructions from memory into the three command queues (hw/README.md section 4)."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from vdla.isa.config import Config
from vdla.isa.layout import INSTRUCTION_BYTES, MemoryType, Opcode, Unit
from vdla.isa.timing import AXI_BOUNDARY, READ_BURST_BEATS

from .command_queue import CommandQueue
from .interfaces import ADDRESS_BITS, INSTRUCTION_BITS, Kind, burst_layout, commands, read_client
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
        """Requests ahead, a buffer, and its head in a register with the queue that it goes to."""
        m = Module()
        fresh = Signal(init=1)  # the first cycle of a run
        moved = Signal()
        m.d.sync += fresh.eq(0)
        self._request(m, fresh, moved)
        head, arrived, loads = self._receive(m, fresh)
        self._dispatch(m, head, arrived, loads, moved)
        return m

    def _request(self, m: Module, fresh: Signal, moved: Signal) -> None:
        """What is left, the next request's size, and the request that shows: a register each."""
        config = self._config
        bus, most = config.memory.bus_bytes, instructions_per_burst(config)
        shift = bus.bit_length() - 1
        left, address = Signal(COUNT_BITS), Signal(ADDRESS_BITS)
        number, cut, ready, shown = Signal(range(most + 1)), Signal(), Signal(), Signal()
        free = Signal(range(config.fetch_buffer_depth + 1), init=config.fetch_buffer_depth)
        burst = Signal(burst_layout(config), reset_less=True)
        moves = Signal()
        size = INSTRUCTION_BYTES * number
        m.d.comb += [
            moves.eq(ready & ~shown & (number <= free)),
            self.read.request.valid.eq(shown),
            self.read.request.payload.eq(burst),
        ]
        m.d.sync += [
            cut.eq(fresh | moves),
            free.eq(Mux(moved, free + 1, free) - Mux(moves, number, 0)),
        ]
        with m.If(fresh):
            m.d.sync += [left.eq(self.count), address.eq(self.program)]
        with m.If(cut):
            m.d.sync += [number.eq(Mux(left < most, left, most)), ready.eq(left != 0)]
        with m.Elif(moves):
            m.d.sync += [ready.eq(0), left.eq(left - number), address.eq(address + size)]
        with m.If(~shown):
            m.d.sync += [
                shown.eq(moves),
                burst.address.eq(address),
                burst.bytes.eq(size),
                burst.beats.eq((address[:shift] + size + (bus - 1)) >> shift),
                burst.kind.eq(Kind.INSTRUCTION),
            ]
        with m.Elif(self.read.request.ready):
            m.d.sync += shown.eq(0)

    def _receive(self, m: Module, fresh: Signal) -> tuple[Value, Value, Signal]:
        """Put the instructions of each beat into the buffer's banks. Returns the oldest one, whether there is one, and
        the signal that takes it out.
        """
        config = self._config
        bus, most = config.memory.bus_bytes, instructions_per_burst(config)
        depth = config.fetch_buffer_depth
        lanes = max(1, bus // INSTRUCTION_BYTES)
        banks = min(lanes, depth)
        loads = Signal()
        received, loaded = Signal(range(max(depth, lanes))), Signal(range(depth))
        left, stored = Signal(COUNT_BITS), Signal(range(depth + 1))
        # Instructions that a beat carries: a burst starts at a multiple of `most`, so a beat never holds parts of two.
        per_beat = min(lanes, most)
        lane_bits, bank_bits = lanes.bit_length() - 1, banks.bit_length() - 1
        first_half = Signal(init=1)
        complete = self.read.beat_valid
        if bus < INSTRUCTION_BYTES:
            complete = self.read.beat_valid & ~first_half
            with m.If(self.read.beat_valid):
                m.d.sync += first_half.eq(~first_half)
        heads = []
        for bank in range(banks):
            buffer = memory.Memory(shape=INSTRUCTION_BITS, depth=max(2, depth // banks), init=[])
            m.submodules[f"buffer_{bank}"] = buffer
            write = buffer.write_port(granularity=min(INSTRUCTION_BITS, 8 * bus))
            read = buffer.read_port(domain="comb")
            # The instruction of this beat that goes to this bank: its distance from the first one of the beat.
            distance = Signal(range(max(2, banks)), name=f"distance_{bank}")
            place = Signal.like(received, name=f"place_{bank}")
            m.d.comb += [
                distance.eq(bank - received[:bank_bits] if bank_bits else 0),
                place.eq(received + distance),
                write.addr.eq(place[bank_bits : depth.bit_length() - 1]),
                read.addr.eq(loaded[bank_bits:]),
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
        got = Signal(range(per_beat + 1))
        m.d.comb += got.eq(Mux(complete, Mux(left < per_beat, left, per_beat), 0))
        m.d.sync += [
            received.eq(received + got),
            loaded.eq(loaded + loads),
            stored.eq(stored + got - loads),
            left.eq(Mux(fresh, self.count, left - got)),
        ]
        oldest = Signal(INSTRUCTION_BITS)
        m.d.comb += oldest.eq(Cat(*heads).word_select(loaded[:bank_bits], INSTRUCTION_BITS))
        return oldest, stored != 0, loads

    def _dispatch(self, m: Module, oldest: Value, arrived: Value, loads: Signal, moved: Signal) -> None:
        finished, there, is_finish = Signal(), Signal(), Signal()
        head = Signal(INSTRUCTION_BITS, reset_less=True)
        to = {unit: Signal(name=f"to_{unit.name.lower()}") for unit in Unit}
        with m.If(moved):
            m.d.sync += finished.eq(is_finish)
        m.d.comb += loads.eq((~there | moved) & arrived)
        with m.If(~there | moved):
            m.d.sync += [there.eq(arrived), head.eq(oldest)]
            self._decode(m, oldest, to, is_finish)
        moves = []
        for unit in Unit:
            name = unit.name.lower()
            queue = CommandQueue(depth=self._config.command_queue_depth)
            m.submodules[f"{name}_queue"] = queue
            connect(m, flipped(getattr(self, name)), queue.head)
            m.d.comb += [
                queue.instruction.eq(head),
                queue.push.eq(there & to[unit] & ~finished & ~queue.full),
            ]
            moves.append(queue.push)
        m.d.comb += moved.eq(Cat(*moves).any())

    def _decode(self, m: Module, instruction: Value, to: dict[Unit, Signal], is_finish: Signal) -> None:
        """Which queue `instruction` goes to, into registers."""
        unit_field = view(instruction_layout(self._config, "CONFIG"), instruction)["unit"]
        fields = view(instruction_layout(self._config, "LOAD.INP"), instruction)
        m.d.sync += [is_finish.eq(fields["opcode"] == Opcode.FINISH), *(to[unit].eq(0) for unit in Unit)]
        with m.Switch(fields["opcode"]):
            with m.Case(Opcode.LOAD), m.Switch(fields["memory_type"]):
                with m.Case(MemoryType.INP, MemoryType.WGT, MemoryType.PATCH):
                    m.d.sync += to[Unit.LOAD].eq(1)
                with m.Case(MemoryType.PAR):
                    m.d.sync += to[Unit.STORE].eq(1)
                with m.Default():
                    m.d.sync += to[Unit.COMPUTE].eq(1)
            with m.Case(Opcode.STORE):
                m.d.sync += to[Unit.STORE].eq(1)
            with m.Case(Opcode.CONFIG), m.Switch(unit_field):
                for unit in Unit:
                    with m.Case(unit):
                        m.d.sync += to[unit].eq(1)
            with m.Default():
                m.d.sync += to[Unit.COMPUTE].eq(1)
