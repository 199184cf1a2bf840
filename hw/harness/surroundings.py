"""Conditions of a run that must not change its result: the memory's address, the counters' start, the use of control
registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from vdla.util.errors import UserError

from ..counters import COUNTER_BITS
from ..interfaces import ADDRESS_BITS
from .library import PLACES

_PAGE: Final = 4096


class SurroundingsError(UserError):
    """An address, a preset or a seed that a run cannot start from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The surroundings of one run.

    The memory's bytes appear at address `base` (the register BASE) plus each of `origins`, all multiples of 4096; the
    program's instructions are read at the first of them, and instructions may use any. `counts`: initial values of the
    performance counters, in the order of COUNTERS, and of CYCLES; the harness adds them to the registers after the run
    has cleared them, and subtracts them from the values read, modulo 2^COUNTER_BITS; empty for zeros. `manners` seeds
    hesitations on the control bus, 0 for none. Raises SurroundingsError.
    """

    base: int = 0
    origins: tuple[int, ...] = (0,)
    counts: tuple[int, ...] = ()
    manners: int = 0

    def __post_init__(self) -> None:
        if not 1 <= len(self.origins) <= PLACES:
            raise SurroundingsError(f"memory shows at {len(self.origins)} places; 1 to {PLACES} are possible")
        for address in (self.base, *self.origins):
            if address % _PAGE or not 0 <= address < 1 << ADDRESS_BITS:
                raise SurroundingsError(
                    f"address {address:#x} is no multiple of {_PAGE} below 2^{ADDRESS_BITS}; choose another"
                )
        if any(not 0 <= count < 1 << COUNTER_BITS for count in self.counts):
            raise SurroundingsError(f"a counter holds 0 to 2^{COUNTER_BITS} - 1, not {self.counts}")
        if not 0 <= self.manners < 1 << 64:
            raise SurroundingsError(f"manners = {self.manners}: a seed has 64 bits")


PLAIN: Final = Surroundings()
"""Memory at address 0, counters from 0, a control bus without pauses."""
