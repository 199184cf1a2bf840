"""The load unit: INP, WGT and PATCH loads from memory into the input and weight scratchpads.

Its address side runs ahead of its writer (hw/README.md section 6): loads that have begun wait in a queue of jobs
until the writer comes to them. A CONFIG that begins behind a load in flight ends with it, so its tokens are added to
those that the youngest load will push.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, fifo, memory, wiring
from amaranth.lib.wiring import connect, flipped
from vdla.isa.config import Config
from vdla.isa.layout import MemoryType, Opcode, register
from vdla.isa.timing import LOADS_IN_FLIGHT

from .element_writer import ElementWriter, job_layout, step_width
from .interfaces import END_BITS, Activity, Kind, load_members, token_bits
from .issue import Issue
from .layouts import REGISTER_BITS, instruction_layout, register_layout, view
from .patch_writer import PatchWriter, patch_layout
from .read_fifo import ReadFifo
from .read_requests import ReadRequests

INP, WGT = range(2)
"""Kinds of the element writer."""


class LoadUnit(wiring.Component):
    """Members: `interfaces.load_members`."""

    def __init__(self, *, config: Config) -> None:
        """`config` gives scratchpads, bus, FIFO and extensions."""
        self._config = config
        super().__init__(load_members(config))

    def _job_layout(self) -> data.StructLayout:
        parts = {"sizes": job_layout(self._config, 2), "pad_value": 8}
        if self._config.has("patch"):
            parts |= {"is_patch": 1, "patch": patch_layout()}
        return data.StructLayout(parts)

    def elaborate(self, platform: object) -> Module:
        """Issue, address side, job queue, writers."""
        m = Module()
        config = self._config
        m.submodules.issue = issue = Issue(config=config)
        m.submodules.requests = requests = ReadRequests(config=config, fifo_bytes=config.load_fifo_bytes)
        m.submodules.fifo = words = ReadFifo(config=config, fifo_bytes=config.load_fifo_bytes)
        for port in ("commands", "pop_prev", "pop_next"):
            connect(m, flipped(getattr(self, port)), getattr(issue, port))
        connect(m, flipped(self.read.request), requests.request)
        m.d.comb += [
            words.beat_valid.eq(self.read.beat_valid),
            words.beat_last.eq(self.read.beat_last),
            words.beat_data.eq(self.read.beat_data),
            requests.release.eq(words.release),
        ]
        is_config, job = self._decode(m, issue.begin, requests)
        last_step = self._write(m, issue.begin & ~is_config, job, words)
        in_flight = self._end(m, issue, is_config, last_step)
        m.d.comb += issue.condition.eq(~requests.active & (in_flight < LOADS_IN_FLIGHT))
        return m

    def _decode(self, m: Module, begin: Value, requests: ReadRequests) -> tuple[Value, data.View]:
        """The head instruction's runs, and its job for the writer; CONFIG writes its register."""
        config = self._config
        bus_bits = config.memory.bus_bytes.bit_length() - 1
        head = view(instruction_layout(config, "LOAD.INP"), self.commands.payload)
        setting = view(instruction_layout(config, "CONFIG"), self.commands.payload)
        registers = {name: Signal(REGISTER_BITS, name=name.lower()) for name in ("LOAD_PAD", "PATCH")}
        is_config = head["opcode"] == Opcode.CONFIG
        for name, bits in registers.items():
            with m.If(begin & is_config & (setting["register"] == register(name).index)):
                m.d.sync += bits.eq(setting["value"])
        job = Signal(self._job_layout())
        runs = requests.runs
        one_run = head["x_stride"] == head["x_size"]
        m.d.comb += [
            requests.start.eq(begin),
            runs.rows.eq(Mux(is_config, 0, Mux(one_run & (head["y_size"] != 0), 1, head["y_size"]))),
            job.pad_value.eq(view(register_layout("LOAD_PAD"), registers["LOAD_PAD"])["pad_value"]),
            job.sizes.one_run.eq(one_run),
            job.sizes.offset.eq(runs.address[:bus_bits]),
            job.sizes.pitch.eq(runs.pitch[:bus_bits]),
        ]
        for name in ("sram_base", "y_size", "x_size", "y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1"):
            m.d.comb += job.sizes[name].eq(head[name])
        elements = Signal(32)
        m.d.comb += elements.eq(Mux(one_run, head["x_size"] * head["y_size"], head["x_size"]))
        with m.If(head["memory_type"] == MemoryType.WGT):
            scale = config.wgt_bytes.bit_length() - 1
            m.d.comb += [runs.kind.eq(Kind.WGT), job.sizes.kind.eq(WGT)]
            m.d.comb += [
                runs.address.eq(head["dram_base"] << scale),
                runs.length.eq(elements << scale),
                runs.pitch.eq(head["x_stride"] << scale),
            ]
        with m.Else():
            scale = config.inp_bytes.bit_length() - 1
            m.d.comb += [
                runs.kind.eq(Kind.INP),
                runs.address.eq(head["dram_base"] << scale),
                runs.length.eq(elements << scale),
                runs.pitch.eq(head["x_stride"] << scale),
            ]
        if config.has("patch"):
            self._decode_patch(m, head, registers["PATCH"], is_config, job, requests)
        return is_config, job

    def _decode_patch(
        self,
        m: Module,
        head: data.View,
        bits: Signal,
        is_config: Value,
        job: data.View,
        requests: ReadRequests,
    ) -> None:
        setting = view(register_layout("PATCH"), bits)
        for name in ("run", "step", "pitch", "pad_left", "row_bytes", "batch_row"):
            m.d.comb += job.patch[name].eq(setting[name])
        reach = (head["x_size"] - 1) * setting["step"] + setting["run"] - setting["pad_left"]
        nothing = (reach <= 0) | (head["x_size"] == 0) | (setting["run"] == 0)
        with m.If(nothing):
            m.d.comb += job.patch.length.eq(0)
        with m.Elif(reach < setting["row_bytes"]):
            m.d.comb += job.patch.length.eq(reach)
        with m.Else():
            m.d.comb += job.patch.length.eq(setting["row_bytes"])
        with m.If(head["memory_type"] == MemoryType.PATCH):
            runs = requests.runs
            m.d.comb += [
                job.is_patch.eq(1),
                job.sizes.one_run.eq(0),
                runs.rows.eq(Mux(is_config, 0, head["y_size"])),
                runs.address.eq(head["dram_base"]),
                runs.length.eq(job.patch.length),
                runs.pitch.eq(head["x_stride"]),
            ]

    def _write(self, m: Module, begin: Value, job: data.View, words: ReadFifo) -> Value:
        """Jobs in order to the writers, the writers' steps into the scratchpads; whether a load's last step is done."""
        config = self._config
        layout = self._job_layout()
        m.submodules.elements = elements = ElementWriter(
            config=config, element_bytes=(config.inp_bytes, config.wgt_bytes)
        )
        m.submodules.jobs = jobs = fifo.SyncFIFO(width=layout.size, depth=LOADS_IN_FLIGHT)
        following = Signal(layout)  # the next job: the queue's head, or the one that begins now
        take = Signal()
        m.d.comb += [
            following.eq(Mux(jobs.r_rdy, jobs.r_data, job.as_value())),
            jobs.w_data.eq(job),
            jobs.w_en.eq(begin & (jobs.r_rdy | ~take)),
            jobs.r_en.eq(take),
            elements.words.valid.eq(words.words.valid),
            elements.words.payload.eq(words.words.payload),
            elements.job.payload.eq(following.sizes),
        ]
        there = jobs.r_rdy | begin
        pad_value = Signal(8)
        with m.If(take & there):
            m.d.sync += pad_value.eq(following.pad_value)
        if config.has("patch"):
            m.submodules.patches = patches = PatchWriter(config=config)
            m.d.comb += [
                take.eq((elements.idle | elements.last) & (patches.idle | patches.last)),
                elements.job.valid.eq(there & take & ~following.is_patch),
                patches.job.valid.eq(there & take & following.is_patch),
                patches.job.payload.sizes.eq(following.sizes),
                patches.job.payload.patch.eq(following.patch),
                patches.words.valid.eq(words.words.valid),
                patches.words.payload.eq(words.words.payload),
                words.words.ready.eq(elements.words.ready | patches.words.ready),
            ]
            last = elements.last | patches.last
        else:
            patches = None
            m.d.comb += [
                take.eq(elements.job.ready),
                elements.job.valid.eq(there),
                words.words.ready.eq(elements.words.ready),
            ]
            last = elements.last
        self._write_inp(m, elements, patches, pad_value)
        self._write_wgt(m, elements)
        return last

    def _write_inp(
        self, m: Module, elements: ElementWriter, patches: PatchWriter | None, pad: Signal
    ) -> None:
        config = self._config
        width = step_width(config, config.inp_bytes)
        parts = config.inp_bytes // width
        pads = pad.replicate(config.inp_bytes)
        with m.If(elements.write & (elements.kind == INP)):
            enables = [(elements.pad | (elements.part == part)).replicate(width) for part in range(parts)]
            m.d.comb += self.inp.enable.eq(Cat(*enables))
        m.d.comb += [
            self.inp.address.eq(elements.address),
            self.inp.data.eq(Mux(elements.pad, pads, elements.data[: 8 * width].replicate(parts))),
        ]
        if patches is None:
            return
        with m.If(patches.write):
            block = config.block_in
            bytes_ = [
                Mux(patches.from_dram[lane], patches.data.word_select(lane, 8), pad) for lane in range(block)
            ]
            m.d.comb += [
                self.inp.address.eq(patches.address),
                self.inp.data.eq(Cat(*bytes_).replicate(config.batch)),
                self.inp.enable.eq(
                    Cat(*(Mux(patches.batch_row == row, patches.lanes, 0) for row in range(config.batch)))
                ),
            ]

    def _write_wgt(self, m: Module, elements: ElementWriter) -> None:
        width = step_width(self._config, self._config.wgt_bytes)
        parts = self._config.wgt_bytes // width
        with m.If(elements.write & (elements.kind == WGT)):
            m.d.comb += self.wgt.enable.eq(
                Cat(*(elements.pad | (elements.part == part) for part in range(parts)))
            )
        m.d.comb += [
            self.wgt.address.eq(elements.address),
            self.wgt.data.eq(Mux(elements.pad, 0, elements.data[: 8 * width].replicate(parts))),
        ]

    def _end(self, m: Module, issue: Issue, is_config: Value, last_step: Value) -> Value:
        """Tokens and ends: those of the youngest load in registers, of older ones in a small memory by their place."""
        config = self._config
        bits = token_bits(config)
        layout = data.StructLayout({"prev": bits, "next": bits, "configs": END_BITS})
        m.submodules.pushes = older = memory.Memory(shape=layout.size, depth=LOADS_IN_FLIGHT, init=[])
        write, read = older.write_port(), older.read_port(domain="comb")
        young = Signal(layout)
        in_flight = Signal(range(LOADS_IN_FLIGHT + 1))
        youngest = Signal(range(LOADS_IN_FLIGHT))
        oldest = Signal(range(LOADS_IN_FLIGHT), init=1)  # the first load takes place 1
        ends = Signal(layout)  # of the next cycle
        pushes, ended = Signal(layout), Signal()
        config_begins, load_begins = issue.begin & is_config, issue.begin & ~is_config
        # What a CONFIG that begins now adds; young as it is with that.
        added, sum_ = Signal(layout), Signal(layout)
        m.d.comb += [
            added.prev.eq(config_begins & issue.reserve_prev),
            added.next.eq(config_begins & issue.reserve_next),
            added.configs.eq(config_begins),
            read.addr.eq(oldest),
            write.addr.eq(youngest),
            write.data.eq(young),
            write.en.eq(load_begins),
        ]
        for name in ("prev", "next", "configs"):
            m.d.comb += sum_[name].eq(young[name] + added[name])
        with m.If(last_step & (in_flight == 1)):
            m.d.comb += ends.eq(sum_)
        with m.Else():
            with m.If(last_step):
                m.d.comb += ends.eq(read.data)
            with m.Elif(in_flight == 0):
                m.d.comb += ends.eq(added)
        m.d.sync += [
            pushes.eq(ends),
            ended.eq(last_step),
            in_flight.eq(in_flight + load_begins - last_step),
            young.eq(sum_),
        ]
        with m.If(load_begins):
            m.d.sync += [
                young.prev.eq(issue.reserve_prev),
                young.next.eq(issue.reserve_next),
                young.configs.eq(0),
                youngest.eq(youngest + 1),
            ]
        with m.If(last_step):
            m.d.sync += oldest.eq(oldest + 1)
        m.d.comb += [
            issue.room_prev.eq(self.push_prev.room),
            issue.room_next.eq(self.push_next.room),
            self.push_prev.reserve.eq(issue.reserve_prev),
            self.push_next.reserve.eq(issue.reserve_next),
            self.push_prev.push.eq(pushes.prev),
            self.push_next.push.eq(pushes.next),
            self.trace.begin.eq(issue.begin),
            self.trace.end.eq(ended),
            self.trace.end_config.eq(pushes.configs),
            self.idle.eq((in_flight == 0) & ~ended & (pushes.configs == 0)),
            self.activity.eq(Mux(self.idle, issue.stall, Activity.BUSY)),
        ]
        return in_flight
