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
    """Signature of the stream that leaves a unit's command queue: the fetch unit fills the queue, the unit takes
    instructions from it. `payload`: the encoded instruction at the head of the queue (`layouts.instruction_layout` has
    its fields). `valid`: 1 if the queue has an instruction. `ready`: the unit sets it to 1 only in the cycle in which
    it begins this instruction.
    """
    return stream.Signature(instruction_bits(config))


def token_bits(config: Config) -> int:
    """Width in bits of a number of tokens, which is 0 to token_queue_depth."""
    return config.token_queue_depth.bit_length()


def token_pop() -> Signature:
    """Signature of the consumer's side of a token queue: `pop` takes the oldest token. It is allowed only while
    `available` is 1.
    """
    return Signature({"available": In(1), "pop": Out(1)})


def token_push(config: Config) -> Signature:
    """Signature of the producer's side of a token queue. `room`: the queue has a place that is neither filled nor
    reserved. `reserve`: 1 in the cycle in which an instruction begins that will push a token; allowed only while `room`
    is 1.

    `push`: *number* of tokens pushed in this cycle, when their instructions end. Several may end together: instructions
    without operations, and CONFIG in the load unit, may end together with the instruction before them.
    """
    return Signature({"room": In(1), "reserve": Out(1), "push": Out(token_bits(config))})


# --- what every unit shows besides its work -----------------------------------------------------------------


class Activity(enum.Enum, shape=4):
    """Activity of a unit in a cycle (hw/README.md section 9). While an instruction executes, the load and store units
    report BUSY, and the compute unit reports one of GEMM to DRAIN. A unit without an executing instruction reports its
    cause of stall, one of INSTRUCTION to BEGIN.

    TOKEN_PREV and TOKEN_NEXT mean that the flag pop_prev or pop_next waits for a token; FULL_PREV and FULL_NEXT mean
    that the flag push_prev or push_next waits for room in a queue. The top module connects the flags to token queues.
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
"""Width in bits of a number of instructions that end in the same cycle. Many may end at once, since all CONFIGs that
waited for the same load end together; there are always fewer than 2^16.
"""


def trace() -> Signature:
    """Signature of the ports that show to the test harness when a unit's instructions begin and end; synthesis leaves
    them out.

    `begin`: 1 if an instruction begins in this cycle; instructions begin in program order. The signal is combinational.
    `end`: number of instructions other than CONFIG that end in this cycle. `end_config`: number of CONFIGs that end.
    CONFIGs end in program order among themselves, but a CONFIG may end before a GEMM that began earlier.
    """
    return Signature({"begin": Out(1), "end": Out(END_BITS), "end_config": Out(END_BITS)})


def unit_members(config: Config) -> dict[str, Member]:
    """Ports, by name, that the load, compute and store units have in common.

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
    """Kinds of data in bursts, for the byte counters, in the order of `vdla.sim.state.TRAFFIC`. LOAD.ACC8 has kind ACC,
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
    data `bytes`, for the counters; `kind` of data. The AXI address is register BASE plus `address`, rounded down to a
    bus word.
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
    """Signature between a read client and the arbiter, with directions for the client (hw/README.md section 2).

    - `request` (registered): stream of bursts to read. The client shows a request only after it has reserved room for
      all its beats. The request stays until the arbiter accepts it with `request.ready`; the next one may be shown
      REQUEST_GAP cycles later.
    - `beat_valid`: a beat has arrived, one cycle after it moved on the bus. The client must always take it. Beats come
      in the order in which the requests were accepted. `beat_last`: the beat is the last one of its burst.
    - `beat_data`: the word of the beat. If `beat_valid` is 1 in cycle t, the word is at the output of the client's FIFO
      from t + FIFO_LATENCY - 1 on.
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
    """Signature of the write channel, with directions for the store unit (hw/README.md sections 1 and 8).

    - `request` (registered): stream of bursts to write. A burst is shown once its last byte is in the store FIFO.
    - `beat`: stream of the bursts' data. It is valid whenever a burst that was shown in an earlier cycle has beats
      left, so data may move before their address is accepted. The beats of one burst follow those of the previous burst
      without a gap.
    - `response`: 1 in the cycle in which a burst is answered.

    The memory port limits the number of bursts that are not answered.
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
    """Signature of a read port of a scratchpad, with directions for the unit that reads. `address` with `enable` in
    cycle t returns `data` in t + 1; without `enable`, `data` does not change. `depth`, `width`: number of words, and
    bits of each.
    """
    return Signature({"enable": Out(1), "address": Out(range(depth)), "data": In(width)})


def scratchpad_write(
    *, depth: int, width: int, lanes: int, repeats: int = 1, neighbours: int = 1
) -> Signature:
    """Signature of a write port of a scratchpad, with directions for the unit that writes. A memory word has `lanes`
    lanes of equal width: lane i is written only if enable[i] is 1.

    `depth`, `width`: number of memory words, and bits of each. `repeats`: `data` has only width / repeats bits, which
    are written `repeats` times side by side. `neighbours`: number of consecutive memory words, from `address` on, that
    are written at once; `enable` and `data` have bits for all of them.
    """
    return Signature(
        {
            "enable": Out(lanes * neighbours),
            "address": Out(range(depth)),
            "data": Out(width // repeats * neighbours),
        }
    )


def banked_read(*, depth: int, width: int) -> Signature:
    """Signature of the read ports of a memory with TAPS banks, with directions for the unit that reads. Each bank has
    its own port: an `address` with `enable` in cycle t returns `data` in t + 1. The first bank has the lowest bits of
    each member.

    `depth`: number of words in the memory; word i is stored at address i // TAPS of bank i mod TAPS. `width`: bits of a
    word.
    """
    address = (-(-depth // TAPS) - 1).bit_length()
    return Signature({"enable": Out(TAPS), "address": Out(TAPS * address), "data": In(TAPS * width)})


def inp_read(config: Config) -> Signature:
    """Signature of the port by which the compute unit reads the input scratchpad. A read returns an input vector,
    [batch][block_in] int8, first byte lowest.

    With the extension `taps` the scratchpad has several banks, each with a port of its own. Each port returns the input
    vectors of one position (pixel), `Config.position_inputs` vectors.
    """
    if ArrayShape.of(config).banks == 1:
        return scratchpad_read(depth=config.inp_depth, width=8 * config.inp_bytes)
    vectors = config.position_inputs
    return banked_read(depth=config.inp_depth // vectors, width=8 * config.inp_bytes * vectors)


def chain_read(config: Config) -> Signature:
    """Signature of the port by which the compute unit reads the chain memory (on-chip buffer between layers). A read
    returns a word with one or more input vectors, the first one in the lowest bits. With the extension `taps` the
    memory has several banks, and the port reads a word from each of them.
    """
    depth = config.chain_buffer_bytes // config.chain_word_bytes
    read = banked_read if ArrayShape.of(config).banks > 1 else scratchpad_read
    return read(depth=depth, width=8 * config.chain_word_bytes)


def chain_write(config: Config) -> Signature:
    """Signature of the port by which the store unit writes the chain memory (on-chip buffer between layers). A word of
    the memory has one or more output vectors; each is a lane of the port, so it can be written alone.
    """
    lanes = config.chain_word_bytes // config.out_bytes
    depth = config.chain_buffer_bytes // config.chain_word_bytes
    return scratchpad_write(depth=depth, width=8 * config.chain_word_bytes, lanes=lanes, repeats=lanes)


def wgt_read(config: Config) -> Signature:
    """Signature of the port by which the compute unit reads the weight scratchpad: a read returns a tile,
    [columns][block_in] int8. An operation of DEPTHWISE uses one row of weights in the tile, an operation of TAPS
    several.
    """
    return scratchpad_read(depth=config.wgt_depth, width=8 * config.wgt_bytes)


def accumulator_read(config: Config) -> Signature:
    """Signature of the port by which the store unit reads the accumulators.

    In cycle t the store unit sets `request` and `address` (registered). In the same cycle the compute unit sets
    `grant`, except if it uses the read port of the addressed bank itself. `data` ([batch][block_out] int32, first lane
    lowest) is valid in t + 2 only.
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
    """Ports of the load unit, by name. `inp`, `wgt`: write ports of the two scratchpads. A lane of `inp` is a byte. A
    lane of `wgt` has the bytes that one step writes: a whole tile, or a bus word if this is smaller (hw/README.md
    section 6). All lanes of `wgt` get the same data.
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
    """Ports of the compute unit, by name. `others_idle`: the load unit and the store unit are idle and their command
    queues are empty; FINISH waits for this. `finished`: 1 in the cycle in which FINISH ends, the last cycle of the run.
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
    """Ports of the store unit, by name. `read`: the read client for LOAD.PAR, LOAD.TABLE and the operands of
    STORE.POST; on a machine without the extension `post` it makes no requests.
    """
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
