"""Proof about the fetch unit: requests, the fetch buffer and the three command queues."""

from __future__ import annotations

import dataclasses

from amaranth.hdl import Array, Cat, Const, Mux, Signal, Value

from vdla.hw.layouts import instruction_layout, view
from vdla.isa.config import Config, load_config
from vdla.isa.layout import MemoryType, Opcode, Unit
from vdla.isa.timing import AXI_BOUNDARY

from .bench import Bench, implies
from .faults import Fault, Load
from .proof import Proof

TINY = load_config("tiny")
INSTRUCTION_BYTES = TINY.instruction_bytes
BUFFER, QUEUE = 4, 2
PAGE_BITS = AXI_BOUNDARY.bit_length() - 1
SIZE_BITS = INSTRUCTION_BYTES.bit_length() - 1
COUNT_BITS = 10
KEPT_LOW, KEPT_HIGH = 10, 4
"""The proof does not follow all bits of an instruction, but only the lowest KEPT_LOW bits of its lower half and the
lowest KEPT_HIGH bits of its upper half. They include all bits that determine the instruction's unit.
"""

NARROW = dataclasses.replace(TINY, fetch_buffer_depth=BUFFER, command_queue_depth=QUEUE)
"""A configuration in which an instruction takes two bus beats."""

WIDE = dataclasses.replace(NARROW, memory=dataclasses.replace(TINY.memory, bus_bytes=32))
"""A configuration in which a bus beat holds two instructions."""

MODULE = "vdla.hw.fetch"


def _narrow(load: Load) -> Bench:
    return _bench(NARROW, load)


def _wide(load: Load) -> Bench:
    return _bench(WIDE, load)


def queue_of(instruction: Value) -> dict[Unit, Value]:
    """For each unit, a bit: whether an instruction belongs to the unit's command queue, by the tables of the
    instruction set.
    """
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


def route_of(instruction: Value) -> Value:
    """The routing information that the fetch unit stores for an instruction: two bits for its unit (3 if it belongs to
    none), and whether it is FINISH.
    """
    queues = queue_of(instruction)
    unit = Mux(queues[Unit.LOAD], Unit.LOAD, Mux(queues[Unit.STORE], Unit.STORE, 3))
    is_finish = view(instruction_layout(NARROW, "FINISH"), instruction)["opcode"] == Opcode.FINISH
    return Cat(Mux(queues[Unit.COMPUTE], Unit.COMPUTE, unit)[:2], is_finish)


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
    size = (burst.bytes >> SIZE_BITS)[:4]

    # By the bench's own count: beats asked for and not arrived; halves of the instruction that arrives; instructions
    # that were asked for, have arrived, and have been put into a queue.
    owed, half = Signal(8), Signal(range(halves))
    asked, arrived, dispatched = (
        Signal(COUNT_BITS, name=name) for name in ("asked", "arrived", "dispatched")
    )
    beat, rest = dut.read.beat_valid, (count - arrived)[:COUNT_BITS]
    arrives = Signal(range(per_beat + 1))  # whole instructions that arrive in this cycle
    m.d.comb += arrives.eq(Mux(beat & (half == halves - 1), Mux(rest < per_beat, rest, per_beat), 0))
    pushes = {unit: bench.inside("dut", f"{unit.name.lower()}_queue.push") for unit in Unit}
    pushed = bench.inside("dut", "load_queue.instruction")
    moves = sum(pushes.values())
    m.d.sync += [
        owed.eq(owed + Mux(accepted, burst.beats, 0) - beat),
        asked.eq(asked + Mux(accepted, size, 0)),
        arrived.eq(arrived + arrives),
        dispatched.eq(dispatched + moves),
    ]
    if halves > 1:
        m.d.sync += half.eq(half + beat)
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
        (asked <= count) & implies(request.valid, (count - asked)[:COUNT_BITS] >= size),
        cover=(asked == count) & (count == 3),
    )
    in_buffer = (asked - dispatched)[:COUNT_BITS]
    bench.prove(
        "the fetch buffer never overflows",
        in_buffer <= BUFFER,
        cover=(in_buffer == BUFFER) & (arrives != 0),
    )
    here = (arrived - dispatched)[:COUNT_BITS]
    bench.prove(
        "nothing is dispatched before it has arrived",
        (here <= BUFFER) & implies(moves != 0, here != 0),
        cover=(arrived == dispatched) & bench.before(moves != 0),
    )
    full = {unit: bench.inside("dut", f"{unit.name.lower()}_queue.full") for unit in Unit}
    bench.prove(
        "a queue that is full gets no instruction",
        Cat(*(implies(pushes[unit], ~full[unit]) for unit in Unit)).all(),
        cover=Cat(*(full[unit] for unit in Unit)).any() & (here != 0),
    )

    # One instruction, chosen by the solver when it arrives, on its way through the buffer.
    choose, lane = bench.free(1, "choose"), bench.free(range(per_beat), "lane")
    buffered, ahead, chosen = Signal(), Signal(3), Signal(KEPT_LOW + KEPT_HIGH)
    low = Signal(KEPT_LOW)
    data = dut.read.beat_data
    if halves > 1:
        with m.If(beat):
            m.d.sync += low.eq(data)
        arriving = Cat(low, data[:KEPT_HIGH])
    else:
        arriving = _kept(data.word_select(lane, 8 * INSTRUCTION_BYTES))
    whole = _widened(chosen[:KEPT_LOW])
    mine = queue_of(whole)
    with m.If(buffered), m.If(moves != 0):
        m.d.sync += [ahead.eq(ahead - 1), buffered.eq(ahead != 0)]
    with m.Elif(choose & (lane < arrives)):
        m.d.sync += [buffered.eq(1), chosen.eq(arriving), ahead.eq(arrived + lane - dispatched - moves)]
    leaves = buffered & (ahead == 0) & (moves != 0)
    right = [implies(leaves, pushes[unit] == mine[unit]) for unit in Unit]
    bench.prove(
        "every instruction goes to its unit's queue, in order and unchanged",
        (moves <= 1) & Cat(*right).all() & implies(leaves, _kept(pushed) == chosen),
        cover=leaves & mine[Unit.STORE] & bench.before(pushes[Unit.LOAD]),
    )
    finished = Signal()
    is_finish = view(instruction_layout(config, "FINISH"), whole)["opcode"] == Opcode.FINISH
    with m.If(leaves & is_finish):
        m.d.sync += finished.eq(1)
    bench.prove(
        "nothing is dispatched behind FINISH",
        implies(finished, moves == 0),
        cover=finished & (here != 0),
    )

    # The unit's registers: what is left to ask for, the request that shows, the buffer, its head.
    fresh, ready, shown, cut = (bench.inside("dut", name) for name in ("fresh", "ready", "shown", "cut"))
    left, received_left = bench.inside("dut", "left@_request"), bench.inside("dut", "left@_receive")
    number, there, stored = (bench.inside("dut", name) for name in ("number", "there", "stored"))
    loaded, head = bench.inside("dut", "loaded"), bench.inside("dut", "head@_dispatch")
    requested = Signal(COUNT_BITS)  # the one that shows, too
    m.d.comb += requested.eq(asked + Mux(shown, size, 0))
    place = Signal.like(loaded)
    m.d.comb += place.eq(loaded + ahead - there)
    to = [bench.inside("dut", f"to_{unit.name.lower()}") for unit in Unit]
    free, is_head = bench.inside("dut", "free"), buffered & there & (ahead == 0)

    def address(number: Value) -> Value:
        return ((page << PAGE_BITS) + (number << SIZE_BITS))[: len(dut.program)]

    bench.invariant(
        implies(fresh, (requested == 0) & (arrived == 0) & ~shown & ~ready & ~cut & ~there),
        implies(~fresh, (left == (count - requested)[:COUNT_BITS]) & (received_left == rest)),
        ~(cut & ready),
        implies(ready, (number == Mux(left < 2, left, 2)) & (left != 0)),
        implies(~fresh, bench.inside("dut", "address") == address(requested)),
        implies(shown, burst.address == address(asked)),
        implies(shown, (burst.bytes[:SIZE_BITS] == 0) & (size != 0) & (size <= 2)),
        implies(shown, burst.beats == (burst.bytes + (bus - 1)) >> (bus.bit_length() - 1)),
        *((value[0] == 0) | (value == count) for value in (asked, requested)),
        (requested <= count) & (arrived <= asked) & (dispatched <= arrived),
        owed == _beats(asked, arrived, per_beat, halves, half),
        free + requested == BUFFER + dispatched,
        implies(ready & bench.inside("dut", "fits"), number <= free),
        stored + there == here,
        bench.inside("dut", "arrived@_receive") == (stored != 0),
        loaded == (dispatched + there)[: len(loaded)],
        bench.inside("dut", "loaded_below") == ~loaded,
        bench.inside("dut", "takes") == ~bench.inside("dut", "keeps"),
        bench.inside("dut", "takes") == (~there | (moves != 0)),
        bench.inside("dut", "received")[: len(loaded)] == arrived[: len(loaded)],
        # It goes to one queue at most, and only if it is there.
        sum(to) <= there,
        *(implies(is_head & to[unit], mine[unit]) for unit in Unit),
        *(pushes[unit] == (to[unit] & ~full[unit]) for unit in Unit),
        implies(is_head & is_finish, bench.inside("dut", "ended")),
        implies(buffered & ~is_head, _route(bench, config, place) == route_of(whole)),
        implies(buffered, ahead < here),
        implies(
            buffered,
            Mux(is_head, _kept(head), _kept(_buffer(bench, config, place))) == chosen,
        ),
        implies(finished, bench.inside("dut", "ended") & (sum(to) == 0)),
    )
    if halves > 1:
        bench.invariant(
            bench.inside("dut", "first_half") == (half == 0),
            implies(half != 0, (_buffer(bench, config, arrived)[:KEPT_LOW] == low) & (arrived != asked)),
            implies(half != 0, _route(bench, config, arrived) == route_of(_widened(low))),
        )
    else:
        bench.invariant((arrived[0] == 0) | (arrived == count))
    return bench


def _kept(instruction: Value) -> Value:
    """The bits of an instruction that the proof follows."""
    half = 4 * INSTRUCTION_BYTES
    return Cat(instruction[:KEPT_LOW], instruction[half : half + KEPT_HIGH])


def _widened(low: Value) -> Value:
    """A full instruction whose low bits are `low` and whose other bits are zero."""
    return Cat(low, Const(0, 8 * INSTRUCTION_BYTES - len(low)))


def _beats(asked: Value, arrived: Value, per_beat: int, halves: int, half: Value) -> Value:
    """Number of bus beats that the requested instructions still need.

    `asked`, `arrived`: numbers of instructions that have been requested, and that have arrived completely. `per_beat`:
    instructions in a bus beat. `halves`: 2 if an instruction takes two beats, else 1. `half`: number of beats of the
    next instruction that have already arrived.
    """
    missing = (asked - arrived)[:4]
    return (missing << 1) - half if halves > 1 else (missing + (per_beat - 1)) >> (per_beat.bit_length() - 1)


def _buffer(bench: Bench, config: Config, number: Value) -> Value:
    """The word of the fetch buffer for instruction `number` of the program."""
    bank, place = _place(config, number)
    return _chosen([bench.peek("dut", f"buffer_{k}", place) for k in range(_banks(config))], bank)


def _route(bench: Bench, config: Config, number: Value) -> Value:
    """The routing information (`route_of`) that the fetch unit has stored for instruction `number` of the program."""
    bank, place = _place(config, number)
    return _chosen([bench.peek("dut", f"routes_{k}", ~place) for k in range(_banks(config))], bank)


def _banks(config: Config) -> int:
    return max(1, config.memory.bus_bytes // INSTRUCTION_BYTES)


def _place(config: Config, number: Value) -> tuple[Value, Value]:
    """(bank, address in the bank) of the fetch buffer for instruction `number` of the program."""
    bits = _banks(config).bit_length() - 1
    place = number[: BUFFER.bit_length() - 1]
    return place[:bits], place[bits:]


def _chosen(words: list[Signal], bank: Value) -> Value:
    return Array(words)[bank] if len(words) > 1 else words[0]


NARROW_PROOF = Proof(
    component="FetchUnit, 8-byte bus, buffer of 4",
    build=_narrow,
    depth=1,
    search=20,
    faults=(
        Fault(
            property="a request stays until it is accepted",
            module=MODULE,
            before="self.read.request.valid.eq(shown)",
            after="self.read.request.valid.eq(shown & ~self.read.beat_valid)",
        ),
        Fault(
            property="no request crosses 4 KiB; its beats are those of its instructions",
            module=MODULE,
            before="burst.bytes.eq(size)",
            after="burst.bytes.eq(size + 8)",
        ),
        Fault(
            property="no more is asked for than the program has",
            module=MODULE,
            before="number.eq(Mux(few, left, most))",
            after="number.eq(most)",
        ),
        Fault(
            property="the fetch buffer never overflows",
            module=MODULE,
            before="fits.eq((left <= free) | (most <= free))",
            after="fits.eq(free != 0)",
        ),
        Fault(
            property="nothing is dispatched before it has arrived",
            module=MODULE,
            before="arrived & ~ended & (route.unit == unit)",
            after="~ended & (route.unit == unit)",
        ),
        Fault(
            property="a queue that is full gets no instruction",
            module=MODULE,
            before="Mux(keeps, to[unit], loaded[unit]) & ~queue.fills",
            after="Mux(keeps, to[unit], loaded[unit])",
        ),
        Fault(
            property="every instruction goes to its unit's queue, in order and unchanged",
            module=MODULE,
            before="loaded.eq(loaded + loads)",
            after="loaded.eq(loaded + (loads & ~self.read.beat_valid))",
        ),
        Fault(
            property="nothing is dispatched behind FINISH",
            module=MODULE,
            before="arrived & ~ended & (route.unit == unit)",
            after="arrived & (route.unit == unit)",
        ),
    ),
)

WIDE_PROOF = Proof(
    component="FetchUnit, 32-byte bus, buffer of 4",
    build=_wide,
    depth=1,
    search=20,
    faults=(
        Fault(
            property="every instruction goes to its unit's queue, in order and unchanged",
            module=MODULE,
            before="distance.eq(bank - received[:bank_bits] if bank_bits else 0)",
            after="distance.eq(0)",
        ),
    ),
)
