"""The input and weight memories, which the load unit writes, and the chain memory, which the store unit writes; the
compute unit reads them.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Module
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In
from vdla.isa.extensions import TAPS

from .interfaces import banked_read, scratchpad_read, scratchpad_write
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


class BankedScratchpad(wiring.Component):
    """A `Scratchpad` that is read by banks, so that neighbouring words can be read in one cycle.

    What is read are `parts` neighbouring words of those that are written; number i of these is number i // TAPS of bank
    i mod TAPS.
    """

    def __init__(self, *, depth: int, width: int, lanes: int, repeats: int = 1, parts: int = 1) -> None:
        """As of `Scratchpad`; every bank has two words at least, and `parts`, a power of two, divides `depth`."""
        self._depth, self._width, self._lanes, self._repeats = depth, width, lanes, repeats
        self._parts = parts
        super().__init__(
            {
                "write": In(scratchpad_write(depth=depth, width=width, lanes=lanes, repeats=repeats)),
                "read": In(banked_read(depth=depth // parts, width=parts * width)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """A memory for each bank, zero at power-up."""
        m = Module()
        bank_bits, part_bits = TAPS.bit_length() - 1, self._parts.bit_length() - 1
        address_bits, width = len(self.read.address) // TAPS, self._parts * self._width
        place, part = self.write.address >> part_bits, self.write.address[:part_bits]
        for bank in range(TAPS):
            m.submodules[f"words_{bank}"] = words = memory.Memory(
                shape=width,
                depth=(self._depth // self._parts - bank + TAPS - 1) // TAPS,
                init=[],
                attrs=ANY_ON_COLLISION,
            )
            write = words.write_port(granularity=self._width // self._lanes)
            read = words.read_port()
            mine = place[:bank_bits] == bank
            chosen = [mine & (part == number) if part_bits else mine for number in range(self._parts)]
            enables = [self.write.enable & here.replicate(self._lanes) for here in chosen]
            m.d.comb += [
                write.en.eq(Cat(enables)),
                write.addr.eq(place >> bank_bits),
                write.data.eq(self.write.data.replicate(self._repeats * self._parts)),
                read.en.eq(self.read.enable[bank]),
                read.addr.eq(self.read.address.word_select(bank, address_bits)),
                self.read.data.word_select(bank, width).eq(read.data),
            ]
        return m
