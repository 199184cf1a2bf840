"""The store unit: executes STORE.OUT, STORE.POST, ROWS, loads of its tables, and writes of its configuration registers.

Reader, pipeline and writer may work on different stores. The reader works on the youngest store. Its settings equal
those of all older stores in flight, so that one set of settings is valid for the whole pipeline (hw/README.md section
8).
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import connect, flipped

from vdla.isa.config import Config
from vdla.isa.layout import Unit
from vdla.isa.registers import registers_of
from vdla.isa.store_stages import TABLE_BYTES, StoreParts
from vdla.isa.timing import post_latency

from ..config_registers import config_registers
from ..interfaces import Activity, Kind, store_members
from ..issue import Issue
from ..layouts import instruction_layout, register_layout, view
from ..read_requests import ReadRequests
from .chain_writer import write_chain
from .head import Head, running_layout
from .in_flight import InFlight, Jobs
from .operand_fifo import OperandFifo
from .parameters import Parameters
from .post import SETTINGS, PostPipeline
from .reader import Reader
from .writer import Writer


class StoreUnit(wiring.Component):
    """The store unit: executes STORE.OUT, STORE.POST, ROWS, LOAD.PAR, LOAD.TABLE and CONFIG. Ports:
    `interfaces.store_members`.
    """

    def __init__(self, *, config: Config) -> None:
        """`config` determines the number of lanes, the parameter table, the FIFOs, the width of the bus and the
        extensions.
        """
        self._config, self._parts = config, StoreParts.of(config)
        super().__init__(store_members(config))

    def elaborate(self, platform: object) -> Module:
        """Builds the issue logic, then reader, pipeline and writer in sequence; with the extension `post` also a read
        client.
        """
        m = Module()
        config, parts = self._config, self._parts
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
        m.submodules.in_flight = in_flight = InFlight()
        running = Signal(running_layout(config))
        reserve = reader.read & reader.first
        # ROWS writes no memory.
        stores: Value = ~running.rows.counts if parts.rows else Const(1)
        reserve = reserve & stores if parts.rows else reserve
        m.d.comb += writer.reserve.eq(reserve & ~running.chain if parts.chain else reserve)
        names = tuple(item.name for item in registers_of(config) if item.unit == Unit.STORE)
        setting = view(instruction_layout(config, "CONFIG"), self.commands.payload)
        configured = Signal()
        registers = config_registers(m, names, configured, setting)
        head = Head(config=config, words=self.commands.payload)
        starting = head.decode(m, registers)
        m.d.sync += configured.eq(issue.begin & starting.entry.is_config)
        stored_begins = issue.begin & ~starting.entry.is_load & ~starting.entry.short
        job = self._start(m, stored_begins, starting.store, reader, writer, registers)

        out_put = Signal(2)  # STORE.OUT: data come in the second cycle after the read
        m.d.sync += out_put.eq(Cat(reader.read & ~running.post, out_put))
        words = (self.accumulators.data.word_select(lane, 32) for lane in range(config.out_bytes))
        truncated = Cat(*(word[:8] for word in words))
        if parts.post:
            pipeline = self._post(m, issue.begin, starting, running, reader, registers)
            put = pipeline.put & ~running.chain if parts.chain else pipeline.put
            put = put & stores if parts.rows else put
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
        if parts.chain:
            stored = writer.done | write_chain(m, config, self.chain, job, running, pipeline)
        else:
            m.d.comb += job.ready.eq(writer.ready)
        if parts.rows:
            last = reader.read & reader.last & reader.row_ends & reader.last_row & running.rows.counts
            # The vectors of ROWS go through the pipeline like those of a store.
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
                | (head.follows(m, issue.begin, starting, running, reader, in_flight) & ~in_flight.full)
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

    def _start(
        self,
        m: Module,
        begin: Value,
        starting: data.View,
        reader: Reader,
        writer: Writer,
        registers: dict[str, Signal],
    ) -> stream.Interface:
        """Passes a store to `reader` in the cycle in which it begins, and to `writer` after all older stores. Returns
        the stream of stores for the writer. `begin`: a store begins in this cycle, with the decoded properties
        `starting`. `registers`: the unit's configuration registers by name.
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
            put.valid.eq(begin & ~starting.rows.counts if self._parts.rows else begin),
            *(put.payload[name].eq(head[name]) for name in ("dram_base", "y_size", "x_size", "x_stride")),
            put.payload.joined.eq(head["x_stride"] == head["x_size"]),
            runs.kind.eq(Kind.OUT),
        ]
        written: Value = job.valid & job.ready
        if self._parts.chain:
            m.d.comb += put.payload.chain.eq(starting.chain)
            written = written & ~job.payload.chain
        m.d.comb += writer.start.eq(written)
        with m.If(starting.post):
            for name in ("rows_minus_1", "columns_minus_1", "row_stride", "column_stride"):
                m.d.comb += windows[name].eq(window[name])
        self._set_runs(m, runs, job.payload.dram_base, job.payload, shift)
        return job

    def _set_runs(self, m: Module, runs: data.View, base: Value, head: data.View, shift: int) -> None:
        """Sets `runs` to the rows that `head` describes, from element `base` on; an element has 2^shift bytes. Rows
        without gaps between them become a single run (hw/README.md section 3).
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
        """Adds the extension `post`: pipeline, operand FIFO, parameter table and the loads that fill it; returns the
        pipeline. `begin`: the head instruction begins in this cycle, with the decoded properties `starting`. `running`:
        the store whose accumulators `reader` reads. `registers`: the unit's configuration registers by name.
        """
        config, parts, entry = self._config, self._parts, starting.entry
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
        if parts.broadcast:
            step, columns = Signal(16, name="operand_step"), Signal(16, name="operand_columns")
            m.d.comb += [
                step.eq(Mux(operand["own_stride"], operand["stride"], head["x_stride"])),
                columns.eq(Mux(operand["repeat"], 1, head["x_size"])),
            ]
        one_run = Signal()
        with m.If(entry.is_load):
            self._set_runs(m, requests.runs, head["dram_base"], head, par_shift)
            m.d.comb += requests.runs.kind.eq(Kind.PAR)
            if parts.table:
                with m.If(starting.is_table):
                    self._set_runs(m, requests.runs, head["dram_base"], head, TABLE_BYTES.bit_length() - 1)
        with m.Else():
            self._set_runs(m, requests.runs, base, head, out_shift)
            m.d.comb += requests.runs.kind.eq(Kind.OPERAND)
            if parts.broadcast:
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
        if parts.broadcast:
            # The single operand of a row stays in the FIFO until the row's last vector.
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
        # A cycle from the bus to the FIFO, and one from the FIFO to its count of free words (FIFO_LATENCY, ROOM_DELAY).
        m.d.sync += [
            requests.release.eq(operands.release),
            operands.beat_valid.eq(self.read.beat_valid),
            operands.beat_last.eq(self.read.beat_last),
            operands.beat_data.eq(self.read.beat_data),
        ]
        parameters = Parameters(
            config=config, words=self.commands.payload, running=running, reader=reader, pipeline=pipeline
        )
        loader = parameters.add_loads(m, begin, starting, parameters.add_entry(m, begins), operands)
        if parts.table:
            parameters.add_tables(m, loader)
        if parts.rows:
            parameters.add_rows(m, begins, registers["ROWS"], loader)
        return pipeline
