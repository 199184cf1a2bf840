"""Optional hardware of a machine, and the hardware of each part of the data path: lanes, multipliers, ports, storage.

`Config.extensions` lists names from this table. `layout.EXTENSION_OF` gives the extension that an instruction needs,
`alu.ALU_OPERATIONS` that of an ALU operation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .config import Config


TAPS = 4
"""Input vectors, and rows of weights, of one TAPS operation; also the number of banks that hold the input vectors."""

SWEPT = 4
"""Largest number of operations of a sweep whose positions are multiplied together (`Config.swept`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A part of the data path: its lanes, multipliers and memory ports."""

    name: str
    lanes: int
    multipliers: int
    multiplier: str
    ports: str
    storage_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """One extension: its meaning in words, its block of the data path, whether it belongs to machines that name no
    extensions, and the extension that it needs."""

    meaning: str
    block: Callable[[Config], Block]
    default: bool = True
    needs: str | None = None


def _post(config: Config) -> Block:
    lanes, storage = config.batch * config.block_out // config.post_passes, config.extra_storage
    return Block(
        name="post",
        lanes=lanes,
        multipliers=3 * lanes,
        multiplier="float32 (24 x 24): one scales, two combine",
        ports="acc read of a bank in cycles the array leaves it free; the bus for operands",
        storage_bytes=storage["parameter table"] + storage["operand FIFO"],
    )


def _patch(config: Config) -> Block:
    return Block(
        name="patch",
        lanes=config.inp_bytes,
        multipliers=0,
        multiplier="none",
        ports="inp write, shared with ordinary loads",
        storage_bytes=config.extra_storage["patch window"],
    )


def _subtract(config: Config) -> Block:
    return Block(
        name="subtract",
        lanes=config.batch * config.block_out,
        multipliers=0,
        multiplier="none",
        ports="those of the ALU, whose adder it uses",
        storage_bytes=0,
    )


def _depthwise(config: Config) -> Block:
    lanes = config.batch * config.block_out
    return Block(
        name="depthwise",
        lanes=lanes,
        multipliers=0,
        multiplier=f"none of its own: {lanes} of the array's",
        ports="those of the array",
        storage_bytes=0,
    )


def _taps(config: Config) -> Block:
    lanes = config.batch * config.block_out
    memories = "inp and chain memory" if config.chain_buffer_bytes else "inp"
    return Block(
        name="taps",
        lanes=lanes,
        multipliers=0,
        multiplier=f"none of its own: {TAPS * lanes} of the array's",
        ports=f"those of the array; {memories} in {TAPS} banks, each with a read and an address of its own",
        storage_bytes=config.extra_storage["vectors of taps"],
    )


def _sweep(config: Config) -> Block:
    lanes = config.batch * config.block_out
    return Block(
        name="sweep",
        lanes=lanes,
        multipliers=0,
        multiplier=f"none of its own: {config.swept * TAPS * lanes} of the array's",
        ports="those of taps",
        storage_bytes=config.extra_storage["vectors of sweeps"],
    )


def _fold(config: Config) -> Block:
    lanes = config.batch * config.block_out
    return Block(
        name="fold",
        lanes=lanes,
        multipliers=0,
        multiplier=f"none of its own: the array's, in {config.folds} parts of a vector's lanes",
        ports="those of the array; the accumulator read of operations that `overwrite` behind the first input part",
        storage_bytes=0,
    )


def _wide_loads(config: Config) -> Block:
    return Block(
        name="wide_loads",
        lanes=config.inp_step_vectors * config.inp_bytes,
        multipliers=0,
        multiplier="none",
        ports=f"inp write: {config.inp_step_vectors} neighbouring vectors a cycle, each bank at an address of its own",
        storage_bytes=0,
    )


def _zero_points(config: Config) -> Block:
    vectors = TAPS if config.has("taps") else 1
    return Block(
        name="zero_points",
        lanes=vectors * config.inp_bytes + config.wgt_bytes,
        multipliers=0,
        multiplier="none of its own: those of the array take 9 bits x 9 bits",
        ports="those of the array",
        storage_bytes=0,
    )


def _table(config: Config) -> Block:
    lanes = config.batch * config.block_out // config.post_passes
    return Block(
        name="table",
        lanes=lanes,
        multipliers=0,
        multiplier="none",
        ports="a read a lane and pass, each of a copy of its own; one write of a bus word for all copies",
        storage_bytes=config.extra_storage["look-up tables"],
    )


def _broadcast(config: Config) -> Block:
    return Block(
        name="broadcast",
        lanes=config.batch * config.block_out,
        multipliers=0,
        multiplier="none",
        ports="those of the operand FIFO, whose first vector stays for a row",
        storage_bytes=0,
    )


def _rows(config: Config) -> Block:
    lanes = config.block_out // config.post_passes
    return Block(
        name="rows",
        lanes=lanes,
        multipliers=2 * lanes,
        multiplier="9 x 14 and 25 x 17; for all lanes one of 14 x 30, one of 24 x 24, and steps of division and root",
        ports="that of STORE.POST; a table read a lane and pass; entries: a read and a write each a cycle",
        storage_bytes=config.extra_storage["table of rows"] + config.extra_storage["entries of rows"],
    )


def _chain(config: Config) -> Block:
    return Block(
        name="chain memory",
        lanes=config.chain_word_bytes,
        multipliers=0,
        multiplier="none",
        ports="a write of its own for the store unit, a read of its own for the array, beside the inp read",
        storage_bytes=config.extra_storage["chain memory"],
    )


EXTENSION_TABLE: dict[str, Extension] = {
    "post": Extension(meaning="the post-processing store (LOAD.PAR, STORE.POST)", block=_post),
    "patch": Extension(meaning="the load of overlapping patches (LOAD.PATCH)", block=_patch),
    "depthwise": Extension(meaning="the depthwise array mode (DEPTHWISE)", block=_depthwise),
    "subtract": Extension(meaning="the ALU operation SUB", block=_subtract, default=False),
    "zero_points": Extension(
        meaning="zero points that the array takes off inputs and weights (register ZERO)",
        block=_zero_points,
        default=False,
    ),
    "table": Extension(
        meaning="look-up tables in the post-processing store (LOAD.TABLE, STORE.POST with `table`)",
        block=_table,
        default=False,
        needs="post",
    ),
    "broadcast": Extension(
        meaning="operands of STORE.POST with a row stride of their own, and one for a whole row (register OPERAND)",
        block=_broadcast,
        default=False,
        needs="post",
    ),
    "taps": Extension(
        meaning=f"the depthwise array mode of {TAPS} positions at once (TAPS)",
        block=_taps,
        default=False,
        needs="depthwise",
    ),
    "sweep": Extension(
        meaning=f"TAPS of up to {SWEPT} rows of a window at once, all but one held from before (register SWEEP)",
        block=_sweep,
        default=False,
        needs="taps",
    ),
    "wide_loads": Extension(
        meaning="LOAD.INP that writes all input vectors of a bus word at once, as the banks of taps allow",
        block=_wide_loads,
        default=False,
        needs="taps",
    ),
    "fold": Extension(
        meaning="an array with fewer columns than lanes, whose rows work in groups (`folds`, register FOLD)",
        block=_fold,
        default=False,
    ),
    "rows": Extension(
        meaning="statistics of rows, and stores that share out or normalize them (ROWS, STORE.POST with `rows`)",
        block=_rows,
        default=False,
        needs="table",
    ),
}
"""Optional hardware beyond VTA, by name."""

EXTENSIONS = tuple(EXTENSION_TABLE)
"""The names of all extensions."""

DEFAULT_EXTENSIONS = tuple(name for name, item in EXTENSION_TABLE.items() if item.default)
"""Names of the extensions of a machine that names none."""


class ByShape(tuple[str, ...]):
    """Extensions that `suited` derived from a machine's shape, because the configuration names none;
    `dataclasses.replace` derives them again.
    """

    __slots__ = ()


def suited(config: Config) -> ByShape:
    """The extensions of a machine whose configuration names none: the default ones that its shape supports.

    DEPTHWISE needs block_in = block_out, or `taps` beside it; `taps` needs memories that hold whole positions of input
    vectors (`Config.holds_positions`). Where neither is the case, `depthwise` is left out.
    """
    if config.block_in == config.block_out:
        return ByShape(DEFAULT_EXTENSIONS)
    if config.holds_positions:
        return ByShape((*DEFAULT_EXTENSIONS, "taps"))
    return ByShape(name for name in DEFAULT_EXTENSIONS if name != "depthwise")


def with_what_they_need(extensions: Collection[str]) -> tuple[str, ...]:
    """`extensions` without those whose prerequisite extension is missing, in the same order."""
    kept = tuple([name for name in extensions if EXTENSION_TABLE[name].needs in (None, *extensions)])
    return kept if len(kept) == len(extensions) else with_what_they_need(kept)


def blocks(config: Config) -> tuple[Block, ...]:
    """The GEMM array, every extension of `config` and its chain memory, as isa/README.md specifies them."""
    array = Block(
        name="gemm array",
        lanes=config.batch * config.columns,
        multipliers=config.multiplies_per_cycle,
        multiplier="int8 x int8",
        ports="inp read, wgt read, acc read and write (one of each a bank)",
        storage_bytes=0,
    )
    extensions = (item.block(config) for name, item in EXTENSION_TABLE.items() if config.has(name))
    return (array, *extensions, *([_chain(config)] if config.chain_buffer_bytes else []))
