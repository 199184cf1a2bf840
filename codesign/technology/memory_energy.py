"""Energy of a machine's memories in a launch: reads and writes of each macro, times CACTI's energy of one access.

The macros are those of `memories.memories_of`. Smaller memories are flip-flops, whose energy is part of the energy of
events. Each read or write is of a whole word. A read port that keeps the same address takes energy only once.

Some memories are left out because no event counts their accesses: the window and the jobs of LOAD.PATCH, the owners of
bursts, and the entries of row statistics. Replays (simulations of synthesized netlists, `benchmarks/energy_model.py`)
count the accesses of every macro. The interval of the prediction includes the differences between the energy of replays
and the energy that this module computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from vdla.hw.synthesis.cells.sram import MacroFigures, Scale, memory_figures
from vdla.isa.array_shape import ArrayShape
from vdla.isa.config import Config

from .events import Events
from .memories import Memory, memories_of

Accesses = Mapping[str, tuple[float, float]]
"""Numbers of accesses as (reads, writes) by module, summed over the module's memories of equal width."""

UNITS: Mapping[str, str] = {
    "compute": "uop scratchpad",
    "inp": "inp scratchpad",
    "wgt": "wgt scratchpad",
    "compute.accumulators": "acc scratchpad",
    "chain": "chain memory",
    "store": "parameter table",
    "store.tables.table_lane": "look-up tables",
    "store.pipeline.row_lane": "look-up tables",
}
"""Maps a module to the unit that gets the energy of its memories; for all other modules this is QUEUES."""
QUEUES = "FIFOs and queues"


def accesses(config: Config, events: Events) -> dict[str, tuple[float, float]]:
    """Numbers of (reads, writes) of each module's memories in a launch with the given events."""
    bus, read = config.memory.bus_bytes, events.read
    matrix = events.matrix
    operations = matrix + events.alu
    # Accumulator vectors' worth of lanes that a folding array leaves unchanged, so does not write.
    kept = events.kept_lanes / (config.batch * config.block_out)
    inp_word = config.inp_bytes * (config.position_inputs if ArrayShape.of(config).banks > 1 else 1)
    through_bus = events.stored - events.chained
    loaded, computed = (read["inp"] + read["wgt"]) / bus, (read["uop"] + read["acc"]) / bus
    operands = (read["par"] + read["operand"]) / bus
    held = events.held
    # TAPS reads four vectors at a time.
    vectors = events.vectors_read * (1 - held["inp"] / max(1, matrix))
    issued = {unit: float(count) for unit, count in events.issued.items()}
    found = {
        "inp": (vectors, read["inp"] / inp_word),
        "wgt": (matrix - held["wgt"], read["wgt"] / config.wgt_bytes),
        # Reads of the chain memory are counted with those of the input scratchpad.
        "chain": (0.0, events.chained * config.out_bytes / config.chain_word_bytes),
        "compute": (operations - held["uop"], read["uop"] / config.uop_bytes),
        # Loaded int8 is widened to int32, but no event counts int8 loads: every lane counts as four bytes on the bus.
        "compute.accumulators": (
            operations - events.overwriting + events.two + events.window_reads,
            operations + read["acc"] / config.acc_bytes - kept,
        ),
        "fetch": (sum(issued.values()), sum(issued.values())),
        **{f"fetch.{unit}_queue": (count, count) for unit, count in issued.items() if unit in _QUEUED},
        "load.fifo": (loaded, loaded),
        "load.element_jobs": (issued["load"], issued["load"]),
        "compute.loader.fifo": (computed, computed),
        "store.operands": (operands, operands),
        "store.writer": (through_bus, through_bus),
        # Biases and scales are in separate memories.
        "store": (2.0 * events.stored, 2.0 * read["par"] / config.par_bytes),
        "store.pipeline": (events.combined, events.combined),
        # Every lane reads a word of its copy in each pass, whether the word is used or not.
        "store.tables.table_lane": (events.stored * config.out_bytes, 0.0),
    }
    return {module: (float(reads), float(writes)) for module, (reads, writes) in found.items()}


_QUEUED = ("load", "compute", "store")


def memory_picojoules(config: Config, counts: Accesses, scale: Scale) -> dict[str, float]:
    """Energy of the memories in one launch, in picojoules, by unit (the values of UNITS, and QUEUES). `counts`: numbers
    of accesses by module (`accesses`). `scale`: conversion to the technology node of the cell library. If a module has
    several memories of equal width, the accesses are divided among them in proportion to their numbers of words.
    """
    found: dict[str, float] = {}
    macros = [memory for memory in memories_of(config) if memory.is_macro]
    for memory in macros:
        reads, writes = counts.get(memory.module, (0.0, 0.0))
        if not reads and not writes:
            continue
        alike = [m for m in macros if (m.module, m.width) == (memory.module, memory.width)]
        share = _words(memory) / sum(map(_words, alike))
        figures = macro_energy(memory.words, memory.width, scale)
        unit = UNITS.get(memory.module, QUEUES)
        energy = share * (reads * figures.read_pj + writes * figures.write_pj)
        found[unit] = found.get(unit, 0.0) + energy
    return found


def _words(memory: Memory) -> int:
    return memory.count * memory.words


@lru_cache(maxsize=4096)
def macro_energy(words: int, width: int, scale: Scale) -> MacroFigures:
    """Area, access time and energy of a macro with `words` words of `width` bits, a read port and a write port."""
    return memory_figures(words, width, scale)
