"""The FIFO of a read client: bus words, given back burst by burst (hw/README.md section 2)."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out
from vdla.isa.config import Config


def word_layout(config: Config) -> data.StructLayout:
    """A bus word; `last` marks the last of its burst."""
    return data.StructLayout({"data": 8 * config.memory.bus_bytes, "last": 1})


class ReadFifo(wiring.Component):
    """Words in order of arrival; a beat of cycle t is at the head from t + 1 on.

    Members: `beat_*` as in `interfaces.read_client`; `words` the head, popped with `ready`; `release` the words of
    a burst in the cycle in which its last is popped, for ReadRequests.
    """

    def __init__(self, *, config: Config, fifo_bytes: int) -> None:
        """`fifo_bytes`: as that of the ReadRequests beside it, which never lets the FIFO overflow."""
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
        """A FIFO one bit wider than the bus, and a count of the words popped of the current burst."""
        m = Module()
        width = 8 * self._config.memory.bus_bytes + 1
        m.submodules.fifo = words = fifo.SyncFIFO(width=width, depth=self._words)
        head = data.View(word_layout(self._config), words.r_data)
        popped = Signal(range(self._words + 1))
        pop = self.words.valid & self.words.ready
        m.d.comb += [
            words.w_en.eq(self.beat_valid),
            words.w_data.eq(data.View(word_layout(self._config), self._pack(m)).as_value()),
            self.words.valid.eq(words.r_rdy),
            self.words.payload.eq(head),
            words.r_en.eq(pop),
            self.release.eq(Mux(pop & head.last, popped + 1, 0)),
        ]
        with m.If(pop):
            m.d.sync += popped.eq(Mux(head.last, 0, popped + 1))
        return m

    def _pack(self, m: Module) -> Signal:
        word = Signal(8 * self._config.memory.bus_bytes + 1)
        packed = data.View(word_layout(self._config), word)
        m.d.comb += [packed.data.eq(self.beat_data), packed.last.eq(self.beat_last)]
        return word
