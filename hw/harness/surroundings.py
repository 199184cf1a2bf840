"""Conditions of a run that must not change its result: addresses of memory, initial counters, pauses on the control
bus, the oracle of a DRAM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from vdla.util.errors import UserError

from ..counters import COUNTER_BITS
from ..interfaces import ADDRESS_BITS
from .dram.oracle import Oracle
from .library import PLACES

_PAGE: Final = 4096


class SurroundingsError(UserError):
    """Raised if an address, an initial counter value or a seed is out of range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Conditions of one run that do not depend on the program. Raises SurroundingsError for a value out of range.

    `base`: value of register BASE. `origins`: one or more offsets; the memory appears at address `base` + offset for
    each of them. The fetch unit uses the first of these addresses, and instructions may access all. `base` and the
    offsets are multiples of 4096.

    `counts`: initial values, one for each performance counter in the order of COUNTERS, then that of CYCLES; empty for
    zeros. The harness adds them after the launch has cleared the counters, and subtracts them from the results, modulo
    2^COUNTER_BITS. So a run can test the overflow of the counters. `manners`: seed of random pauses and byte-wise
    accesses on the control bus; 0 for neither. `dram`: for a machine with a DRAM, the oracle that is its memory
    (`dram.oracle.choose_oracle`); None for LiteDRAM's RTL if it is installed and has a model of the part.
    """

    base: int = 0
    origins: tuple[int, ...] = (0,)
    counts: tuple[int, ...] = ()
    manners: int = 0
    dram: Oracle | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.origins) <= PLACES:
            raise SurroundingsError(f"origins has {len(self.origins)} addresses; give 1 to {PLACES}")
        for address in (self.base, *self.origins):
            if address % _PAGE or not 0 <= address < 1 << ADDRESS_BITS:
                raise SurroundingsError(
                    f"address {address:#x} must be a multiple of {_PAGE} below 2^{ADDRESS_BITS}; choose another"
                )
        if any(not 0 <= count < 1 << COUNTER_BITS for count in self.counts):
            raise SurroundingsError(f"counts = {self.counts}: a counter holds 0 to 2^{COUNTER_BITS} - 1")
        if not 0 <= self.manners < 1 << 64:
            raise SurroundingsError(f"manners = {self.manners}: give a seed from 0 to 2^64 - 1")


PLAIN: Final = Surroundings()
"""The default conditions: memory at address 0, counters from 0, no pauses on the control bus."""
