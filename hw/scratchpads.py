"""Memories that the compute unit reads: the scratchpads of inputs and weights, which the load unit writes, and the
chain memory, which the store unit writes.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Value
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In

from vdla.isa.array_modes import TAPS

from .interfaces import banked_read, scratchpad_read, scratchpad_write
from .memories import ANY_ON_COLLISION


class Scratchpad(wiring.Component):
    """A memory of `depth` words of `width` bits, with one write port of `lanes` lanes and one read port.

    A word written in cycle t can be read in t + 1. A read in the cycle of a write to the same word gives any value;
    programs never do this.
    """

    def __init__(self, *, depth: int, width: int, lanes: int, repeats: int = 1) -> None:
        """`depth`: number of words in the memory. `width`: bits of a word. `lanes`: number of equal parts of a word,
        each of which can be written alone. `repeats`: the data of the write port have only width / repeats bits and are
        written `repeats` times side by side. Raises ValueError if `lanes` or `repeats` does not divide `width`.
        """
        if width % lanes or width % repeats:
            raise ValueError(
                f"width = {width} bits must be a multiple of both lanes = {lanes} and repeats = {repeats}"
            )
        self._depth, self._width, self._lanes, self._repeats = depth, width, lanes, repeats
        super().__init__(
            {
                "write": In(scratchpad_write(depth=depth, width=width, lanes=lanes, repeats=repeats)),
                "read": In(scratchpad_read(depth=depth, width=width)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Builds one memory, zero at power-up."""
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
    """A memory with one write port and with TAPS banks, each of which has a read port. So TAPS neighbouring words can
    be read in one cycle.

    A word of a bank is wider than a word of the write port: it consists of `parts` neighbouring words of the write
    port. Wide word number i is in bank i mod TAPS, at address i // TAPS.
    """

    def __init__(
        self, *, depth: int, width: int, lanes: int, repeats: int = 1, parts: int = 1, neighbours: int = 1
    ) -> None:
        """`depth`, `width`: number of words of the write port, and bits of each. `lanes`: number of equal parts of a
        word, each of which can be written alone. `repeats`: the data of the write port have only width / repeats bits
        and are written `repeats` times side by side.

        `parts`: number of words of the write port in a word of a bank, a power of two that divides `depth`.
        `neighbours`: number of consecutive words that may be written in one cycle; they must be within one word of each
        bank. Each bank must have at least two words.
        """
        self._depth, self._width, self._lanes, self._repeats = depth, width, lanes, repeats
        self._parts, self._neighbours = parts, neighbours
        port = scratchpad_write(depth=depth, width=width, lanes=lanes, repeats=repeats, neighbours=neighbours)
        super().__init__(
            {
                "write": In(port),
                "read": In(banked_read(depth=depth // parts, width=parts * width)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Builds a memory for each bank, zero at power-up."""
        m = Module()
        bank_bits, part_bits = TAPS.bit_length() - 1, self._parts.bit_length() - 1
        address_bits, width = len(self.read.address) // TAPS, self._parts * self._width
        place, part = self.write.address >> part_bits, self.write.address[:part_bits]
        slots = self._slots() if self._neighbours > 1 else []
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
            address: Value = place >> bank_bits
            content: Value = self.write.data.replicate(self._repeats * self._parts)
            if slots:
                # In banks before that of the first word, the address is greater by one.
                own = slots[bank * self._parts : (bank + 1) * self._parts]
                enables, content = [enable for enable, _ in own], Cat(word for _, word in own)
                address = address + (place[:bank_bits] > bank)
            m.d.comb += [
                write.en.eq(Cat(enables)),
                write.addr.eq(address),
                write.data.eq(content),
                read.en.eq(self.read.enable[bank]),
                read.addr.eq(self.read.address.word_select(bank, address_bits)),
                self.read.data.word_select(bank, width).eq(read.data),
            ]
        return m

    def _slots(self) -> list[tuple[Value, Value]]:
        """Distributes the `neighbours` words of the write port over the banks. A word of a bank has room for `parts` of
        them, so there are TAPS x `parts` places, listed bank by bank. The words are rotated to their places by the low
        bits of the write address. Returns a pair (enables of the lanes, data) for each place, zeros for places that are
        not written.
        """
        size, count = self._width // self._repeats, TAPS * self._parts
        slots: list[tuple[Value, Value]] = [
            (
                self.write.enable.word_select(i, self._lanes),
                self.write.data.word_select(i, size).replicate(self._repeats),
            )
            if i < self._neighbours
            else (Const(0, self._lanes), Const(0, self._width))
            for i in range(count)
        ]
        for distance, bit in enumerate(self.write.address[: count.bit_length() - 1]):
            moved = [slots[(i - (1 << distance)) % count] for i in range(count)]
            slots = [
                (Mux(bit, there[0], here[0]), Mux(bit, there[1], here[1]))
                for here, there in zip(slots, moved, strict=True)
            ]
        return slots
