"""The store unit: STORE.OUT, STORE.POST, loads of its tables, its configuration registers.

Reader, pipeline and writer work on different stores. The reader works on the youngest, whose settings equal those of
the stores in flight before it, so the pipeline's settings are valid for all of them (hw/README.md section 8).
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import connect, flipped

from vdla.isa.config import Config
from vdla.isa.layout import POST, ROWS, TABLE, Opcode, Unit
from vdla.isa.registers import registers_of
from vdla.isa.rows import PLANES
from vdla.isa.store_stages import TABLE_BYTES
from vdla.isa.timing import parameter_cycles, post_latency

from ..config_registers import config_registers
from ..element_writer import ElementWriter, job_layout, step_width
from ..interfaces import Activity, Kind, store_members
from ..issue import Issue
from ..layouts import instruction_layout, register_layout, view
from ..memories import ANY_ON_COLLISION
from ..read_requests import ReadRequests
from .in_flight import InFlight, Jobs, entry_layout
from .operand_fifo import OperandFifo
from .pipeline import delay
from .post import SETTINGS, PostPipeline, biases_after_reads, flags_layout, scales_after_biases
from .reader import Reader
from .rows import Rows, row_flags
from .tables import Tables
from .writer import Writer


def _running_layout(config: Config) -> data.StructLayout:
    """Fields of the store whose accumulators are read, or were read last; stores in flight before it have equal fields.
    `chain` (on machines with a chain memory): it writes the chain memory.
    """
    return data.StructLayout(
        {"post": 1, "flags": flags_layout(config), "par_by_x": 1, "par_by_y": 1}
        | ({"chain": 1} if config.chain_buffer_bytes else {})
        | ({"table_index": 3} if config.has("table") else {})
        | ({"rows": row_flags()} if config.has("rows") else {})
    )


def _starting_layout(config: Config) -> data.StructLayout:
    """Decoded head instruction: the fields of a store, of any instruction, and whether it is a load of look-up
    tables."""
    return data.StructLayout(
        {"store": _running_layout(config), "entry": entry_layout(), "plain": 1}
        | ({"is_table": 1} if config.has("table") else {})
    )


class StoreUnit(wiring.Component):
    """The store unit. Members: `interfaces.store_members`."""

    def __init__(self, *, config: Config) -> None:
        """`config` gives lanes, table, FIFOs, bus and extensions."""
        self._config = config
        super().__init__(store_members(config))

    def elaborate(self, platform: object) -> Module:
        """Control; reader, pipeline and writer in a row; with `post`, the read client beside them."""
        m = Module()
        config = self._config
        m.submodules.issue = issue = Issue(config=config)
        m.submodules.reader = reader = Reader(config=config)
        m.submodules.writer = writer = Writer(config=config)
        for port in ("commands", "pop_prev", "pop_next"):
            connect(m, flipped(getattr(self, port)), getattr(issue, port))
        connect(m, flipped(self.write), writer.write)
        m.d.comb += [
            issue.room_prev.eq(self.push_prev.room),
            issue.room_next.eq(self.push_next.room),
            self.accumulators.request.eq(reader.request),
            self.accumulators.address.eq(reader.address),
            reader.grant.eq(self.accumulators.grant),
        ]
        chains = bool(config.chain_buffer_bytes)
        m.submodules.in_flight = in_flight = InFlight()
        running = Signal(_running_layout(config))
        reserve = reader.read & reader.first
        # ROWS writes no memory.
        stores: Value = ~running.rows.counts if config.has("rows") else Const(1)
        reserve = reserve & stores if config.has("rows") else reserve
        m.d.comb += writer.reserve.eq(reserve & ~running.chain if chains else reserve)
        names = tuple(item.name for item in registers_of(config) if item.unit == Unit.STORE)
        setting = view(instruction_layout(config, "CONFIG"), self.commands.payload)
        configured = Signal()
        registers = config_registers(m, names, configured, setting)
        starting = self._decode(m, registers)
        m.d.sync += configured.eq(issue.begin & starting.entry.is_config)
        stored_begins = issue.begin & ~starting.entry.is_load & ~starting.entry.short
        job = self._start(m, stored_begins, starting.store, reader, writer, registers)

        out_put = Signal(2)  # STORE.OUT: data come in the second cycle after the read
        m.d.sync += out_put.eq(Cat(reader.read & ~running.post, out_put))
        words = (self.accumulators.data.word_select(lane, 32) for lane in range(config.out_bytes))
        truncated = Cat(*(word[:8] for word in words))
        if config.has("post"):
            pipeline = self._post(m, issue.begin, starting, running, reader, registers)
            put = pipeline.put & ~running.chain if chains else pipeline.put
            put = put & stores if config.has("rows") else put
            m.d.comb += [
                writer.put.eq(out_put[-1] | put),
                writer.vector.eq(Mux(running.post, pipeline.vector, truncated)),
            ]
        else:
            m.d.comb += [
                writer.put.eq(out_put[-1]),
                writer.vector.eq(truncated),
                reader.ready.eq(writer.room),
            ]

        stored: Value = writer.done
        if config.has("post") and chains:
            stored = writer.done | self._chain(m, job, running, pipeline)
        else:
            m.d.comb += job.ready.eq(writer.ready)
        if config.has("rows"):
            last = reader.read & reader.last & reader.row_ends & reader.last_row & running.rows.counts
            # The vectors of ROWS pass the pipeline like others.
            counted = Signal(post_latency(config) + 1)
            m.d.sync += counted.eq(Cat(last, counted))
            stored = stored | counted[-1]
        end, oldest = in_flight.end, in_flight.oldest
        m.d.comb += [
            in_flight.begin.eq(issue.begin),
            in_flight.entry.eq(starting.entry),
            in_flight.stored.eq(stored),
            issue.condition.eq(
                in_flight.none
                | (self._follows(m, issue.begin, starting, running, reader, in_flight) & ~in_flight.full)
            ),
            self.push_prev.reserve.eq(issue.reserve_prev),
            self.push_next.reserve.eq(issue.reserve_next),
            self.push_prev.push.eq(end & oldest.push_prev),
            self.push_next.push.eq(end & oldest.push_next),
            self.idle.eq(in_flight.none),
            self.activity.eq(Mux(in_flight.none, issue.stall, Activity.BUSY)),
            self.trace.begin.eq(issue.begin),
            self.trace.end.eq(end & ~oldest.is_config),
            self.trace.end_config.eq(end & oldest.is_config),
        ]
        with m.If(stored_begins):
            m.d.sync += running.eq(starting.store)
        return m

    def _follows(
        self,
        m: Module,
        begin: Value,
        starting: data.View,
        running: data.View,
        reader: Reader,
        in_flight: InFlight,
    ) -> Value:
        """Whether the head instruction may begin while earlier ones are in flight, if there is a place for it.

        The head may have arrived in this cycle, before `_decode` has registered it, so its words are decoded here.
        """
        config, words = self._config, self.commands.payload
        head = view(instruction_layout(config, "STORE.OUT"), words)
        behind_store, behind_load = Signal(), Signal()
        with m.If(begin):
            m.d.sync += [
                behind_store.eq(starting.plain),
                behind_load.eq(starting.entry.is_load & self._is_par(head)),
            ]
        is_post = Signal()
        like: Value = is_post == running.post
        if config.has("post"):
            post = view(instruction_layout(config, "STORE.POST"), words)
            m.d.comb += is_post.eq(head["memory_type"] == POST)
            flags = [(post[name], running.flags[name]) for name in ("combine", "unsigned")]
            if config.chain_buffer_bytes:
                flags.append((post["chain"], running.chain))
            if config.has("table"):
                flags += [(post["table"], running.flags.table), (post["table_index"], running.table_index)]
            if config.has("rows"):
                flags.append((post["rows"], running.rows.shares))
            ours, theirs = (Cat(*side) for side in zip(*flags, strict=True))
            like = like & (~is_post | (ours == theirs))
        stores = self._is_plain(head) & like & ~reader.active & ~in_flight.loading
        loads = (head["opcode"] == Opcode.LOAD) & self._is_par(head) & ~in_flight.load_there
        return (stores & (behind_store | behind_load)) | (loads & behind_store)

    def _is_par(self, head: data.View) -> Value:
        """Whether the head is a load of parameters."""
        return head["memory_type"] != TABLE if self._config.has("table") else Const(1)

    def _is_plain(self, head: data.View) -> Value:
        """Whether the head is a plain store."""
        stores = (head["opcode"] == Opcode.STORE) & (head["y_size"] != 0) & (head["x_size"] != 0)
        if self._config.has("rows"):
            stores = stores & (head["memory_type"] != ROWS)
        if self._config.has("post"):
            post = view(instruction_layout(self._config, "STORE.POST"), self.commands.payload)
            stores = stores & ~((head["memory_type"] == POST) & post["operand"])
        return stores

    def _decode(self, m: Module, registers: dict[str, Signal]) -> data.View:
        """The decoded head instruction, in registers: a head that begins was visible a cycle earlier."""
        words = self.commands.payload
        head = view(instruction_layout(self._config, "STORE.OUT"), words)
        post = view(instruction_layout(self._config, "STORE.POST"), words)
        window = view(register_layout("WINDOW"), registers["WINDOW"])
        starting = Signal(_starting_layout(self._config))
        entry, store = starting.entry, starting.store
        # Members are not read back below, because tools that treat the structure as one signal would see a loop through
        # it.
        is_config, is_post = head["opcode"] == Opcode.CONFIG, Signal()
        is_store = head["opcode"] == Opcode.STORE
        m.d.sync += [
            entry.is_config.eq(is_config),
            entry.is_load.eq(head["opcode"] == Opcode.LOAD),
            entry.short.eq(is_config | (is_store & ((head["y_size"] == 0) | (head["x_size"] == 0)))),
            entry.push_prev.eq(head["push_prev"]),
            entry.push_next.eq(head["push_next"]),
            starting.plain.eq(self._is_plain(head)),
        ]
        if self._config.has("post"):
            m.d.comb += is_post.eq(is_store & (head["memory_type"] == POST))
            m.d.sync += [
                store.post.eq(is_post),
                store.par_by_x.eq(post["par_by_x"]),
                store.par_by_y.eq(post["par_by_y"]),
                store.flags.sum.eq(window["sum"]),
            ]
            if self._config.chain_buffer_bytes:
                m.d.sync += store.chain.eq(is_post & post["chain"])
            if self._config.has("table"):
                m.d.sync += [
                    starting.is_table.eq((head["opcode"] == Opcode.LOAD) & (head["memory_type"] == TABLE)),
                    store.flags.table.eq(is_post & post["table"]),
                    store.table_index.eq(post["table_index"]),
                ]
            for name in ("combine", "operand", "multiply", "swap", "unsigned"):
                m.d.sync += store.flags[name].eq(is_post & post[name])
            if self._config.has("rows"):
                rows = view(instruction_layout(self._config, "ROWS"), words)
                counts = is_store & (head["memory_type"] == ROWS)
                m.d.sync += [
                    store.post.eq(is_post | counts),
                    store.rows.shares.eq(is_post & post["rows"]),
                    store.rows.counts.eq(counts),
                    store.rows.maximum.eq(rows["maximum"]),
                ]
        return starting

    def _start(
        self,
        m: Module,
        begin: Value,
        starting: data.View,
        reader: Reader,
        writer: Writer,
        registers: dict[str, Signal],
    ) -> stream.Interface:
        """Passes a store to the reader in the cycle it begins, and to the writer in its turn. Returns the store whose
        turn it is.
        """
        head = view(instruction_layout(self._config, "STORE.OUT"), self.commands.payload)
        address = view(register_layout("ADDRESS"), registers["ADDRESS"])
        window = view(register_layout("WINDOW"), registers["WINDOW"])
        m.submodules.jobs = jobs = Jobs(config=self._config)
        windows, runs, put, job = reader.windows, writer.runs, jobs.put, jobs.job
        shift = self._config.out_bytes.bit_length() - 1
        m.d.comb += [
            reader.start.eq(begin),
            *(windows[name].eq(head[name]) for name in ("sram_base", "y_size", "x_size")),
            windows.y_stride.eq(Mux(starting.post, address["y_stride"], head["x_size"])),
            windows.x_stride.eq(Mux(starting.post, address["x_stride"], 1)),
            windows.paced.eq(starting.post),
            put.valid.eq(begin & ~starting.rows.counts if self._config.has("rows") else begin),
            *(put.payload[name].eq(head[name]) for name in ("dram_base", "y_size", "x_size", "x_stride")),
            put.payload.joined.eq(head["x_stride"] == head["x_size"]),
            runs.kind.eq(Kind.OUT),
        ]
        written: Value = job.valid & job.ready
        if self._config.chain_buffer_bytes:
            m.d.comb += put.payload.chain.eq(starting.chain)
            written = written & ~job.payload.chain
        m.d.comb += writer.start.eq(written)
        with m.If(starting.post):
            for name in ("rows_minus_1", "columns_minus_1", "row_stride", "column_stride"):
                m.d.comb += windows[name].eq(window[name])
        self._set_runs(m, runs, job.payload.dram_base, job.payload, shift)
        return job

    def _set_runs(self, m: Module, runs: data.View, base: Value, head: data.View, shift: int) -> None:
        """Sets `runs` to the rows of `head` from element `base` on, elements of 2^shift bytes; one run if the rows
        touch (section 3).
        """
        one_run = head["x_stride"] == head["x_size"]
        m.d.comb += [
            runs.address.eq(base << shift),
            runs.length.eq(head["x_size"] << shift),
            runs.rows.eq(head["y_size"]),
            runs.joined.eq(one_run),
            runs.pitch.eq(head["x_stride"] << shift),
        ]

    def _post(
        self,
        m: Module,
        begin: Value,
        starting: data.View,
        running: data.View,
        reader: Reader,
        registers: dict[str, Signal],
    ) -> PostPipeline:
        """The extension: pipeline, operand FIFO, parameter table and its loads."""
        config, entry = self._config, starting.entry
        begins = begin & ~entry.is_load & ~entry.short  # high for a store
        m.submodules.pipeline = pipeline = PostPipeline(config=config)
        m.submodules.requests = requests = ReadRequests(
            config=config, fifo_bytes=config.fifo_bytes("operand")
        )
        m.submodules.operands = operands = OperandFifo(config=config)
        writer = m.submodules.writer
        connect(m, flipped(self.read.request), requests.request)
        head = view(instruction_layout(config, "STORE.OUT"), self.commands.payload)
        out_shift, par_shift = (size.bit_length() - 1 for size in (config.out_bytes, config.par_bytes))
        operand = view(register_layout("OPERAND"), registers["OPERAND"])
        base = head["dram_base"] + operand["delta"]
        step, columns = head["x_stride"], head["x_size"]
        if config.has("broadcast"):
            step, columns = Signal(16, name="operand_step"), Signal(16, name="operand_columns")
            m.d.comb += [
                step.eq(Mux(operand["own_stride"], operand["stride"], head["x_stride"])),
                columns.eq(Mux(operand["repeat"], 1, head["x_size"])),
            ]
        one_run = Signal()
        with m.If(entry.is_load):
            self._set_runs(m, requests.runs, head["dram_base"], head, par_shift)
            m.d.comb += requests.runs.kind.eq(Kind.PAR)
            if config.has("table"):
                with m.If(starting.is_table):
                    self._set_runs(m, requests.runs, head["dram_base"], head, TABLE_BYTES.bit_length() - 1)
        with m.Else():
            self._set_runs(m, requests.runs, base, head, out_shift)
            m.d.comb += requests.runs.kind.eq(Kind.OPERAND)
            if config.has("broadcast"):
                m.d.comb += [
                    requests.runs.length.eq(columns << out_shift),
                    requests.runs.pitch.eq(step << out_shift),
                    requests.runs.joined.eq(step == columns),
                ]
        with m.If(begin):
            m.d.sync += one_run.eq(step == columns)
        pitch = Signal.like(operands.pitch)
        with m.If(begin):
            m.d.sync += pitch.eq(step)
        taken = reader.read & reader.first & running.flags.operand
        if config.has("broadcast"):
            # A row's only operand stays the first in the FIFO until its last vector.
            taken &= ~operand["repeat"] | reader.row_ends
        m.d.comb += [
            requests.start.eq(begin & (entry.is_load | (starting.store.flags.operand & ~entry.short))),
            operands.start.eq(begin),
            operands.offset.eq(base),
            operands.pitch.eq(pitch),
            operands.take.eq(taken),
            operands.run_ends.eq(reader.row_ends & (~one_run | reader.last_row)),
            reader.ready.eq(writer.room & (operands.vector_valid | ~running.flags.operand)),
            pipeline.read.eq(reader.read & running.post),
            pipeline.first.eq(reader.first),
            pipeline.last.eq(reader.last),
            pipeline.data.eq(self.accumulators.data),
            pipeline.operand.eq(operands.vector),
            pipeline.flags.eq(running.flags),
            *(getattr(pipeline, name.lower()).eq(registers[name]) for name in SETTINGS),
        ]
        # A cycle between bus and FIFO, and one between FIFO and account (FIFO_LATENCY, ROOM_DELAY).
        m.d.sync += [
            requests.release.eq(operands.release),
            operands.beat_valid.eq(self.read.beat_valid),
            operands.beat_last.eq(self.read.beat_last),
            operands.beat_data.eq(self.read.beat_data),
        ]
        place = self._entry(m, begins, running, reader)
        loader = self._parameters(m, begin, starting, place, operands, pipeline, reader)
        if config.has("table"):
            self._tables(m, running, loader, pipeline)
        if config.has("rows"):
            self._rows(m, begins, running, reader, registers["ROWS"], loader, pipeline)
        return pipeline

    def _tables(self, m: Module, running: data.View, loader: ElementWriter, pipeline: PostPipeline) -> None:
        """The look-up tables beside the pipeline; each step of a load of tables writes one bus word to all lanes."""
        m.submodules.tables = tables = Tables(config=self._config)
        part_bits = self._table_part_bits
        write: Value = loader.write & (loader.kind == 1)
        if self._config.has("rows"):
            # The planes of the rows' table are at the addresses after the look-up tables.
            write = write & (loader.address < self._config.tables)
        m.d.comb += [
            tables.values.eq(pipeline.requantized),
            pipeline.looked_up.eq(tables.results),
            tables.used.eq(running.flags.table),
            tables.index.eq(running.table_index),
            tables.write.eq(write),
            tables.at.eq(Cat(loader.part[:part_bits], loader.address)),
            tables.data.eq(loader.data),
        ]

    @property
    def _table_part_bits(self) -> int:
        """Bits of the number of a bus word in a table."""
        return (TABLE_BYTES // self._config.memory.bus_bytes).bit_length() - 1

    def _rows(
        self,
        m: Module,
        begin: Value,
        running: data.View,
        reader: Reader,
        setting: Signal,
        loader: ElementWriter,
        pipeline: PostPipeline,
    ) -> None:
        """The entries of rows beside the pipeline, and the row of each vector: its number within a row of
        the reader.
        """
        config = self._config
        m.submodules.row_entries = rows = Rows(config=config)
        first = view(register_layout("ROWS"), setting)["first"]
        here = Signal.like(rows.row, name="row_here", reset_less=True)
        starts = Signal(name="row_starts", reset_less=True)
        with m.If(begin):
            m.d.sync += [here.eq(first), starts.eq(1)]
        with m.Elif(reader.read & reader.last):
            m.d.sync += [
                rows.row.eq(here),
                rows.row_first.eq(starts),
                rows.row_last.eq(reader.last_row),
                here.eq(Mux(reader.row_ends, first, here + 1)),
            ]
            with m.If(reader.row_ends):
                m.d.sync += starts.eq(0)
        passing = ("pass_valid", "pass_first", "pass_last", "differences", "elements")
        m.d.comb += [
            rows.flags.eq(running.rows),
            rows.setting.eq(setting),
            pipeline.row_flags.eq(running.rows),
            pipeline.setting_of_rows.eq(setting),
            *(getattr(rows, name).eq(getattr(pipeline, name)) for name in passing),
            *(
                getattr(pipeline, name).eq(getattr(rows, name))
                for name in ("last_soon", "subtrahend", "offset", "factor", "shift")
            ),
            pipeline.row_write.eq(
                Cat(
                    *(
                        loader.write & (loader.kind == 1) & (loader.address == config.tables + plane)
                        for plane in range(PLANES)
                    )
                )
            ),
            pipeline.row_at.eq(loader.part[: self._table_part_bits]),
            pipeline.row_data.eq(loader.data),
        ]

    def _chain(self, m: Module, job: stream.Interface, running: data.View, pipeline: PostPipeline) -> Signal:
        """The write port of the chain memory; returns a signal that is high from the cycle in which a store's last
        vector is written.

        The pipeline's vectors come in order, so their places are counted here, not passed along.
        """
        config, head = self._config, job.payload
        vectors = config.chain_buffer_bytes // config.out_bytes
        here, of_row, pitch = (
            Signal(range(vectors), name=name, reset_less=True)
            for name in ("chain_here", "chain_of_row", "chain_pitch")
        )
        x_left, y_left, size = (
            Signal(16, name=name, reset_less=True)
            for name in ("chain_x_left", "chain_y_left", "chain_x_size")
        )
        # Whether a vector is the last one of its row, and whether that row is the last one, are registers.
        x_ends, y_ends = Signal(name="chain_x_ends"), Signal(name="chain_y_ends")
        put, write, last, done = (Signal(name=f"chain_{name}") for name in ("put", "write", "last", "done"))
        working = Signal(name="chain_working")
        m.d.comb += [
            put.eq(pipeline.put & running.chain),
            job.ready.eq(Mux(head.chain, ~working, m.submodules.writer.ready)),
        ]
        with m.If(~working):
            m.d.sync += [
                working.eq(job.valid & head.chain),
                *(place.eq(head["dram_base"]) for place in (here, of_row)),
                pitch.eq(head["x_stride"]),
                *(register.eq(head["x_size"]) for register in (x_left, size)),
                y_left.eq(head["y_size"]),
                x_ends.eq(head["x_size"] == 1),
                y_ends.eq(head["y_size"] == 1),
            ]
        with m.Elif(put):
            m.d.sync += [
                here.eq(here + 1),
                x_left.eq(x_left - 1),
                x_ends.eq(x_left == 2),
            ]
            with m.If(x_ends):
                following = of_row + pitch
                m.d.sync += [
                    *(place.eq(following) for place in (here, of_row)),
                    x_left.eq(size),
                    x_ends.eq(size == 1),
                    y_left.eq(y_left - 1),
                    y_ends.eq(y_left == 2),
                    working.eq(~y_ends),
                ]
        word_bits = (config.chain_word_bytes // config.out_bytes).bit_length() - 1
        place = Signal(range(vectors), name="chain_written", reset_less=True)
        vector = Signal(8 * config.out_bytes, name="chain_vector", reset_less=True)
        m.d.sync += [
            write.eq(put),
            last.eq(put & x_ends & y_ends),
            done.eq(last),
            place.eq(here),
            vector.eq(pipeline.vector),
        ]
        lanes = range(1 << word_bits)
        m.d.comb += [
            self.chain.enable.eq(Cat(*(write & (place[:word_bits] == lane) for lane in lanes))),
            self.chain.address.eq(place >> word_bits),
            self.chain.data.eq(vector),
        ]
        return done

    def _entry(self, m: Module, begin: Value, running: data.View, reader: Reader) -> Signal:
        """The index of the parameter entry of a vector, valid from the cycle after its last read until the next
        vector's.
        """
        head = view(instruction_layout(self._config, "STORE.POST"), self.commands.payload)
        here, row, entry = (Signal(6, name=name, reset_less=True) for name in ("here", "of_row", "entry"))
        following = Mux(reader.row_ends, row + running.par_by_y, here + running.par_by_x)[: len(here)]
        with m.If(begin):
            m.d.sync += [place.eq(head["par_index"]) for place in (here, row)]
        with m.Elif(reader.read & reader.last):
            m.d.sync += [entry.eq(here), here.eq(following)]
            with m.If(reader.row_ends):
                m.d.sync += row.eq(following)
        return entry

    def _parameters(
        self,
        m: Module,
        begin: Value,
        starting: data.View,
        entry: Signal,
        operands: OperandFifo,
        pipeline: PostPipeline,
        reader: Reader,
    ) -> ElementWriter:
        """The table, a memory of biases and one of scales; the writer of PAR loads fills them step by step.

        The writer waits until all vectors that the reader has begun have read their parameters.
        """
        config = self._config
        bus_bits = config.memory.bus_bytes.bit_length() - 1
        width = step_width(config, config.par_bytes)
        half = config.par_bytes // 2
        piece = min(width, half)  # A step may bring biases and scales at once.
        sizes = (config.par_bytes, TABLE_BYTES) if config.has("table") else (config.par_bytes,)
        m.submodules.loader = loader = ElementWriter(config=config, element_bytes=sizes)
        head = view(instruction_layout(config, "LOAD.PAR"), self.commands.payload)
        job, par_shift = Signal(job_layout(config, len(sizes))), config.par_bytes.bit_length() - 1
        m.d.sync += [loader.job.valid.eq(begin & starting.entry.is_load), loader.job.payload.eq(job)]
        wait = parameter_cycles(config) - 2
        waited, may = Signal(range(wait + 1), name="parameters_wait"), Signal(init=1, name="parameters_may")
        m.d.sync += [
            waited.eq(Mux(reader.active, wait, waited - (waited != 0))),
            may.eq(~reader.active & (waited == 0)),
        ]
        connect(m, operands.words, loader.words)
        m.d.comb += [
            *(
                job[name].eq(head[name])
                for name in ("sram_base", "y_size", "x_size", "y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")
            ),
            job.offset.eq((head["dram_base"] << par_shift)[:bus_bits]),
            job.pitch.eq((head["x_stride"] << par_shift)[:bus_bits]),
            job.one_run.eq(head["x_stride"] == head["x_size"]),
        ]
        fills: Value = loader.write
        if config.has("table"):
            # Look-up tables are at multiples of bus words.
            fills = loader.write & (loader.kind == 0)
            m.d.comb += job.kind.eq(starting.is_table)
            with m.If(starting.is_table):
                m.d.comb += [job.offset.eq(0), job.pitch.eq(0)]
        late = entry if config.has("rows") else delay(m, entry, scales_after_biases(config), "entry_late")
        of_biases = entry
        if config.has("rows"):
            of_biases = delay(m, entry, biases_after_reads(config), "entry_of_biases")
            late = delay(m, of_biases, scales_after_biases(config), "entry_of_scales")
        for number, (name, place) in enumerate((("biases", of_biases), ("scales", late))):
            m.submodules[f"table_of_{name}"] = table = memory.Memory(
                shape=8 * half, depth=config.par_depth, init=[], attrs=ANY_ON_COLLISION
            )
            write, read = table.write_port(granularity=8 * piece), table.read_port()
            brought = loader.data[: 8 * width].word_select(number * (width > half), 8 * piece)
            pieces = range(number * half // width, number * half // width + half // piece)
            m.d.comb += [
                write.addr.eq(loader.address),
                write.data.eq(Mux(loader.pad, 0, brought.replicate(half // piece))),
                write.en.eq(Cat(*(fills & (loader.pad | (loader.part == part)) for part in pieces))),
                read.addr.eq(place),
                getattr(pipeline, name).eq(read.data),
            ]
        m.d.comb += loader.may.eq(may)
        m.d.sync += m.submodules.in_flight.loaded.eq(loader.last)
        return loader
