"""The head instruction of the store unit: its decoded fields, and whether it may begin while stores are in flight."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import data

from vdla.isa.config import Config
from vdla.isa.layout import POST, ROWS, TABLE, Opcode
from vdla.isa.store_stages import StoreParts

from ..layouts import instruction_layout, register_layout, view
from .in_flight import InFlight, entry_layout
from .post import flags_layout
from .reader import Reader
from .rows import row_flags


def running_layout(config: Config) -> data.StructLayout:
    """Properties of the store whose accumulators are being read, or were read last. They also hold for all older stores
    in flight, because only stores with equal properties overlap. `post`: the store is a STORE.POST or ROWS. `chain`,
    only on machines with a chain memory (on-chip buffer between layers): the store writes this memory.
    """
    parts = StoreParts.of(config)
    return data.StructLayout(
        {"post": 1, "flags": flags_layout(config), "par_by_x": 1, "par_by_y": 1}
        | ({"chain": 1} if parts.chain else {})
        | ({"table_index": 3} if parts.table else {})
        | ({"rows": row_flags()} if parts.rows else {})
    )


def starting_layout(config: Config) -> data.StructLayout:
    """Layout of the decoded head instruction. `store`: properties that only stores have. `entry`: properties that every
    instruction has. `plain`: 1 if the instruction is a plain store (`Head.is_plain`). `is_table`: 1 if it loads look-up
    tables.
    """
    parts = StoreParts.of(config)
    return data.StructLayout(
        {"store": running_layout(config), "entry": entry_layout(), "plain": 1}
        | ({"is_table": 1} if parts.table else {})
    )


class Head:
    """Decodes `words`, the bits of the instruction at the head of the store unit's command queue."""

    def __init__(self, *, config: Config, words: Value) -> None:
        self.config, self.words, self.parts = config, words, StoreParts.of(config)

    @property
    def plain_view(self) -> data.View:
        """The fields of the head instruction, decoded as a STORE.OUT. Loads and other stores have the same fields in
        the same places.
        """
        return view(instruction_layout(self.config, "STORE.OUT"), self.words)

    @property
    def is_par(self) -> Value:
        """Whether the head instruction, if it is a load, is a LOAD.PAR (load of parameters)."""
        return self.plain_view["memory_type"] != TABLE if self.parts.table else Const(1)

    @property
    def is_plain(self) -> Value:
        """Whether the head is a plain store: it stores at least one vector, reads no operand, and is not ROWS."""
        head = self.plain_view
        stores = (head["opcode"] == Opcode.STORE) & (head["y_size"] != 0) & (head["x_size"] != 0)
        if self.parts.rows:
            stores = stores & (head["memory_type"] != ROWS)
        if self.parts.post:
            post = view(instruction_layout(self.config, "STORE.POST"), self.words)
            stores = stores & ~((head["memory_type"] == POST) & post["operand"])
        return stores

    def decode(self, m: Module, registers: dict[str, Signal]) -> data.View:
        """Adds registers with the decoded head instruction, and returns them. They are valid one cycle after the
        instruction became the head. That is the first cycle in which the instruction may begin.
        """
        words, head = self.words, self.plain_view
        post = view(instruction_layout(self.config, "STORE.POST"), words)
        window = view(register_layout("WINDOW"), registers["WINDOW"])
        starting = Signal(starting_layout(self.config))
        entry, store = starting.entry, starting.store
        # The code below does not read members of `starting`: tools that treat the structure as one signal would see a
        # combinational loop.
        is_config, is_post = head["opcode"] == Opcode.CONFIG, Signal()
        is_store = head["opcode"] == Opcode.STORE
        m.d.sync += [
            entry.is_config.eq(is_config),
            entry.is_load.eq(head["opcode"] == Opcode.LOAD),
            entry.short.eq(is_config | (is_store & ((head["y_size"] == 0) | (head["x_size"] == 0)))),
            entry.push_prev.eq(head["push_prev"]),
            entry.push_next.eq(head["push_next"]),
            starting.plain.eq(self.is_plain),
        ]
        if self.parts.post:
            m.d.comb += is_post.eq(is_store & (head["memory_type"] == POST))
            m.d.sync += [
                store.post.eq(is_post),
                store.par_by_x.eq(post["par_by_x"]),
                store.par_by_y.eq(post["par_by_y"]),
                store.flags.sum.eq(window["sum"]),
            ]
            if self.parts.chain:
                m.d.sync += store.chain.eq(is_post & post["chain"])
            if self.parts.table:
                m.d.sync += [
                    starting.is_table.eq((head["opcode"] == Opcode.LOAD) & (head["memory_type"] == TABLE)),
                    store.flags.table.eq(is_post & post["table"]),
                    store.table_index.eq(post["table_index"]),
                ]
            for name in ("combine", "operand", "multiply", "swap", "unsigned"):
                m.d.sync += store.flags[name].eq(is_post & post[name])
            if self.parts.rows:
                rows = view(instruction_layout(self.config, "ROWS"), words)
                counts = is_store & (head["memory_type"] == ROWS)
                m.d.sync += [
                    store.post.eq(is_post | counts),
                    store.rows.shares.eq(is_post & post["rows"]),
                    store.rows.counts.eq(counts),
                    store.rows.maximum.eq(rows["maximum"]),
                ]
        return starting

    def follows(
        self,
        m: Module,
        begin: Value,
        starting: data.View,
        running: data.View,
        reader: Reader,
        in_flight: InFlight,
    ) -> Value:
        """Whether the head instruction may begin while earlier instructions of the unit are in flight. The caller also
        checks that `in_flight` has a free entry.

        `begin`: an instruction begins in this cycle; `starting` has its decoded fields. `running`: the store whose
        accumulators `reader` reads. The head may have arrived in this cycle, so its fields are decoded here; the
        registers of `decode` have them one cycle later.
        """
        head = self.plain_view
        behind_store, behind_load = Signal(), Signal()
        with m.If(begin):
            m.d.sync += [
                behind_store.eq(starting.plain),
                behind_load.eq(starting.entry.is_load & self.is_par),
            ]
        is_post = Signal()
        like: Value = is_post == running.post
        if self.parts.post:
            post = view(instruction_layout(self.config, "STORE.POST"), self.words)
            m.d.comb += is_post.eq(head["memory_type"] == POST)
            flags = [(post[name], running.flags[name]) for name in ("combine", "unsigned")]
            if self.parts.chain:
                flags.append((post["chain"], running.chain))
            if self.parts.table:
                flags += [(post["table"], running.flags.table), (post["table_index"], running.table_index)]
            if self.parts.rows:
                flags.append((post["rows"], running.rows.shares))
            ours, theirs = (Cat(*side) for side in zip(*flags, strict=True))
            like = like & (~is_post | (ours == theirs))
        stores = self.is_plain & like & ~reader.active & ~in_flight.loading
        loads = (head["opcode"] == Opcode.LOAD) & self.is_par & ~in_flight.load_there
        return (stores & (behind_store | behind_load)) | (loads & behind_store)
