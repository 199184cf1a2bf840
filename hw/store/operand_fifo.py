"""The FIFO of the store unit's read client: bus words for loads, output vectors for STORE.POST with an operand."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from vdla.isa.config import Config

from ..read_fifo import word_layout


class OperandFifo(wiring.Component):
    """A FIFO of bus words that is read either as words or as output vectors. A beat that arrives in cycle t is
    available from t + 1 on.

    Members: `beat_*`: the beats that arrive (`interfaces.read_client`). `words`: stream with the word at the head.
    `release`: in the cycle in which the last word of a burst is popped, the number of words of this burst; otherwise 0.

    Members for reading vectors:

    - `start`: sets the position of the first vector in its bus word (`offset`, in vectors), and the distance from row
      to row (`pitch`, in vectors, modulo the vectors in a word).
    - `vector`: the next vector, valid if `vector_valid` is 1. A vector wider than the bus is popped as a whole.
    - `take`: pops the vector; with `run_ends`, also the rest of its word.
    """

    def __init__(self, *, config: Config) -> None:
        """`config` determines the bytes of a bus word, of an output vector and of the FIFO, all powers of two."""
        self._config = config
        bus, out = config.memory.bus_bytes, config.out_bytes
        self._words = config.fifo_bytes("operand") // bus
        self._banks = max(1, out // bus)
        self._places = max(1, bus // out)
        super().__init__(
            {
                "beat_valid": In(1),
                "beat_last": In(1),
                "beat_data": In(8 * bus),
                "words": Out(stream.Signature(word_layout(config))),
                "start": In(1),
                "offset": In(range(self._places)),
                "pitch": In(range(self._places)),
                "take": In(1),
                "run_ends": In(1),
                "vector": Out(8 * out),
                "vector_valid": Out(1),
                "release": Out(range(self._words + 1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Builds a memory for each bus word of a vector that is wider than the bus, so that all words of the vector are
        read in the same cycle; otherwise one memory.
        """
        m = Module()
        layout = word_layout(self._config)
        bank_bits = self._banks.bit_length() - 1
        level = Signal(range(self._words + 1))
        head, tail = (Signal(range(self._words), name=name) for name in ("first_used", "first_free"))
        beat = Signal(layout)
        m.d.comb += [beat.data.eq(self.beat_data), beat.last.eq(self.beat_last)]
        reads = []
        for number in range(self._banks):
            m.submodules[f"bank_{number}"] = bank = memory.Memory(
                shape=layout.size, depth=self._words // self._banks, init=[]
            )
            write, read = bank.write_port(), bank.read_port(domain="comb")
            m.d.comb += [
                write.en.eq(self.beat_valid & (tail[:bank_bits] == number)),
                write.addr.eq(tail[bank_bits:]),
                write.data.eq(beat),
                read.addr.eq(head[bank_bits:]),
            ]
            reads.append(data.View(layout, read.data))
        here = Signal(layout)
        m.d.comb += here.eq(Array([read.as_value() for read in reads])[head[:bank_bits]])

        pop_word = self.words.valid & self.words.ready
        offset, row = (Signal(range(self._places), name=name) for name in ("offset", "row"))
        popped, pop = (Signal(range(self._words + 1), name=name) for name in ("popped", "pop"))
        last = Signal()
        # `vector_valid` of the next cycle is computed for every number of words popped; the number comes late.
        complete = Signal()
        grown = level + self.beat_valid
        enough, enough_for_two = grown >= self._banks, grown >= 2 * self._banks
        if self._banks > 1:
            after_take: Value = enough_for_two
            joined = Cat(*(read.data for read in reads))
            m.d.comb += [
                pop.eq(Mux(self.take, self._banks, pop_word)),
                last.eq(Mux(self.take, reads[-1].last, here.last)),
            ]
        else:
            joined = here.data.word_select(offset, 8 * self._config.out_bytes)
            word_ends = (offset == self._places - 1) | self.run_ends
            after_take = Mux(word_ends, enough_for_two, enough)
            m.d.comb += [pop.eq(Mux(self.take, word_ends, pop_word)), last.eq(here.last)]
        m.d.comb += [
            self.words.valid.eq(level != 0),
            self.words.payload.eq(here),
            self.vector_valid.eq(complete),
            self.vector.eq(joined),
            self.release.eq(Mux((pop != 0) & last, popped + pop, 0)),
        ]
        m.d.sync += [
            complete.eq(Mux(self.take, after_take, Mux(pop_word, grown > self._banks, enough))),
            tail.eq(tail + self.beat_valid),
            head.eq(head + pop),
            level.eq(level + self.beat_valid - pop),
            popped.eq(Mux((pop != 0) & last, 0, popped + pop)),
        ]
        with m.If(self.start):
            m.d.sync += [offset.eq(self.offset), row.eq(self.offset)]
        with m.Elif(self.take):
            m.d.sync += offset.eq(offset + 1)
            with m.If(self.run_ends):
                m.d.sync += [offset.eq(row + self.pitch), row.eq(row + self.pitch)]
        return m
