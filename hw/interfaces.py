"""Signatures of the wires between the units; hw/README.md, the timing contract, has their cycles.

Conventions that hold for every wire here:

- One clock domain, `sync`. In the launch cycle (cycle 0) every unit is held in reset; cycle 1 is the first in which its
  registers show their initial values. So no unit has an input "running" or "start".
- "Registered" means: a function of registers alone, not of inputs in the same cycle. Outputs of a unit are registered
  unless their comment says that they depend on an input of the same cycle. Only two inputs may have an effect within
  their cycle: `ready` of a request (from the arbiter) and `grant` of the accumulator's read port.
- A pulse in cycle t (`push`, `pop`, `reserve`, a beat) has its effect on the other side in cycle t + 1.
- Directions are those of the unit (or the client); the top module flips them.

Queues, FIFOs and memories are in these components: the three command queues in fetch; the token counters in
`tokens.py`; each FIFO in the read client that it serves; the accumulator banks and the micro-op memory in the compute
unit; the parameter table, the operand FIFO and the store FIFO in the store unit; the input and weight memories in the
top module (scratchpads.py).
"""

from __future__ import annotations

from amaranth.lib import data, enum, stream
from amaranth.lib.wiring import In, Member, Out, Signature

from vdla.isa.array_modes import TAPS
from vdla.isa.array_shape import ArrayShape
from vdla.isa.config import Config
from vdla.isa.timing import READ_BURST_BEATS, most_write_beats

ADDRESS_BITS = 40
"""Width of a DRAM byte address. Addresses in the units start at 0; the memory port adds the register BASE."""


# --- instructions, tokens -----------------------------------------------------------------------------------


def instruction_bits(config: Config) -> int:
    """Width of an instruction in bits."""
    return 8 * config.instruction_bytes


def commands(config: Config) -> Signature:
    """The head of a command queue, as fetch and a unit see it. `valid`: the payload is an instruction. The unit sets
    `ready` only in the cycle in which this instruction begins. The payload has the bits of the instruction (fields:
    `layouts.instruction_layout`).
    """
    return stream.Signature(instruction_bits(config))


def token_bits(config: Config) -> int:
    """Width in bits of a number of tokens, which is 0 to token_queue_depth."""
    return config.token_queue_depth.bit_length()


def token_pop() -> Signature:
    """The consumer's side of a token queue: `pop`, only while `available`, takes the oldest token."""
    return Signature({"available": In(1), "pop": Out(1)})


def token_push(config: Config) -> Signature:
    """The producer's side of a token queue.

    `room`: tokens + reservations < depth. `reserve`: pulse in the cycle in which an instruction with this push begins,
    only while `room`. `push`: the *number* of instructions with this push that end in this cycle, since instructions
    without operations, and CONFIG in the load unit, may end together with the instruction before them.
    """
    return Signature({"room": In(1), "reserve": Out(1), "push": Out(token_bits(config))})


# --- what every unit shows besides its work -----------------------------------------------------------------


class Activity(enum.Enum, shape=4):
    """A unit's activity in a cycle (hw/README.md section 9): BUSY for load and store, GEMM to DRAIN for compute;
    INSTRUCTION to BEGIN are causes of stall.

    TOKEN_PREV and so on are named after the flag, not the queue: the top module connects flags to queues.
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
"""Width in bits of the number of instructions that end in a cycle; fewer than 2^16 CONFIGs can wait for one load."""


def trace() -> Signature:
    """Ports that show the begin and end of a unit's instructions to the harness; synthesis leaves the ports out.

    `begin`: an instruction begins in this cycle, in program order; it depends on inputs of the cycle. `end`: number of
    instructions other than CONFIG that end in this cycle; `end_config`: number of CONFIGs that end. CONFIGs end in
    order among themselves, but a CONFIG may end before a GEMM that began earlier.
    """
    return Signature({"begin": Out(1), "end": Out(END_BITS), "end_config": Out(END_BITS)})


def unit_members(config: Config) -> dict[str, Member]:
    """Members that the load, compute and store units have in common.

    `idle`: every instruction that has begun ended in an earlier cycle; FINISH waits until all units are idle and
    command queues are empty. `activity`: the performance counters count it in each cycle of a run.
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
    """Kinds of data in bursts, for the byte counters, in the order of `vdla.sim.TRAFFIC`. LOAD.ACC8 has kind ACC,
    LOAD.PATCH kind INP."""

    INSTRUCTION = 0
    UOP = 1
    WGT = 2
    INP = 3
    ACC = 4
    PAR = 5
    OPERAND = 6
    OUT = 7


class Client(enum.Enum, shape=2):
    """Clients of the read arbiter (parts of the accelerator that read memory), in the order of their fixed priority,
    highest first.
    """

    FETCH = 0
    COMPUTE = 1
    STORE = 2
    LOAD = 3


def longest_beats(config: Config) -> int:
    """Largest number of beats of a burst, read or write."""
    return max(READ_BURST_BEATS, most_write_beats(config))


def burst_layout(config: Config) -> data.StructLayout:
    """One burst: `address` of its first data byte; number of `beats`, counted from the bus word of that byte; number of
    data `bytes`, for the counters; `kind` of data. The AXI address is `address` rounded down to a bus word.
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
    """A read client's side of the arbiter (hw/README.md section 2).

    `request.valid` (registered) shows a request, for whose beats the client has reserved room. The request stays, with
    its payload, until the arbiter accepts it with `request.ready`; the next request may be shown REQUEST_GAP cycles
    later. The client always takes beats: a beat that moved on the bus in t - 1 has `beat_valid` in t, and `beat_data`
    is at the output of the client's FIFO from t + FIFO_LATENCY - 1 on. `beat_last`: the last beat of a burst. Bursts
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
    """Layout of one beat of a write burst: data, byte strobes, and whether it is the burst's last beat."""
    bus = config.memory.bus_bytes
    return data.StructLayout({"data": 8 * bus, "strobe": bus, "last": 1})


def write_client(config: Config) -> Signature:
    """The store unit's side of the write channel (hw/README.md sections 1 and 8).

    `request` (registered) is shown once the burst's last byte is in the store FIFO, and accepted in the cycle of its
    `ready`. `beat.valid` is 1 whenever a burst that was shown in an earlier cycle has beats left (data may move before
    the address): the beats of burst k + 1 follow those of burst k without a gap. A beat moves in the cycle of
    `beat.ready`. `response`: pulse in the cycle of a burst's response. The memory port limits outstanding writes.
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
    """A read port as the reader sees it: `address` with `enable` in cycle t gives `data` in t + 1; without `enable`,
    `data` does not change.
    """
    return Signature({"enable": Out(1), "address": Out(range(depth)), "data": In(width)})


def scratchpad_write(
    *, depth: int, width: int, lanes: int, repeats: int = 1, neighbours: int = 1
) -> Signature:
    """A write port as the writer sees it: lane i (width / lanes bits) of word `address` is written if enable[i].

    A word of `data` is repeated `repeats` times to fill a word of the memory. `enable` and `data` have `neighbours`
    consecutive words, from word `address` on.
    """
    return Signature(
        {
            "enable": Out(lanes * neighbours),
            "address": Out(range(depth)),
            "data": Out(width // repeats * neighbours),
        }
    )


def banked_read(*, depth: int, width: int) -> Signature:
    """The read ports of TAPS banks as the reader sees them; the first bank has the lowest bits. In each bank, `address`
    with `enable` in cycle t gives `data` in t + 1. Word i of the memory is word i // TAPS of bank i mod TAPS.
    """
    address = (-(-depth // TAPS) - 1).bit_length()
    return Signature({"enable": Out(TAPS), "address": Out(TAPS * address), "data": In(TAPS * width)})


def inp_read(config: Config) -> Signature:
    """Compute's read port of the input scratchpad: one vector, [batch][block_in] int8, first byte lowest. With the
    extension `taps`, each bank has a port, which reads the input vectors of one position of the window
    (`Config.position_inputs` vectors).
    """
    if ArrayShape.of(config).banks == 1:
        return scratchpad_read(depth=config.inp_depth, width=8 * config.inp_bytes)
    vectors = config.position_inputs
    return banked_read(depth=config.inp_depth // vectors, width=8 * config.inp_bytes * vectors)


def chain_read(config: Config) -> Signature:
    """Compute's read port of the chain memory (on-chip buffer between layers): one word, which has one or more input
    vectors, the first one lowest; with the extension `taps` one word of each bank.
    """
    depth = config.chain_buffer_bytes // config.chain_word_bytes
    read = banked_read if ArrayShape.of(config).banks > 1 else scratchpad_read
    return read(depth=depth, width=8 * config.chain_word_bytes)


def chain_write(config: Config) -> Signature:
    """The store unit's write port of the chain memory (on-chip buffer between layers): a lane is an output vector, and
    all lanes get the same data.
    """
    lanes = config.chain_word_bytes // config.out_bytes
    depth = config.chain_buffer_bytes // config.chain_word_bytes
    return scratchpad_write(depth=depth, width=8 * config.chain_word_bytes, lanes=lanes, repeats=lanes)


def wgt_read(config: Config) -> Signature:
    """Compute's read port of the weight scratchpad: a tile, [columns][block_in] int8.

    DEPTHWISE takes one row of the tile, TAPS four.
    """
    return scratchpad_read(depth=config.wgt_depth, width=8 * config.wgt_bytes)


def accumulator_read(config: Config) -> Signature:
    """The store unit's read port of the accumulator banks.

    In cycle t store shows `address` with `request` (registered); in the same cycle compute sets `grant`, unless it uses
    the read port of the addressed bank itself. `data` ([batch][block_out] int32, first lane lowest) is valid in t + 2
    only.
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
    """Ports of the load unit. A lane of the write port `inp` is a byte. A lane of the write port `wgt` has min(tile,
    bus) bytes, the data of one step (hw/README.md section 6), and all lanes get the same data.
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
    """Ports of the compute unit. `others_idle`: load and store are idle and their command queues empty, for FINISH.
    `finished`: 1 in the cycle in which FINISH ends, the last cycle of the run.
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
    """Ports of the store unit. `read` is for LOAD.PAR, LOAD.TABLE and operands; without `post` it shows no requests."""
    return {
        **unit_members(config),
        "read": Out(read_client(config)),
        "write": Out(write_client(config)),
        **({"chain": Out(chain_write(config))} if config.chain_buffer_bytes else {}),
        "accumulators": Out(accumulator_read(config)),
    }


# Components that all units use:
#
# - issue.Issue(config): pops, push room and begin of the head instruction (section 5), and the stall part of
#   `activity`. The unit gives it its condition; it answers `begin`.
# - read_requests.ReadRequests(config, fifo_bytes): the address side of a read client: a job (start byte, row
#   length, rows, pitch, one run or many) becomes bursts that wait for room; `release` gives room back.
# - read_fifo.ReadFifo(config, fifo_bytes): the words of a client with the `last` mark; popping the word marked last
#   of a burst releases the burst's beats.
# - element_writer.ElementWriter(config, ...): the steps of section 6 for rectangular loads (pads and data), one a
#   cycle: element index, part within the element, bytes, whether it is a pad, whether it is the last.
