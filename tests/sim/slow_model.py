"""The timing contract (hw/README.md), one cycle at a time, written down plainly: what the fast simulator is held to.

Every unit looks only at what was registered in earlier cycles: all comparisons between units are `< now`. Nothing
here is shared with `vdla.sim`; programs must be small.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from vdla.isa.config import Config
from vdla.isa.layout import REGISTERS, TOKEN_QUEUES, Unit, decode_one, decode_uops, unit_of, unpack_fields
from vdla.isa.timing import (
    ALU_LATENCY,
    ALU_READ_STAGE,
    FETCH_DELAY,
    FETCH_ROOM_DELAY,
    FIFO_LATENCY,
    LOADS_IN_FLIGHT,
    NOISE_READ,
    NOISE_STALL,
    PATCH_STEP_DELAY,
    PRODUCT_CYCLES,
    REQUEST_DELAY,
    REQUEST_GAP,
    ROOM_DELAY,
    STEP_DELAY,
    STEP_LATENCY,
    STORE_LATENCY,
    WRITE_DELAY,
    alu_cycles,
    gemm_latency,
    gemm_read_stage,
    memory_noise,
    post_latency,
    read_burst_beats,
    write_burst_beats,
)

PAGE = 4096


@dataclass(eq=False)
class Burst:
    address: int
    size: int
    bus: int
    kind: str
    moved: list[int] = field(default_factory=list)  # cycle of each beat
    accepted: int | None = None
    ready: int | None = None
    returned: int | None = None  # read: cycle in which its last byte left the FIFO
    response: int | None = None

    @property
    def beats(self) -> int:
        return (self.address + self.size - 1) // self.bus - self.address // self.bus + 1

    @property
    def last(self) -> int | None:
        return self.moved[-1] if len(self.moved) == self.beats else None

    def has(self, byte: int, now: int) -> bool:
        """Whether the word of byte address `byte` is in the FIFO in cycle `now`."""
        beat = byte // self.bus - self.address // self.bus
        return len(self.moved) > beat and self.moved[beat] + FIFO_LATENCY <= now

    def holds(self, byte: int) -> bool:
        return self.address <= byte < self.address + self.size


def cut(start: int, length: int, bus: int, most_beats: int, kind: str) -> list[Burst]:
    bursts = []
    while length:
        size = min(length, most_beats * bus - start % bus, PAGE - start % PAGE)
        bursts.append(Burst(start, size, bus, kind))
        start, length = start + size, length - size
    return bursts


@dataclass(eq=False)
class Client:
    """A read client: bursts to come, the one shown, and the bursts that still hold room."""

    fifo: int
    most_beats: int
    waiting: list[Burst] = field(default_factory=list)
    earliest: int = 0
    shown: Burst | None = None
    held: list[Burst] = field(default_factory=list)
    last_accept: int = -REQUEST_GAP

    def show(self, now: int) -> None:
        if self.shown or not self.waiting or now < self.earliest or now < self.last_accept + REQUEST_GAP:
            return
        burst = self.waiting[0]
        self.held = [b for b in self.held if b.returned is None or b.returned + ROOM_DELAY > now]
        if sum(b.beats * b.bus for b in self.held) + burst.beats * burst.bus <= self.fifo:
            self.shown = self.waiting.pop(0)
            self.held.append(burst)

    @property
    def idle(self) -> bool:
        return not self.waiting and self.shown is None


@dataclass(eq=False)
class Instruction:
    index: int
    name: str
    values: dict[str, int]
    unit: Unit
    registers: dict[str, dict[str, int]]
    entered: int | None = None
    begin: int | None = None
    end: int | None = None
    pops: dict[str, int] = field(default_factory=dict)
    issues: int = 0
    steps: list[list[tuple[Burst, int]]] = field(default_factory=list)
    bursts: list[Burst] = field(default_factory=list)
    done: int = 0
    first_step: int = 0

    def ended(self, now: int) -> bool:
        return self.end is not None and self.end < now


class Model:
    def __init__(self, config: Config, instructions: np.ndarray, image: np.ndarray) -> None:
        self.config = config
        self.bus = config.memory.bus_bytes
        self.image = image
        self.fetch_count = len(instructions)
        self.program = self._decode(instructions)
        self.units = {unit: [i for i in self.program if i.unit == unit] for unit in Unit}
        self.base = -(-len(image) // PAGE) * PAGE
        self.clients = {
            "fetch": Client(1 << 30, 1 << 20),
            "compute": Client(config.compute_fifo_bytes, read_burst_beats(config, config.compute_fifo_bytes)),
            "store": Client(config.operand_fifo_bytes, read_burst_beats(config, config.operand_fifo_bytes)),
            "load": Client(config.load_fifo_bytes, read_burst_beats(config, config.load_fifo_bytes)),
        }
        self.reads: list[Burst] = []
        self.writes: list[Burst] = []
        self.to_write: list[tuple[Burst, int]] = []  # bursts of stores and the vector that completes each
        self.transfer: tuple[Burst, int] | None = None
        self.served_reads = self.served_writes = self.served = 0
        self.last_was_write = False
        self.requested = 0
        self.fetched: list[Burst] = []
        self.dispatched = 0
        self.tokens: dict[str, list[int]] = {q.name: [] for q in TOKEN_QUEUES}
        self.popped: dict[str, list[int]] = {q.name: [] for q in TOKEN_QUEUES}
        self.reserved: Counter[str] = Counter()
        self.port: dict[int, set[int]] = {}
        self.uops = np.zeros(config.uop_depth, np.uint32)
        self.load_free = -1  # last cycle in which the load unit's address side is taken
        self.causes: dict[Unit, list[str]] = {unit: [""] for unit in Unit}
        self.bytes: Counter[str] = Counter()
        self.beats: Counter[str] = Counter()
        self.last_step = {"load": 0, "compute": 0, "store": 0}
        self.vector_ready: dict[int, int] = {}
        self.vector = self.vector_read = self.vectors = self.next_read = 0
        self.store_bursts: list[Burst] = []
        self.write_earliest, self.last_write_accept = 0, -REQUEST_GAP

    def _decode(self, instructions: np.ndarray) -> list[Instruction]:
        registers = {r.name: {f.name: 0 for f in r.fields} for r in REGISTERS}
        program = []
        for index, (low, high) in enumerate(instructions.tolist()):
            name, values = decode_one(self.config, low, high)
            if name == "CONFIG":
                for item in REGISTERS:
                    if (item.unit, item.index) == (values["unit"], values["register"]):
                        registers = {**registers, item.name: unpack_fields(item.fields, values["value"])}
            program.append(Instruction(index, name, values, unit_of(name, values), registers))
            if name == "FINISH":
                break
        return program

    # --- the cycle ----------------------------------------------------------------------------------------

    def run(self, limit: int = 200_000) -> int:
        finish = next(i for i in self.program if i.name == "FINISH")
        now = 0
        while finish.end is None or now < finish.end:
            now += 1
            assert now < limit, "the slow model did not finish"
            self.show_fetch(now)
            for name in ("compute", "store", "load"):
                self.clients[name].show(now)
            self.accept(now)
            self.move(now)
            self.dispatch(now)
            for unit in Unit:
                self.start(unit, now)
            self.step("load", Unit.LOAD, now)
            self.step("compute", Unit.COMPUTE, now)
            self.step("store", Unit.STORE, now)
            self.read_accumulators(now)
        return now

    def accept(self, now: int) -> None:
        memory = self.config.memory
        outstanding = sum(b.last is None or b.last >= now for b in self.reads)
        showing = [c for c in self.clients.values() if c.shown]
        if outstanding < memory.outstanding_reads and showing:
            client = showing[0]
            burst = client.shown
            assert burst is not None
            noise = memory_noise(memory.seed, len(self.reads), NOISE_READ, memory.jitter)
            burst.accepted, burst.ready = now, now + memory.read_latency + noise
            self.reads.append(burst)
            client.shown, client.last_accept = None, now
            self.count(burst)
        outstanding = sum(b.response is None or b.response >= now for b in self.writes)
        late_enough = now >= max(self.write_earliest, self.last_write_accept + REQUEST_GAP)
        if self.to_write and outstanding < memory.outstanding_writes and late_enough:
            burst, vector = self.to_write[0]
            if vector in self.vector_ready and self.vector_ready[vector] <= now:
                self.last_write_accept = now
                self.to_write.pop(0)
                burst.accepted, burst.ready = now, now + 1
                self.writes.append(burst)
                self.count(burst)

    def count(self, burst: Burst) -> None:
        self.bytes[burst.kind] += burst.size
        self.beats[burst.kind] += burst.beats

    def move(self, now: int) -> None:
        memory = self.config.memory
        if self.transfer is None:
            read = self.reads[self.served_reads] if self.served_reads < len(self.reads) else None
            write = self.writes[self.served_writes] if self.served_writes < len(self.writes) else None
            read_ready = read is not None and read.ready is not None and read.ready <= now
            write_ready = write is not None and write.ready is not None and write.ready <= now
            if not read_ready and not write_ready:
                return
            take_write = write_ready and (not read_ready or not self.last_was_write)
            burst = write if take_write else read
            assert burst is not None
            self.last_was_write = take_write
            self.served_writes += take_write
            self.served_reads += not take_write
            self.transfer = burst, memory_noise(memory.seed, self.served, NOISE_STALL, memory.stall)
            self.served += 1
        burst, wait = self.transfer
        if wait:
            self.transfer = burst, wait - 1
            return
        burst.moved.append(now)
        if burst.last is not None:
            self.transfer = None
            if burst.kind == "out":
                burst.response = now + memory.write_latency

    def show_fetch(self, now: int) -> None:
        client = self.clients["fetch"]
        if client.shown or self.requested == self.fetch_count:
            return
        if now < max(FETCH_DELAY, client.last_accept + REQUEST_GAP):
            return
        address = self.base + 16 * self.requested
        depth = self.config.fetch_buffer_depth
        count = min(
            self.fetch_count - self.requested,
            depth // 2,
            (PAGE - address % PAGE) // 16,
            max(1, 64 * self.bus // 16),
        )
        left = sum(i.entered is not None and i.entered + FETCH_ROOM_DELAY <= now for i in self.program)
        if depth - (self.requested - left) >= count:
            client.shown = Burst(address, 16 * count, self.bus, "instruction")
            self.fetched.append(client.shown)
            self.requested += count

    def dispatch(self, now: int) -> None:
        if self.dispatched == len(self.program):
            return
        instruction = self.program[self.dispatched]
        last = self.base + 16 * self.dispatched + 15
        burst = next((b for b in self.fetched if b.holds(last)), None)
        if burst is None or not burst.has(last, now):
            return
        queue = [i for i in self.units[instruction.unit] if i.entered is not None and i.entered < now]
        queue = [i for i in queue if i.begin is None or i.begin >= now]
        if len(queue) < self.config.command_queue_depth:
            instruction.entered = now
            self.dispatched += 1

    # --- beginning ----------------------------------------------------------------------------------------

    def start(self, unit: Unit, now: int) -> None:
        instruction = next((i for i in self.units[unit] if i.begin is None), None)
        if instruction is None or instruction.entered is None or instruction.entered >= now:
            self.causes[unit].append("instruction")
            return
        cause = self.waits_for(instruction, now)
        self.causes[unit].append(cause)
        if cause != "begin":
            return
        instruction.begin = now
        for queue in TOKEN_QUEUES:
            if queue.producer == unit and instruction.values[queue.push_flag]:
                self.reserved[queue.name] += 1
        self.execute(instruction, now)

    def waits_for(self, instruction: Instruction, now: int) -> str:
        unit, values = instruction.unit, instruction.values
        pending = ""
        for flag in ("pop_prev", "pop_next"):
            if not values[flag] or flag in instruction.pops:
                continue
            name = next(q.name for q in TOKEN_QUEUES if q.consumer == unit and q.pop_flag == flag)
            place = len(self.popped[name])
            if place < len(self.tokens[name]) and self.tokens[name][place] < now:
                instruction.pops[flag] = now
                self.popped[name].append(now)
            else:
                pending = pending or f"token:{name}"
        if pending:
            return pending
        for flag in ("push_prev", "push_next"):
            if values[flag]:
                name = next(q.name for q in TOKEN_QUEUES if q.producer == unit and q.push_flag == flag)
                taken = self.reserved[name] - sum(cycle < now for cycle in self.popped[name])
                if taken >= self.config.token_queue_depth:
                    return f"full:{name}"
        return "begin" if self.condition(instruction, now) else "unit"

    def condition(self, instruction: Instruction, now: int) -> bool:
        before = [i for i in self.units[instruction.unit] if i.begin is not None]
        match instruction.unit:
            case Unit.LOAD:
                client = self.clients["load"]
                loads = [i for i in before if i.name != "CONFIG"]
                in_flight = sum(i.end is None or i.end > now for i in loads)
                free = client.idle and client.last_accept < now and self.load_free < now
                return free and in_flight < LOADS_IN_FLIGHT
            case Unit.STORE:
                return all(i.ended(now) for i in before)
        matrix = ("GEMM", "DEPTHWISE")
        if instruction.name in matrix:
            issued = all(
                i.begin + i.issues <= now for i in before if i.name in matrix and i.begin is not None
            )
            return issued and all(i.ended(now) for i in before if i.name not in matrix)
        if (
            instruction.name == "CONFIG"
            and not instruction.values["push_prev"] | instruction.values["push_next"]
        ):
            return all(i.ended(now) for i in before if i.name == "ALU" or i.name.startswith("LOAD"))
        if instruction.name == "FINISH":
            before = [i for i in self.program if i is not instruction]
        return all(i.ended(now) for i in before)

    def finish(self, instruction: Instruction, end: int) -> None:
        instruction.end = end
        for queue in TOKEN_QUEUES:
            if queue.producer == instruction.unit and instruction.values[queue.push_flag]:
                self.tokens[queue.name].append(end)

    # --- executing ----------------------------------------------------------------------------------------

    def execute(self, instruction: Instruction, now: int) -> None:
        name = instruction.name
        if name.startswith("LOAD"):
            self.begin_load(instruction, now)
        elif name.startswith("STORE"):
            self.begin_store(instruction, now)
        elif name in ("GEMM", "DEPTHWISE", "ALU"):
            self.begin_operations(instruction, now)
        elif name == "CONFIG" and instruction.unit == Unit.LOAD:
            self.load_free = now + 1
        else:
            self.finish(instruction, now + 1)

    def begin_operations(self, instruction: Instruction, now: int) -> None:
        config, values = self.config, instruction.values
        dst, src, _ = decode_uops(config, self.uops[values["uop_bgn"] : values["uop_end"]])
        base = instruction.registers["BASE"]["acc_base"]
        operations = [
            (
                base + int(d) + y * values["dst_factor_out"] + x * values["dst_factor_in"],
                base + int(s) + y * values["src_factor_out"] + x * values["src_factor_in"],
            )
            for y in range(values["iter_out"])
            for x in range(values["iter_in"])
            for d, s in zip(dst, src, strict=True)
        ]
        bank = config.acc_bank_depth
        count = len(operations)
        if instruction.name == "ALU":
            each = alu_cycles(values["alu_opcode"], values["use_imm"])
            for number, (d, s) in enumerate(operations):
                cycle = now + 1 + number * each + ALU_READ_STAGE
                if not values["use_imm"]:
                    self.port.setdefault(cycle, set()).add(s // bank)
                    cycle += 1
                self.port.setdefault(cycle, set()).add(d // bank)
            instruction.issues = count * each
            self.finish(instruction, now + count * each + ALU_LATENCY if count else now + 1)
            return
        if not values["reset"] and not values["overwrite"]:
            for number, (d, _s) in enumerate(operations):
                self.port.setdefault(now + 1 + number + gemm_read_stage(config), set()).add(d // bank)
        instruction.issues = count
        ends = [i.end for i in self.units[Unit.COMPUTE] if i.end is not None]
        self.finish(instruction, now + count + gemm_latency(config) if count else max([now + 1, *ends]))

    def begin_load(self, instruction: Instruction, now: int) -> None:
        values, kind = instruction.values, instruction.name.removeprefix("LOAD.").lower()
        client = self.clients[instruction.unit.name.lower()]
        if kind == "patch":
            self.patch_steps(instruction, client)
        else:
            self.element_steps(instruction, kind, client)
        client.waiting = list(instruction.bursts)
        client.earliest = now + REQUEST_DELAY + self.product_cycles(instruction)
        instruction.first_step = now + (PATCH_STEP_DELAY if kind == "patch" else STEP_DELAY)
        if instruction.unit == Unit.LOAD and not instruction.bursts:
            self.load_free = now + 1 + (PRODUCT_CYCLES if kind == "patch" else 0)
        if not instruction.steps:
            instruction.steps = [[]]
        if kind == "uop" and values["x_size"]:
            at = values["sram_base"]
            for run in self.uop_words(values):
                self.uops[at : at + len(run)] = run
                at += len(run)

    def product_cycles(self, instruction: Instruction) -> int:
        """Extra cycles before the first request, if a length must be multiplied: of joined rows or of patches."""
        values = instruction.values
        joined = values["x_stride"] == values["x_size"] and values["y_size"] > 1
        return PRODUCT_CYCLES if joined or instruction.name == "LOAD.PATCH" else 0

    def uop_words(self, values: dict[str, int]) -> list[np.ndarray]:
        columns = values["x_pad_0"] + values["x_size"] + values["x_pad_1"]
        runs = [np.zeros(values["y_pad_0"] * columns, np.uint32)]
        for y in range(values["y_size"]):
            start = 4 * (values["dram_base"] + y * values["x_stride"])
            runs.append(np.zeros(values["x_pad_0"], np.uint32))
            runs.append(self.image[start : start + 4 * values["x_size"]].copy().view(np.uint32))
            runs.append(np.zeros(values["x_pad_1"], np.uint32))
        return [*runs, np.zeros(values["y_pad_1"] * columns, np.uint32)]

    def element_steps(self, instruction: Instruction, kind: str, client: Client) -> None:
        values = instruction.values
        size = self.config.element_bytes(kind)
        width = min(size, self.bus)
        if values["x_size"] == 0:
            return
        name = "acc" if kind == "acc8" else kind
        start, rows, length = values["dram_base"] * size, values["y_size"], values["x_size"] * size
        pitch = values["x_stride"] * size
        if values["x_stride"] == values["x_size"]:
            runs = [(start, rows * length)]
        else:
            runs = [(start + y * pitch, length) for y in range(rows)]
        per_run = [cut(at, run, self.bus, client.most_beats, name) for at, run in runs]
        instruction.bursts = [burst for bursts in per_run for burst in bursts]
        columns = values["x_pad_0"] + values["x_size"] + values["x_pad_1"]
        steps: list[list[tuple[Burst, int]]] = [[] for _ in range(values["y_pad_0"] * columns)]
        for y in range(rows):
            bursts = per_run[0 if len(per_run) == 1 else y]
            steps += [[] for _ in range(values["x_pad_0"])]
            for offset in range(0, length, width):
                byte = start + y * pitch + offset + width - 1
                steps.append([(next(b for b in bursts if b.holds(byte)), byte)])
            steps += [[] for _ in range(values["x_pad_1"])]
        instruction.steps = steps + [[] for _ in range(values["y_pad_1"] * columns)]

    def patch_steps(self, instruction: Instruction, client: Client) -> None:
        values, patch = instruction.values, instruction.registers["PATCH"]
        run, block = patch["run"], self.config.block_in
        reach = (values["x_size"] - 1) * patch["step"] + run - patch["pad_left"]
        length = max(0, min(patch["row_bytes"], reach)) if run and values["x_size"] else 0
        for y in range(values["y_pad_0"] + values["y_size"] + values["y_pad_1"]):
            row = y - values["y_pad_0"]
            words: list[tuple[Burst, int]] = []
            if 0 <= row < values["y_size"] and length:
                start = values["dram_base"] + row * values["x_stride"]
                bursts = cut(start, length, self.bus, client.most_beats, "inp")
                instruction.bursts += bursts
                for burst in bursts:
                    first = burst.address // self.bus
                    ends = [
                        min((first + k + 1) * self.bus, burst.address + burst.size)
                        for k in range(burst.beats)
                    ]
                    words += [(burst, end - 1) for end in ends]
            taken = 0
            for w in range(values["x_size"]):
                for vector in sorted({(y * run + i) // block for i in range(run)}):
                    last = max(i for i in range(run) if (y * run + i) // block == vector)
                    need = min(w * patch["step"] + last - patch["pad_left"], length - 1)
                    wanted: list[tuple[Burst, int]] = []
                    while words and need >= 0 and (taken == 0 or words[taken - 1][1] - start < need):
                        wanted.append(words[taken])
                        taken += 1
                    instruction.steps.append(wanted)

    def step(self, name: str, unit: Unit, now: int) -> None:
        """One step of the writer: of the oldest load that has begun and not done all its steps."""
        for instruction in self.units[unit]:
            if instruction.begin is None or instruction.begin >= now:
                return
            if instruction.end is not None:
                continue
            if instruction.name == "CONFIG":
                earlier = [
                    i.end for i in self.units[unit] if i.index < instruction.index and i.end is not None
                ]
                self.finish(instruction, max([instruction.begin + 1, *earlier]))
                continue
            if not instruction.name.startswith("LOAD"):
                return
            if now < instruction.first_step or now <= self.last_step[name]:
                return
            wanted = instruction.steps[instruction.done]
            if wanted:
                burst, byte = wanted[0]
                if not burst.has(byte, now):
                    return
                wanted.pop(0)
                later = [
                    need for need in [wanted, *instruction.steps[instruction.done + 1 :]] for need in need
                ]
                if all(other is not burst for other, _ in later):
                    burst.returned = now
            if not wanted:
                instruction.done += 1
                if instruction.done == len(instruction.steps):
                    self.finish(instruction, now + STEP_LATENCY)
                    self.last_step[name] = now
            return

    # --- store --------------------------------------------------------------------------------------------

    def begin_store(self, instruction: Instruction, now: int) -> None:
        config, values = self.config, instruction.values
        self.vectors = values["y_size"] * values["x_size"]
        self.vector = self.vector_read = 0
        self.vector_ready = {}
        self.next_read = now + 1
        if not self.vectors:
            self.finish(instruction, now + 1)
            return
        out = config.out_bytes
        start, length, pitch = values["dram_base"] * out, values["x_size"] * out, values["x_stride"] * out
        runs = [(start + y * pitch, length) for y in range(values["y_size"])]
        if values["x_stride"] == values["x_size"]:
            runs = [(start, length * values["y_size"])]
        most = write_burst_beats(config)
        self.write_earliest = now + WRITE_DELAY + self.product_cycles(instruction)
        self.store_bursts = [b for at, size in runs for b in cut(at, size, self.bus, most, "out")]
        done = 0
        for burst in self.store_bursts:
            done += burst.size
            self.to_write.append((burst, (done - 1) // out))
        if values.get("operand"):
            delta = instruction.registers["OPERAND"]["delta"] * out
            client = self.clients["store"]
            most = client.most_beats
            instruction.bursts = [
                b for at, size in runs for b in cut(at + delta, size, self.bus, most, "operand")
            ]
            client.waiting = list(instruction.bursts)
            client.earliest = now + REQUEST_DELAY + self.product_cycles(instruction)

    def positions(self, instruction: Instruction) -> list[int]:
        """Accumulators that the current vector reads, in order."""
        values, v = instruction.values, self.vector
        y, x = divmod(v, values["x_size"])
        if instruction.name == "STORE.OUT":
            return [values["sram_base"] + v]
        address, window = instruction.registers["ADDRESS"], instruction.registers["WINDOW"]
        corner = values["sram_base"] + y * address["y_stride"] + x * address["x_stride"]
        return [
            (corner + r * window["row_stride"] + c * window["column_stride"]) % self.config.acc_depth
            for r in range(window["rows_minus_1"] + 1)
            for c in range(window["columns_minus_1"] + 1)
        ]

    def read_accumulators(self, now: int) -> None:
        config, out = self.config, self.config.out_bytes
        store = next((i for i in self.units[Unit.STORE] if i.begin is not None and i.end is None), None)
        if store is None or not store.name.startswith("STORE"):
            return
        if self.vector == self.vectors:
            if all(b.response is not None for b in self.store_bursts):
                self.finish(store, max(b.response or 0 for b in self.store_bursts))
            return
        if now < self.next_read:
            return
        positions = self.positions(store)
        operand = store.values.get("operand")
        ahead = (self.vector + 1) * out
        if self.vector_read == 0:
            gone = sum(b.size for b in self.store_bursts if b.last is not None and b.last < now)
            if ahead - gone > config.store_fifo_bytes:
                return
            if operand and not self.operand_there(store.bursts, ahead, now):
                return
        if positions[self.vector_read] // config.acc_bank_depth in self.port.get(now, set()):
            return
        if self.vector_read == 0 and operand:
            done = 0
            for burst in store.bursts:
                done += burst.size
                if done <= ahead and burst.returned is None:
                    burst.returned = now
        self.vector_read += 1
        if self.vector_read == len(positions):
            if store.name == "STORE.POST":
                passes = out // (config.post_lanes or out)
                self.next_read = now + max(1, passes - len(positions) + 1)
            latency = STORE_LATENCY if store.name == "STORE.OUT" else post_latency(config)
            self.vector_ready[self.vector] = now + latency + 1
            self.vector, self.vector_read = self.vector + 1, 0

    def operand_there(self, bursts: list[Burst], ahead: int, now: int) -> bool:
        done = 0
        for burst in bursts:
            if done + burst.size >= ahead:
                return burst.has(burst.address + ahead - done - 1, now)
            done += burst.size
        raise AssertionError("the operand ends before its vector")

    # --- counters -----------------------------------------------------------------------------------------

    def counters(self, unit: Unit, total: int) -> Counter[str]:
        result: Counter[str] = Counter()
        for now in range(1, total + 1):
            result[self.busy(unit, now) or self.causes[unit][now]] += 1
        return result

    def busy(self, unit: Unit, now: int) -> str:
        running = [
            (i, i.begin)
            for i in self.units[unit]
            if i.begin is not None and i.begin < now and (i.end is None or now <= i.end)
        ]
        if not running:
            return ""
        if unit != Unit.COMPUTE:
            return "busy"
        names = set()
        for i, begin in running:
            if i.name in ("GEMM", "DEPTHWISE", "ALU") and i.issues:
                if now <= begin + i.issues:
                    names.add("alu" if i.name == "ALU" else "gemm")
            elif i.name == "LOAD.UOP":
                names.add("load_uop")
            elif i.name.startswith("LOAD"):
                names.add("load_acc")
            elif now == begin + 1:
                names.add("other")
        order = ("gemm", "alu", "load_uop", "load_acc", "other")
        return next((name for name in order if name in names), "drain")
