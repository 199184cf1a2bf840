"""Memories of the STORE.POST pipeline (parameters, look-up tables, statistics of rows), and the loads
that fill them.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, memory
from amaranth.lib.wiring import connect

from vdla.isa.config import Config
from vdla.isa.rows import PLANES
from vdla.isa.store_stages import TABLE_BYTES, StoreParts
from vdla.isa.timing import parameter_cycles

from ..element_writer import ElementWriter, job_layout, step_width
from ..layouts import instruction_layout, register_layout, view
from ..memories import ANY_ON_COLLISION
from .operand_fifo import OperandFifo
from .pipeline import delay
from .post import PostPipeline, biases_after_reads, scales_after_biases
from .reader import Reader
from .rows import Rows
from .tables import Tables


class Parameters:
    """Builds the memories from which STORE.POST gets its parameters: biases and scales, look-up tables, and statistics
    of rows (for softmax and normalizations). Each method adds one of these to a module and connects it to `pipeline`,
    the arithmetic of STORE.POST. `words`: the encoded instruction at the head of the store unit's queue. `reader`: the
    component that reads accumulators. `running`: fields of the store whose accumulators the reader reads.
    """

    def __init__(
        self, *, config: Config, words: Value, running: data.View, reader: Reader, pipeline: PostPipeline
    ) -> None:
        self.config, self.words, self.parts = config, words, StoreParts.of(config)
        self.running, self.reader, self.pipeline = running, reader, pipeline

    def add_entry(self, m: Module, begin: Value) -> Signal:
        """Computes the index at which the parameter table has the biases and scales of a vector. The index is valid
        from the cycle after the vector's last read until the last read of the next vector. `begin`: the head
        instruction begins in this cycle.
        """
        running, reader = self.running, self.reader
        head = view(instruction_layout(self.config, "STORE.POST"), self.words)
        here, row, entry = (Signal(6, name=name, reset_less=True) for name in ("here", "of_row", "entry"))
        following = Mux(reader.row_ends, row + running.par_by_y, here + running.par_by_x)[: len(here)]
        with m.If(begin):
            m.d.sync += [place.eq(head["par_index"]) for place in (here, row)]
        with m.Elif(reader.read & reader.last):
            m.d.sync += [entry.eq(here), here.eq(following)]
            with m.If(reader.row_ends):
                m.d.sync += row.eq(following)
        return entry

    def add_loads(
        self, m: Module, begin: Value, starting: data.View, entry: Signal, operands: OperandFifo
    ) -> ElementWriter:
        """Adds the parameter table, a memory of biases and one of scales, and the writer that fills it from the FIFO
        `operands`; returns the writer. The writer waits while the reader is active, and until the last vector has read
        its parameters.

        `begin`: the head instruction begins in this cycle. `starting`: its properties. `entry`: index of the parameters
        of the current vector.
        """
        config, reader, pipeline = self.config, self.reader, self.pipeline
        bus_bits = config.memory.bus_bytes.bit_length() - 1
        width = step_width(config, config.par_bytes)
        half = config.par_bytes // 2
        piece = min(width, half)  # A step may have both biases and scales.
        sizes = (config.par_bytes, TABLE_BYTES) if self.parts.table else (config.par_bytes,)
        m.submodules.loader = loader = ElementWriter(config=config, element_bytes=sizes)
        head = view(instruction_layout(config, "LOAD.PAR"), self.words)
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
        if self.parts.table:
            # Look-up tables begin at bus word boundaries.
            fills = loader.write & (loader.kind == 0)
            m.d.comb += job.kind.eq(starting.is_table)
            with m.If(starting.is_table):
                m.d.comb += [job.offset.eq(0), job.pitch.eq(0)]
        late = entry if self.parts.rows else delay(m, entry, scales_after_biases(config), "entry_late")
        of_biases = entry
        if self.parts.rows:
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

    @property
    def _part_bits(self) -> int:
        """Width in bits of the index of a bus word in a look-up table."""
        return (TABLE_BYTES // self.config.memory.bus_bytes).bit_length() - 1

    def add_tables(self, m: Module, loader: ElementWriter) -> None:
        """Adds the look-up tables of the pipeline; a step of `loader` writes one bus word of a table to all lanes."""
        pipeline, running = self.pipeline, self.running
        m.submodules.tables = tables = Tables(config=self.config)
        part_bits = self._part_bits
        write: Value = loader.write & (loader.kind == 1)
        if self.parts.rows:
            # The planes of the table for ROWS are at the addresses after the look-up tables.
            write = write & (loader.address < self.config.tables)
        m.d.comb += [
            tables.values.eq(pipeline.requantized),
            pipeline.looked_up.eq(tables.results),
            tables.used.eq(running.flags.table),
            tables.index.eq(running.table_index),
            tables.write.eq(write),
            tables.at.eq(Cat(loader.part[:part_bits], loader.address)),
            tables.data.eq(loader.data),
        ]

    def add_rows(self, m: Module, begin: Value, setting: Signal, loader: ElementWriter) -> None:
        """Adds the memory with the statistics of rows (for softmax and normalizations) and connects it to the pipeline.
        Also computes the number of the entry for each output vector. It is field `first` of register ROWS plus the
        vector's position in x: the vectors at one x form one row of numbers.

        `begin`: the head instruction begins in this cycle. `setting`: value of register ROWS. `loader`: the writer that
        fills the look-up table of ROWS.
        """
        config, running, reader, pipeline = self.config, self.running, self.reader, self.pipeline
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
            pipeline.row_at.eq(loader.part[: self._part_bits]),
            pipeline.row_data.eq(loader.data),
        ]
