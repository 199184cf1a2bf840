"""Machine operations: instructions before encoding, with the memory that each reads and writes.

Emission produces batches of instructions with their numbers in the program; the token pass orders them across units;
encoding turns them into words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from functools import lru_cache

import vdla.isa.layout as layout
from vdla.isa.config import Config
from vdla.isa.errors import ConfigError
from vdla.isa.layout import Unit
from vdla.isa.parameters import declared

from ...ir.quick_init import quick_init
from .columns import Column, Rows

DRAM = "dram"
"""Name of DRAM as a memory whose accesses are recorded in spans (ranges that an instruction reads or writes). Only
activations in DRAM have spans. Constants are never written, so their reads need no order.
"""


def scratchpad_depths(config: Config) -> dict[str, int]:
    """Number of elements, by scope, of each on-chip memory whose accesses tokens order.

    Micro-op memory is not among them: one unit loads and uses it, in order.
    """
    return {
        "inp": config.inp_depth,
        "wgt": config.whole_tiles,
        "acc": config.acc_depth,
        "par": config.par_depth,
    }


def array_depths(config: Config) -> dict[str, int]:
    """Number of elements of each on-chip memory by scope, as in `scratchpad_depths`. "inp" includes the chain memory
    (on-chip memory between layers), whose addresses follow those of the input scratchpad, if the machine has it.
    """
    depths = scratchpad_depths(config)
    return depths | ({"inp": config.chain_base + config.chain_depth} if config.chain_depth else {})


TIMING_FIELDS = ("name", "memory", *(name for name, _, item in declared(Config) if item.timing))
"""Configuration fields that influence cycles but never the instructions of a kernel with given knobs."""


@lru_cache(maxsize=64)
def kernel_fields(config: Config) -> Config:
    """The machine `config` with TIMING_FIELDS at their defaults; `config` itself if the result would be illegal.

    Lowering and emission use only this machine, so that cached results are valid for all machines that differ in
    TIMING_FIELDS.
    """
    plain = {
        field.name: field.default_factory() if field.default is MISSING else field.default  # type: ignore[misc]
        for field in fields(Config)
        if field.name in TIMING_FIELDS
    }
    try:
        return replace(config, **plain)
    except ConfigError:
        return config


@quick_init
@dataclass(frozen=True, slots=True)
class Span:
    """The ranges of memory `space` that many instructions access. Each instruction accesses the addresses from `low` to
    `high` - 1, or nothing if `low` is not below `high`.

    Addresses in scratchpads count vectors, tiles or entries. Addresses in DRAM count units of `Emission.granule` bytes.
    """

    space: str
    low: Column
    high: Column


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """Instructions of one format: their `numbers` in the program, ascending, their fields without dependence flags, and
    the spans (memory ranges) that they read and write.

    `group`: number of their layer.
    """

    name: str
    numbers: Rows
    fields: Mapping[str, Column]
    reads: tuple[Span, ...] = ()
    writes: tuple[Span, ...] = ()
    group: int = 0

    @property
    def unit(self) -> Unit:
        """The unit that executes the instructions."""
        unit = self.fields.get("unit")
        return layout.unit_of(self.name, {"unit": unit} if isinstance(unit, int) else {})
