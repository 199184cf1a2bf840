"""The default knobs of a sketch (rule-generated schedule), from the program and the target's sizes alone."""

from __future__ import annotations

from ..loops import VECTORS
from .convolution import convolution_values, roles_of
from .other_sums import other_values
from .sketch import Sketches, candidates
from .stages import Axle, Sum


def default_values(sketches: Sketches) -> dict[str, int]:
    """The default setting of the knobs of `cost.sketch_space`: `convolution.py` chooses the knobs of convolutions
    (`roles_of`), `other_sums.py` the knobs of other sums; all other knobs have their first value.

    Vectors run along the innermost loop of the main sum's consumer (the nest that reads the sum).
    """
    values = {axis.name: axis.values[0] for axis in sketches.axes}
    known = frozenset(values)
    values |= {"nest.vectors": VECTORS}
    if (summed := sketches.main) is not None:
        lane, positions = candidates(summed)[0], _positions(summed)
        roles = None if lane in positions else roles_of(sketches, summed, lane, positions)
        if roles is not None:
            values |= convolution_values(sketches, summed, roles)
        else:
            values |= other_values(sketches, summed, lane, positions)
    return {name: value for name, value in values.items() if name in known}


def _positions(summed: Sum) -> list[Axle]:
    """The loops over the output positions of a windowed sum (convolution or pool), which index the same dimension as a
    reduction loop. Empty for other sums.
    """
    terms = {term.name for term in summed.terms}
    read = [{name for name, _ in steps} for read in summed.reads for steps in read.steps]
    moved = {name for names in read if names & terms for name in names - terms}
    return [axle for axle in summed.axles if axle.inner in moved]
