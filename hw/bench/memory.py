"""A memory model for cocotb benches: an AXI4 slave with the timing of hw/README.md section 1."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from random import Random
from typing import Any

import cocotb
from cocotb.task import Task
from cocotb.triggers import RisingEdge

from vdla.isa.config import Memory
from vdla.isa.noise import NOISE_READ, NOISE_STALL, NOISE_WRITE, NOISE_WRITE_STALL, memory_noise
from vdla.isa.timing import SEPARATE

from ..axi import DECODE_ERROR, OKAY, SLAVE_ERROR
from .rules import AxiRules, WriteBeat
from .wires import AxiWires


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalls:
    """Probabilities (0..1) that a channel pauses in a cycle, in addition to the memory's timing. Equal seeds give equal
    pauses.

    `address`: ARREADY or AWREADY low; `data`: RVALID not raised or WREADY low; `response`: BVALID not raised.
    `address_waits_for_data`: if True, AWREADY always waits for WVALID, which AXI allows. `seed`: seed of the random
    pauses.
    """

    address: float = 0.0
    data: float = 0.0
    response: float = 0.0
    address_waits_for_data: bool = False
    seed: int = 0


@dataclass(slots=True, kw_only=True)
class _Burst:
    address: int
    beats: int
    ready: int
    wait: int = 0
    moved: int = 0
    response: int = OKAY


class MemoryModel:
    """A memory with the bytes `data` on the ports `PREFIX_ar..`, `aw`, `w`, `r`, `b` of `dut`.

    Without `stalls` a run takes as many cycles as in `vdla.sim`. Each cycle is checked against `AxiRules`; a broken
    rule fails the test. Requests outside the memory get the response DECERR; requests to a range set by `fail` get that
    range's response. Create the model before the reset, call `start` once, and `restart` before each launch
    (`load_program` does); while `rst` is high, the model drops outstanding bursts.
    """

    def __init__(
        self, dut: Any, *, timing: Memory, size: int, prefix: str = "axi", stalls: Stalls | None = None
    ) -> None:
        """`dut`: the simulated design, with signals `clk` and `rst`. `timing`: width of the bus, latencies, and limits
        of outstanding bursts. `size`: bytes of memory. `prefix`: first part of the names of the AXI ports. `stalls`:
        random pauses, none by default.
        """
        self.data = bytearray(size)
        self.reads = self.writes = 0
        """`reads`, `writes`: numbers of read bursts and of write bursts accepted since `restart`."""
        self._dut, self._timing, self._stalls = dut, timing, stalls or Stalls()
        self._wires = AxiWires(dut, prefix=prefix, bus_bytes=timing.bus_bytes)
        self._failures: list[tuple[int, int, int, str]] = []
        self._task: Task[None] | None = None
        self._driven: dict[str, int] = {}
        self._reset()

    # --- methods for a bench --------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts a cocotb task that answers requests and drives the accelerator's inputs; returns at once."""
        for name in ("rdata", "rresp", "rlast", "bresp"):
            self._set(name, 0)
        self._drive()
        self._task = cocotb.start_soon(self._run())

    def restart(self) -> None:
        """Restarts the random sequence of the timing, as a launch does, and sets `reads` and `writes` to 0; keeps
        `data`. Raises RuleError for an incomplete transaction.
        """
        self._rules.finish()
        self._reset()

    def read(self, address: int, size: int) -> bytes:
        """Returns `size` bytes from byte `address` on. Raises IndexError outside the memory."""
        self._inside(address, size)
        return bytes(self.data[address : address + size])

    def write(self, address: int, contents: bytes | bytearray | memoryview) -> None:
        """Writes `contents` from byte `address` on. Raises IndexError outside the memory."""
        self._inside(address, len(contents))
        self.data[address : address + len(contents)] = contents

    def fail(self, address: int, size: int, *, response: int = SLAVE_ERROR, kind: str = "rw") -> None:
        """From now on, gives `response` to every beat whose bus word has one of the `size` bytes from byte `address`
        on. `kind` has the letter "r" for reads, which then return zeros, and "w" for writes, which then have no effect.

        A write burst has a single response: the largest of its beats. If ranges overlap, the one set first counts.
        """
        self._failures.append((address, address + size, response, kind))

    def heal(self) -> None:
        """Removes all ranges that `fail` has set."""
        self._failures.clear()

    # --- a cycle --------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        edge = RisingEdge(self._dut.clk)
        while True:
            await edge
            if not self._dut.rst.value.is_resolvable or self._dut.rst.value:
                self._reset()
            else:
                self._sample()
                self._now += 1
            self._drive()

    def _reset(self) -> None:
        timing = self._timing
        self._now = self.reads = self.writes = self._reads_served = self._writes_served = 0
        self._random = Random(self._stalls.seed)
        self._rules = AxiRules(
            bus_bytes=timing.bus_bytes,
            outstanding_reads=timing.outstanding_reads,
            outstanding_writes=timing.outstanding_writes,
        )
        self._read_queue: deque[_Burst] = deque()
        self._write_queue: deque[_Burst] = deque()
        self._responses: deque[tuple[int, int]] = deque()
        # Bursts whose data move. On a shared channel this is at most one, and `_reads_served` counts all bursts.
        self._reading: _Burst | None = None
        self._writing: _Burst | None = None
        self._wrote_last = False
        self._presented = self._answering = self._both_shown = False

    def _drive(self) -> None:
        """Drives the accelerator's inputs of cycle `_now`; they depend only on earlier cycles."""
        stalls = self._stalls
        self._choose()
        reading, writing = self._reading, self._writing
        # RVALID, once raised, stays high until RREADY.
        moves = reading is not None and reading.wait == 0
        self._presented = moves and (self._presented or not self._stalled(stalls.data))
        due = bool(self._responses) and self._responses[0][0] <= self._now
        self._answering = due and (self._answering or not self._stalled(stalls.response))
        self._set("arready", not self._stalled(stalls.address))
        may_accept = self._both_shown or not stalls.address_waits_for_data
        self._set("awready", may_accept and not self._stalled(stalls.address))
        self._set("wready", writing is not None and writing.wait == 0 and not self._stalled(stalls.data))
        self._set("rvalid", self._presented)
        if self._presented and reading is not None:
            contents, response = self._beat(reading)
            self._set("rdata", contents)
            self._set("rresp", response)
            self._set("rlast", reading.moved + 1 == reading.beats)
        self._set("bvalid", self._answering)
        if self._answering:
            self._set("bresp", self._responses[0][1])

    def _sample(self) -> None:
        """Reads the accelerator's outputs of cycle `_now` (just before the clock edge that ends the cycle), checks them
        and queues the requests that they show.
        """
        timing, now = self._timing, self._now
        read = self._wires.address("ar")
        write = self._wires.address("aw")
        beat = self._wires.write_beat()
        self._rules.address("ar", read, ready=bool(self._driven["arready"]))
        self._rules.address("aw", write, ready=bool(self._driven["awready"]))
        self._rules.data(beat, ready=bool(self._driven["wready"]))
        if read is not None and self._driven["arready"]:
            latency = timing.read_latency + memory_noise(timing.seed, self.reads, NOISE_READ, timing.jitter)
            self.reads += 1
            self._read_queue.append(_Burst(address=read.address, beats=read.length + 1, ready=now + latency))
        if write is not None and self._driven["awready"]:
            jitter = timing.jitter if timing.data_channels == SEPARATE else 0
            ready = now + 1 + memory_noise(timing.seed, self.writes, NOISE_WRITE, jitter)
            self.writes += 1
            self._write_queue.append(_Burst(address=write.address, beats=write.length + 1, ready=ready))
        self._both_shown = write is not None and beat is not None and not self._driven["awready"]
        if self._answering and self._wires.get("bready"):
            self._responses.popleft()
            self._answering = False
            self._rules.write_done()
        self._transfer_read()
        self._transfer_write(beat)

    def _transfer_read(self) -> None:
        burst = self._reading
        if burst is None:
            return
        if burst.wait:
            burst.wait -= 1
        elif self._presented and self._wires.get("rready"):
            self._presented = False
            burst.moved += 1
            if burst.moved == burst.beats:
                self._reading = None
                self._rules.read_done()

    def _transfer_write(self, beat: WriteBeat | None) -> None:
        burst = self._writing
        if burst is None:
            return
        if burst.wait:
            burst.wait -= 1
        elif beat is not None and self._driven["wready"]:
            self._store(burst, beat)
            burst.moved += 1
            if burst.moved == burst.beats:
                self._writing = None
                self._responses.append((self._now + self._timing.write_latency, burst.response))

    def _choose(self) -> None:
        """Begins to transfer the oldest read and the oldest write burst, if their latencies have passed, on the data
        channels that are free. On a shared channel, reads and writes that are both ready take turns.
        """
        read = self._reading is None and self._waits(self._read_queue)
        write = self._writing is None and self._waits(self._write_queue)
        if self._timing.data_channels == SEPARATE:
            if read:
                self._reading = self._begin(self._read_queue, self._reads_served, NOISE_STALL)
                self._reads_served += 1
            if write:
                self._writing = self._begin(self._write_queue, self._writes_served, NOISE_WRITE_STALL)
                self._writes_served += 1
        elif self._reading is None and self._writing is None and (read or write):
            self._wrote_last = write and not (read and self._wrote_last)
            queue = self._write_queue if self._wrote_last else self._read_queue
            burst = self._begin(queue, self._reads_served, NOISE_STALL)
            self._reads_served += 1
            if self._wrote_last:
                self._writing = burst
            else:
                self._reading = burst

    def _begin(self, queue: deque[_Burst], number: int, stream: int) -> _Burst:
        burst = queue.popleft()
        burst.wait = memory_noise(self._timing.seed, number, stream, self._timing.stall)
        return burst

    def _waits(self, queue: deque[_Burst]) -> bool:
        return bool(queue) and queue[0].ready <= self._now

    # --- bytes ----------------------------------------------------------------------------------------------

    def _beat(self, burst: _Burst) -> tuple[int, int]:
        bus = self._timing.bus_bytes
        at = burst.address // bus * bus + burst.moved * bus
        response = self._response(at, "r")
        contents = self.data[at : at + bus] if response == OKAY else b""
        return int.from_bytes(contents, "little"), response

    def _store(self, burst: _Burst, beat: WriteBeat) -> None:
        bus = self._timing.bus_bytes
        at = burst.address // bus * bus + burst.moved * bus
        response = self._response(at, "w")
        if response != OKAY:
            burst.response = max(burst.response, response)
            return
        contents = beat.data.to_bytes(bus, "little")
        for lane in range(bus):
            if beat.strobe >> lane & 1:
                self.data[at + lane] = contents[lane]

    def _response(self, at: int, kind: str) -> int:
        if at + self._timing.bus_bytes > len(self.data):
            return DECODE_ERROR
        for begin, end, response, kinds in self._failures:
            if kind in kinds and begin < at + self._timing.bus_bytes and at < end:
                return response
        return OKAY

    def _inside(self, address: int, size: int) -> None:
        if address < 0 or address + size > len(self.data):
            raise IndexError(
                f"bytes {address}..{address + size} lie outside a memory of {len(self.data)} bytes"
            )

    # --- wires ----------------------------------------------------------------------------------------------

    def _stalled(self, chance: float) -> bool:
        return chance > 0 and self._random.random() < chance

    def _set(self, name: str, value: int | bool) -> None:
        if self._driven.get(name) != value:
            self._driven[name] = int(value)
            self._wires.set(name, int(value))
