"""The fetch unit, which moves instructions from memory to the three command queues (hw/README.md section 4)."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vdla.isa.config import Config
from vdla.isa.layout import TABLE, MemoryType, Opcode, Unit
from vdla.isa.timing import fetch_burst_instructions

from .command_queue import CommandQueue
from .counting import counted, will_be_some
from .interfaces import ADDRESS_BITS, Kind, burst_layout, commands, instruction_bits, read_client
from .layouts import instruction_layout, view

COUNT_BITS = 32
"""Width in bits of the number of instructions of a program."""

_ROUTE = data.StructLayout({"unit": 2, "is_finish": 1})
"""Layout of a route: the unit that executes an instruction, and whether it is FINISH. A CONFIG may name a `unit` that
does not exist.
"""


class FetchUnit(wiring.Component):
    """Reads the program from memory and distributes its instructions to the units: `count` instructions from byte
    address `program` on, which is a multiple of 4096. `program` and `count` must not change during a run.

    Members: `read`: the read client. `load`, `compute`, `store`: streams (signature `interfaces.commands`), one for
    each unit, from which the unit takes the oldest instruction in its command queue.
    """

    def __init__(self, *, config: Config) -> None:
        """`config` determines the sizes of the fetch buffer, of the command queues and of a bus word."""
        self._config = config
        super().__init__(
            {
                "program": In(ADDRESS_BITS),
                "count": In(COUNT_BITS),
                "read": Out(read_client(config)),
                **{unit.name.lower(): Out(commands(config)) for unit in Unit},
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Builds the read requests (they run ahead of dispatch), a buffer of instructions, and a register that holds
        the oldest instruction and its route (the unit that executes it, and whether it is FINISH).
        """
        m = Module()
        fresh = Signal(init=1)  # the first cycle of a run
        moved = Signal()
        m.d.sync += fresh.eq(0)
        self._request(m, fresh, moved)
        oldest, route, arrived, loads = self._receive(m, fresh)
        self._dispatch(m, oldest, route, arrived, loads, moved)
        return m

    def _request(self, m: Module, fresh: Signal, moved: Signal) -> None:
        """Builds the requests in three stages of registers: number of instructions left to fetch, size of the next
        request, and the request that is shown to the arbiter. `fresh`: 1 in the first cycle of a run. `moved`: an
        instruction left the head register.
        """
        config = self._config
        bus, most = config.memory.bus_bytes, fetch_burst_instructions(config)
        shift = bus.bit_length() - 1
        left, address = Signal(COUNT_BITS, reset_less=True), Signal(ADDRESS_BITS, reset_less=True)
        number = Signal(range(most + 1), reset_less=True)
        cut, ready, shown, fits = Signal(), Signal(), Signal(), Signal()
        free = Signal(range(config.fetch_buffer_depth + 1), init=config.fetch_buffer_depth)
        burst = Signal(burst_layout(config), reset_less=True)
        moves = Signal()
        size = config.instruction_bytes * number
        kept = (free - Mux(moves, number, 0))[: len(free)]
        m.d.comb += [
            moves.eq(ready & ~shown & fits),
            self.read.request.valid.eq(shown),
            self.read.request.payload.eq(burst),
        ]
        m.d.sync += [
            cut.eq(fresh | moves),
            free.eq(Mux(moved, kept + 1, kept)),
            # There is room for the next request: its size is the smaller of `left` and `most`.
            fits.eq((left <= free) | (most <= free)),
        ]
        with m.If(fresh):
            m.d.sync += [left.eq(self.count), address.eq(self.program)]
        with m.If(cut):
            few = ~left[most.bit_length() - 1 :].any()  # fewer than `most`, a power of two
            m.d.sync += [number.eq(Mux(few, left, most)), ready.eq(left != 0)]
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

    def _receive(self, m: Module, fresh: Signal) -> tuple[Value, Value, Signal, Signal]:
        """Builds the buffer of fetched instructions, which stores each with its route (the unit that executes it, and
        whether it is FINISH). Returns the oldest instruction; its route; whether there is an instruction at all; and a
        signal that the caller drives to remove it. `fresh`: 1 in the first cycle of a run.
        """
        config = self._config
        bus, most = config.memory.bus_bytes, fetch_burst_instructions(config)
        depth = config.fetch_buffer_depth
        size, bits = config.instruction_bytes, instruction_bits(config)
        lanes, parts = max(1, bus // size), max(1, size // bus)
        banks = min(lanes, depth)
        loads = Signal()
        received, loaded = Signal(range(max(depth, lanes))), Signal(range(depth))
        # The complement of `loaded`, for the routes, which must be early; `loaded` drives all bits of the buffer.
        loaded_below = Signal.like(loaded, init=depth - 1)
        left, stored, arrived = Signal(COUNT_BITS, reset_less=True), Signal(range(depth + 1)), Signal()
        # Instructions in a beat: a burst starts at a multiple of `most`, so a beat never has parts of two instructions.
        per_beat = min(lanes, most)
        lane_bits, bank_bits = lanes.bit_length() - 1, banks.bit_length() - 1
        beats = self._beats(m, parts)
        complete = beats[-1]
        heads, routes = [], []
        for bank in range(banks):
            buffer = memory.Memory(shape=bits, depth=max(2, depth // banks), init=[])
            m.submodules[f"buffer_{bank}"] = buffer
            write = buffer.write_port(granularity=min(bits, 8 * bus))
            read = buffer.read_port(domain="comb")
            directory = memory.Memory(shape=_ROUTE, depth=max(2, depth // banks), init=[])
            m.submodules[f"routes_{bank}"] = directory
            write_route, read_route = directory.write_port(), directory.read_port(domain="comb")
            # Index, within the beat, of the instruction for this bank.
            distance = Signal(range(max(2, banks)), name=f"distance_{bank}")
            place = Signal.like(received, name=f"place_{bank}")
            m.d.comb += [
                distance.eq(bank - received[:bank_bits] if bank_bits else 0),
                place.eq(received + distance),
                write.addr.eq(place[bank_bits : depth.bit_length() - 1]),
                read.addr.eq(loaded[bank_bits:]),
                write_route.addr.eq(~place[bank_bits : depth.bit_length() - 1]),
                read_route.addr.eq(loaded_below[bank_bits:]),
            ]
            here = (distance < per_beat) & (distance < left)
            if parts > 1:
                m.d.comb += [
                    write.data.eq(self.read.beat_data.replicate(parts)),
                    write.en.eq(Cat(*beats)),
                    write_route.en.eq(write.en[0]),
                ]
            else:
                lane = self.read.beat_data.word_select(place[:lane_bits], bits)
                m.d.comb += [
                    write.data.eq(lane),
                    write.en.eq(complete & here),
                    write_route.en.eq(write.en),
                ]
            self._decode(m, write.data, write_route.data)
            heads.append(read.data)
            routes.append(read_route.data)
        got = Signal(range(per_beat + 1))
        if per_beat == 1:
            m.d.comb += got.eq(complete)
            m.d.sync += stored.eq(counted(stored, up=got, down=loads))
        else:
            few = ~left[per_beat.bit_length() - 1 :].any()
            m.d.comb += got.eq(Mux(complete, Mux(few, left, per_beat), 0))
            m.d.sync += stored.eq(stored + got - loads)
        m.d.sync += [
            received.eq(received + got),
            loaded.eq(loaded + loads),
            loaded_below.eq(loaded_below - loads),
            arrived.eq(will_be_some(stored, up=got != 0, down=loads)),
            left.eq(Mux(fresh, self.count, left - got)),
        ]
        oldest, route = Signal(bits), Signal(_ROUTE)
        m.d.comb += [
            oldest.eq(Cat(*heads).word_select(loaded[:bank_bits], bits)),
            route.eq(Array(routes)[~loaded_below[:bank_bits]]),
        ]
        return oldest, route, arrived, loads

    def _beats(self, m: Module, parts: int) -> list[Value]:
        """For each of the `parts` beats of an instruction, whether that beat arrives in this cycle."""
        valid = self.read.beat_valid
        if parts == 1:
            return [valid]
        if parts == 2:
            first_half = Signal(init=1)
            with m.If(valid):
                m.d.sync += first_half.eq(~first_half)
            return [valid & first_half, valid & ~first_half]
        awaited = Signal(parts, init=1)
        with m.If(valid):
            m.d.sync += awaited.eq(awaited.rotate_left(1))
        return [valid & awaited[part] for part in range(parts)]

    def _dispatch(
        self, m: Module, oldest: Value, route: Value, arrived: Value, loads: Signal, moved: Signal
    ) -> None:
        """Moves instructions from the head register of fetch to the command queues.

        For each unit, `to` is 1 if the head register holds an instruction for the unit and no FINISH was dispatched
        before (`ended`); `goes` is 1 if the unit's queue also has room. Both are registers that are computed a cycle
        ahead, so that the outputs are early in the cycle. `oldest`, `route`, `arrived`: the buffer's oldest
        instruction, its route, and whether there is one. This method drives `loads` (the head register takes this
        instruction) and `moved` (an instruction left the head register).
        """
        # `takes`: there is no head, or it leaves. `takes` drives the bits of the head; its complement `keeps` drives
        # the decisions.
        there, ended, takes, keeps = Signal(), Signal(), Signal(init=1), Signal()
        head = Signal(instruction_bits(self._config), reset_less=True)
        to = {unit: Signal(name=f"to_{unit.name.lower()}") for unit in Unit}
        goes = {unit: Signal(name=f"goes_{unit.name.lower()}") for unit in Unit}
        m.d.comb += [
            moved.eq(Cat(*goes.values()).any()),
            loads.eq(~keeps & arrived),
        ]
        loaded = {unit: arrived & ~ended & (route.unit == unit) for unit in Unit}
        with m.If(takes):
            m.d.sync += [
                there.eq(arrived),
                head.eq(oldest),
                ended.eq(ended | (arrived & route.is_finish)),
                *(to[unit].eq(loaded[unit]) for unit in Unit),
            ]
        leaves = []
        for unit in Unit:
            name = unit.name.lower()
            queue = CommandQueue(config=self._config)
            m.submodules[f"{name}_queue"] = queue
            connect(m, flipped(getattr(self, name)), queue.head)
            m.d.comb += [queue.instruction.eq(head), queue.push.eq(goes[unit])]
            leaves.append(Mux(keeps, to[unit], loaded[unit]) & ~queue.fills)
            m.d.sync += goes[unit].eq(leaves[-1])
        will_take = Signal()
        m.d.comb += will_take.eq(~Mux(keeps, there, arrived) | Cat(*leaves).any())
        m.d.sync += [takes.eq(will_take), keeps.eq(~will_take)]

    def _decode(self, m: Module, instruction: Value, route: data.View) -> None:
        """Drives `route`, which tells the unit that executes `instruction` and whether it is FINISH. `instruction`: the
        first 64 bits of the instruction, which has just arrived from memory.
        """
        unit_field = view(instruction_layout(self._config, "CONFIG"), instruction)["unit"]
        fields = view(instruction_layout(self._config, "LOAD.INP"), instruction)
        m.d.comb += [route.is_finish.eq(fields["opcode"] == Opcode.FINISH), route.unit.eq(Unit.COMPUTE)]
        with m.Switch(fields["opcode"]):
            with m.Case(Opcode.LOAD), m.Switch(fields["memory_type"]):
                with m.Case(MemoryType.INP, MemoryType.WGT, MemoryType.PATCH):
                    m.d.comb += route.unit.eq(Unit.LOAD)
                with m.Case(MemoryType.PAR, *([TABLE] if self._config.has("table") else [])):
                    m.d.comb += route.unit.eq(Unit.STORE)
            with m.Case(Opcode.STORE):
                m.d.comb += route.unit.eq(Unit.STORE)
            with m.Case(Opcode.CONFIG):
                m.d.comb += route.unit.eq(unit_field)
