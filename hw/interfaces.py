"""Signatures between the units. hw/README.md (the timing contract) has the cycles; this file has the wires.

Conventions that hold for every wire here:

- One clock domain, `sync`. In the launch cycle (cycle 0) every unit is held in reset; cycle 1 is the first in
  which its registers show their initial values. So no unit has an input "running" or "start".
- "Registered" means: a function of registers alone, combinational but for that. Outputs of a unit are registered
  unless their comment says that they depend on an input of the same cycle. The inputs that may act within a cycle are
  `ready` of a request (from the arbiter) and `grant` of the accumulator's read port.
- A pulse in cycle t (`push`, `pop`, `reserve`, a beat) changes what the other side sees in cycle t + 1.
- Directions are written from the unit's side (or the client's); the top flips them.

Who owns what: fetch owns the three command queues; `tokens.py` the token counters; a unit's read client its FIFO and
its room; the compute unit the accumulator banks and the micro-op memory; the store unit the parameter
table, the operand FIFO and the store FIFO; the top (scratchpads.py) the input and weight memories.
"""

from __future__ import annotations

from amaranth.lib import data, enum, stream
from amaranth.lib.wiring import In, Member, Out, Signature

from vdla.isa.array_modes import TAPS, ArrayShape
from vdla.isa.config import Config
from vdla.isa.timing import READ_BURST_BEATS, most_write_beats

ADDRESS_BITS = 40
"""Width of a DRAM byte address. The memory base register is added behind the arbiter, so addresses start at 0 here."""


# --- instructions, tokens -----------------------------------------------------------------------------------


def instruction_bits(config: Config) -> int:
    """Width of an instruction."""
    return 8 * config.instruction_bytes


def commands(config: Config) -> Signature:
    """A command queue's head: `valid` when an instruction is visible; the unit raises `ready` in the cycle in which it
    begins, and only then. The payload is an instruction to be viewed through `layouts.instruction_layout`.
    """
    return stream.Signature(instruction_bits(config))


def token_bits(config: Config) -> int:
    """Width of a count of tokens, 0..token_queue_depth."""
    return config.token_queue_depth.bit_length()


def token_pop() -> Signature:
    """A unit's side of a queue that it pops: `pop` (only while `available`) takes the oldest token."""
    return Signature({"available": In(1), "pop": Out(1)})


def token_push(config: Config) -> Signature:
    """A unit's side of a queue that it pushes to.

    `room`: tokens + reservations < depth. `reserve` is pulsed in the cycle an instruction with this push begins
    (only while `room`). `push` is the *number* of instructions with this push that end in this cycle: instructions
    without operations, and CONFIG in the load unit, may end together with the one before them.
    """
    return Signature({"room": In(1), "reserve": Out(1), "push": Out(token_bits(config))})


# --- what every unit shows besides its work -----------------------------------------------------------------


class Activity(enum.Enum, shape=4):
    """A unit's activity in a cycle (contract section 9). Load and store use BUSY; compute GEMM to DRAIN instead.

    PREV and NEXT name the flag, not the queue: the top connects a unit's `pop_prev` to its queue.
    """

    BUSY = 0
    GEMM = 1
    ALU = 2
    LOAD_UOP = 3
    LOAD_ACC = 4
    OTHER = 5
    DRAIN = 6
    INSTRUCTION = 7
    TOKEN_PREV = 8
    TOKEN_NEXT = 9
    FULL_PREV = 10
    FULL_NEXT = 11
    UNIT = 12
    BEGIN = 13


END_BITS = 16
"""Width of the counts of ends in a cycle: more CONFIGs than this counts cannot pile up behind one load."""


def trace() -> Signature:
    """Begin and end of instructions, for the harness; synthesis leaves it out.

    `begin`: one instruction of this unit begins in this cycle (instructions begin in program order). `end`: how many
    instructions that are not CONFIG end in this cycle; `end_config`: how many CONFIGs do (they end in order among
    themselves, but a CONFIG may end before a GEMM that began earlier). `begin` depends on inputs of the cycle.
    """
    return Signature({"begin": Out(1), "end": Out(END_BITS), "end_config": Out(END_BITS)})


def unit_members(config: Config) -> dict[str, Member]:
    """Members that load, compute and store have in common.

    `idle`: in this cycle every instruction that has begun has ended in an earlier cycle (e < now). Together with an
    empty command queue this is what FINISH waits for. `activity` is counted by the top in every cycle of a run.
    """
    return {
        "commands": In(commands(config)),
        "pop_prev": Out(token_pop()),
        "pop_next": Out(token_pop()),
        "push_prev": Out(token_push(config)),
        "push_next": Out(token_push(config)),
        "idle": Out(1),
        "activity": Out(Activity),
        "trace": Out(trace()),
    }


# --- memory: reads ------------------------------------------------------------------------------------------


class Kind(enum.Enum, shape=3):
    """Kinds of data that bursts carry, for the byte counters; the order of `vdla.sim.TRAFFIC`. ACC8 is ACC, PATCH is
    INP."""

    INSTRUCTION = 0
    UOP = 1
    WGT = 2
    INP = 3
    ACC = 4
    PAR = 5
    OPERAND = 6
    OUT = 7


class Client(enum.Enum, shape=2):
    """Read clients in order of fixed priority, highest first."""

    FETCH = 0
    COMPUTE = 1
    STORE = 2
    LOAD = 3


def longest_beats(config: Config) -> int:
    """Most beats of any burst."""
    return max(READ_BURST_BEATS, most_write_beats(config))


def burst_layout(config: Config) -> data.StructLayout:
    """One burst: byte `address` of its first data byte, `beats` (counted from the bus word of that byte), the
    data `bytes` in them (for the counters), and their `kind`. The AXI address is `address` cut to a bus word.
    """
    most = longest_beats(config)
    return data.StructLayout(
        {
            "address": ADDRESS_BITS,
            "beats": most.bit_length(),
            "bytes": (most * config.memory.bus_bytes).bit_length(),
            "kind": Kind,
        }
    )


def read_client(config: Config) -> Signature:
    """A read client's side of the arbiter (contract section 2).

    `request.valid` shows a request; it is registered, and the client has reserved room for all beats of the burst. It
    stays, with its payload, until `request.ready` (the arbiter accepts it in this cycle); the next may show in the
    cycle REQUEST_GAP behind. The client is always ready for beats: `beat_valid` in cycle t is "moved in t - 1", and the
    client's FIFO gives `beat_data` from t + FIFO_LATENCY - 1 on. `beat_last` marks the last beat of a burst; bursts
    arrive in order of acceptance.
    """
    return Signature(
        {
            "request": Out(stream.Signature(burst_layout(config))),
            "beat_valid": In(1),
            "beat_last": In(1),
            "beat_data": In(8 * config.memory.bus_bytes),
        }
    )


# --- memory: writes -----------------------------------------------------------------------------------------


def write_beat_layout(config: Config) -> data.StructLayout:
    """One beat of a write burst."""
    bus = config.memory.bus_bytes
    return data.StructLayout({"data": 8 * bus, "strobe": bus, "last": 1})


def write_client(config: Config) -> Signature:
    """The store unit's side of the write channel (sections 1 and 8).

    `request` is shown (registered) once the burst's last byte is in the store FIFO, one after the other; accepted in
    the cycle with `ready`. `beat.valid` holds whenever a burst shown in an earlier cycle has beats left to move (the
    data may move before the address): beats of burst k + 1 follow those of burst k without a gap. A beat moves in the
    cycle with `beat.ready`. `response` is pulsed in the cycle of a burst's response; the AXI master limits outstanding
    writes.
    """
    return Signature(
        {
            "request": Out(stream.Signature(burst_layout(config))),
            "beat": Out(stream.Signature(write_beat_layout(config))),
            "response": In(1),
        }
    )


# --- scratchpads --------------------------------------------------------------------------------------------


def scratchpad_read(*, depth: int, width: int) -> Signature:
    """A read port, seen from the reader: `address` with `enable` in cycle t gives `data` in t + 1 (held if not
    enabled).
    """
    return Signature({"enable": Out(1), "address": Out(range(depth)), "data": In(width)})


def scratchpad_write(
    *, depth: int, width: int, lanes: int, repeats: int = 1, neighbours: int = 1
) -> Signature:
    """A write port, seen from the writer: lane i (width / lanes bits each) of word `address` is written where
    enable[i].

    `data` is written `repeats` times in a word, for a writer whose lanes are equal. `enable` and `data` hold
    `neighbours` consecutive words, from word `address` on.
    """
    return Signature(
        {
            "enable": Out(lanes * neighbours),
            "address": Out(range(depth)),
            "data": Out(width // repeats * neighbours),
        }
    )


def banked_read(*, depth: int, width: int) -> Signature:
    """The read ports of TAPS banks, seen from the reader, each as `scratchpad_read`; the first bank is in the lowest
    bits.

    Word i is word i // TAPS of bank i mod TAPS.
    """
    address = (-(-depth // TAPS) - 1).bit_length()
    return Signature({"enable": Out(TAPS), "address": Out(TAPS * address), "data": In(TAPS * width)})


def inp_read(config: Config) -> Signature:
    """Compute's read port of the input scratchpad: one vector, [batch][block_in] int8, first byte lowest; on machines
    with `taps` one position (`Config.position_inputs` vectors) of each bank."""
    if ArrayShape.of(config).banks == 1:
        return scratchpad_read(depth=config.inp_depth, width=8 * config.inp_bytes)
    vectors = config.position_inputs
    return banked_read(depth=config.inp_depth // vectors, width=8 * config.inp_bytes * vectors)


def chain_read(config: Config) -> Signature:
    """Compute's read port of the chain memory: a word, one or more input vectors, the first one lowest; with `taps` one
    of each bank."""
    depth = config.chain_buffer_bytes // config.chain_word_bytes
    read = banked_read if ArrayShape.of(config).banks > 1 else scratchpad_read
    return read(depth=depth, width=8 * config.chain_word_bytes)


def chain_write(config: Config) -> Signature:
    """The store unit's write port of the chain memory: lanes are output vectors, all with the same data."""
    lanes = config.chain_word_bytes // config.out_bytes
    depth = config.chain_buffer_bytes // config.chain_word_bytes
    return scratchpad_write(depth=depth, width=8 * config.chain_word_bytes, lanes=lanes, repeats=lanes)


def wgt_read(config: Config) -> Signature:
    """Compute's read port of the weight scratchpad: a tile, [columns][block_in] int8.

    DEPTHWISE takes one row of it, TAPS four.
    """
    return scratchpad_read(depth=config.wgt_depth, width=8 * config.wgt_bytes)


def accumulator_read(config: Config) -> Signature:
    """The store unit's way to the accumulator banks.

    In cycle t store shows `address` with `request` (registered); compute answers in the same cycle with `grant`, low
    when it uses the read port of bank(address) in t. `data` ([batch][block_out] int32, first lane lowest) is there in
    t + 2 and only then.
    """
    return Signature(
        {
            "request": Out(1),
            "address": Out(range(config.acc_depth)),
            "grant": In(1),
            "data": In(8 * config.acc_bytes),
        }
    )


# --- the units ----------------------------------------------------------------------------------------------


def load_members(config: Config) -> dict[str, Member]:
    """Ports of the load unit. Input lanes are bytes; weight lanes are the steps of section 6, min(tile, bus) bytes, all
    with the same data.
    """
    lanes = config.wgt_bytes // min(config.wgt_bytes, config.memory.bus_bytes)
    return {
        **unit_members(config),
        "read": Out(read_client(config)),
        "inp": Out(
            scratchpad_write(
                depth=config.inp_depth,
                width=8 * config.inp_bytes,
                lanes=config.inp_bytes,
                neighbours=config.inp_step_vectors,
            )
        ),
        "wgt": Out(
            scratchpad_write(depth=config.wgt_depth, width=8 * config.wgt_bytes, lanes=lanes, repeats=lanes)
        ),
    }


def compute_members(config: Config) -> dict[str, Member]:
    """Ports of the compute unit. `others_idle`: load and store are idle and their command queues empty (FINISH).
    `finished` is high in the cycle in which FINISH ends, the last cycle of the run.
    """
    return {
        **unit_members(config),
        "read": Out(read_client(config)),
        "inp": Out(inp_read(config)),
        "wgt": Out(wgt_read(config)),
        **({"chain": Out(chain_read(config))} if config.chain_buffer_bytes else {}),
        "accumulators": In(accumulator_read(config)),
        "others_idle": In(1),
        "finished": Out(1),
    }


def store_members(config: Config) -> dict[str, Member]:
    """Ports of the store unit. `read` carries PAR loads and operands; it never shows a request without `post`."""
    return {
        **unit_members(config),
        "read": Out(read_client(config)),
        "write": Out(write_client(config)),
        **({"chain": Out(chain_write(config))} if config.chain_buffer_bytes else {}),
        "accumulators": Out(accumulator_read(config)),
    }


# Helpers that every unit uses, each a component of its own:
#
# - issue.Issue(config): pops, push room and begin of the head instruction (section 5), and the stall part of
#   `activity`. The unit gives it its condition; it answers `begin`.
# - read_requests.ReadRequests(config, fifo_bytes): the address side of a read client: a job (start byte, row
#   length, rows, pitch, one run or many) becomes bursts that wait for room; `release` gives room back.
# - read_fifo.ReadFifo(config, fifo_bytes): the words of a client with the `last` mark; popping the word marked last
#   of a burst releases the burst's beats.
# - element_writer.ElementWriter(config, ...): the steps of section 6 for rectangular loads (pads and data), one a
#   cycle: element index, part within the element, bytes, whether it is a pad, whether it is the last.
