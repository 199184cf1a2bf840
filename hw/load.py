"""The load unit: LOAD.INP, LOAD.WGT and LOAD.PATCH, from memory to the input and weight scratchpads.

The address side is ahead of the writer (hw/README.md section 6): loads that have begun wait for the writer in a queue
of jobs. A CONFIG that begins while loads are in flight ends together with the youngest load, so that load also pushes
the tokens of the CONFIG.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, fifo, memory, wiring
from amaranth.lib.wiring import connect, flipped

from vdla.isa.config import Config
from vdla.isa.layout import MemoryType, Opcode
from vdla.isa.timing import LOADS_IN_FLIGHT

from .config_registers import config_registers
from .element_writer import ElementWriter, job_layout, step_width
from .interfaces import END_BITS, Activity, Kind, load_members, token_bits
from .issue import Issue
from .layouts import instruction_layout, register_layout, view
from .patch_writer import PatchWriter, patch_layout
from .product import Product
from .read_fifo import ReadFifo
from .read_requests import ReadRequests

INP, WGT = range(2)
"""Kinds of elements of the load unit's element writer: input vectors and weight tiles."""


class LoadUnit(wiring.Component):
    """The load unit: executes LOAD.INP, LOAD.WGT, LOAD.PATCH and CONFIG. Ports: `interfaces.load_members`."""

    def __init__(self, *, config: Config) -> None:
        """`config` determines the sizes of scratchpads, bus and FIFO, and the extensions."""
        self._config, self._patches = config, config.has("patch")
        super().__init__(load_members(config))

    def _job_layout(self) -> data.StructLayout:
        parts = {"sizes": job_layout(self._config, 2), "pad_value": 8}
        if self._patches:
            parts |= {"is_patch": 1, "patch": patch_layout(self._config)}
        return data.StructLayout(parts)

    def elaborate(self, platform: object) -> Module:
        """Builds the issue logic, the read requests, the queue of loads in flight, and writers to the scratchpads."""
        m = Module()
        config = self._config
        m.submodules.issue = issue = Issue(config=config)
        m.submodules.requests = requests = ReadRequests(config=config, fifo_bytes=config.fifo_bytes("load"))
        m.submodules.fifo = words = ReadFifo(config=config, fifo_bytes=config.fifo_bytes("load"))
        for port in ("commands", "pop_prev", "pop_next"):
            connect(m, flipped(getattr(self, port)), getattr(issue, port))
        connect(m, flipped(self.read.request), requests.request)
        m.d.comb += [
            words.beat_valid.eq(self.read.beat_valid),
            words.beat_last.eq(self.read.beat_last),
            words.beat_data.eq(self.read.beat_data),
            requests.release.eq(words.release),
        ]
        is_config, begins, job, busy = self._decode(m, issue.begin, requests)
        last_step = self._write(m, begins, job, words)
        in_flight = self._end(m, issue, is_config, last_step)
        m.d.comb += issue.condition.eq(~requests.active & ~busy & (in_flight < LOADS_IN_FLIGHT))
        return m

    def _decode(
        self, m: Module, begin: Value, requests: ReadRequests
    ) -> tuple[Value, Value, data.View, Value]:
        """Decodes the head instruction. A load becomes runs, the ranges of bytes that `requests` reads, and a job for
        the writer, which puts the bytes into a scratchpad. A CONFIG writes its register. `begin`: the head instruction
        begins in this cycle.

        Returns (whether the head is a CONFIG; whether a job starts in this cycle; the job; whether the row length of a
        LOAD.PATCH is being multiplied, so that no instruction may begin).
        """
        config = self._config
        bus_bits = config.memory.bus_bytes.bit_length() - 1
        head = view(instruction_layout(config, "LOAD.INP"), self.commands.payload)
        setting = view(instruction_layout(config, "CONFIG"), self.commands.payload)
        # A head instruction that begins was visible a cycle earlier, so its kind can be a register.
        is_config = Signal()
        m.d.sync += is_config.eq(head["opcode"] == Opcode.CONFIG)
        configured = Signal()
        m.d.sync += configured.eq(begin & is_config)
        registers = config_registers(m, ("LOAD_PAD", "PATCH"), configured, setting)
        job = Signal(self._job_layout())
        runs = requests.runs
        one_run = head["x_stride"] == head["x_size"]
        m.d.comb += [
            requests.start.eq(begin),
            runs.rows.eq(Mux(is_config, 0, head["y_size"])),
            runs.joined.eq(one_run),
            job.pad_value.eq(view(register_layout("LOAD_PAD"), registers["LOAD_PAD"])["pad_value"]),
            job.sizes.one_run.eq(one_run),
            job.sizes.offset.eq(runs.address[:bus_bits]),
            job.sizes.pitch.eq(runs.pitch[:bus_bits]),
        ]
        for name in ("sram_base", "y_size", "x_size", "y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1"):
            m.d.comb += job.sizes[name].eq(head[name])
        with m.If(head["memory_type"] == MemoryType.WGT):
            scale = config.wgt_bytes.bit_length() - 1
            m.d.comb += [runs.kind.eq(Kind.WGT), job.sizes.kind.eq(WGT)]
            m.d.comb += [
                runs.address.eq(head["dram_base"] << scale),
                runs.length.eq(head["x_size"] << scale),
                runs.pitch.eq(head["x_stride"] << scale),
            ]
        with m.Else():
            scale = config.inp_bytes.bit_length() - 1
            m.d.comb += [
                runs.kind.eq(Kind.INP),
                runs.address.eq(head["dram_base"] << scale),
                runs.length.eq(head["x_size"] << scale),
                runs.pitch.eq(head["x_stride"] << scale),
            ]
        if self._patches:
            starts, busy = self._decode_patch(m, begin, head, registers["PATCH"], job, requests)
            return is_config, starts, job, busy
        return is_config, begin & ~is_config, job, Const(0)

    def _decode_patch(
        self,
        m: Module,
        begin: Value,
        head: data.View,
        bits: Signal,
        job: data.View,
        requests: ReadRequests,
    ) -> tuple[Value, Value]:
        """Decodes a LOAD.PATCH: drives `job` and the runs of `requests`. A multiplier first computes the length of the
        load's rows, which takes several cycles; meanwhile registers hold the fields of the instruction, and the load
        starts afterwards. `begin`: the instruction begins in this cycle. `head`: its fields. `bits`: value of register
        PATCH.

        Returns (whether the load starts in this cycle; whether the multiplication is in progress, so that no
        instruction may begin).
        """
        setting = view(register_layout("PATCH"), bits)
        runs = requests.runs
        is_patch, is_other = Signal(), Signal()
        of_patch = (head["opcode"] == Opcode.LOAD) & (head["memory_type"] == MemoryType.PATCH)
        of_others = (head["opcode"] == Opcode.LOAD) & (head["memory_type"] != MemoryType.PATCH)
        m.d.sync += [is_patch.eq(of_patch), is_other.eq(of_others)]
        for name in ("run", "step", "pitch", "pad_left", "row_bytes", "batch_row"):
            m.d.comb += job.patch[name].eq(setting[name])
        m.submodules.product = product = Product(bits=10)
        busy, nothing = Signal(), Signal()
        unused = Signal(init=1)  # the complement of `busy`, a separate register, which enables many others
        late_job, late_runs = Signal.like(job, reset_less=True), Signal.like(runs, reset_less=True)
        reach = Signal(signed(26))
        m.d.comb += [
            product.start.eq(begin & is_patch & unused),
            product.take.eq(unused),
            product.left.eq(setting["step"]),
            product.right.eq(head["x_size"]),
            product.addend.eq(setting["run"] - setting["step"] - setting["pad_left"]),
            reach.eq(product.result),
            job.is_patch.eq(is_patch),
        ]
        # `begin` must drive few registers, so the copies are loaded in every cycle while no patch load waits.
        with m.If(unused):
            m.d.sync += [
                busy.eq(begin & is_patch),
                unused.eq(~(begin & is_patch)),
                nothing.eq((head["x_size"] == 0) | (setting["run"] == 0)),
                late_job.eq(job),
                late_job.sizes.one_run.eq(0),
                late_job.sizes.offset.eq(head["dram_base"]),
                late_job.sizes.pitch.eq(head["x_stride"]),
                late_runs.address.eq(head["dram_base"]),
                late_runs.rows.eq(head["y_size"]),
                late_runs.pitch.eq(head["x_stride"]),
                late_runs.joined.eq(0),
                late_runs.kind.eq(Kind.INP),
            ]
        late = Signal()
        m.d.comb += late.eq(busy & product.done)
        chosen = Signal()  # selects the copies; the product comes long after, not with the next begin
        m.d.sync += chosen.eq(busy & ~late)
        with m.If(chosen):
            length = Signal(16)
            with m.If((reach <= 0) | nothing):
                m.d.comb += length.eq(0)
            with m.Elif(reach < late_job.patch.row_bytes):
                m.d.comb += length.eq(reach)
            with m.Else():
                m.d.comb += length.eq(late_job.patch.row_bytes)
            m.d.comb += [
                job.eq(late_job),
                job.patch.length.eq(length),
                runs.eq(late_runs),
                runs.length.eq(length),
            ]
        with m.If(late):
            m.d.sync += [busy.eq(0), unused.eq(1)]
        m.d.comb += requests.start.eq((begin & ~is_patch) | late)
        return (begin & is_other) | late, busy

    def _write(self, m: Module, begins: Value, job: data.View, words: ReadFifo) -> Value:
        """Connects jobs (descriptions of loads) to the writers and the writers to the scratchpads. Returns whether a
        load ends in the next cycle. `begins`: the load `job` begins in this cycle. `words`: the FIFO of bus words that
        the loads have read.
        """
        config = self._config
        layout = self._job_layout()
        m.submodules.elements = elements = ElementWriter(
            config=config,
            element_bytes=(config.inp_bytes, config.wgt_bytes),
            tag_bits=8,
            together=config.inp_step_vectors,
        )
        last, steps_last = elements.last, elements.steps_last
        turning = Signal()  # STEP_GAP
        m.submodules.element_jobs = jobs = fifo.SyncFIFO(width=layout.size, depth=LOADS_IN_FLIGHT)
        following = data.View(layout, jobs.r_data)
        m.d.comb += [
            jobs.w_data.eq(job),
            jobs.w_en.eq(begins),
            jobs.r_en.eq(elements.job.ready),
            elements.job.valid.eq(jobs.r_rdy),
            elements.job.payload.eq(following.sizes),
            elements.job_tag.eq(following.pad_value),
            elements.words.valid.eq(words.words.valid),
            elements.words.payload.eq(words.words.payload),
            words.words.ready.eq(elements.words.ready),
        ]
        patches = None
        if self._patches:
            # Each writer has its own queue and prepares its loads in advance; the two do their steps in turn.
            m.submodules.patches = patches = PatchWriter(config=config, tag_bits=8)
            m.submodules.patch_jobs = jobs_of_patches = fifo.SyncFIFO(
                width=layout.size, depth=LOADS_IN_FLIGHT
            )
            following = data.View(layout, jobs_of_patches.r_data)
            m.d.comb += [
                jobs.w_en.eq(begins & ~job.is_patch),
                jobs_of_patches.w_data.eq(job),
                jobs_of_patches.w_en.eq(begins & job.is_patch),
                jobs_of_patches.r_en.eq(patches.job.ready),
                patches.job.valid.eq(jobs_of_patches.r_rdy),
                patches.job.payload.sizes.eq(following.sizes),
                patches.job.payload.patch.eq(following.patch),
                patches.job_tag.eq(following.pad_value),
                patches.words.valid.eq(words.words.valid),
                patches.words.payload.eq(words.words.payload),
                words.words.ready.eq(elements.words.ready | patches.words.ready),
            ]
            last = last | patches.last
            steps_last = steps_last | patches.steps_last
            patch_may = self._turn(m, begins, job.is_patch, steps_last)
            m.d.comb += [patches.may.eq(patch_may & ~turning), elements.may.eq(~patch_may & ~turning)]
        else:
            m.d.comb += elements.may.eq(~turning)
        m.d.sync += turning.eq(steps_last)
        self._write_inp(m, elements, patches)
        self._write_wgt(m, elements)
        return last

    def _turn(self, m: Module, begins: Value, is_patch: Value, steps_last: Value) -> Signal:
        """Returns a register that tells which of the two writers may do steps: 1 if the oldest load in flight is a
        LOAD.PATCH, 0 if it is another load. A queue stores the kinds of the loads in flight. The register is valid
        before the load's first step may happen; while no load is in flight, its value is arbitrary.

        `begins`: a load begins in this cycle. `is_patch`: this load is a LOAD.PATCH. `steps_last`: the oldest load does
        its last step in this cycle.
        """
        kinds = memory.Memory(shape=1, depth=LOADS_IN_FLIGHT, init=[])
        m.submodules.kinds = kinds
        write, read = kinds.write_port(), kinds.read_port(domain="comb")
        newest, oldest = (
            Signal(range(LOADS_IN_FLIGHT), name=name) for name in ("newest_kind", "oldest_kind")
        )
        patch_may = Signal()
        m.d.comb += [
            write.en.eq(begins),
            write.addr.eq(newest),
            write.data.eq(is_patch),
            read.addr.eq(oldest),
        ]
        # No load steps in the cycle after a last step, so the next load's kind is needed only after the end.
        m.d.sync += [
            newest.eq(newest + begins),
            oldest.eq(oldest + steps_last),
            patch_may.eq(read.data),
        ]
        return patch_may

    def _write_inp(self, m: Module, elements: ElementWriter, patches: PatchWriter | None) -> None:
        config = self._config
        width = step_width(config, config.inp_bytes)
        parts = config.inp_bytes // width
        pads = elements.tag.replicate(config.inp_bytes)
        many = config.inp_step_vectors
        with m.If(elements.write & (elements.kind == INP)):
            enables = [(elements.pad | (elements.part == part)).replicate(width) for part in range(parts)]
            if many > 1:  # A step writes whole vectors, one or several; a pad is a whole vector.
                enables = [(elements.count > vector).replicate(config.inp_bytes) for vector in range(many)]
            m.d.comb += self.inp.enable.eq(Cat(*enables))
        shown = elements.data[: 8 * width].replicate(parts)
        if many > 1:
            shown = elements.data[: 8 * config.inp_bytes * many]
        m.d.comb += [
            self.inp.address.eq(elements.address),
            self.inp.data.eq(Mux(elements.pad, pads, shown)),
        ]
        if patches is None:
            return
        with m.If(patches.write):
            block = config.block_in
            bytes_ = [
                Mux(patches.from_dram[lane], patches.data.word_select(lane, 8), patches.tag)
                for lane in range(block)
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
            self.wgt.data.eq(Mux(elements.pad, 0, elements.data[: 8 * width])),
        ]

    def _end(self, m: Module, issue: Issue, is_config: Value, last_step: Value) -> Value:
        """Ends the loads in flight and pushes their tokens; returns the number of loads in flight.

        Each load has three counts: the tokens that it pushes to either side, and the CONFIGs that end with it. A CONFIG
        that begins during a load adds to the counts of the youngest load, which are therefore in registers. A small
        memory keeps the counts of older loads.

        `issue`: begins the head instruction. `is_config`: the head instruction is a CONFIG. `last_step`: the oldest
        load does its last step in this cycle, so it ends in the next.
        """
        config = self._config
        bits = token_bits(config)
        layout = data.StructLayout({"prev": bits, "next": bits, "configs": END_BITS})
        m.submodules.pushes = older = memory.Memory(shape=layout.size, depth=LOADS_IN_FLIGHT, init=[])
        write, read = older.write_port(), older.read_port(domain="comb")
        young = Signal(layout)
        in_flight = Signal(range(LOADS_IN_FLIGHT + 1))
        youngest = Signal(range(LOADS_IN_FLIGHT))
        oldest = Signal(range(LOADS_IN_FLIGHT), init=1)  # the first load takes place 1
        ends = Signal(layout)  # value of the next cycle
        pushes, ended = Signal(layout), Signal()
        config_begins, load_begins = issue.begin & is_config, issue.begin & ~is_config
        # The addition for a CONFIG that begins now; `young` including this addition.
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
