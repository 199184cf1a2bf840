"""A router from one AXI port to several memories, the channels of a DRAM (hw/dram.md, section 9)."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Module, Signal, Value
from amaranth.lib import fifo, wiring
from amaranth.lib.wiring import In, Out

from vdla.isa.config import Memory

from .axi import axi4

ROUTER = "axi_router"
"""Name of the router's top module in Verilog."""


class AxiRouter(wiring.Component):
    """Sends each burst of one AXI master to the channel in which the burst's first byte lies.

    Consecutive pieces of `channel_bytes` bytes lie in channel 0, 1 ...; a burst must not leave its piece. Read data and
    responses reach the master in the order of its requests. The outputs to the master do not depend on the master's
    inputs of the same cycle.

    Members: `master`: the AXI port of the master. `channel_0`, `channel_1` ...: the AXI ports of the memories; an
    address there counts from the start of the channel.
    """

    def __init__(self, *, bus_bytes: int, channels: int, channel_bytes: int, reads: int, writes: int) -> None:
        """`bus_bytes`: width of all ports. `channels`, `channel_bytes`: powers of two. `reads`, `writes`: largest
        numbers of outstanding read bursts and of outstanding write bursts; further bursts wait.
        """
        self._piece_bits = channel_bytes.bit_length() - 1
        self._channel_bits = channels.bit_length() - 1
        self._reads, self._writes = reads, writes
        ports = {f"channel_{index}": Out(axi4(bus_bytes)) for index in range(channels)}
        super().__init__({"master": In(axi4(bus_bytes)), **ports})
        self._channels = [getattr(self, name) for name in ports]

    def elaborate(self, platform: object) -> Module:
        """Builds a register for each direction's address, and FIFOs with the channel numbers of the outstanding bursts,
        in the order of the bursts.
        """
        m = Module()
        master, channels = self.master, self._channels
        orders = {}
        for name, depth in (("reads", self._reads), ("writes", self._writes), ("data", self._writes)):
            orders[name] = fifo.SyncFIFO(width=self._channel_bits, depth=depth)
            m.submodules[name] = orders[name]
        reads, writes, data = orders["reads"], orders["writes"], orders["data"]
        self._route_addresses(m, "ar", [reads])
        self._route_addresses(m, "aw", [writes, data])
        for index, channel in enumerate(channels):
            m.d.comb += [
                channel.rready.eq(master.rready & reads.r_rdy & (reads.r_data == index)),
                channel.wvalid.eq(master.wvalid & data.r_rdy & (data.r_data == index)),
                channel.wdata.eq(master.wdata),
                channel.wstrb.eq(master.wstrb),
                channel.wlast.eq(master.wlast),
                channel.bready.eq(master.bready & writes.r_rdy & (writes.r_data == index)),
            ]
        m.d.comb += [
            master.rvalid.eq(reads.r_rdy & self._of(reads.r_data, "rvalid")),
            master.rdata.eq(self._of(reads.r_data, "rdata")),
            master.rresp.eq(self._of(reads.r_data, "rresp")),
            master.rlast.eq(self._of(reads.r_data, "rlast")),
            reads.r_en.eq(master.rvalid & master.rready & master.rlast),
            master.wready.eq(data.r_rdy & self._of(data.r_data, "wready")),
            data.r_en.eq(master.wvalid & master.wready & master.wlast),
            master.bvalid.eq(writes.r_rdy & self._of(writes.r_data, "bvalid")),
            master.bresp.eq(self._of(writes.r_data, "bresp")),
            writes.r_en.eq(master.bvalid & master.bready),
        ]
        return m

    def _of(self, channel: Value, signal: str) -> Value:
        """The signal named `signal` of the AXI port whose number is `channel`."""
        return Array([getattr(port, signal) for port in self._channels])[channel]

    def _route_addresses(self, m: Module, name: str, orders: list[fifo.SyncFIFO]) -> None:
        """Adds to `m` the register of the address channel `name` ("ar" or "aw"); `orders`: the FIFOs that get, for each
        accepted burst, the number of its memory channel.
        """
        master, shift, bits = self.master, self._piece_bits, self._channel_bits
        valid, where = Signal(name=f"{name}_valid"), Signal(bits, name=f"{name}_channel")
        leaves, take = Signal(name=f"{name}_leaves"), Signal(name=f"{name}_take")
        address = getattr(master, f"{name}addr")
        held = {
            field: Signal.like(getattr(master, f"{name}{field}"), name=f"{name}_{field}")
            for field in ("addr", "len", "size", "burst")
        }
        m.d.comb += [
            leaves.eq(valid & self._of(where, f"{name}ready")),
            getattr(master, f"{name}ready").eq((~valid | leaves) & orders[0].w_rdy),
            take.eq(getattr(master, f"{name}valid") & getattr(master, f"{name}ready")),
        ]
        with m.If(take):
            m.d.sync += [
                where.eq(address[shift : shift + bits]),
                held["addr"].eq(Cat(address[:shift], address[shift + bits :])),
                *(held[field].eq(getattr(master, f"{name}{field}")) for field in ("len", "size", "burst")),
            ]
        m.d.sync += valid.eq(take | (valid & ~leaves))
        for order in orders:
            m.d.comb += [order.w_en.eq(take), order.w_data.eq(address[shift : shift + bits])]
        for index, channel in enumerate(self._channels):
            m.d.comb += getattr(channel, f"{name}valid").eq(valid & (where == index))
            m.d.comb += [getattr(channel, f"{name}{field}").eq(value) for field, value in held.items()]


def router_of(memory: Memory) -> AxiRouter:
    """The router of a machine whose `memory` is a DRAM with several channels."""
    return AxiRouter(
        bus_bytes=memory.bus_bytes,
        channels=memory.channels,
        channel_bytes=memory.channel_bytes,
        reads=memory.outstanding_reads,
        writes=memory.outstanding_writes,
    )
