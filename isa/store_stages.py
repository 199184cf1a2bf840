"""The table of the stages of STORE.POST's pipeline.

Timing, RTL and area models use the table; isa/arithmetic.py and isa/rows.py have the arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .config import Config


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
    """The optional parts of a machine's store unit: extensions, by their names, and the chain memory (on-chip buffer
    between layers).
    """

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
