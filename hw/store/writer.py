"""The store FIFO and the write bursts that empty it (hw/README.md sections 1, 3 and 8)."""

from __future__ import annotations

from amaranth.hdl import Array, Const, Module, Mux, Signal, signed
from amaranth.lib import data, fifo, memory, wiring
from amaranth.lib.wiring import In, Out

from vdla.isa.config import Config
from vdla.isa.timing import write_burst_beats

from ..counting import will_be_full
from ..interfaces import burst_layout, write_client
from ..read_requests import BurstCutter, run_layout

_DISTRIBUTED = {"ram_style": "distributed"}
"""Attribute of memories whose output goes to the bus in the same cycle; the output of a block memory would come a cycle
late.
"""


class Writer(wiring.Component):
    """Collects output vectors of stores in a FIFO and writes them to memory in bursts.

    A vector has out_bytes bytes, a power of two, and starts at a multiple of out_bytes. So vectors and bus words are
    aligned: if a bus word is the longer one, it has whole vectors, else a vector has whole bus words. A burst consists
    of whole vectors.

    Members:

    - `start`: loads `runs`, the addresses that a store writes. It is allowed only while `ready` is 1. Older stores may
      still have vectors to come.
    - `room`: the FIFO has space for one more vector. `reserve`: reserves this space.
    - `put`: writes `vector` to the FIFO in this cycle. If this vector completes a burst, the burst is requested two
      cycles later at the earliest.
    - `write`: connects to the memory port.
    - `done`: the response in this cycle belongs to the last burst of a store.
    """

    def __init__(self, *, config: Config) -> None:
        """`config` determines the bytes of bus word, vector and FIFO, and the limit of outstanding writes."""
        self._config = config
        super().__init__(
            {
                "start": In(1),
                "ready": Out(1),
                "runs": In(run_layout(config)),
                "room": Out(1),
                "reserve": In(1),
                "put": In(1),
                "vector": In(8 * config.out_bytes),
                "write": Out(write_client(config)),
                "done": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Builds the burst cutter, a queue of bursts, and two counters. `taken` counts vectors that are in the FIFO or
        have reserved room; `there` counts vectors in the FIFO that are not part of a requested burst.

        The data of a burst is offered from the cycle after its address is shown.
        """
        m = Module()
        config = self._config
        capacity = config.fifo_bytes("store") // config.out_bytes
        vector_shift = config.out_bytes.bit_length() - 1
        m.submodules.cutter = cutter = BurstCutter(config=config, most_beats=write_burst_beats(config))
        # Two registers after the cutter: the next burst with its number of vectors, and the burst that is requested.
        burst, shown_burst = (Signal(burst_layout(config), name=name) for name in ("next", "shown_burst"))
        pending, shown, moves = Signal(), Signal(), Signal()
        next_ends, shown_ends = Signal(), Signal()  # the burst is the last one of its store
        vacant = Signal(init=1)  # not pending: a separate register, which enables the cutter's next steps
        claimed, shown_vectors = (
            Signal(range(capacity + 1), name=name) for name in ("claimed", "shown_vectors")
        )
        # Vectors available minus those of the next burst; negative if the burst's vectors are not all available.
        left = Signal(signed(capacity.bit_length() + 1))
        there, taken, kept = (Signal(range(capacity + 1), name=name) for name in ("there", "taken", "kept"))
        full, accepted, offered = Signal(), Signal(), Signal()
        claims = Signal(range(capacity + 1))
        layout = data.StructLayout(
            {
                "offset": range(config.memory.bus_bytes),
                "beats": burst.beats.shape(),
                "single": 1,
                "double": 1,
                "vectors": range(capacity + 1),
            }
        )
        bursts = fifo.SyncFIFO(width=layout.size, depth=min(capacity, config.memory.outstanding_writes + 1))
        m.submodules.bursts = bursts
        head = data.View(layout, bursts.r_data)
        m.d.comb += [
            cutter.start.eq(self.start),
            self.ready.eq(~cutter.active),
            cutter.runs.eq(self.runs),
            cutter.burst.ready.eq(vacant),
            moves.eq(pending & ~shown & (left >= 0)),
            claims.eq(cutter.burst.payload.bytes >> vector_shift),
            self.write.request.valid.eq(shown),
            self.write.request.payload.eq(shown_burst),
            accepted.eq(shown & self.write.request.ready),
            self.room.eq(~full),
            kept.eq(taken + self.reserve),
        ]
        m.d.sync += [
            there.eq(Mux(moves, left, there) + self.put),
            left.eq(Mux(pending, left, there - claims) + self.put),
            taken.eq(Mux(bursts.r_en, kept - head.vectors, kept)),
            full.eq(will_be_full(taken, capacity, up=self.reserve, down=bursts.r_en)),
        ]
        with m.If(~pending):
            m.d.sync += [
                pending.eq(cutter.burst.valid),
                vacant.eq(~cutter.burst.valid),
                burst.eq(cutter.burst.payload),
                next_ends.eq(cutter.ends),
                claimed.eq(claims),
            ]
        with m.Elif(moves):
            m.d.sync += [pending.eq(0), vacant.eq(1)]
        with m.If(~shown):
            m.d.sync += [
                shown.eq(moves),
                shown_burst.eq(burst),
                shown_vectors.eq(claimed),
                shown_ends.eq(next_ends),
            ]
        with m.Elif(self.write.request.ready):
            m.d.sync += shown.eq(0)
        entry = Signal(layout)
        m.d.comb += [
            entry.offset.eq(shown_burst.address),
            entry.beats.eq(shown_burst.beats),
            entry.single.eq(shown_burst.beats == 1),
            entry.double.eq(shown_burst.beats == 2),
            entry.vectors.eq(shown_vectors),
            bursts.w_data.eq(entry),
            bursts.w_en.eq(shown & ~offered),
        ]
        m.d.sync += offered.eq(shown & ~accepted)
        beat = self.write.beat
        # `last` needs no comparison: for a first beat it comes from the queue, for others from a register.
        moved, is_first, is_last = Signal(), Signal(init=1), Signal()
        beats_left = Signal(burst.beats.shape())  # including the next beat, unless that is the first
        m.d.comb += [
            beat.valid.eq(bursts.r_rdy),
            moved.eq(beat.valid & beat.ready),
            beat.payload.last.eq(Mux(is_first, head.single, is_last)),
            bursts.r_en.eq(moved & beat.payload.last),
        ]
        with m.If(moved):
            m.d.sync += [
                is_first.eq(beat.payload.last),
                is_last.eq(Mux(is_first, head.double, beats_left == 2)),
                beats_left.eq(Mux(is_first, head.beats, beats_left) - 1),
            ]
        if config.out_bytes >= config.memory.bus_bytes:
            self._wide_vectors(m, capacity, moved)
        else:
            self._narrow_vectors(m, capacity, moved, is_first, head)

        # A bit for each accepted burst, oldest first: it is the last one of its store.
        limit = config.memory.outstanding_writes
        waiting, ends = Signal(range(limit + 1)), Signal(limit)
        left_waiting = Signal.like(waiting)
        m.d.comb += [
            left_waiting.eq(waiting - self.write.response),
            self.done.eq(self.write.response & ends[0]),
        ]
        m.d.sync += [
            waiting.eq(left_waiting + accepted),
            ends.eq(
                Mux(self.write.response, ends >> 1, ends) | Mux(accepted & shown_ends, 1 << left_waiting, 0)
            ),
        ]
        return m

    def _wide_vectors(self, m: Module, capacity: int, moved: Signal) -> None:
        """Builds the data path for output vectors of one or more bus words. `capacity`: vectors that the FIFO can hold;
        `moved`: a beat moves on the bus in this cycle.
        """
        bits, out = 8 * self._config.memory.bus_bytes, 8 * self._config.out_bytes
        m.submodules.vectors = vectors = memory.Memory(shape=out, depth=capacity, init=[], attrs=_DISTRIBUTED)
        write, read = vectors.write_port(), vectors.read_port(domain="comb")
        tail, head = (Signal(range(capacity), name=name) for name in ("first_free", "first_used"))
        part = Signal(range(out // bits))
        beat = self.write.beat.payload
        m.d.comb += [
            write.en.eq(self.put),
            write.addr.eq(tail),
            write.data.eq(self.vector),
            read.addr.eq(head),
            beat.data.eq(read.data.word_select(part, bits)),
            beat.strobe.eq(-1),
        ]
        m.d.sync += tail.eq(tail + self.put)
        with m.If(moved):
            m.d.sync += part.eq(part + 1)
            with m.If(part == out // bits - 1):
                m.d.sync += head.eq(head + 1)

    def _narrow_vectors(
        self, m: Module, capacity: int, moved: Signal, first_beat: Signal, burst: data.View
    ) -> None:
        """Builds the data path for bus words of two or more output vectors: consecutive vectors are in different banks,
        so that the vectors of a word can be read in the same cycle. `capacity`: vectors that the FIFO can hold;
        `moved`: a beat moves on the bus in this cycle; `first_beat`: the beat on the bus is the first one of `burst`.
        """
        places = self._config.memory.bus_bytes // self._config.out_bytes
        place_bits, out = places.bit_length() - 1, 8 * self._config.out_bytes
        tail, head = (Signal(range(capacity), name=name) for name in ("first_free", "first_used"))
        reads = []
        for number in range(places):
            m.submodules[f"bank_{number}"] = bank = memory.Memory(
                shape=out, depth=capacity // places, init=[], attrs=_DISTRIBUTED
            )
            write, read = bank.write_port(), bank.read_port(domain="comb")
            m.d.comb += [
                write.en.eq(self.put & (tail[:place_bits] == number)),
                write.addr.eq(tail[place_bits:]),
                write.data.eq(self.vector),
                # In banks before that of the head, the next vector is one address later.
                read.addr.eq(head[place_bits:] + (head[:place_bits] > number if number + 1 < places else 0)),
            ]
            reads.append(read.data)
        start, left, count = Signal(place_bits), Signal(range(capacity + 1)), Signal(range(places + 1))
        sent = Signal(range(capacity + 1))
        room = Signal(range(places + 1))
        turn = Signal(place_bits)
        beat = self.write.beat.payload
        m.d.comb += [
            start.eq(Mux(first_beat, burst.offset >> (self._config.out_bytes.bit_length() - 1), 0)),
            left.eq(burst.vectors - sent),
            room.eq(places - start),
            count.eq(Mux(left < room, left, room)),
            turn.eq(head - start),
        ]
        for place in range(places):
            # Lanes outside the strobes are zeros: a bank may be written while the beat waits, and AXI requires the
            # whole beat to stay unchanged.
            used = Signal(name=f"used_{place}")
            behind = place >= start if place + 1 < places else Const(1)
            m.d.comb += [
                used.eq(behind & (place < start + count)),
                beat.data.word_select(place, out).eq(Mux(used, Array(reads)[(turn + place)[:place_bits]], 0)),
                beat.strobe.word_select(place, out // 8).eq(used.replicate(out // 8)),
            ]
        m.d.sync += tail.eq(tail + self.put)
        with m.If(moved):
            m.d.sync += [head.eq(head + count), sent.eq(Mux(beat.last, 0, sent + count))]
