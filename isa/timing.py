"""Timing constants that follow from a configuration; the rules that use them are in hw/README.md.

None of them is a free parameter of the simulator: the RTL has the same latencies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .alu import ALU_OPERATIONS, AluOpcode
from .store_stages import stage_cycles, stages_of

if TYPE_CHECKING:
    from .config import Config

READ_BURST_BEATS = 64
"""Most beats of a read burst (AXI4 allows 256); shorter bursts keep the shared port responsive."""

WRITE_BURST_BEATS = 32
"""Most beats of a write burst, unless an output vector has more; two of them fill the store FIFO of the presets."""

AXI_BOUNDARY = 4096
"""No AXI4 burst crosses an address that is a multiple of this many bytes."""

LOADS_IN_FLIGHT = 32
"""Most loads that may have begun in the load unit while its writer works on the first of them (its job queue)."""

STORES_IN_FLIGHT = 8
"""Most instructions of the store unit (stores, and loads of parameters between them) that may have begun and not ended.
"""

STORE_BYTES = 11
"""Bytes stored for each instruction in flight: a store's destination (base, sizes, stride), tokens to push, flags."""

BEGIN_DELAY = 1
"""Cycles from the cycle in which all conditions of an instruction hold to its begin: the decision is registered."""

FIFO_LATENCY = 3
"""Cycles from a read beat to its use: register at the port, write into the FIFO's memory, read."""

REQUEST_DELAY = 5
"""Cycles from the begin of an instruction to its first read request: decode, length in words, burst cutting, next
request, FIFO room.
"""

WRITE_DELAY = 5
"""Cycles from the begin of an instruction to its first write request, which needs no room but waits for its data."""

REQUEST_GAP = 2
"""Least cycles from the acceptance of a client's request to its next request: burst cutting, FIFO room."""

PRODUCT_CYCLES = 7
"""Additional cycles before the requests of an instruction whose run length is a product (4 bits of a factor a cycle).
"""

ROOM_DELAY = 4
"""Cycles from the last use of a burst's bytes to a request for which they make room."""

FETCH_DELAY = 4
"""First cycle in which fetch may show a request."""

FETCH_ROOM_DELAY = 3
"""Cycles from the dispatch of an instruction to a request for which it makes room in the fetch buffer."""

STEP_DELAY = 4
"""Least cycles from the begin of a load to its first step."""

PATCH_STEP_DELAY = 16
"""Cycles from the begin of a LOAD.PATCH to its first step: PRODUCT_CYCLES, and the stages that find a step's words."""

STEP_GAP = 2
"""Least cycles from the last step of a load to the first step of the next: the writer takes its next job."""

STEP_LATENCY = 3
"""Cycles from a load's last step to its end: word, alignment, write."""

PATCH_WINDOW_BYTES = 256
"""Bytes of the shift register that forms overlapping patches."""

NOISE_READ = 0
NOISE_STALL = 1


def gemm_latency(config: Config) -> int:
    """Cycles from the issue of a GEMM or DEPTHWISE operation to its end.

    Cycles: micro-op 2, address 1, scratchpad read 1, operand choice 2, multiply `multiplier_stages`, one for each level
    of the adder tree (log2 block_in), accumulate 1. The write is in the cycle of the end.
    """
    return 7 + config.multiplier_stages + (config.block_in.bit_length() - 1)


def gemm_read_stage(config: Config) -> int:
    """Cycles from the issue of a GEMM operation to its accumulator read: `gemm_latency` less read 1, forward 1,
    accumulate 1 and write 1.
    """
    return gemm_latency(config) - 4


def alu_read_stage(config: Config) -> int:
    """Cycles from the issue of an ALU operation to its accumulator read: micro-op 2, address 1."""
    return 3


def alu_latency(config: Config) -> int:
    """Cycles from the last issue cycle of an ALU operation to its end: to its read, then as in `gemm_read_stage`."""
    return alu_read_stage(config) + 4


def alu_cycles(config: Config, opcode: int, use_imm: bool | int) -> int:
    """Issue cycles of an ALU operation: one, one more for a second accumulator operand, and those of its arithmetic."""
    return 1 + (not use_imm) + ALU_OPERATIONS[AluOpcode(opcode)].extra_cycles


ROW_VALUE_CYCLES = 4
"""Cycles from a lane's accumulator to the element that is added to a sum: difference 1, table or product 2, choice 1.
"""

ROW_FACTOR_CYCLES = 35
"""Cycles from a row's sums to its factor: radicand 4, place of the first bit 3, division 18, root 9, packing 1. The
rest of the time of ROWS is that of its vectors in the pipeline of STORE.POST.
"""


def post_latency(config: Config) -> int:
    """Cycles from a vector's last accumulator read to its bytes entering the store FIFO, STORE.POST.

    The cycles of all stages (`store_stages.py`), the write 1, and the passes behind the first. A machine with look-up
    tables has TABLE_CYCLES more in front of the combination, whether a store looks anything up or not; one with
    statistics of rows ROW_CYCLES more in front of the bias.
    """
    return sum(item.cycles for item in stages_of(config)) + config.post_passes


def parameter_cycles(config: Config) -> int:
    """Cycles from a store's last accumulator read to the first step of a LOAD.PAR behind it: its vectors have read
    their parameters by then.

    Entry 1, biases 1, to the scales 5, passes; ROW_CYCLES more in front of the biases where there are statistics of
    rows. A step writes two cycles after it happens.
    """
    return 7 + stage_cycles(config, "rows") + config.post_passes


def store_latency(config: Config) -> int:
    """Cycles from the last accumulator read of a STORE.OUT vector to its bytes entering the store FIFO: accumulators 2
    and write 1; truncation costs no cycle.
    """
    return 3


def longest_burst(words: float, most: int) -> int:
    """Most beats of a burst of a FIFO of `words` bus words: half the FIFO, and no more than `most`."""
    return max(1, min(most, int(words) // 2))


def read_burst_beats(config: Config, fifo_bytes: int) -> int:
    """Most beats of a read burst of a unit whose FIFO holds `fifo_bytes` bytes: half the FIFO, and no more than
    READ_BURST_BEATS.
    """
    return longest_burst(fifo_bytes // config.memory.bus_bytes, READ_BURST_BEATS)


def fetch_burst_instructions(config: Config) -> int:
    """Most instructions of one fetch request: half the fetch buffer, and no more than fit in the longest read burst."""
    worth = READ_BURST_BEATS * config.memory.bus_bytes // config.instruction_bytes
    return min(config.fetch_buffer_depth // 2, max(1, worth))


def write_burst_beats(config: Config) -> int:
    """Most beats of a write burst: half the store FIFO, but at least a whole output vector."""
    return longest_burst(config.fifo_bytes("store") // config.memory.bus_bytes, most_write_beats(config))


def most_write_beats(config: Config) -> int:
    """Most beats of a write burst with any store FIFO: WRITE_BURST_BEATS, or the beats of an output vector if they are
    more.
    """
    return max(WRITE_BURST_BEATS, config.out_bytes // config.memory.bus_bytes)


def memory_noise(seed: int, index: int, stream: int, limit: int) -> int:
    """Extra cycles of burst `index`: uniform on 0..limit from splitmix64 of (seed, stream, index).

    `stream` is NOISE_READ (latency of reads, index counts accepted reads) or NOISE_STALL (delay before the
    first beat, index counts bursts served). Works on plain ints so that C++ and RTL harness can repeat it.
    """
    if limit == 0:
        return 0
    mask = (1 << 64) - 1
    z = (seed * 0x9E3779B97F4A7C15 + (2 * index + stream + 1) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & mask
    return ((z ^ z >> 31) >> 33) % (limit + 1)
