"""Lists the memories in the RTL of a machine (accelerator configuration) that may become memory macros: module, number
of memories, words of a memory, bits of a word.

The list repeats facts of the RTL (`hw/`); tests compare it with the memories found by synthesis.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vdla.hw.synthesis.cells.memories import LEAST_MACRO_BITS
from vdla.isa.array_modes import TAPS
from vdla.isa.array_shape import ArrayShape
from vdla.isa.config import Config
from vdla.isa.rows import FACTOR_BITS, PLANES, SHIFT_BITS, SUM_BITS, VALUE_BITS
from vdla.isa.store_stages import TABLE_BYTES, StoreParts, cycles_before
from vdla.isa.timing import LOADS_IN_FLIGHT, PATCH_WINDOW_BYTES, READ_BURST_BEATS, most_write_beats

_PATCH_RING = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Memories of a module (for example "load.fifo"): `count` of them, each with `words` words of `width` bits, a read
    port and a write port.
    """

    module: str
    count: int
    words: int
    width: int

    @property
    def bits(self) -> int:
        """Bits of all `count` memories."""
        return self.count * self.words * self.width

    @property
    def is_macro(self) -> bool:
        """Whether synthesis maps these memories to macros; smaller ones become flip-flops."""
        return self.words * self.width >= LEAST_MACRO_BITS


def memories_of(config: Config) -> list[Memory]:
    """All memories of a machine that may become memory macros. Some small memories, such as the table that holds the
    client of each burst, are never large enough for a macro in any configuration; these are left out.
    """
    return [
        Memory(module=module, count=count, words=words, width=width)
        for module, count, words, width in (
            *_scratchpads(config),
            *_fetch(config),
            *_load(config),
            *_store(config),
        )
        if count
    ]


_Row = tuple[str, int, int, int]


def _scratchpads(config: Config) -> Iterator[_Row]:
    yield from _inputs("inp", config, config.inp_depth, config.inp_bytes)
    yield "wgt", 1, config.wgt_depth, 8 * config.wgt_bytes
    if config.chain_buffer_bytes:
        words = config.chain_buffer_bytes // config.chain_word_bytes
        yield from _inputs("chain", config, words, config.chain_word_bytes)
    yield "compute", 1, config.uop_depth, 8 * config.uop_bytes
    inside, depth = config.acc_bank_depth, config.acc_depth
    whole, rest = divmod(depth, inside)
    yield "compute.accumulators", whole, inside, 8 * config.acc_bytes
    if rest:
        yield "compute.accumulators", 1, rest, 8 * config.acc_bytes


def _inputs(module: str, config: Config, words: int, size: int) -> Iterator[_Row]:
    """The memory of the RTL module `module` with `words` input vectors of `size` bytes each. On machines with the
    extension `taps`, the memory is split into banks, because the array reads several vectors at once.
    """
    if ArrayShape.of(config).banks == 1:
        yield module, 1, words, 8 * size
        return
    position = config.inp_bytes * config.position_inputs
    words, size = words * size // position, position
    whole, rest = divmod(words, TAPS)
    if rest:
        yield module, rest, whole + 1, 8 * size
    yield module, TAPS - rest, whole, 8 * size


def _fetch(config: Config) -> Iterator[_Row]:
    size, depth = config.instruction_bytes, config.fetch_buffer_depth
    banks = min(max(1, config.memory.bus_bytes // size), depth)
    yield "fetch", banks, max(2, depth // banks), 8 * size
    for unit in ("load", "compute", "store"):
        yield f"fetch.{unit}_queue", 1, config.command_queue_depth, 8 * size


def _load(config: Config) -> Iterator[_Row]:
    bus = config.memory.bus_bytes
    shift, batch_bits = bus.bit_length() - 1, 2 if config.batch <= 4 else 3
    yield "load.fifo", 1, config.fifo_bytes("load") // bus, 8 * bus + 1
    yield "compute.loader.fifo", 1, config.fifo_bytes("compute") // bus, 8 * bus + 1
    # Bits of a job: fields of LOAD.INP, the position in a bus word, and the padding value.
    job = 66 + 2 * shift + 8
    if not config.has("patch"):
        yield "load.element_jobs", 1, LOADS_IN_FLIGHT, job
        return
    job += 1 + 4 * 8 + 16 + batch_bits + 16
    yield "load.element_jobs", 1, LOADS_IN_FLIGHT, job
    yield "load.patch_jobs", 1, LOADS_IN_FLIGHT, job
    spanned = (config.block_in + bus - 2) // bus + 1
    bank_bits = (spanned - 1).bit_length()
    ring_bits = max(bank_bits + 1, (2 * PATCH_WINDOW_BYTES // bus).bit_length() - 1)
    yield "load.patches", 1 << bank_bits, 1 << (ring_bits - bank_bits), 8 * bus
    yield "load.patches", 1, _PATCH_RING, 75 + batch_bits + 2 * config.block_in


def _store(config: Config) -> Iterator[_Row]:
    bus, out = config.memory.bus_bytes, config.out_bytes
    longest = max(READ_BURST_BEATS, most_write_beats(config))
    held, places = config.fifo_bytes("store") // out, max(1, bus // out)
    yield "store.writer", places, held // places, 8 * out
    burst = bus.bit_length() - 1 + longest.bit_length() + 2 + held.bit_length()
    yield "store.writer.bursts", 1, min(held, config.memory.outstanding_writes + 1), burst
    parts = StoreParts.of(config)
    if parts.post:
        banks = max(1, out // bus)
        yield "store.operands", banks, config.fifo_bytes("operand") // bus // banks, 8 * bus + 1
        yield "store", 2, config.par_depth, 32 * config.block_out
        stages = cycles_before(config, "combine")
        yield "store.pipeline", 1, 1 << (stages // config.post_passes + 1).bit_length(), 8 * out
    if parts.table:
        yield (
            "store.tables.table_lane",
            out // config.post_passes,
            config.tables * TABLE_BYTES // bus,
            8 * bus,
        )
    if parts.rows:
        yield "store.pipeline.row_lane", PLANES * out // config.post_passes, TABLE_BYTES // bus, 8 * bus
        for bits in (VALUE_BITS, FACTOR_BITS + SHIFT_BITS, SUM_BITS):
            yield "store.row_entries", 1, config.row_depth, bits
