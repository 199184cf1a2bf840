"""The AXI4 master: read arbiter, limits of outstanding bursts, write channel (hw/README.md sections 1 and 2)."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from vdla.isa.config import Config
from vdla.isa.timing import AXI_BOUNDARY

from .axi import INCREMENTING, OKAY, axi4
from .counting import counted, following, will_be_full, will_be_some
from .interfaces import ADDRESS_BITS, Client, burst_layout, read_client, write_client


class MemoryPort(wiring.Component):
    """Connects the read clients and the store unit's writes to one AXI4 port.

    Members:

    - `fetch`, `compute`, `store`, `load`: the read clients. A beat on the bus in cycle t is shown to its client in t +
      1.
    - `write`: the store unit's writes. `axi`: the AXI4 port.
    - `base`: a multiple of 4096 that is added to every address. A new value is used only after a cycle in which `stop`
      is 1 and no burst is outstanding.
    - `read_accepted`, `write_accepted`: a burst was accepted; `read_burst`, `write_burst` describe it, for the byte
      counters.
    - `stop`: forbids new addresses; bursts whose address was shown are completed.
    - `error`: 1 in a cycle with a response other than OKAY. `quiet`: no burst is outstanding. `written`: all writes are
      complete.

    This component is not reset between runs: beats of a run that has ended are accepted and dropped.
    """

    def __init__(self, *, config: Config) -> None:
        """`config` determines the width of the bus and the limits of outstanding bursts."""
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
        """Builds the logic for reads and the logic for writes, which share only the base address."""
        m = Module()
        axi = self.axi
        # Software may write register BASE at any time, but the address of a waiting request must not change.
        base = Signal(ADDRESS_BITS, reset_less=True)
        with m.If(self.quiet & self.stop):
            m.d.sync += base.eq(self.base)
        reads, none_kept = self._reads(m, base)
        self._writes(m, base)
        m.d.comb += [
            self.error.eq(
                (axi.rvalid & axi.rready & (axi.rresp != OKAY))
                | (axi.bvalid & axi.bready & (axi.bresp != OKAY))
            ),
            self.quiet.eq((reads == 0) & none_kept & self.written),
        ]
        return m

    def _address(self, base: Value, byte: Value) -> Value:
        """The address of the bus word that contains byte `byte` of the memory. `base`: address of the memory, a
        multiple of 4096.
        """
        shift, page = self._config.memory.bus_bytes.bit_length() - 1, AXI_BOUNDARY.bit_length() - 1
        return Cat(Const(0, shift), byte[shift:page], (base[page:] + byte[page:])[: ADDRESS_BITS - page])

    def _reads(self, m: Module, base: Value) -> tuple[Value, Value]:
        config, axi = self._config, self.axi
        limit = config.memory.outstanding_reads
        layout = burst_layout(config)
        clients = [getattr(self, client.name.lower()) for client in Client]
        owner, first = Signal(range(len(Client))), Signal(range(len(Client)))
        chosen = Signal(layout)
        # AXI forbids to withdraw or change an address that waits for ARREADY, so `kept_burst` stores it.
        kept = Signal()
        kept_owner, kept_burst = Signal.like(owner, reset_less=True), Signal(layout, reset_less=True)
        outstanding = Signal(range(limit + 1))
        for index, client in reversed(list(enumerate(clients))):
            with m.If(client.request.valid):
                m.d.comb += first.eq(index)
        # A code of two bits selects the burst, so that no client's `valid` drives all its wires.
        shown = Array(client.request.payload.as_value() for client in clients)[first]
        m.d.comb += [owner.eq(Mux(kept, kept_owner, first)), chosen.eq(Mux(kept, kept_burst, shown))]
        with m.If(~kept):
            m.d.sync += [kept_owner.eq(first), kept_burst.eq(shown)]
        # `kept` selects many wires, so `choosing`, its complement as a separate register, drives `arvalid`.
        choosing = Signal(init=1)
        requested = Cat(client.request.valid for client in clients).any()
        accept, full = Signal(), Signal()  # full: the limit is reached
        m.d.comb += [
            axi.arvalid.eq(~choosing | (requested & ~full & ~self.stop)),  # `full` is low when one is kept
            axi.araddr.eq(self._address(base, chosen.address)),
            axi.arlen.eq(chosen.beats - 1),
            axi.arsize.eq(config.memory.bus_bytes.bit_length() - 1),
            axi.arburst.eq(INCREMENTING),
            accept.eq(axi.arvalid & axi.arready),
            self.read_accepted.eq(accept),
            self.read_burst.eq(chosen),
        ]
        m.d.sync += [kept.eq(axi.arvalid & ~axi.arready), choosing.eq(~axi.arvalid | axi.arready)]
        # Clients of the outstanding bursts, in a ring buffer with `outstanding` entries.
        m.submodules.owners = owners = memory.Memory(shape=len(owner), depth=limit, init=[])
        write, read = owners.write_port(), owners.read_port(domain="comb")
        newest, oldest = Signal(range(limit)), Signal(range(limit))
        last = axi.rvalid & axi.rready & axi.rlast
        m.d.comb += [
            write.addr.eq(newest),
            write.data.eq(owner),
            write.en.eq(accept),
            read.addr.eq(oldest),
            axi.rready.eq(1),
        ]
        for index, client in enumerate(clients):
            m.d.comb += client.request.ready.eq(accept & (owner == index))
            m.d.sync += [
                client.beat_valid.eq(axi.rvalid & (read.data == index)),
                client.beat_last.eq(axi.rlast),
                client.beat_data.eq(axi.rdata),
            ]
        with m.If(accept):
            m.d.sync += newest.eq(following(newest, limit))
        with m.If(last):
            m.d.sync += oldest.eq(following(oldest, limit))
        m.d.sync += [
            outstanding.eq(counted(outstanding, up=accept, down=last)),
            full.eq(will_be_full(outstanding, limit, up=accept, down=last)),
        ]
        return outstanding, ~kept

    def _writes(self, m: Module, base: Value) -> None:
        """Builds the logic for writes; `base` is added to every address. A burst's data is shown only with or after its
        address, since AXI allows a slave to wait for AWVALID.
        """
        config, axi, write = self._config, self.axi, self.write
        limit = config.memory.outstanding_writes
        outstanding = Signal(range(limit + 1))
        # Number of bursts whose address was shown and whose data has not moved completely.
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
