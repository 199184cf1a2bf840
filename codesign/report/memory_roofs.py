"""The most bytes that the memory of a machine moves in a cycle: the slopes of a roofline plot."""

from __future__ import annotations

from dataclasses import dataclass

from vdla.compiler.graph.traffic import most_bytes_per_cycle
from vdla.isa.config import Config
from vdla.isa.dram_memory import DRAM, controller_of

_AROUND_REFRESH = 4
"""Number of cycles around a refresh in which a DRAM gets no column command, in addition to the t_rp + t_rfc cycles of
the refresh itself. They lie between the refresher's request and the refresh, and between the refresh and the next
regular command of a bank (hw/dram.md, sections 6 and 8).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRoof:
    """An upper bound on the bytes that move in a cycle (`bytes_per_cycle`), and the `words` that name the bound."""

    bytes_per_cycle: float
    words: str


def memory_roofs(config: Config) -> tuple[MemoryRoof, ...]:
    """The bounds of a machine's memory, the largest first.

    A machine whose reads and writes overlap has two bounds. The bus moves a beat in each direction in a cycle; but for
    a layer that mostly reads, or mostly writes, only the beats of one direction are of use. A channel of a DRAM moves
    at most a word in a cycle, and none during a refresh; several channels hide their refreshes from a single direction.
    """
    memory, most = config.memory, float(most_bytes_per_cycle(config))
    bus, parts = memory.bus_bytes, "bus"
    if memory.kind == DRAM:
        times = controller_of(config)
        free = 1 - (times.t_rp + times.t_rfc + _AROUND_REFRESH) / times.t_refi
        most, parts = min(most, memory.channels * bus * free), "DRAM with refreshes"
    if most_bytes_per_cycle(config) == bus:
        return (MemoryRoof(bytes_per_cycle=most, words=f"{parts} {most:.4g} bytes/cycle"),)
    return (
        MemoryRoof(bytes_per_cycle=most, words=f"{parts} {most:.4g} bytes/cycle, reads and writes"),
        MemoryRoof(bytes_per_cycle=bus, words=f"reads or writes alone {bus} bytes/cycle"),
    )
