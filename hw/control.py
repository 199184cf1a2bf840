"""Control registers on AXI4-Lite: software writes them to run a program and reads them afterwards.

| byte address | register |
|---|---|
| 0x000 | ID, 0x56444C41 ("VDLA") |
| 0x004 | VERSION of this map |
| 0x008 | CONTROL, write: bit 0 launches (when nothing is outstanding), 1 clears the error bit, 2 stops the run |
| 0x00C | STATUS: bit 0 running (or about to), 1 finished since the last launch, 2 memory error, 3 quiet |
| 0x010, 0x014 | PROGRAM: first instruction, in bytes from BASE on, a multiple of 4096, low and high word |
| 0x018 | COUNT of instructions |
| 0x020, 0x024 | BASE: byte address of the memory image, a multiple of 4096; added to every address, PROGRAM's too |
| 0x028, 0x02C | CYCLES of the run so far |
| 0x040 .. 0x05C | DIGEST: SHA-256 of the configuration, first byte lowest |
| 0x100 + 8 i | counter i of `counters.COUNTERS`, low and high word |

A memory response other than OKAY sets the error bit and stops a run: the instructions read may be wrong, and the run
might never end by itself. A stopped run shows no new address, completes the writes it has shown and then ends without
the bit "finished". The error bit stays 1 until software clears it; the next launch works in either case. Software can
also stop a program that is deadlocked.
"""

from __future__ import annotations

from functools import reduce
from operator import or_

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vdla.isa.config import Config
from vdla.isa.control_registers import (
    CONTROL_BITS,
    COUNTERS_AT,
    IDENTITY,
    REGISTERS,
    STATUS_BITS,
    VERSION,
)

from .axi import LITE_ADDRESS_BITS, OKAY, axi4_lite
from .counters import COUNTER_BITS, COUNTERS, READ_CYCLES
from .fetch import COUNT_BITS
from .interfaces import ADDRESS_BITS

LAUNCH_BIT, CLEAR_BIT, STOP_BIT = (CONTROL_BITS.index(name) for name in ("LAUNCH", "CLEAR", "STOP"))
RUNNING_BIT, DONE_BIT, ERROR_BIT, QUIET_BIT = (
    STATUS_BITS.index(name) for name in ("RUNNING", "DONE", "ERROR", "QUIET")
)
_BLOCK = 0x20  # bytes of each part of the map; the first cycle of a read selects a word within each part


def counter_address(name: str) -> int:
    """Byte address of the low word of counter `name`. Raises ValueError if there is no such counter."""
    return COUNTERS_AT + 8 * COUNTERS.index(name)


class Control(wiring.Component):
    """The control registers and the state of the run.

    Members:

    - `bus`: the AXI4-Lite slave. `program`, `count`, `base`: values of the registers with these names.
    - `launch`: 1 in the launch cycle (cycle 0).
    - `running`: 1 from cycle 1 to the last cycle of the run. A run ends in the cycle in which the input `finished` is
      1. A run that was stopped, or met an error, ends in the first cycle in which `written` is 1.
    - `resting`: the complement of `running`, as a separate register, which resets the units.
    - `stop`: forbids the memory port to show new addresses.
    - `quiet`, `error`, `written`: inputs from the memory port: no burst is outstanding, a response was an error, all
      writes are complete.
    - `counter_index`: selects a performance counter; `counter_value` must show its value READ_CYCLES later.
    """

    def __init__(self, *, config: Config) -> None:
        """`config`: the configuration whose digest the register DIGEST has."""
        self._config = config
        super().__init__(
            {
                "bus": In(axi4_lite()),
                "program": Out(ADDRESS_BITS),
                "count": Out(COUNT_BITS),
                "base": Out(ADDRESS_BITS),
                "launch": Out(1),
                "running": Out(1),
                "resting": Out(1, init=1),
                "finished": In(1),
                "quiet": In(1),
                "error": In(1),
                "stop": Out(1),
                "written": In(1),
                "counter_index": Out(range(len(COUNTERS))),
                "counter_value": In(COUNTER_BITS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Builds the state of the run, and an AXI4-Lite slave that serves one read and one write at a time."""
        m = Module()
        pending = Signal()
        done, failed = Signal(), Signal()
        # `stopped`: software requested a stop; `stopping`: the run ends as soon as all its writes are complete.
        stopped, stopping = Signal(), Signal()
        cycles = Signal(COUNTER_BITS)
        m.d.comb += [
            self.launch.eq(pending & ~self.running & self.quiet),
            # After the end of a run, the units show their last state for one more cycle.
            self.stop.eq(stopping | ~self.running),
        ]
        with m.If(self.launch):
            m.d.sync += [
                pending.eq(0),
                self.running.eq(1),
                self.resting.eq(0),
                stopping.eq(stopped),
                done.eq(0),
                cycles.eq(0),
            ]
        with m.Elif(stopped):
            m.d.sync += pending.eq(0)
        with m.If(self.running):
            m.d.sync += cycles.eq(cycles + 1)
            m.d.sync += stopping.eq(stopping | self.error | stopped)
            with m.If(self.finished | (stopping & self.written)):
                m.d.sync += [
                    self.running.eq(0),
                    self.resting.eq(1),
                    done.eq(self.finished & ~stopping),
                ]
        status = Cat(pending | self.running, done, failed, self.quiet)
        self._write(m, pending, failed, stopped)
        with m.If(self.error):
            m.d.sync += failed.eq(1)
        self._read(m, status, cycles)
        return m

    def _write(self, m: Module, pending: Signal, failed: Signal, stopped: Signal) -> None:
        bus = self.bus
        accept = bus.awvalid & bus.wvalid & ~bus.bvalid
        m.d.comb += [bus.awready.eq(accept), bus.wready.eq(accept), bus.bresp.eq(OKAY)]
        with m.If(bus.bvalid & bus.bready):
            m.d.sync += bus.bvalid.eq(0)
        with m.If(accept):
            m.d.sync += bus.bvalid.eq(1)
            with m.Switch(bus.awaddr[2:]):
                with m.Case(REGISTERS["CONTROL"] >> 2):
                    with m.If(bus.wdata[LAUNCH_BIT] & bus.wstrb[0]):
                        m.d.sync += pending.eq(1)
                    with m.If(bus.wdata[CLEAR_BIT] & bus.wstrb[0]):
                        m.d.sync += failed.eq(0)
                    with m.If(bus.wdata[STOP_BIT] & bus.wstrb[0]):
                        m.d.comb += stopped.eq(1)
                for name, target in (("PROGRAM", self.program), ("COUNT", self.count), ("BASE", self.base)):
                    for word in range(-(-len(target) // 32)):
                        with m.Case((REGISTERS[name] >> 2) + word):
                            for lane in range(4):
                                part = target[32 * word + 8 * lane : 32 * word + 8 * lane + 8]
                                with m.If(bus.wstrb[lane] if len(part) else Const(0)):
                                    m.d.sync += part.eq(bus.wdata[8 * lane : 8 * lane + 8])

    def _read(self, m: Module, status: Cat, cycles: Signal) -> None:
        bus = self.bus
        digest = int.from_bytes(bytes.fromhex(self._config.digest), "little")
        words = {
            REGISTERS["ID"]: Const(IDENTITY, 32),
            REGISTERS["VERSION"]: Const(VERSION, 32),
            REGISTERS["STATUS"]: status,
            **_words("PROGRAM", self.program),
            **_words("COUNT", self.count),
            **_words("BASE", self.base),
            **_words("CYCLES", cycles),
            **_words("DIGEST", Const(digest, 256)),
        }
        # The address is stable until the access ends, so the stages below need no registers for it. An access takes as
        # many cycles as reading a counter.
        waiting = Signal(READ_CYCLES + 1)
        address, offset = Signal(LITE_ADDRESS_BITS, reset_less=True), Signal(LITE_ADDRESS_BITS)
        is_counter = Signal(reset_less=True)
        other, counter = Signal(32, reset_less=True), Signal(32)
        accept = bus.arvalid & bus.arready
        m.d.comb += [
            bus.arready.eq(~bus.rvalid & (waiting == 0)),
            bus.rresp.eq(OKAY),
            offset.eq(address - COUNTERS_AT),
            self.counter_index.eq(offset[3:]),
            counter.eq(Mux(address[2], self.counter_value[32:], self.counter_value[:32])),
        ]
        with m.If(bus.rvalid & bus.rready):
            m.d.sync += bus.rvalid.eq(0)
        m.d.sync += [
            waiting.eq((waiting << 1) | accept),
            is_counter.eq((address >= COUNTERS_AT) & (offset[3:] < len(COUNTERS))),
        ]
        with m.If(accept):
            m.d.sync += address.eq(bus.araddr)
        blocks = []
        for block in sorted({place // _BLOCK for place in words}):
            here = Array(words.get(_BLOCK * block + 4 * word, Const(0, 32)) for word in range(_BLOCK // 4))
            there = Signal(name=f"in_{block}", reset_less=True)
            value = Signal(32, name=f"block_{block}", reset_less=True)
            m.d.sync += [
                there.eq(address // _BLOCK == block),
                value.eq(here[address[2 : _BLOCK.bit_length() - 1]]),
            ]
            blocks.append(Mux(there, value, 0))
        m.d.sync += other.eq(reduce(or_, blocks))
        with m.If(waiting[-1]):
            m.d.sync += [bus.rvalid.eq(1), bus.rdata.eq(Mux(is_counter, counter, other))]


def _words(name: str, value: Signal | Const) -> dict[int, object]:
    return {
        REGISTERS[name] + 4 * word: value[32 * word : min(len(value), 32 * word + 32)]
        for word in range(-(-len(value) // 32))
    }
