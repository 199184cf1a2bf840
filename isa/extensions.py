"""The table of extensions, a machine's optional hardware, and the checks of machines that have them.

`Config.extensions` lists names of this table. `layout.EXTENSION_OF` has the extension that an instruction needs,
`alu.ALU_OPERATIONS` the extension that an ALU operation needs, `data_path.py` the lanes, multipliers and storage
of each extension.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .alu import operations_of
from .array_modes import LEAST_COLUMNS, SWEPT, TAPS
from .errors import ConfigError
from .opcodes import Unit

if TYPE_CHECKING:
    from .config import Config


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """One extension. `meaning`: description. `unit`: the unit that it belongs to. `default`: whether a machine has it
    if its configuration gives no extensions. `needs`: another extension that it needs, or None.

    `check` raises ConfigError if the machine's shape or fields do not allow the extension; it runs before the sizes of
    memories are checked. `check_memories` raises ConfigError if the memories do not allow it. None: there is no check.
    """

    meaning: str
    unit: Unit
    default: bool = False
    needs: str | None = None
    check: Callable[[Config], None] | None = None
    check_memories: Callable[[Config], None] | None = None


def _check_depthwise(config: Config) -> None:
    if config.block_in != config.block_out and not config.has("taps"):
        raise ConfigError(
            f"extensions: depthwise needs block_in = block_out (here {config.block_in} and {config.block_out}) "
            "or the extension taps; add 'taps' to `extensions`, or leave 'depthwise' out"
        )


def _position_memories(config: Config) -> dict[str, int]:
    """Sizes in bytes of the memories of input vectors, by name: inp, and chain if there is a chain memory (on-chip
    buffer between layers).
    """
    return {
        name: value
        for name, value in (("inp", config.inp_buffer_bytes), ("chain", config.chain_buffer_bytes))
        if name == "inp" or value
    }


def holds_positions(config: Config) -> bool:
    """Whether input scratchpad and chain memory (on-chip buffer between layers) each hold a whole number of positions,
    at least two in each bank. A position is the input vectors that instruction TAPS reads for one pixel.
    """
    size = config.inp_bytes * config.position_inputs
    return all(
        isinstance(value, int) and value >= 2 * TAPS * size and value % size == 0
        for value in _position_memories(config).values()
    )


def _check_taps(config: Config) -> None:
    """Raises ConfigError unless each memory of input vectors holds a whole number of positions, at least two in each
    bank. A position is the input vectors that instruction TAPS reads for one pixel.
    """
    size = config.inp_bytes * config.position_inputs
    for name, value in _position_memories(config).items():
        if value < 2 * TAPS * size:
            raise ConfigError(
                f"{name}_buffer_bytes = {value}: taps needs at least {2 * TAPS} positions of {size} bytes there; "
                f"use {2 * TAPS * size}, or leave 'taps' out of `extensions`"
            )
        if value % size:
            raise ConfigError(
                f"{name}_buffer_bytes = {value}: taps needs a multiple of {size}, the bytes of a position; "
                f"use {value // size * size}, or leave 'taps' out of `extensions`"
            )


def _check_fold(config: Config) -> None:
    if config.block_in != config.block_out:
        way_out = "make them equal"
        if config.block_in > config.block_out:
            way_out = (
                f"for a folding array of {config.block_in}x{config.block_out} multipliers use block_out = "
                f"{config.block_in} and folds = {config.block_in // config.block_out}"
            )
        raise ConfigError(
            f"extensions: fold needs block_in = block_out, here {config.block_in} and {config.block_out}; {way_out}, "
            "or leave 'fold' out of `extensions`"
        )
    most = config.block_out // LEAST_COLUMNS
    if config.folds > most:
        way_out = f"use at most {most}" if most > 1 else "leave 'fold' out of `extensions`"
        raise ConfigError(
            f"folds = {config.folds}: leaves fewer than {LEAST_COLUMNS} of the {config.block_out} columns; {way_out}"
        )


def _check_tiles(config: Config) -> None:
    """Raises ConfigError unless the weight scratchpad holds a whole weight tile (all parts with extension `fold`)."""
    if config.wgt_depth < config.tile_parts:
        raise ConfigError(
            f"wgt_buffer_bytes = {config.wgt_buffer_bytes}: with folds = {config.folds} it must hold at least "
            f"{config.tile_parts} tiles of {config.wgt_bytes} bytes, one for each part of a vector's lanes and inputs; "
            f"use {config.whole_tile_bytes}, or leave 'fold' out of `extensions`"
        )


def _check_rows(config: Config) -> None:
    if config.batch != 1:
        raise ConfigError(
            f"extensions: rows needs batch = 1, here {config.batch}, so that each vector belongs to one row; "
            "leave 'rows' out of `extensions`"
        )


EXTENSION_TABLE: dict[str, Extension] = {
    "post": Extension(
        meaning="the post-processing store (LOAD.PAR, STORE.POST)", unit=Unit.STORE, default=True
    ),
    "patch": Extension(meaning="the load of overlapping patches (LOAD.PATCH)", unit=Unit.LOAD, default=True),
    "depthwise": Extension(
        meaning="the depthwise array mode (DEPTHWISE)",
        unit=Unit.COMPUTE,
        default=True,
        check=_check_depthwise,
    ),
    "subtract": Extension(meaning=operations_of("subtract"), unit=Unit.COMPUTE),
    "zero_points": Extension(
        meaning="zero points that the array takes off inputs and weights (register ZERO)", unit=Unit.COMPUTE
    ),
    "table": Extension(
        meaning="look-up tables in the post-processing store (LOAD.TABLE, STORE.POST with `table`)",
        unit=Unit.STORE,
        needs="post",
    ),
    "broadcast": Extension(
        meaning="operands of STORE.POST with a row stride of their own, and one for a whole row (register OPERAND)",
        unit=Unit.STORE,
        needs="post",
    ),
    "taps": Extension(
        meaning=f"the depthwise array mode of {TAPS} positions at once (TAPS)",
        unit=Unit.COMPUTE,
        needs="depthwise",
        check_memories=_check_taps,
    ),
    "sweep": Extension(
        meaning=f"TAPS of up to {SWEPT} rows of a window at once, all but one held from before (register SWEEP)",
        unit=Unit.COMPUTE,
        needs="taps",
    ),
    "wide_loads": Extension(
        meaning="LOAD.INP that writes all input vectors of a bus word at once, as the banks of taps allow",
        unit=Unit.LOAD,
        needs="taps",
    ),
    "fold": Extension(
        meaning="an array with fewer columns than lanes, whose rows work in groups (`folds`, register FOLD)",
        unit=Unit.COMPUTE,
        check=_check_fold,
        check_memories=_check_tiles,
    ),
    "rows": Extension(
        meaning="statistics of rows, and stores that share out or normalize them (ROWS, STORE.POST with `rows`)",
        unit=Unit.STORE,
        needs="table",
        check=_check_rows,
    ),
}
"""All extensions (hardware that VTA does not have), by name."""

EXTENSIONS = tuple(EXTENSION_TABLE)
"""Names of all extensions."""

DEFAULT_EXTENSIONS = tuple([name for name, item in EXTENSION_TABLE.items() if item.default])
"""Names of the extensions of a machine whose configuration gives none, as far as the machine's shape allows them."""


class ByShape(tuple[str, ...]):
    """Extension names chosen by `suited`; `dataclasses.replace` of the machine makes `suited` choose again."""

    __slots__ = ()


def suited(config: Config) -> ByShape:
    """The extensions of a machine for which the user gives none: the default extensions that the machine's shape
    allows.

    If block_in differs from block_out, the default extension `depthwise` needs the extension `taps`: `taps` is added if
    the memories of input vectors are large enough for it (`holds_positions`), otherwise `depthwise` is left out.
    """
    if config.block_in == config.block_out:
        return ByShape(DEFAULT_EXTENSIONS)
    if holds_positions(config):
        return ByShape((*DEFAULT_EXTENSIONS, "taps"))
    return ByShape(name for name in DEFAULT_EXTENSIONS if name != "depthwise")


def with_what_they_need(extensions: Collection[str]) -> tuple[str, ...]:
    """Returns `extensions` without those whose required extension is missing or left out; the rest keep their order."""
    kept = tuple([name for name in extensions if EXTENSION_TABLE[name].needs in (None, *extensions)])
    return kept if len(kept) == len(extensions) else with_what_they_need(kept)


def extensions_of(config: Config) -> Iterator[Extension]:
    """The extensions of `config`, in the order of the table."""
    return (item for name, item in EXTENSION_TABLE.items() if name in config.extensions)
