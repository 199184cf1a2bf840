"""Timing constants that follow from a configuration; the rules that use them are in hw/README.md.

Nothing here is a free parameter of the simulator: the RTL must be built with the same latencies.
"""

from __future__ import annotations

from .config import Config

READ_BURST_BEATS = 64
"""Most beats of a read burst (AXI4 allows 256); shorter bursts keep the shared port responsive."""

WRITE_BURST_BEATS = 32
"""Most beats of a write burst; two of them fill the store FIFO of the presets."""

AXI_BOUNDARY = 4096
"""No AXI4 burst crosses an address that is a multiple of this many bytes."""

LOADS_IN_FLIGHT = 32
"""Loads that may have begun in the load unit while its writer still works on the first of them (its job queue)."""

ALU_LATENCY = 3
"""Cycles from the issue of an ALU operation to its end: read, execute, write."""

ALU_READ_STAGE = 1
"""Cycles from the issue of an ALU operation to its (first) accumulator read."""

PATCH_WINDOW_BYTES = 256
"""Bytes of the shift register that forms overlapping patches."""

NOISE_READ = 0
NOISE_STALL = 1


def gemm_latency(config: Config) -> int:
    """Cycles from the issue of a GEMM or DEPTHWISE operation to its end.

    Micro-op and address 1, scratchpad read 1, multiply 1, one level of the adder tree a cycle
    (log2 block_in), accumulator read 1, accumulate 1, write 1.
    """
    return 6 + (config.block_in.bit_length() - 1)


def gemm_read_stage(config: Config) -> int:
    """Cycles from the issue of a GEMM operation to its accumulator read (two before its end)."""
    return gemm_latency(config) - 2


def post_latency(config: Config) -> int:
    """Cycles from a vector's last accumulator read to its bytes entering the store FIFO, STORE.POST.

    Window reduction 1, bias 1, int32 to float32 2, multiply 2, round and clamp 2; combine: two products 2,
    two sums 4, round and clamp 2.
    """
    return 16


STORE_LATENCY = 1
"""The same for STORE.OUT: truncation only."""


def read_burst_beats(config: Config, fifo_bytes: int) -> int:
    """Most beats of a read burst of a unit whose FIFO holds `fifo_bytes`: at most half the FIFO."""
    return max(1, min(READ_BURST_BEATS, fifo_bytes // config.memory.bus_bytes // 2))


def write_burst_beats(config: Config) -> int:
    """Most beats of a write burst: at most half the store FIFO."""
    return max(1, min(WRITE_BURST_BEATS, config.store_fifo_bytes // config.memory.bus_bytes // 2))


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
