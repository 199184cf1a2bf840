"""Look-up tables between stages A and B of STORE.POST: a copy for every lane, since each reads another entry."""

from __future__ import annotations

from functools import partial

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from vdla.isa.config import Config
from vdla.isa.store_stages import TABLE_BYTES, TABLE_CYCLES

from ..memories import ANY_ON_COLLISION
from ..shared_modules import place
from .pipeline import delay, register

LANE = "table_lane"
"""Name of the one Verilog module of all lanes."""


def table_words(config: Config) -> int:
    """Bus words of all look-up tables together, without the rows' table."""
    return config.tables * TABLE_BYTES // config.memory.bus_bytes


class TableLane(wiring.Component):
    """One lane's copy, a new `value` every cycle.

    Members: `value` int8, looked up in table `index`. `result`: for the value of cycle t, in t + TABLE_CYCLES: the
    entry, or the value itself unless `used`. `used` and `index` hold still while values are under way. `write`: the
    word `at` becomes `data`.
    """

    def __init__(self, *, config: Config) -> None:
        """`config` gives how many tables there are, and the bus, in whose words they are written."""
        self._config = config
        super().__init__(
            {
                "value": In(signed(8)),
                "used": In(1),
                "index": In(3),
                "result": Out(signed(8)),
                "write": In(1),
                "at": In(range(table_words(config))),
                "data": In(8 * config.memory.bus_bytes),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Reads a bus word of the table, then selects its byte."""
        m = Module()
        bus = self._config.memory.bus_bytes
        m.submodules.words = words = memory.Memory(
            shape=8 * bus, depth=table_words(self._config), init=[], attrs=ANY_ON_COLLISION
        )
        write, read = words.write_port(), words.read_port()
        entry = Signal(range(8 * TABLE_BYTES))
        low = bus.bit_length() - 1
        m.d.comb += [
            # Value -128 selects the first entry, so the top bit is inverted.
            entry.eq(Cat(self.value[:7], ~self.value[7], self.index)),
            write.addr.eq(self.at),
            write.data.eq(self.data),
            write.en.eq(self.write),
            read.addr.eq(entry[low:]),
        ]
        byte = register(m, entry[:low], "byte")
        found = read.data.word_select(byte, 8).as_signed()
        plain = delay(m, self.value, TABLE_CYCLES - 1, "plain")
        m.d.sync += self.result.eq(Mux(self.used, found, plain))
        return m


class Tables(wiring.Component):
    """The look-up tables of all lanes. Members as in `TableLane`; `values` and `results` have the lanes one after the
    other.
    """

    def __init__(self, *, config: Config) -> None:
        """`config` gives the lanes of STORE.POST's arithmetic, the tables and the bus."""
        self._config = config
        self._lanes = config.out_bytes // config.post_passes
        super().__init__(
            {
                "values": In(8 * self._lanes),
                "used": In(1),
                "index": In(3),
                "results": Out(8 * self._lanes),
                "write": In(1),
                "at": In(range(table_words(config))),
                "data": In(8 * config.memory.bus_bytes),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """The lanes."""
        m = Module()
        results = [
            place(
                m,
                platform,
                f"lane_{lane}",
                LANE,
                partial(TableLane, config=self._config),
                value=self.values.word_select(lane, 8),
                used=self.used,
                index=self.index,
                write=self.write,
                at=self.at,
                data=self.data,
            ).result
            for lane in range(self._lanes)
        ]
        m.d.comb += self.results.eq(Cat(*results))
        return m
