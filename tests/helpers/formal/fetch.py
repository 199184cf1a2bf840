"""The fetch unit: requests, the fetch buffer and the three command queues."""

from __future__ import annotations

import dataclasses

from amaranth.hdl import Array, Cat, Const, Mux, Signal, Value
from vdla.hw.layouts import instruction_layout, view
from vdla.isa.config import Config, load_config
from vdla.isa.layout import INSTRUCTION_BYTES, MemoryType, Opcode, Unit
from vdla.isa.timing import AXI_BOUNDARY

from .bench import Bench, implies
from .faults import Fault, Load
from .proof import Proof

BUFFER, QUEUE = 4, 2
PAGE_BITS = AXI_BOUNDARY.bit_length() - 1
SIZE_BITS = INSTRUCTION_BYTES.bit_length() - 1
COUNT_BITS = 10
KEPT_LOW, KEPT_HIGH = 10, 4
"""Bits of an instruction's halves that stand for all: those that say which unit it is for are among them."""

TINY = load_config("tiny")
NARROW = dataclasses.replace(TINY, fetch_buffer_depth=BUFFER, command_queue_depth=QUEUE)
"""An instruction in two beats."""

WIDE = dataclasses.replace(NARROW, memory=dataclasses.replace(TINY.memory, bus_bytes=32))
"""Two instructions in a beat."""

MODULE = "vdla.hw.fetch"


def _narrow(load: Load) -> Bench:
    return _bench(NARROW, load)


def _wide(load: Load) -> Bench:
    return _bench(WIDE, load)


def queue_of(instruction: Value) -> dict[Unit, Value]:
    """Which command queue an instruction belongs to, from the tables of the instruction set."""
    fields = view(instruction_layout(NARROW, "LOAD.INP"), instruction)
    unit = view(instruction_layout(NARROW, "CONFIG"), instruction)["unit"]
    load, store, config = (
        fields["opcode"] == opcode for opcode in (Opcode.LOAD, Opcode.STORE, Opcode.CONFIG)
    )
    kind = fields["memory_type"]
    to_load = (
        load & Cat(*(kind == of for of in (MemoryType.INP, MemoryType.WGT, MemoryType.PATCH))).any()
    ) | (config & (unit == Unit.LOAD))
    to_store = (load & (kind == MemoryType.PAR)) | store | (config & (unit == Unit.STORE))
    nowhere = config & ~Cat(*(unit == one for one in Unit)).any()
    return {Unit.LOAD: to_load, Unit.STORE: to_store, Unit.COMPUTE: ~(to_load | to_store | nowhere)}


def _bench(config: Config, load: Load) -> Bench:
    bench = Bench()
    m = bench.m
    dut = bench.add("dut", load(MODULE).FetchUnit(config=config))
    bus = config.memory.bus_bytes
    halves, per_beat = max(1, INSTRUCTION_BYTES // bus), max(1, bus // INSTRUCTION_BYTES)
    # Both stay during a run; between runs the unit is in reset. Programs of up to 1,023 instructions, anywhere in
    # memory: with counts of 32 bits the solver takes minutes.
    count = bench.constant(COUNT_BITS, "count")
    page = bench.constant(len(dut.program) - PAGE_BITS, "page")
    m.d.comb += [dut.count.eq(count), dut.program.eq(page << PAGE_BITS)]
    request, burst = dut.read.request, dut.read.request.payload
    accepted = request.valid & request.ready

    # By the bench's own count: beats asked for and not arrived; halves of the instruction that arrives;
    # instructions that were asked for, have arrived, and have been taken from the queues.
    owed, half = Signal(8), Signal(range(halves))
    asked, arrived, taken = (Signal(COUNT_BITS, name=name) for name in ("asked", "arrived", "taken"))
    beat, rest = dut.read.beat_valid, (count - arrived)[: len(count)]
    arrives = Signal(range(per_beat + 1))  # whole instructions that arrive in this cycle
    m.d.comb += arrives.eq(Mux(beat & (half == halves - 1), Mux(rest < per_beat, rest, per_beat), 0))
    queues = {unit: bench.fifo("dut", f"{unit.name.lower()}_queue", depth=QUEUE) for unit in Unit}
    ports = {unit: getattr(dut, unit.name.lower()) for unit in Unit}
    takes = {unit: ports[unit].valid & ports[unit].ready for unit in Unit}
    m.d.sync += [
        owed.eq(owed + Mux(accepted, burst.beats, 0) - beat),
        asked.eq(asked + Mux(accepted, burst.bytes >> SIZE_BITS, 0)),
        arrived.eq(arrived + arrives),
        taken.eq(taken + sum(takes.values())),
    ]
    if halves > 1:
        m.d.sync += half.eq(half + beat)
    dispatched = Signal(len(count))
    m.d.comb += dispatched.eq(taken + sum(queue.level for queue in queues.values()))
    bench.assume(implies(beat, owed != 0))

    waits = bench.before(request.valid & ~request.ready)
    bench.prove(
        "a request stays until it is accepted",
        implies(waits, request.valid & bench.same(burst.as_value())),
        cover=waits & accepted,
    )
    end = burst.address[:PAGE_BITS] + burst.bytes
    bench.prove(
        "no request crosses 4 KiB; its beats are those of its instructions",
        implies(
            request.valid,
            (end <= AXI_BOUNDARY)
            & (burst.bytes != 0)
            & (burst.bytes[:SIZE_BITS] == 0)
            & (burst.beats == (burst.bytes + (bus - 1)) >> (bus.bit_length() - 1)),
        ),
        cover=accepted & (asked == 2) & (burst.bytes == 2 * INSTRUCTION_BYTES),
    )
    bench.prove(
        "no more is asked for than the program has",
        (asked <= count) & implies(request.valid, (count - asked)[: len(count)] >= burst.bytes >> SIZE_BITS),
        cover=(asked == count) & (count == 3),
    )
    bench.prove(
        "the fetch buffer never overflows",
        (asked - dispatched)[: len(count)] <= BUFFER,
        cover=((asked - dispatched)[: len(count)] == BUFFER) & (arrives != 0),
    )
    bench.prove(
        "nothing is dispatched before it has arrived",
        (arrived - dispatched)[: len(count)] <= BUFFER,
        cover=(arrived == dispatched) & (taken != 0),
    )
    shows = Cat(*(ports[unit].valid == (queues[unit].level != 0) for unit in Unit)).all()
    bench.prove(
        "a command queue never overflows, and shows an instruction if it has one",
        Cat(*(queue.level <= QUEUE for queue in queues.values())).all() & shows,
        cover=(queues[Unit.LOAD].level == QUEUE) & (arrived != dispatched),
    )

    # One instruction, chosen by the solver when it arrives, on its way through the buffer and its queue.
    choose, lane = bench.free(1, "choose"), bench.free(range(per_beat), "lane")
    buffered, queued, ahead, chosen = Signal(), Signal(), Signal(3), Signal(KEPT_LOW + KEPT_HIGH)
    low = Signal(KEPT_LOW)
    data = dut.read.beat_data
    if halves > 1:
        with m.If(beat):
            m.d.sync += low.eq(data)
        arriving = Cat(low, data[:KEPT_HIGH])
    else:
        arriving = _kept(data.word_select(lane, 8 * INSTRUCTION_BYTES))
    after = Signal.like(dispatched)  # dispatched as of the next cycle
    enters = {unit: bench.inside("dut", f"{unit.name.lower()}_queue.w_rdy") for unit in Unit}
    for number, unit in enumerate(Unit):
        enters[unit] = enters[unit] & bench.inside("dut", "w_en" + (f"#{number + 1}" if number else ""))
    moves = sum(enters.values())
    m.d.comb += after.eq(dispatched + moves)
    whole = Cat(chosen[:KEPT_LOW], Const(0, 8 * INSTRUCTION_BYTES - KEPT_LOW))
    mine = queue_of(whole)
    with m.If(queued):
        for unit in Unit:
            with m.If(mine[unit] & takes[unit]):
                m.d.sync += [ahead.eq(ahead - 1), queued.eq(ahead != 0)]
    with m.Elif(buffered & (moves != 0)):
        m.d.sync += ahead.eq(ahead - 1)
        with m.If(ahead == 0):
            m.d.sync += [buffered.eq(0), queued.eq(1)]
            for unit in Unit:
                with m.If(mine[unit]):
                    m.d.sync += ahead.eq(queues[unit].level - takes[unit])
    with m.Elif(~buffered & choose & (lane < arrives)):
        m.d.sync += [buffered.eq(1), chosen.eq(arriving), ahead.eq(arrived + lane - after)]
    leaves = buffered & (ahead == 0) & (moves != 0)
    right = [implies(leaves, enters[unit] == mine[unit]) for unit in Unit]
    right += [
        implies(
            queued & mine[unit] & (ahead == 0), ports[unit].valid & (_kept(ports[unit].payload) == chosen)
        )
        for unit in Unit
    ]
    bench.prove(
        "every instruction comes to its unit, in order and unchanged",
        (moves <= 1) & Cat(*right).all(),
        cover=queued & mine[Unit.STORE] & (ahead == 0) & takes[Unit.STORE] & bench.before(takes[Unit.STORE]),
    )
    finished = Signal()
    with m.If(leaves & (view(instruction_layout(config, "FINISH"), whole)["opcode"] == Opcode.FINISH)):
        m.d.sync += finished.eq(1)
    bench.prove(
        "nothing is dispatched behind FINISH", implies(finished, moves == 0), cover=finished & (rest == 0)
    )

    place = Signal(BUFFER.bit_length() - 1)
    m.d.comb += place.eq(dispatched + ahead)
    bench.invariant(
        # Zero above COUNT_BITS, too.
        bench.inside("dut", "requested") == asked,
        bench.inside("dut", "received") == arrived,
        bench.inside("dut", "dispatched") == dispatched,
        (asked[0] == 0) | (asked == count),  # two in a request but for the last
        (arrived <= asked) & (dispatched <= arrived),
        owed == _beats(asked, arrived, per_beat, halves, half),
        implies(
            buffered,
            (ahead < (arrived - dispatched)[: len(count)]) & (_kept(_buffer(bench, config, place)) == chosen),
        ),
        ~(buffered & queued),
        implies(queued, Cat(*mine.values()).any()),
        *(
            implies(queued & mine[unit], (ahead < queue.level) & (_kept(queue.entry(ahead)) == chosen))
            for unit, queue in queues.items()
        ),
        implies(finished, bench.inside("dut", "finished")),
    )
    if halves > 1:
        bench.invariant(
            bench.inside("dut", "first_half") == (half == 0),
            implies(half != 0, (_buffer(bench, config, arrived)[:KEPT_LOW] == low) & (arrived != asked)),
        )
    else:
        bench.invariant((arrived[0] == 0) | (arrived == count))
    return bench


def _kept(instruction: Value) -> Value:
    """The bits of an instruction that the proof follows."""
    half = 4 * INSTRUCTION_BYTES
    return Cat(instruction[:KEPT_LOW], instruction[half : half + KEPT_HIGH])


def _beats(asked: Value, arrived: Value, per_beat: int, halves: int, half: Value) -> Value:
    """Beats in which the instructions that have been asked for and have not arrived will come."""
    missing = (asked - arrived)[:4]
    return (missing << 1) - half if halves > 1 else (missing + (per_beat - 1)) >> (per_beat.bit_length() - 1)


def _buffer(bench: Bench, config: Config, number: Value) -> Value:
    """Where the fetch buffer keeps instruction `number` of the program."""
    banks = max(1, config.memory.bus_bytes // INSTRUCTION_BYTES)
    bits, place = banks.bit_length() - 1, number[: BUFFER.bit_length() - 1]
    words = [bench.peek("dut", f"buffer_{bank}", place[bits:]) for bank in range(banks)]
    return Array(words)[place[:bits]] if banks > 1 else words[0]


NARROW_PROOF = Proof(
    component="FetchUnit, 8-byte bus, buffer of 4, queues of 2",
    build=_narrow,
    depth=2,
    search=14,
    faults=(
        Fault(
            property="a request stays until it is accepted",
            module=MODULE,
            before="burst.kind.eq(Kind.INSTRUCTION),",
            after="burst.kind.eq(Mux(self.read.beat_valid, Kind.UOP, Kind.INSTRUCTION)),",
        ),
        Fault(
            property="no request crosses 4 KiB; its beats are those of its instructions",
            module=MODULE,
            before="self.program + INSTRUCTION_BYTES * requested",
            after="self.program + INSTRUCTION_BYTES * requested + 8 * dispatched",
        ),
        Fault(
            property="no more is asked for than the program has",
            module=MODULE,
            before="number.eq(Mux(left < most, left, most))",
            after="number.eq(most)",
        ),
        Fault(
            property="the fetch buffer never overflows",
            module=MODULE,
            before="config.fetch_buffer_depth - held >= number",
            after="config.fetch_buffer_depth - held >= number - 1",
        ),
        Fault(
            property="nothing is dispatched before it has arrived",
            module=MODULE,
            before="dispatched != received, dispatched",
            after="dispatched != requested, dispatched",
        ),
        Fault(
            property="a command queue never overflows, and shows an instruction if it has one",
            module=MODULE,
            before="port.valid.eq(queue.r_rdy)",
            after="port.valid.eq(queue.r_rdy & (queue.level != queue.depth))",
        ),
        Fault(
            property="every instruction comes to its unit, in order and unchanged",
            module=MODULE,
            before="moved.append(queue.w_en & queue.w_rdy)",
            after="moved.append(queue.w_en)",
        ),
        Fault(
            property="nothing is dispatched behind FINISH",
            module=MODULE,
            before="queue.w_en.eq(there & to[unit] & ~finished)",
            after="queue.w_en.eq(there & to[unit])",
        ),
    ),
)

WIDE_PROOF = Proof(
    component="FetchUnit, 32-byte bus, buffer of 4, queues of 2",
    build=_wide,
    depth=2,
    search=14,
    faults=(
        Fault(
            property="a request stays until it is accepted",
            module=MODULE,
            before="burst.kind.eq(Kind.INSTRUCTION),",
            after="burst.kind.eq(Mux(self.read.beat_valid, Kind.UOP, Kind.INSTRUCTION)),",
        ),
        Fault(
            property="no request crosses 4 KiB; its beats are those of its instructions",
            module=MODULE,
            before="self.program + INSTRUCTION_BYTES * requested",
            after="self.program + INSTRUCTION_BYTES * requested + 8 * dispatched",
        ),
        Fault(
            property="no more is asked for than the program has",
            module=MODULE,
            before="number.eq(Mux(left < most, left, most))",
            after="number.eq(most)",
        ),
        Fault(
            property="the fetch buffer never overflows",
            module=MODULE,
            before="config.fetch_buffer_depth - held >= number",
            after="config.fetch_buffer_depth - held >= number - 1",
        ),
        Fault(
            property="nothing is dispatched before it has arrived",
            module=MODULE,
            before="dispatched != received, dispatched",
            after="dispatched != requested, dispatched",
        ),
        Fault(
            property="a command queue never overflows, and shows an instruction if it has one",
            module=MODULE,
            before="port.valid.eq(queue.r_rdy)",
            after="port.valid.eq(queue.r_rdy & (queue.level != queue.depth))",
        ),
        Fault(
            property="every instruction comes to its unit, in order and unchanged",
            module=MODULE,
            before="moved.append(queue.w_en & queue.w_rdy)",
            after="moved.append(queue.w_en)",
        ),
        Fault(
            property="nothing is dispatched behind FINISH",
            module=MODULE,
            before="queue.w_en.eq(there & to[unit] & ~finished)",
            after="queue.w_en.eq(there & to[unit])",
        ),
    ),
)
