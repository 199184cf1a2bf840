"""The one AXI4 master: read arbiter, limits of outstanding bursts, write channel (hw/README.md sections 1 and 2)."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import fifo, wiring
from amaranth.lib.wiring import In, Out
from vdla.isa.config import Config

from .axi import INCREMENTING, OKAY, axi4
from .counting import counted, will_be_full, will_be_some
from .interfaces import ADDRESS_BITS, Client, burst_layout, read_client, write_client


class MemoryPort(wiring.Component):
    """Read clients and the store unit's writes on one AXI4 port.

    Members: `fetch`, `compute`, `store`, `load` the clients and `write`, from this side; `axi`; `base` is added to
    every address (a multiple of 4096; a new one counts from the cycle after one with nothing outstanding).
    `read_accepted` and `write_accepted`, with `read_burst` and `write_burst`, feed the byte counters. `error` is
    pulsed when a response is not OKAY; `quiet`: nothing is outstanding. With `stop` no new address is shown; what has
    been shown is completed, and `written` says that no write is left. This part is not reset between runs: beats
    of a run that has ended are taken and dropped. A beat on the bus in cycle t is shown to its client in t + 1.
    """

    def __init__(self, *, config: Config) -> None:
        """`config` gives bus width and the limits of outstanding bursts."""
        self._config = config
        super().__init__(
            {
                **{client.name.lower(): In(read_client(config)) for client in Client},
                "write": In(write_client(config)),
                "axi": Out(axi4(config.memory.bus_bytes)),
                "base": In(ADDRESS_BITS),
                "read_accepted": Out(1),
                "read_burst": Out(burst_layout(config)),
                "write_accepted": Out(1),
                "write_burst": Out(burst_layout(config)),
                "error": Out(1),
                "stop": In(1),
                "written": Out(1),
                "quiet": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Reads, then writes; the two share nothing but the base address."""
        m = Module()
        axi = self.axi
        # Software may write the register at any time, but an address that waits must not move with it.
        base = Signal(ADDRESS_BITS)
        with m.If(self.quiet & ~axi.arvalid & ~axi.awvalid):
            m.d.sync += base.eq(self.base)
        reads, owners_empty = self._reads(m, base)
        self._writes(m, base)
        m.d.comb += [
            self.error.eq(
                (axi.rvalid & axi.rready & (axi.rresp != OKAY))
                | (axi.bvalid & axi.bready & (axi.bresp != OKAY))
            ),
            self.quiet.eq((reads == 0) & owners_empty & self.written),
        ]
        return m

    def _address(self, base: Value, byte: Value) -> Value:
        shift = self._config.memory.bus_bytes.bit_length() - 1
        return Cat(Const(0, shift), (base + byte)[shift:ADDRESS_BITS])

    def _reads(self, m: Module, base: Value) -> tuple[Value, Value]:
        config, axi = self._config, self.axi
        limit = config.memory.outstanding_reads
        layout = burst_layout(config)
        clients = [getattr(self, client.name.lower()) for client in Client]
        valid, owner = Signal(), Signal(range(len(Client)))
        chosen = Signal(layout)
        # AXI forbids to withdraw or change an address that waits for ARREADY: then it is kept here.
        kept, kept_owner, kept_burst = Signal(), Signal.like(owner), Signal(layout)
        outstanding = Signal(range(limit + 1))
        for index, client in reversed(list(enumerate(clients))):
            with m.If(client.request.valid):
                m.d.comb += [owner.eq(index), chosen.eq(client.request.payload)]
        with m.If(kept):
            m.d.comb += [owner.eq(kept_owner), chosen.eq(kept_burst)]
        # `kept` chooses between many wires; whether there is an address is told by a register of its own.
        choosing = Signal(init=1)
        m.d.comb += valid.eq(~choosing | Cat(client.request.valid for client in clients).any())
        accept, full = Signal(), Signal()  # full: the limit is reached
        m.d.comb += [
            axi.arvalid.eq(valid & ~full & ~(choosing & self.stop)),
            axi.araddr.eq(self._address(base, chosen.address)),
            axi.arlen.eq(chosen.beats - 1),
            axi.arsize.eq(config.memory.bus_bytes.bit_length() - 1),
            axi.arburst.eq(INCREMENTING),
            accept.eq(axi.arvalid & axi.arready),
            self.read_accepted.eq(accept),
            self.read_burst.eq(chosen),
        ]
        m.d.sync += [
            kept.eq(axi.arvalid & ~axi.arready),
            choosing.eq(~axi.arvalid | axi.arready),
            kept_owner.eq(owner),
            kept_burst.eq(chosen),
        ]
        m.submodules.owners = owners = fifo.SyncFIFO(width=len(owner), depth=limit)
        last = axi.rvalid & axi.rready & axi.rlast
        m.d.comb += [
            owners.w_data.eq(owner),
            owners.w_en.eq(accept),
            axi.rready.eq(1),
            owners.r_en.eq(last),
        ]
        for index, client in enumerate(clients):
            m.d.comb += client.request.ready.eq(accept & (owner == index))
            m.d.sync += [
                client.beat_valid.eq(axi.rvalid & (owners.r_data == index)),
                client.beat_last.eq(axi.rlast),
                client.beat_data.eq(axi.rdata),
            ]
        m.d.sync += [
            outstanding.eq(counted(outstanding, up=accept, down=last)),
            full.eq(will_be_full(outstanding, limit, up=accept, down=last)),
        ]
        return outstanding, ~owners.r_rdy & ~kept

    def _writes(self, m: Module, base: Value) -> None:
        """AXI allows a slave to wait for WVALID before AWREADY, so data is shown once its address has been."""
        config, axi, write = self._config, self.axi, self.write
        limit = config.memory.outstanding_writes
        outstanding = Signal(range(limit + 1))
        # Bursts whose address has been shown and whose data has not all moved.
        announced = Signal(range(limit + 2))
        waiting = Signal()  # an address that has been shown stays until AWREADY
        accept, may_show, full, shows_data = Signal(), Signal(), Signal(), Signal()
        response = axi.bvalid & axi.bready
        m.d.comb += [
            may_show.eq(~full & (waiting | ~self.stop)),
            axi.awvalid.eq(write.request.valid & may_show),
            axi.awaddr.eq(self._address(base, write.request.payload.address)),
            axi.awlen.eq(write.request.payload.beats - 1),
            axi.awsize.eq(config.memory.bus_bytes.bit_length() - 1),
            axi.awburst.eq(INCREMENTING),
            accept.eq(axi.awvalid & axi.awready),
            write.request.ready.eq(may_show & axi.awready),
            self.write_accepted.eq(accept),
            self.write_burst.eq(write.request.payload),
            axi.wvalid.eq(write.beat.valid & shows_data),
            axi.wdata.eq(write.beat.payload.data),
            axi.wstrb.eq(write.beat.payload.strobe),
            axi.wlast.eq(write.beat.payload.last),
            write.beat.ready.eq(axi.wready & shows_data),
            axi.bready.eq(1),
            write.response.eq(response),
            self.written.eq((outstanding == 0) & ~waiting),
        ]
        last = axi.wvalid & axi.wready & axi.wlast
        announces = axi.awvalid & ~waiting
        m.d.sync += [
            waiting.eq(axi.awvalid & ~axi.awready),
            announced.eq(counted(announced, up=announces, down=last)),
            shows_data.eq(will_be_some(announced, up=announces, down=last)),
            full.eq(will_be_full(outstanding, limit, up=accept, down=response)),
            outstanding.eq(counted(outstanding, up=accept, down=response)),
        ]
