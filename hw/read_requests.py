"""The address side of a read client: cuts runs of bytes into bursts, and shows each burst once the client's FIFO has
room for it (hw/README.md sections 2, 3 and 6).
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from vdla.isa.config import Config
from vdla.isa.timing import AXI_BOUNDARY, read_burst_beats

from .interfaces import ADDRESS_BITS, Kind, burst_layout, longest_beats
from .product import Product

_COUNT_BITS = 16
"""Width in bits of a row's length in elements."""

_ELEMENT_BITS = 12
"""A length in bytes has enough bits for elements of 2^_ELEMENT_BITS bytes, even if the machine's elements are smaller.
"""


def length_bits(config: Config) -> int:
    """Width in bits of a row's length in bytes."""
    largest = max(config.inp_bytes, config.wgt_bytes, config.acc_bytes, config.par_bytes)
    return _COUNT_BITS + max(_ELEMENT_BITS, largest.bit_length() - 1)


def run_layout(config: Config) -> data.StructLayout:
    """Layout of the memory accesses of an instruction, `rows` rows of `length` bytes: the first row is at `address`,
    and each row begins `pitch` bytes after the previous one. `kind`: kind of data.

    A run is a range of consecutive bytes. Each row is a run, except with `joined`: then there are no gaps between rows,
    and all rows together are one run. If `rows` or `length` is 0, there is no run.
    """
    return data.StructLayout(
        {
            "address": ADDRESS_BITS,
            "length": length_bits(config),
            "rows": 16,
            "pitch": ADDRESS_BITS,
            "joined": 1,
            "kind": Kind,
        }
    )


class BurstCutter(wiring.Component):
    """Cuts runs (ranges of consecutive bytes) into bursts, at most one every two cycles, for reads and for writes.

    Members:

    - `start`: loads `runs`, the ranges to cut; allowed only while `active` is 0.
    - `burst`: stream of bursts (registered). After a start in cycle b, the first burst is there from b + 3 on, or
      PRODUCT_CYCLES later if several rows are joined. After a burst is accepted in cycle t, the next is there in t + 2.
    - `ends`: the current burst is the last one.
    - `active`: 1 from b + 1 through the cycle in which the last burst is accepted. If there are no bursts, it is 1 for
      one cycle.
    """

    def __init__(self, *, config: Config, most_beats: int) -> None:
        """`most_beats`: beats of the longest burst, a power of two in 1..`longest_beats`."""
        most = longest_beats(config)
        if not 1 <= most_beats <= most or most_beats & (most_beats - 1):
            raise ValueError(f"most_beats = {most_beats}: a burst has 1, 2, 4 .. or {most} beats")
        self._config, self._most = config, most_beats
        super().__init__(
            {
                "start": In(1),
                "runs": In(run_layout(config)),
                "burst": Out(stream.Signature(burst_layout(config))),
                "ends": Out(1),
                "active": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Builds three stages of registers. The first holds the size of the next run, the second the part of the
        current run that is not cut yet, and the third the next burst. Sizes are in bus words.
        """
        m = Module()
        bus = self._config.memory.bus_bytes
        shift = bus.bit_length() - 1
        m.submodules.product = product = Product(bits=length_bits(self._config))
        run_bits = length_bits(self._config) + _COUNT_BITS
        word_bits = run_bits - shift + 1

        active, starting, multiplying, first = Signal(), Signal(), Signal(), Signal()
        idle = Signal(init=1)  # the complement of `active`, a separate register, which enables many others
        row_start, pitch = (
            Signal(ADDRESS_BITS, name=name, reset_less=True) for name in ("row_start", "pitch")
        )
        length, rows = Signal(run_bits, reset_less=True), Signal(16, reset_less=True)
        joined, kind = Signal(reset_less=True), Signal(Kind, reset_less=True)
        # `start` and `runs` come late in the cycle: so the runs are loaded in every cycle while not `active`, and their
        # sizes are computed in the cycle after the start.
        takes, multiplied = self.start & idle, multiplying & product.done
        m.d.sync += [starting.eq(takes), first.eq(multiplied)]
        with m.If(idle):
            m.d.sync += [
                active.eq(self.start),
                idle.eq(~self.start),
                length.eq(self.runs.length),
                rows.eq(self.runs.rows),
                row_start.eq(self.runs.address),
                pitch.eq(self.runs.pitch),
                joined.eq(self.runs.joined),
                kind.eq(self.runs.kind),
            ]
        m.d.comb += [
            product.take.eq(idle),
            product.start.eq(takes),
            product.left.eq(self.runs.length),
            product.right.eq(self.runs.rows),
        ]
        something, several = Signal(), Signal()
        m.d.comb += [
            something.eq((rows != 0) & (length != 0)),
            several.eq(joined & (rows > 1)),
        ]
        with m.If(starting):
            m.d.sync += multiplying.eq(something & several)
        with m.If(multiplied):
            m.d.sync += [multiplying.eq(0), length.eq(product.result)]

        # The next run, one cycle after row_start: the number of its bus words less one, and the unused bytes of its
        # last word.
        reach = Signal(run_bits + 1)
        m.d.comb += reach.eq(row_start[:shift] + length - 1)
        next_over, next_tail = Signal(word_bits, reset_less=True), Signal(shift, reset_less=True)
        m.d.sync += [next_over.eq(reach >> shift), next_tail.eq(~reach[:shift])]

        # Rest of the current run (words less one); a burst is subtracted in the cycle after it was cut. If the first
        # run waits for its product, values loaded earlier are not used.
        word, over = Signal(ADDRESS_BITS - shift, reset_less=True), Signal(word_bits, reset_less=True)
        offset, tail = Signal(shift, reset_less=True), Signal(shift, reset_less=True)
        # Events of this cycle: a run becomes the current one; it is the first run; the current run goes on after its
        # burst.
        turns, fresh, goes_on = Signal(), Signal(), Signal()
        beats, last, valid, cut = Signal(range(longest_beats(self._config) + 1)), Signal(), Signal(), Signal()
        with m.If(fresh):
            m.d.sync += [over.eq(reach >> shift), tail.eq(~reach[:shift])]
        with m.Elif(turns):
            m.d.sync += [over.eq(next_over), tail.eq(next_tail)]
        with m.Elif(goes_on):
            m.d.sync += over.eq(over - beats)
        with m.If(turns):
            m.d.sync += [word.eq(row_start[shift:]), offset.eq(row_start[:shift])]
        with m.Elif(goes_on):
            m.d.sync += [
                word.eq(word + beats),
                offset.eq(0),
            ]
        with m.If(turns & ~joined):
            m.d.sync += [row_start.eq(row_start + pitch), rows.eq(rows - 1)]

        # The next burst ends at the page's end, after `most` beats, or at the run's end. Both bounds are compared in
        # parallel.
        page = AXI_BOUNDARY // bus
        most = min(self._most, page)
        most_bits, page_bits = most.bit_length() - 1, page.bit_length() - 1
        # If the burst starts in the page's last `most` words, it is shorter by the words of this range before it.
        at_the_end = word[most_bits:page_bits].all() if most < page else Const(1)
        before = word[:most_bits]
        ends, moves = Signal(), Signal()
        more = Signal()  # rows are left after this run
        address, left_out = Signal(ADDRESS_BITS, reset_less=True), Signal(shift, reset_less=True)
        m.d.comb += [
            ends.eq((over[most_bits:] == 0) & (~at_the_end | (over[:most_bits] + before < most))),
            moves.eq(valid & self.burst.ready),
        ]
        m.d.sync += [
            cut.eq((starting & something & ~several) | first | (moves & (~last | more))),
            fresh.eq(takes | multiplied),
            turns.eq(takes | multiplied | (cut & ends)),
            goes_on.eq(cut & ~ends),
        ]
        with m.If(cut):
            m.d.sync += [
                valid.eq(1),
                beats.eq(Mux(ends, over[:most_bits] + 1, most - Mux(at_the_end, before, 0))),
                last.eq(ends),
                more.eq(~joined & (rows != 0)),
                address.eq(Cat(offset, word)),
                left_out.eq(Mux(ends, tail, 0)),
            ]
        with m.Elif(moves):
            m.d.sync += valid.eq(0)
        with m.If((starting & ~something) | (moves & last & ~more)):
            m.d.sync += [active.eq(0), idle.eq(1)]
        m.d.comb += [
            self.burst.valid.eq(valid),
            self.burst.payload.address.eq(address),
            self.burst.payload.beats.eq(beats),
            self.burst.payload.bytes.eq((beats << shift) - (address[:shift] + left_out)),
            self.burst.payload.kind.eq(kind),
            self.ends.eq(last & ~more),
            self.active.eq(active),
        ]
        return m


class ReadRequests(wiring.Component):
    """Makes the requests of a read client: shows each burst to the arbiter as soon as the client's FIFO has room for
    it.

    Members:

    - `start`: loads `runs`, the ranges of bytes to read; allowed only while `active` is 0.
    - `request`: stream of bursts to the arbiter. After a start in cycle b, the first one is shown in b + REQUEST_DELAY.
      Each further burst is shown REQUEST_GAP cycles or more after the previous burst was accepted.
    - `active`: 1 from b + 1 through the cycle in which the last request is accepted.
    - `release`: number of words of the FIFO that became free, one cycle after their last use. A request that needs
      their room is shown at the earliest ROOM_DELAY cycles after that use.
    """

    def __init__(self, *, config: Config, fifo_bytes: int) -> None:
        """`fifo_bytes`: size of the client's FIFO, a power of two of at least two bus words."""
        words = fifo_bytes // config.memory.bus_bytes
        if words < 2:
            raise ValueError(
                f"fifo_bytes = {fifo_bytes}: must hold two words of {config.memory.bus_bytes} bytes"
            )
        self._config, self._fifo, self._words = config, fifo_bytes, words
        super().__init__(
            {
                "start": In(1),
                "runs": In(run_layout(config)),
                "active": Out(1),
                "request": Out(stream.Signature(burst_layout(config))),
                "release": In(range(words + 1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Adds two registers after the burst cutter: the next burst, and the request, which is shown once the FIFO has
        room for it.
        """
        m = Module()
        m.submodules.cutter = cutter = BurstCutter(
            config=self._config, most_beats=read_burst_beats(self._config, self._fifo)
        )
        free = Signal(range(self._words + 1), init=self._words)
        # Room that is left after the following burst; if it is negative, the burst does not fit.
        left = Signal(signed(len(free) + 1))
        released = Signal.like(self.release)
        following, burst = (
            Signal(burst_layout(self._config), name=name, reset_less=True) for name in ("following", "burst")
        )
        pending, shown, moves = Signal(), Signal(), Signal()
        vacant = Signal(init=1)  # the complement of `pending`, a separate register, which enables the cutter
        m.d.comb += [
            cutter.start.eq(self.start),
            cutter.runs.eq(self.runs),
            cutter.burst.ready.eq(vacant),
            moves.eq(pending & ~shown & (left >= 0)),
            self.active.eq(cutter.active | pending | shown),
            self.request.valid.eq(shown),
            self.request.payload.eq(burst),
        ]
        m.d.sync += [
            released.eq(self.release),
            free.eq(Mux(moves, left, free) + released),
            left.eq(Mux(pending, left, free - cutter.burst.payload.beats) + released),
        ]
        with m.If(~pending):
            m.d.sync += [
                pending.eq(cutter.burst.valid),
                vacant.eq(~cutter.burst.valid),
                following.eq(cutter.burst.payload),
            ]
        with m.Elif(moves):
            m.d.sync += [pending.eq(0), vacant.eq(1)]
        with m.If(~shown):
            m.d.sync += [shown.eq(moves), burst.eq(following)]
        with m.Elif(self.request.ready):
            m.d.sync += shown.eq(0)
        return m
