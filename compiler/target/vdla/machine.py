"""Machine operations: instructions before encoding, with the memory each one touches.

Emission produces a list of them in program order; the token pass orders them across units; encoding turns
them into words. A span is (space, low, high): a half-open range of one memory, in the memory's own unit
(scratchpads: vectors, tiles or entries; DRAM: granules of activation memory, see `DramSpace`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from vdla.isa import layout
from vdla.isa.config import Config
from vdla.isa.layout import Unit

Span: TypeAlias = tuple[str, int, int]

DRAM = "dram"
"""The space of activation memory. Constants in DRAM are never written, so nothing orders their reads."""


def scratchpad_depths(config: Config) -> dict[str, int]:
    """Elements of each memory on the chip that tokens order, by scope.

    Micro-ops are none of them: they are loaded and used by one unit, in order.
    """
    return {
        "inp": config.inp_depth,
        "wgt": config.wgt_depth,
        "acc": config.acc_depth,
        "par": config.par_depth,
    }


@dataclass(frozen=True, slots=True)
class MachineOp:
    """One instruction: format name, fields without dependence flags, what it reads and writes, its layer."""

    name: str
    fields: Mapping[str, int]
    reads: tuple[Span, ...] = ()
    writes: tuple[Span, ...] = ()
    group: int = 0

    @property
    def unit(self) -> Unit:
        """The unit that executes it."""
        return layout.unit_of(self.name, self.fields)
