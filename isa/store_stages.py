"""The table of the stages of STORE.POST's pipeline, and the extensions of the store unit.

Timing, RTL and area models use the table; isa/arithmetic.py and isa/rows.py have the arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .data_path import Block, Extension
from .errors import ConfigError
from .opcodes import Unit
from .rows import FACTOR_BITS, PLANES, SHIFT_BITS, SUM_BITS, VALUE_BITS

if TYPE_CHECKING:
    from .config import Config

ROW_BITS = VALUE_BITS + FACTOR_BITS + SHIFT_BITS + SUM_BITS + 4
"""Bits of storage for the statistics of a row (ROWS): value, factor, shift and partial sum, rounded up to
whole bytes.
"""

TABLE_BYTES = 256
"""Bytes of a look-up table: an int8 for each int8 value."""

ROW_CYCLES = 11
"""Cycles that the extension `rows` adds between a window's reduction and its bias: difference 1, table or product 2,
choice 1, product 3, shift 2, rounding 1, bias 1."""

TABLE_CYCLES = 2
"""Cycles of a table look-up: one to read a word of the table, one to select its byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStage:
    """A stage of the pipeline, through which every vector of a STORE.POST passes, and its number of cycles.

    `extension`: on machines with this optional hardware all stores have the stage, whether they use it or not; None if
    all machines have it.
    """

    name: str
    cycles: int
    extension: str | None = None


STORE_STAGES = (
    StoreStage(name="read", cycles=2),
    StoreStage(name="reduce", cycles=1),
    StoreStage(name="rows", cycles=ROW_CYCLES, extension="rows"),
    StoreStage(name="bias", cycles=1),
    # Cycles: int32 to float32 5, multiply 4, round 2, align 2, round to an integer and clamp 3.
    StoreStage(name="requantize", cycles=16),
    StoreStage(name="table", cycles=TABLE_CYCLES, extension="table"),
    # Cycles: differences 2, product 4, first sum 2, normalize 4, round 2, align 4, second sum 1, round to float32 and
    # to an integer 5, clamp 2, and 1 more that the product of combine_multiply needs.
    StoreStage(name="combine", cycles=27),
)
"""All stages, in the order in which a vector goes through them."""


def stages_of(config: Config) -> tuple[StoreStage, ...]:
    """The stages in the pipeline of `config`, which has the extension `post`, in order."""
    return tuple([item for item in STORE_STAGES if item.extension is None or config.has(item.extension)])


def stage_cycles(config: Config, name: str) -> int:
    """Cycles of the stage named `name`; 0 on a machine without this stage."""
    return sum(item.cycles for item in stages_of(config) if item.name == name)


def cycles_before(config: Config, name: str) -> int:
    """Cycles from a vector's last accumulator read to the start of the stage named `name`, which must exist."""
    stages = stages_of(config)
    place = [item.name for item in stages].index(name)
    return sum(item.cycles for item in stages[:place])


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreParts:
    """The optional parts of a machine's store unit: extensions, by their names, and the chain memory."""

    post: bool
    table: bool
    broadcast: bool
    rows: bool
    chain: bool

    @staticmethod
    def of(config: Config) -> StoreParts:
        """The optional parts of the store unit of `config`."""
        extensions = {name: config.has(name) for name in ("post", "table", "broadcast", "rows")}
        return StoreParts(**extensions, chain=config.chain_buffer_bytes > 0)


# --- extensions of the store unit -----------------------------------------------------------------------


def _post(config: Config) -> Block:
    lanes = config.batch * config.block_out // config.post_passes
    return Block(
        name="post",
        lanes=lanes,
        multipliers=3 * lanes,
        multiplier="float32 (24 x 24): one scales, two combine",
        ports="acc read of a bank in cycles the array leaves it free; the bus for operands",
    )


def _post_storage(config: Config) -> dict[str, int]:
    return {"parameter table": config.par_buffer_bytes, "operand FIFO": config.fifo_bytes("operand")}


POST = Extension(
    meaning="the post-processing store (LOAD.PAR, STORE.POST)",
    unit=Unit.STORE,
    block=_post,
    default=True,
    storage=_post_storage,
)


def _table(config: Config) -> Block:
    lanes = config.batch * config.block_out // config.post_passes
    return Block(
        name="table",
        lanes=lanes,
        multipliers=0,
        multiplier="none",
        ports="a read a lane and pass, each of a copy of its own; one write of a bus word for all copies",
    )


def _table_storage(config: Config) -> dict[str, int]:
    """Bytes of the look-up tables, by name: each lane has a copy, because lanes read different entries in the same
    cycle.
    """
    return {"look-up tables": config.tables * TABLE_BYTES * config.out_bytes // config.post_passes}


TABLE = Extension(
    meaning="look-up tables in the post-processing store (LOAD.TABLE, STORE.POST with `table`)",
    unit=Unit.STORE,
    block=_table,
    needs="post",
    storage=_table_storage,
)


def _broadcast(config: Config) -> Block:
    return Block(
        name="broadcast",
        lanes=config.batch * config.block_out,
        multipliers=0,
        multiplier="none",
        ports="those of the operand FIFO, whose first vector stays for a row",
    )


BROADCAST = Extension(
    meaning="operands of STORE.POST with a row stride of their own, and one for a whole row (register OPERAND)",
    unit=Unit.STORE,
    block=_broadcast,
    needs="post",
)


def _rows(config: Config) -> Block:
    lanes = config.block_out // config.post_passes
    return Block(
        name="rows",
        lanes=lanes,
        multipliers=2 * lanes,
        multiplier="9 x 14 and 25 x 17; for all lanes one of 14 x 30, one of 24 x 24, and steps of division and root",
        ports="that of STORE.POST; a table read a lane and pass; entries: a read and a write each a cycle",
    )


def _rows_storage(config: Config) -> dict[str, int]:
    """Bytes of the table for ROWS, of which each lane has a copy, and of the entries of rows (ROW_BITS each)."""
    return {
        "table of rows": PLANES * TABLE_BYTES * config.block_out // config.post_passes,
        "entries of rows": config.row_entries * ROW_BITS // 8,
    }


def _check_rows(config: Config) -> None:
    if config.batch != 1:
        raise ConfigError(
            f"extensions: rows needs batch = 1, here {config.batch}: a vector is of one row; leave 'rows' out of "
            "`extensions`"
        )


ROWS = Extension(
    meaning="statistics of rows, and stores that share out or normalize them (ROWS, STORE.POST with `rows`)",
    unit=Unit.STORE,
    block=_rows,
    needs="table",
    storage=_rows_storage,
    check=_check_rows,
)
