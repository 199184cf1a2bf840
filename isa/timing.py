"""Latencies and other timing constants, some computed from a configuration; hw/README.md has the rules that use them.

RTL and simulator both obey them; neither has timing constants of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .alu import ALU_OPERATIONS, AluOpcode, alu_code
from .store_stages import stage_cycles, stages_of

if TYPE_CHECKING:
    from .config import Config

READ_BURST_BEATS = 64
"""Largest number of beats in a read burst; AXI4 allows 256, but shorter bursts make other clients wait less."""

WRITE_BURST_BEATS = 32
"""Beat limit of a write burst, unless an output vector has more; the presets' store FIFOs hold two such bursts."""

AXI_BOUNDARY = 4096
"""Number of bytes of an AXI4 page: no burst crosses an address that is a multiple of it."""

LOADS_IN_FLIGHT = 32
"""Largest number of loads in the load unit that have begun and not ended: the length of the queue between the unit's
requests and its writer.
"""

STORES_IN_FLIGHT = 8
"""Largest number of store unit instructions (stores and LOAD.PARs between them) that have begun and not ended."""

STORE_BYTES = 11
"""Bytes of storage per store unit instruction in flight: a store's destination (base, sizes, stride), pushes, flags."""

BEGIN_DELAY = 1
"""Cycles from the cycle in which all conditions of an instruction hold to its start: the decision passes a register."""

FIFO_LATENCY = 3
"""Cycles from a read beat on the bus to its use: register at the port, write to the FIFO's memory, read."""

REQUEST_DELAY = 5
"""Cycles from instruction start to first read request: decode, length in words, burst cut, next request, FIFO room."""

WRITE_DELAY = 5
"""Cycles from an instruction's start to its first write request, which needs no FIFO room but waits for its data."""

REQUEST_GAP = 2
"""Least number of cycles from the acceptance of a client's request to its next request: burst cutting, FIFO room."""

PRODUCT_CYCLES = 7
"""Extra cycles before the first request if a run's length is a product (rows x bytes), computed 4 bits in a cycle."""

ROOM_DELAY = 4
"""Cycles from the last use of a burst's bytes in a read FIFO to the request that may use their room again."""

FETCH_DELAY = 4
"""First cycle of a run in which fetch may put a read request on the bus."""

FETCH_ROOM_DELAY = 3
"""Cycles from an instruction's dispatch to the fetch request that may use its room in the fetch buffer."""

STEP_DELAY = 4
"""Least number of cycles from the start of a load to its first step (write to the scratchpad)."""

PATCH_STEP_DELAY = 16
"""Least number of cycles from the start of a LOAD.PATCH to its first step (write to the scratchpad): PRODUCT_CYCLES,
and the stages that compute the words of a step.
"""

STEP_GAP = 2
"""Least number of cycles from the last step (write to the scratchpad) of a load to the first step of the next load; in
between, the load unit's writer takes the next load from its queue.
"""

STEP_LATENCY = 3
"""Cycles from a load's last step to its end: one each to read the bus word, to align it and to write."""

PATCH_WINDOW_BYTES = 256
"""Number of bytes of a row that the window register of LOAD.PATCH holds."""

CHANNELS = SHARED, SEPARATE = "shared", "separate"
"""Values of `Memory.data_channels`."""


def gemm_latency(config: Config) -> int:
    """Cycles from the issue of an operation of the array to its end: micro-op 2, address 1, scratchpad read 1, operand
    selection 2, multiply `multiplier_stages`, one for each level of the adder tree (log2 block_in), accumulate 1. The
    write is in the cycle of the end.
    """
    return 7 + config.multiplier_stages + (config.block_in.bit_length() - 1)


def gemm_read_stage(config: Config) -> int:
    """Cycles from GEMM issue to accumulator read: `gemm_latency` less 4 for read, forward, accumulate and write."""
    return gemm_latency(config) - 4


def alu_read_stage(config: Config) -> int:
    """Cycles from the issue of an ALU operation to its accumulator read: micro-op 2, address 1."""
    return 3


def alu_latency(config: Config) -> int:
    """Cycles from an ALU operation's last issue to its end: `alu_read_stage` + 4 (read, forward, execute, write)."""
    return alu_read_stage(config) + 4


def alu_cycles(config: Config, opcode: int, use_imm: bool | int) -> int:
    """Issue cycles of an ALU operation: 1, plus 1 for a second accumulator operand, plus those of slow arithmetic."""
    operation = ALU_OPERATIONS[AluOpcode(opcode)] if opcode in ALU_OPERATIONS else None
    if config.instructions and (code := alu_code(config, opcode)) is not None:
        operation = code.operation
    return 1 + (not use_imm) + (0 if operation is None else operation.extra_cycles)


ROW_VALUE_CYCLES = 4
"""Cycles in ROWS from lane accumulator to the element added to a sum: difference 1, table or product 2, selection 1."""

ROW_FACTOR_CYCLES = 35
"""Cycles, in ROWS, from a row's sums to its factor: radicand 4, normalization 3, division 18, root 9, packing 1. The
other cycles of ROWS are those of its vectors in the pipeline of STORE.POST.
"""


def post_latency(config: Config) -> int:
    """Cycles from the last accumulator read of a STORE.POST vector to its write to the store FIFO: the cycles of all
    stages (`store_stages.py`), one for the write, and one for each pass of the vector through the arithmetic after its
    first pass.

    On a machine with the extensions `table` (TABLE_CYCLES) and `rows` (ROW_CYCLES), all stores pass the stages that
    these extensions add.
    """
    return sum(item.cycles for item in stages_of(config)) + config.post_passes


def parameter_cycles(config: Config) -> int:
    """Least number of cycles from a store's last accumulator read to the first step (write to the parameter table) of
    the next LOAD.PAR, so that the store's vectors have read their parameters before the load changes them.

    It is the sum of 1 for the parameter entry's index, 1 for reading the biases, 5 from biases to scales, and
    `post_passes`; with the extension `rows`, ROW_CYCLES more come before the biases. The write itself follows two
    cycles after the step.
    """
    return 7 + stage_cycles(config, "rows") + config.post_passes


def store_latency(config: Config) -> int:
    """Cycles from the accumulator read of a STORE.OUT vector to its write to the store FIFO: read 2, write 1."""
    return 3


def longest_burst(words: float, most: int) -> int:
    """Largest number of beats in a burst for a FIFO of `words` bus words: half of the FIFO, but at most `most`."""
    return max(1, min(most, int(words) // 2))


def read_burst_beats(config: Config, fifo_bytes: int) -> int:
    """Beat limit of a read burst for a FIFO of `fifo_bytes` bytes: half of the FIFO, but at most READ_BURST_BEATS."""
    return longest_burst(fifo_bytes // config.memory.bus_bytes, READ_BURST_BEATS)


def fetch_burst_instructions(config: Config) -> int:
    """Instruction limit of a fetch request: half of the fetch buffer, at most what READ_BURST_BEATS beats carry."""
    worth = READ_BURST_BEATS * config.memory.bus_bytes // config.instruction_bytes
    return min(config.fetch_buffer_depth // 2, max(1, worth))


def write_burst_beats(config: Config) -> int:
    """Largest number of beats in a write burst: half of the store FIFO, but at most `most_write_beats`."""
    return longest_burst(config.fifo_bytes("store") // config.memory.bus_bytes, most_write_beats(config))


def most_write_beats(config: Config) -> int:
    """Beat limit of a write burst with any store FIFO: WRITE_BURST_BEATS, or an output vector's beats if more."""
    return max(WRITE_BURST_BEATS, config.out_bytes // config.memory.bus_bytes)


def bus_cycles(config: Config, read: Any, written: Any) -> Any:
    """Least cycles in which the bus moves `read` and `written` beats, two numbers or two arrays: their sum or, with
    separate data channels or several channels of a DRAM, the larger. For numbers of bytes, the result is bytes, too.
    """
    memory = config.memory
    overlap = memory.data_channels == SEPARATE or memory.channels > 1
    return np.maximum(read, written) if overlap else read + written
