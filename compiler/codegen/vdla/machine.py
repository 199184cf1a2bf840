"""Machine operations: instructions before encoding, with the memory each one touches.

Emission produces batches of them, which know where in the program their instructions stand; the token pass orders
them across units; encoding turns them into words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from functools import lru_cache

from vdla.isa import layout
from vdla.isa.config import Config
from vdla.isa.errors import ConfigError
from vdla.isa.layout import Unit

from ...ir.quick_init import quick_init
from .columns import Column, Rows

DRAM = "dram"
"""The space of activation memory. Constants in DRAM are never written, so nothing orders their reads."""


def scratchpad_depths(config: Config) -> dict[str, int]:
    """Elements of each memory on the chip that tokens order, by scope.

    Micro-ops are none of them: they are loaded and used by one unit, in order.
    """
    return {
        "inp": config.inp_depth,
        "wgt": config.whole_tiles,
        "acc": config.acc_depth,
        "par": config.par_depth,
    }


UNSEEN = (
    "name",
    "command_queue_depth",
    "token_queue_depth",
    "fetch_buffer_depth",
    "load_fifo_bytes",
    "compute_fifo_bytes",
    "operand_fifo_bytes",
    "store_fifo_bytes",
    "post_lanes",
    "multiplier_stages",
    "clock_mhz",
    "memory",
)
"""The fields of a machine that no kernel depends on, its point of the space being given; they change cycles alone."""


@lru_cache(maxsize=64)
def seen_by_kernels(config: Config) -> Config:
    """A machine like `config` in all that kernels are lowered and emitted for, and of no difference in UNSEEN.

    Lowering and emission are handed this machine and no other, so that what they make serves all that look like it.
    """
    plain = {
        field.name: field.default_factory() if field.default is MISSING else field.default  # type: ignore[misc]
        for field in fields(Config)
        if field.name in UNSEEN
    }
    try:
        return replace(config, **plain)
    except ConfigError:
        return config


@quick_init
@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of one memory an instruction; empty where `low` is not below `high`.

    Units are the memory's own (scratchpads: vectors, tiles or entries; DRAM: granules of activation memory).
    """

    space: str
    low: Column
    high: Column


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """Instructions of one format: their places in the program, ascending, fields without dependence flags, and
    what they read and write. `group` is their layer's number.
    """

    name: str
    numbers: Rows
    fields: Mapping[str, Column]
    reads: tuple[Span, ...] = ()
    writes: tuple[Span, ...] = ()
    group: int = 0

    @property
    def unit(self) -> Unit:
        """The unit that executes them."""
        unit = self.fields.get("unit")
        return layout.unit_of(self.name, {"unit": unit} if isinstance(unit, int) else {})
