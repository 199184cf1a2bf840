"""The loops of a convolution by role: positions, filters, the filters of a vector."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ....codegen.cpu.intrinsics import DOT_DEPTH
from .dots import dot_loop
from .sketch import Sketches
from .stages import Axle, Read, Sum


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """The loops of a convolution's consumer (the nest that reads the sum), by role.

    `lane`: the vectorized loop, over the filters of a block. `filters`: the loop over blocks of filters. `positions`:
    at most two loops over output positions, or the loop over samples if an output has a single position. `outer`: all
    other loops. `weights`, `data`: the reads of the weights and of the input. `steps`: multiplications of a vector
    that add up to a sum.
    """

    lane: Axle
    filters: Axle | None
    positions: tuple[Axle, ...]
    outer: tuple[Axle, ...]
    weights: Read
    data: Read
    steps: int

    @property
    def matrix(self) -> tuple[Axle | None, Axle | None]:
        """The loops over rows and over columns of output positions; None for a loop that does not exist."""
        rows, columns = [None, None, *self.positions][-2:]
        return rows, columns

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Numbers of rows, of columns and of blocks of filters."""
        rows, columns, filters = [1 if a is None else a.size for a in (*self.matrix, self.filters)]
        return rows, columns, filters

    def split(self, sketches: Sketches, summed: Sum) -> int:
        """Number of vectors of a block of filters."""
        return -(-self.lane.size // sketches.lanes(summed.bits))


def roles_of(sketches: Sketches, summed: Sum, lane: Axle, positions: list[Axle]) -> Roles | None:
    """The roles of a sum's loops if the sum is a convolution, of which one factor alone, the weights, depends on the
    vectorized loop `lane`; None for other sums. `positions`: the loops over output positions.
    """
    wide = [read for read in summed.reads if lane.inner in read.loops()]
    narrow = [read for read in summed.reads if lane.inner not in read.loops()]
    if len(wide) != 1 or len(narrow) != 1:
        return None
    of_weights, of_data = wide[0].loops(), narrow[0].loops()
    filters = [a for a in summed.axles if a is not lane and a.inner in of_weights - of_data]
    moved = [a for a in positions or summed.axles if a.inner in of_data - of_weights][-2:]
    if not positions and not (filters and wide[0].buffer in sketches.constants):
        return None
    dots = dot_loop(sketches.target, summed, lane)
    inside = [lane, *filters[-1:], *moved]
    return Roles(
        lane=lane,
        filters=filters[-1] if filters else None,
        positions=tuple(moved),
        outer=tuple([a for a in summed.axles if a not in inside]),
        weights=wide[0],
        data=narrow[0],
        steps=prod(term.size for term in summed.terms) // (DOT_DEPTH if dots else 1),
    )
