"""Random delays of a memory (fields `jitter` and `stall`): one sequence of numbers for each kind of delay.

The arithmetic is that of 64-bit integers in C++. Simulator, harness and test benches have the same function, each in
its own language.
"""

from __future__ import annotations

NOISE_READ, NOISE_STALL = 0, 1
"""Streams for the latency of reads (`index`: number of the read) and for the cycles before a burst's first beat
(`index`: number of the burst among all bursts or, on a separate data channel, among reads).
"""
NOISE_WRITE, NOISE_WRITE_STALL = 1 << 32, (1 << 32) + 1
"""The same two streams for writes on a separate data channel (`index`: number of the write)."""


def memory_noise(seed: int, index: int, stream: int, limit: int) -> int:
    """Additional cycles of burst number `index`, uniform on 0..`limit`: splitmix64 of (seed, stream, index). `stream`:
    one of the four constants of this module.
    """
    if limit == 0:
        return 0
    mask = (1 << 64) - 1
    z = (seed * 0x9E3779B97F4A7C15 + (2 * index + stream + 1) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & mask
    return ((z ^ z >> 31) >> 33) % (limit + 1)
