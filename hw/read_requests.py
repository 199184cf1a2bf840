"""The address side of a read client: runs become bursts that wait for room (hw/README.md sections 2, 3 and 6)."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from vdla.isa.config import Config
from vdla.isa.timing import AXI_BOUNDARY, read_burst_beats

from .interfaces import ADDRESS_BITS, Kind, burst_layout


def run_layout() -> data.StructLayout:
    """Runs of `length` bytes, `rows` of them, `pitch` bytes apart, the first at `address`; no rows or length: none."""
    return data.StructLayout(
        {
            "address": ADDRESS_BITS,
            "length": ADDRESS_BITS,
            "rows": 16,
            "pitch": ADDRESS_BITS,
            "kind": Kind,
        }
    )


class BurstCutter(wiring.Component):
    """Cuts runs into bursts, one a cycle; reads and writes do it alike.

    Members: `start` loads `runs` (only when not `active`); from the next cycle on `burst.valid` shows the first
    burst, registered, and `ready` moves on to the next. `active` holds from the cycle after `start` through the
    cycle of the last burst's `ready`; with nothing to cut it holds for one cycle.
    """

    def __init__(self, *, config: Config, most_beats: int) -> None:
        """`most_beats`: longest burst, 1..64."""
        if not 1 <= most_beats <= 64:
            raise ValueError(f"most_beats = {most_beats}: a burst has 1 to 64 beats")
        self._config, self._most = config, most_beats
        super().__init__(
            {
                "start": In(1),
                "runs": In(run_layout()),
                "burst": Out(stream.Signature(burst_layout(config))),
                "active": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Registers hold what is left: of this run in bytes, of the rows behind it."""
        m = Module()
        bus = self._config.memory.bus_bytes
        shift = bus.bit_length() - 1
        address, left, row_start, length, pitch = (
            Signal(ADDRESS_BITS, name=name) for name in ("address", "left", "row_start", "length", "pitch")
        )
        rows, kind = Signal(16, name="rows"), Signal(Kind)
        active = Signal()

        offset = address[:shift]
        to_boundary = Signal(range(AXI_BOUNDARY + 1))
        limit = Signal(range(64 * bus + 1))
        most = Signal(range(64 * bus + 1))
        size = Signal(range(64 * bus + 1))
        beats = Signal(range(64 + 1))
        m.d.comb += [
            to_boundary.eq(AXI_BOUNDARY - address[: AXI_BOUNDARY.bit_length() - 1]),
            limit.eq(self._most * bus - offset),
            most.eq(Mux(to_boundary < limit, to_boundary, limit)),
            size.eq(Mux(left < most, left, most)),
            beats.eq((offset + size + (bus - 1)) >> shift),
            self.burst.valid.eq(active & (left != 0)),
            self.burst.payload.address.eq(address),
            self.burst.payload.beats.eq(beats),
            self.burst.payload.bytes.eq(size),
            self.burst.payload.kind.eq(kind),
            self.active.eq(active),
        ]
        with m.If(self.start):
            empty = (self.runs.rows == 0) | (self.runs.length == 0)
            m.d.sync += [
                active.eq(1),
                address.eq(self.runs.address),
                row_start.eq(self.runs.address),
                length.eq(self.runs.length),
                pitch.eq(self.runs.pitch),
                kind.eq(self.runs.kind),
                left.eq(Mux(empty, 0, self.runs.length)),
                rows.eq(Mux(empty, 0, self.runs.rows - 1)),
            ]
        with m.Elif(active & (left == 0)):
            m.d.sync += active.eq(0)
        with m.Elif(self.burst.valid & self.burst.ready):
            m.d.sync += [address.eq(address + size), left.eq(left - size)]
            with m.If(left == size):
                m.d.sync += [
                    address.eq(row_start + pitch),
                    row_start.eq(row_start + pitch),
                    left.eq(Mux(rows == 0, 0, length)),
                    rows.eq(rows - (rows != 0)),
                    active.eq(rows != 0),
                ]
        return m


class ReadRequests(wiring.Component):
    """Requests of a read client: bursts shown as soon as its FIFO has room for all their beats.

    Members: `start`, `runs`, `active` as in BurstCutter (`active` through the cycle in which the last request is
    accepted); `request` goes to the arbiter. `release`: words (beats) given back in this cycle, usable from the next.
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
                "runs": In(run_layout()),
                "active": Out(1),
                "request": Out(stream.Signature(burst_layout(config))),
                "release": In(range(words + 1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Room taken is counted; a request hides until it fits, and room only grows while it waits."""
        m = Module()
        m.submodules.cutter = cutter = BurstCutter(
            config=self._config, most_beats=read_burst_beats(self._config, self._fifo)
        )
        free = Signal(range(self._words + 1), init=self._words)
        fits = Signal()
        accepted = self.request.valid & self.request.ready
        m.d.comb += [
            cutter.start.eq(self.start),
            cutter.runs.eq(self.runs),
            self.active.eq(cutter.active),
            fits.eq(cutter.burst.payload.beats <= free),
            self.request.valid.eq(cutter.burst.valid & fits),
            self.request.payload.eq(cutter.burst.payload),
            cutter.burst.ready.eq(fits & self.request.ready),
        ]
        m.d.sync += free.eq(free + self.release - Mux(accepted, cutter.burst.payload.beats, 0))
        return m
