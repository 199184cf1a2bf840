"""The FIFO of a read client: a queue of bus words whose room is freed burst by burst (hw/README.md section 2)."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from vdla.isa.config import Config

from .counting import counted
from .memories import ANY_ON_COLLISION


def word_layout(config: Config) -> data.StructLayout:
    """Layout of a bus word; `last`: it is the last word of its burst."""
    return data.StructLayout({"data": 8 * config.memory.bus_bytes, "last": 1})


class ReadFifo(wiring.Component):
    """The FIFO of a read client, a queue of bus words. A beat that arrives in cycle t is at the head from t + 2 on.

    Members: `beat_*`: the beats that arrive (`interfaces.read_client`). `words`: stream with the word at the head; it
    comes late in the cycle, from the output of a memory, so it should enter a register before other logic. `release`:
    in the cycle after the last word of a burst was popped, the number of words of this burst, for ReadRequests;
    otherwise 0.
    """

    def __init__(self, *, config: Config, fifo_bytes: int) -> None:
        """`fifo_bytes`: size of the FIFO. The client's ReadRequests prevents overflow, so it must be given the same
        size.
        """
        self._config = config
        self._words = fifo_bytes // config.memory.bus_bytes
        super().__init__(
            {
                "beat_valid": In(1),
                "beat_last": In(1),
                "beat_data": In(8 * config.memory.bus_bytes),
                "words": Out(stream.Signature(word_layout(config))),
                "release": Out(range(self._words + 1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Builds a block memory, which reads in each cycle the word that will be at the head in the next cycle."""
        m = Module()
        layout = word_layout(self._config)
        # A word that is read in the cycle of its write is read again before it is valid.
        m.submodules.memory = store = memory.Memory(
            shape=layout, depth=self._words, init=[], attrs=ANY_ON_COLLISION
        )
        write, read = store.write_port(), store.read_port()
        head, tail = Signal(range(self._words)), Signal(range(self._words))
        following = Signal.like(head, init=1)  # head + 1
        level = Signal(range(self._words + 1))
        arrived, valid, pop = Signal(), Signal(), Signal()
        m.d.comb += [
            write.en.eq(self.beat_valid),
            write.addr.eq(tail),
            write.data.data.eq(self.beat_data),
            write.data.last.eq(self.beat_last),
            pop.eq(valid & self.words.ready),
            read.en.eq(1),
            read.addr.eq(Mux(pop, following, head)),
            self.words.valid.eq(valid),
            self.words.payload.eq(read.data),
        ]
        m.d.sync += [
            tail.eq(tail + self.beat_valid),
            arrived.eq(self.beat_valid),
            level.eq(counted(level, up=arrived, down=pop)),
            valid.eq(arrived | Mux(pop, level > 1, valid)),
        ]
        with m.If(pop):
            m.d.sync += [head.eq(following), following.eq(following + 1)]
        popped, ends = Signal(), Signal()
        count = Signal(range(self._words + 1))
        m.d.sync += [popped.eq(pop), ends.eq(read.data.last)]
        m.d.comb += self.release.eq(Mux(popped & ends, count + 1, 0))
        with m.If(popped):
            m.d.sync += count.eq(Mux(ends, 0, count + 1))
        return m
