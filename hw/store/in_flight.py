"""Queues of the store unit: of instructions that have begun and not ended, and of stores whose vectors are still to be
written.
"""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, fifo, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from vdla.isa.config import Config
from vdla.isa.timing import STORES_IN_FLIGHT

from ..layouts import instruction_layout


def entry_layout() -> data.StructLayout:
    """Layout of the fields of an instruction that are stored until its end. `short`: the instruction ends in the cycle
    after the one in which it begins.
    """
    return data.StructLayout(dict.fromkeys(("is_config", "is_load", "short", "push_prev", "push_next"), 1))


class InFlight(wiring.Component):
    """The queue of the store unit's instructions in flight (begun and not ended). They end in program order, at most
    one in a cycle, when they are complete.

    Inputs: `begin`: an instruction begins in this cycle, with the properties `entry`. `loaded`: the load in progress is
    complete in this cycle. `stored`: the oldest incomplete store is complete in this cycle.

    Outputs: `end`: the oldest instruction ends in this cycle; `oldest` has its properties. `none`: no instruction is in
    flight. `full`: STORES_IN_FLIGHT instructions are in flight, so none may begin. `loading`: a load is in progress
    (there is never more than one). `load_there`: a load has begun and not ended, though it may be complete. The last
    four are registers.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "begin": In(1),
                "entry": In(entry_layout()),
                "loaded": In(1),
                "stored": In(1),
                "end": Out(1),
                "oldest": Out(entry_layout()),
                "none": Out(1, init=1),
                "full": Out(1),
                "loading": Out(1),
                "load_there": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Builds a ring buffer of entries, and a counter of complete stores that wait for older instructions to end."""
        m = Module()
        m.submodules.entries = entries = memory.Memory(
            shape=entry_layout().size, depth=STORES_IN_FLIGHT, init=[]
        )
        write, read = entries.write_port(), entries.read_port(domain="comb")
        newest, oldest = (Signal(range(STORES_IN_FLIGHT), name=name) for name in ("newest", "oldest"))
        count, stored = (Signal(range(STORES_IN_FLIGHT + 1), name=name) for name in ("count", "stored"))
        is_store, following = Signal(), Signal.like(count)
        m.d.comb += [
            write.addr.eq(newest),
            write.data.eq(self.entry),
            write.en.eq(self.begin),
            read.addr.eq(oldest),
            self.oldest.eq(read.data),
            is_store.eq(~self.oldest.short & ~self.oldest.is_load),
            self.end.eq(
                ~self.none
                & Mux(
                    is_store,
                    self.stored | (stored != 0),
                    self.oldest.short | self.loaded | ~self.loading,
                )
            ),
            following.eq(count + self.begin - self.end),
        ]
        m.d.sync += [
            newest.eq(newest + self.begin),
            oldest.eq(oldest + self.end),
            count.eq(following),
            self.none.eq(following == 0),
            self.full.eq(following == STORES_IN_FLIGHT),
            stored.eq(stored + self.stored - (self.end & is_store)),
        ]
        with m.If(self.begin & self.entry.is_load):
            m.d.sync += [self.loading.eq(1), self.load_there.eq(1)]
        with m.Else():
            with m.If(self.loaded):
                m.d.sync += self.loading.eq(0)
            with m.If(self.end & self.oldest.is_load):
                m.d.sync += self.load_there.eq(0)
        return m


def job_layout(config: Config) -> data.StructLayout:
    """Destination of a store: `y_size` rows of `x_size` vectors from `dram_base` on; a row begins `x_stride` vectors
    after the previous one. `joined`: there are no gaps between rows. `chain`, only on machines with a chain memory
    (on-chip buffer between layers): the vectors go to this memory.
    """
    head = instruction_layout(config, "STORE.OUT")
    names = ("dram_base", "y_size", "x_size", "x_stride")
    return data.StructLayout(
        {name: head[name].shape for name in names}
        | {"joined": 1}
        | ({"chain": 1} if config.chain_buffer_bytes else {})
    )


class Jobs(wiring.Component):
    """A queue between the control of the store unit, which begins stores, and the writer, which writes their vectors to
    DRAM. If the queue is empty, a store reaches the writer in the cycle in which it begins.

    Members: `put`: input, a store that begins in this cycle; it is always accepted. `job`: output, the oldest store
    that the writer has not taken yet.
    """

    def __init__(self, *, config: Config) -> None:
        """`config` determines the widths of the fields of a store."""
        self._layout = job_layout(config)
        super().__init__(
            {
                "put": In(stream.Signature(self._layout, always_ready=True)),
                "job": Out(stream.Signature(self._layout)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Builds a queue, and a bypass that is used while the queue is empty."""
        m = Module()
        m.submodules.queue = queue = fifo.SyncFIFO(width=self._layout.size, depth=STORES_IN_FLIGHT)
        m.d.comb += [
            self.job.valid.eq(queue.r_rdy | self.put.valid),
            self.job.payload.eq(Mux(queue.r_rdy, queue.r_data, self.put.payload)),
            queue.r_en.eq(queue.r_rdy & self.job.ready),
            queue.w_data.eq(self.put.payload),
            queue.w_en.eq(self.put.valid & (queue.r_rdy | ~self.job.ready)),
        ]
        return m
