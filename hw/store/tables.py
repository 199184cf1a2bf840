"""Look-up tables between stages A and B of STORE.POST; every lane has a copy of them, because each lane reads a
different entry.
"""

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
"""Name of the Verilog module that the look-up tables of all lanes share."""


def table_words(config: Config) -> int:
    """Number of bus words of all look-up tables, without the table that instruction ROWS reads."""
    return config.tables * TABLE_BYTES // config.memory.bus_bytes


class TableLane(wiring.Component):
    """One lane's copy of the look-up tables; accepts a new `value` every cycle.

    Members: `value`: input, int8. `result`: output, int8, TABLE_CYCLES later: entry number `value` + 128 of table
    number `index` if `used` is 1, the value itself if `used` is 0. `used` and `index` must not change while values are
    in the pipeline. `write`: writes `data`, a bus word, to word `at` of the copy.
    """

    def __init__(self, *, config: Config) -> None:
        """`config` determines the number of tables and the width of a bus word, in which the tables are written."""
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
        """Builds a memory read of the bus word that contains the entry, then the selection of the entry's byte."""
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
    """The look-up tables of all lanes: a `TableLane` for each lane.

    Members: `values`: inputs, an int8 for each lane, lane 0 lowest. `results`: outputs, an int8 for each lane,
    TABLE_CYCLES later: entry number value + 128 of table number `index` if `used` is 1, the value itself if `used` is
    0. `used` and `index` must not change while values are in the pipeline. `write`: writes `data`, a bus word, to word
    `at` of every lane's copy of the tables.
    """

    def __init__(self, *, config: Config) -> None:
        """`config` determines the number of lanes in a pass of STORE.POST, the number of tables, and the bytes of a bus
        word.
        """
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
        """Builds a `TableLane` for each lane."""
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
