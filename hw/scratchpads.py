"""The input and weight memories, which the load unit writes, and the chain memory, which the store unit writes; the
compute unit reads them.
"""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In

from .interfaces import scratchpad_read, scratchpad_write
from .memories import ANY_ON_COLLISION


class Scratchpad(wiring.Component):
    """`depth` words of `width` bits, one write port of `lanes` lanes and one read port.

    What is written in cycle t can be read in t + 1. A read in the cycle of a write to the same word gives anything
    (programs never do that).
    """

    def __init__(self, *, depth: int, width: int, lanes: int, repeats: int = 1) -> None:
        """`lanes` and `repeats` (of the write port's data) divide `width`."""
        if width % lanes or width % repeats:
            raise ValueError(f"{lanes} lanes or {repeats} repeats do not divide {width} bits")
        self._depth, self._width, self._lanes, self._repeats = depth, width, lanes, repeats
        super().__init__(
            {
                "write": In(scratchpad_write(depth=depth, width=width, lanes=lanes, repeats=repeats)),
                "read": In(scratchpad_read(depth=depth, width=width)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """One memory, zero at power-up."""
        m = Module()
        m.submodules.words = words = memory.Memory(
            shape=self._width, depth=self._depth, init=[], attrs=ANY_ON_COLLISION
        )
        write = words.write_port(granularity=self._width // self._lanes)
        read = words.read_port()
        m.d.comb += [
            write.en.eq(self.write.enable),
            write.addr.eq(self.write.address),
            write.data.eq(self.write.data.replicate(self._repeats)),
            read.en.eq(self.read.enable),
            read.addr.eq(self.read.address),
            self.read.data.eq(read.data),
        ]
        return m
