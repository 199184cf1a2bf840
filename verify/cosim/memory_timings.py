"""The memory timings with which co-simulation runs programs."""

from __future__ import annotations

import dataclasses

import numpy as np

from vdla.isa.config import Config, Memory
from vdla.isa.dram_memory import DRAM
from vdla.isa.parameters import declared

TIMINGS = ("fixed latency", "random latency", "random latency and stalls")
"""Names of the memory timings with which programs run. With each of them, a run first draws its read and write latency:
1 cycle, the configured latencies, or four times these. With "fixed latency", all bursts of the run have this latency.
With "random latency", it varies from burst to burst. With stalls, the memory also pauses between transfers.
"""

_LONG = 4
_JITTER = (7, 50)
_STALL = (1, 5)


def with_timing(config: Config, timing: int, seed: int) -> Config:
    """A copy of `config` with the memory timing TIMINGS[timing]. `seed` determines the random latencies and stalls, and
    the values of other memory fields that have their default and do not change the Verilog. A machine with a DRAM is
    returned unchanged.
    """
    if config.memory.kind == DRAM:
        return config
    rng = np.random.default_rng((seed, 4))
    memory = config.memory
    latencies = (
        (memory.read_latency, memory.write_latency),
        (1, 1),
        (min(10_000, _LONG * memory.read_latency), min(10_000, _LONG * memory.write_latency)),
    )
    read, write = latencies[int(rng.integers(3))]
    jitter, stall = int(rng.choice(_JITTER)), int(rng.choice(_STALL))
    changed: dict[str, int | str] = {
        "read_latency": read,
        "write_latency": write,
        "jitter": jitter if timing > 0 else memory.jitter,
        "stall": stall if timing > 1 else memory.stall,
        "seed": seed % 2**32,
    }
    for name, default, item in declared(Memory):
        if item.samples and not item.rtl and name not in changed and getattr(memory, name) == default:
            changed[name] = item.samples[int(rng.integers(len(item.samples)))]
    return config.with_memory(dataclasses.replace(memory, **changed))
