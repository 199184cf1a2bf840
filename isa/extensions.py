"""The table of extensions, a machine's optional hardware, and the blocks of its data path.

`Config.extensions` lists names of this table. `layout.EXTENSION_OF` has the extension that an instruction needs,
`alu.ALU_OPERATIONS` the extension that an ALU operation needs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import vdla.isa.array_modes as array_modes
import vdla.isa.store_stages as store_stages

from .array_modes import holds_positions
from .data_path import Block, Extension
from .opcodes import Unit
from .timing import PATCH_WINDOW_BYTES

if TYPE_CHECKING:
    from .config import Config


def _patch(config: Config) -> Block:
    return Block(
        name="patch",
        lanes=config.inp_bytes,
        multipliers=0,
        multiplier="none",
        ports="inp write, shared with ordinary loads",
    )


PATCH = Extension(
    meaning="the load of overlapping patches (LOAD.PATCH)",
    unit=Unit.LOAD,
    block=_patch,
    default=True,
    storage=lambda config: {"patch window": PATCH_WINDOW_BYTES},
)


def _subtract(config: Config) -> Block:
    return Block(
        name="subtract",
        lanes=config.batch * config.block_out,
        multipliers=0,
        multiplier="none",
        ports="those of the ALU, whose adder it uses",
    )


SUBTRACT = Extension(meaning="the ALU operation SUB", unit=Unit.COMPUTE, block=_subtract)


def _wide_loads(config: Config) -> Block:
    return Block(
        name="wide_loads",
        lanes=config.inp_step_vectors * config.inp_bytes,
        multipliers=0,
        multiplier="none",
        ports=f"inp write: {config.inp_step_vectors} neighbouring vectors a cycle, each bank at an address of its own",
    )


WIDE_LOADS = Extension(
    meaning="LOAD.INP that writes all input vectors of a bus word at once, as the banks of taps allow",
    unit=Unit.LOAD,
    block=_wide_loads,
    needs="taps",
)

EXTENSION_TABLE: dict[str, Extension] = {
    "post": store_stages.POST,
    "patch": PATCH,
    "depthwise": array_modes.DEPTHWISE,
    "subtract": SUBTRACT,
    "zero_points": array_modes.ZERO_POINTS,
    "table": store_stages.TABLE,
    "broadcast": store_stages.BROADCAST,
    "taps": array_modes.TAPS_EXTENSION,
    "sweep": array_modes.SWEEP,
    "wide_loads": WIDE_LOADS,
    "fold": array_modes.FOLD,
    "rows": store_stages.ROWS,
}
"""All extensions (hardware that VTA does not have), by name."""

EXTENSIONS = tuple(EXTENSION_TABLE)
"""Names of all extensions."""

DEFAULT_EXTENSIONS = tuple(name for name, item in EXTENSION_TABLE.items() if item.default)
"""Names of the extensions that a machine has if none are given and its shape allows them."""


class ByShape(tuple[str, ...]):
    """The extensions that `suited` derived from a machine's shape because none were given; `dataclasses.replace`
    derives them again.
    """

    __slots__ = ()


def suited(config: Config) -> ByShape:
    """The extensions of a machine for which none are given: the default extensions that its shape allows.

    `depthwise` needs block_in = block_out or the extension `taps`, and `taps` needs memories of whole positions of
    input vectors (`array_modes.holds_positions`). If a machine has neither, `depthwise` is left out.
    """
    if config.block_in == config.block_out:
        return ByShape(DEFAULT_EXTENSIONS)
    if holds_positions(config):
        return ByShape((*DEFAULT_EXTENSIONS, "taps"))
    return ByShape(name for name in DEFAULT_EXTENSIONS if name != "depthwise")


def with_what_they_need(extensions: Collection[str]) -> tuple[str, ...]:
    """`extensions` without those that need a missing extension, in the same order."""
    kept = tuple([name for name in extensions if EXTENSION_TABLE[name].needs in (None, *extensions)])
    return kept if len(kept) == len(extensions) else with_what_they_need(kept)


def extensions_of(config: Config) -> Iterator[Extension]:
    """The extensions of `config`, in the order of the table."""
    return (item for name, item in EXTENSION_TABLE.items() if name in config.extensions)


def storage_of(config: Config) -> dict[str, int]:
    """Bytes of storage of the extensions of `config`, by name: first those of default extensions, then
    others by unit.
    """
    rows = sorted(extensions_of(config), key=lambda item: -1 if item.default else item.unit)
    return {name: size for item in rows for name, size in item.storage(config).items()}


def _chain(config: Config) -> Block:
    return Block(
        name="chain memory",
        lanes=config.chain_word_bytes,
        multipliers=0,
        multiplier="none",
        ports="a write of its own for the store unit, a read of its own for the array, beside the inp read",
        storage_bytes=config.extra_storage["chain memory"],
    )


def blocks(config: Config) -> tuple[Block, ...]:
    """The blocks of the data path of `config`: the GEMM array, its extensions and its chain memory (isa/README.md)."""
    array = Block(
        name="gemm array",
        lanes=config.batch * config.columns,
        multipliers=config.multiplies_per_cycle,
        multiplier="int8 x int8",
        ports="inp read, wgt read, acc read and write (one of each a bank)",
    )
    extensions = (
        replace(item.block(config), storage_bytes=sum(item.storage(config).values()))
        for item in extensions_of(config)
    )
    return (array, *extensions, *([_chain(config)] if config.chain_buffer_bytes else []))
