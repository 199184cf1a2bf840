"""Features that predict the number of flip-flops of a machine's modules: bits of registers, computed from the
configuration.

Each bit of a memory that is too small to be a macro is one flip-flop. The other registers of a module are predicted by
the features of its area (`cell_features.MODULES`), unless `REGISTERS` lists other features.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from vdla.hw.synthesis.cells.memories import LEAST_MACRO_BITS
from vdla.isa.array_shape import ArrayShape
from vdla.isa.config import Config
from vdla.isa.timing import PATCH_WINDOW_BYTES

from .cell_features import MEMORY_BITS, MODE_REGISTERS, MODULES, log2

OWN_BITS = MEMORY_BITS[0]
"""Name of the feature (`cell_features.own_features`) that counts the bits of a module's memories made of flip-flops."""

REGISTERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "compute.pipeline.array": (
            "one", "factor bits", "tile bits", "depthwise rows", "columns", *MODE_REGISTERS,
        ),
        "compute.pipeline.array.array_row": ("one", "factor row bits"),
        "compute.pipeline.array.array_row.array_column": ("column bits",),
        "fetch": (
            "one", "fetch log", "fetch depth", "whole instructions", "whole instructions, depth log",
            "banked instruction bits",
        ),
        "load.patches": (
            "one", "bus bits", "bus log", "row bits", "block_in", "input log", "window places", "ring is a macro",
        ),
        "store.pipeline": (
            "one", "acc bits", "out bits", "half bits", "part bits", "later out bits", "first out bits", "passes",
            "passes acc bits", "passes out bits", "passes log", "pass lane bits", "table", "table out bits", "rows",
            "rows out bits", "rows pass lanes",
        ),
    }
)  # fmt: skip
"""By module of the RTL, names of the features that predict the number of registers of one instance. Modules whose
registers are predicted by the features of their area are not listed.
"""


def names_of(module: str) -> tuple[str, ...]:
    """Names of the features that predict a module's number of flip-flops. Features that count bits of memories are left
    out.
    """
    names = REGISTERS.get(module, MODULES[module][1])
    return tuple(name for name in names if name not in MEMORY_BITS)


def register_features(config: Config) -> dict[str, float]:
    """Values of the features in REGISTERS that `cell_features.features_of` does not compute."""
    lanes, bus, size = config.batch * config.block_out, config.memory.bus_bytes, config.instruction_bytes
    factor_bits = float(ArrayShape.of(config).factor_bits)
    depth, passes = config.fetch_buffer_depth, config.post_passes
    whole = float(bus >= size)
    banked = float(min(max(1, bus // size), depth) > 1)
    spanned = (config.block_in + bus - 2) // bus + 1
    bank_bits = (spanned - 1).bit_length()
    ring_bits = max(bank_bits + 1, (2 * PATCH_WINDOW_BYTES // bus).bit_length() - 1)
    return {
        "factor bits": factor_bits * config.inp_bytes,
        "factor row bits": factor_bits * config.block_in,
        "columns": float(config.columns),
        "column bits": float(_column_bits(config)),
        "fetch depth": float(depth),
        "whole instructions": whole,
        "whole instructions, depth log": whole * log2(depth),
        "banked instruction bits": banked * 8.0 * size,
        # Bits: for every bank an address and a flag for the newest word, and the bank of a vector's first word.
        "window places": float((ring_bits - bank_bits + 1 << bank_bits) + bank_bits),
        "ring is a macro": float(_patch_ring_bits(config) >= LEAST_MACRO_BITS),
        "part bits": 32.0 * lanes / passes * (config.block_out > lanes // passes),
        "later out bits": 8.0 * lanes * (1 - 1 / passes),
        "first out bits": 8.0 * lanes / passes,
        "passes": float(passes),
    }


def _column_bits(config: Config) -> int:
    """Number of register bits in a column of the array. Every product has a register in each stage of the multipliers,
    and every sum of the adder tree has a register. With the extension `fold`, the last levels of the tree have one sum
    for each of the `config.tile_parts` parts of the tile.
    """
    bits = ArrayShape.of(config).product_bits
    found, sums, pairs = (
        config.block_in * bits * config.multiplier_stages,
        config.block_in,
        config.block_in // 2,
    )
    while pairs:
        bits += 1
        sums = pairs if pairs >= config.tile_parts else sums
        found += sums * bits
        pairs //= 2
    return found


def _patch_ring_bits(config: Config) -> int:
    """Number of bits of the ring memory of LOAD.PATCH, which has an entry for each vector that is in flight
    (`memories.memories_of`). This number decides whether the ring is built as a memory macro or of flip-flops.
    """
    return 8 * (75 + (2 if config.batch <= 4 else 3) + 2 * config.block_in)
