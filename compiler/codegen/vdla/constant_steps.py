"""Loops that an instruction can count: in each iteration of such a loop, addresses move by one constant step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from .columns import Column, Environment

if TYPE_CHECKING:
    from .columns import Access, Iterations
    from .emit import Chain


class Addresses(Protocol):
    """The addresses of one operand of an array operation, as `columns.Access` computes them. Modes of the array may
    order the rows of their weights in another way and compute these addresses by a class of their own.
    """

    def base(self, environment: Environment) -> Column:
        """The first address of the buffer copy (double buffering) that each iteration uses."""
        ...

    def offset(self, environment: Environment) -> Column:
        """For each iteration, the distance of the operand's address from `base`."""
        ...

    def slope(self, loop: str) -> int | None:
        """Distance of the addresses in two consecutive iterations of `loop`; None if the distance may vary."""
        ...


def with_constant_steps(
    chain: Chain, accesses: Sequence[Access], around: Iterations
) -> tuple[Chain, Iterations]:
    """Moves outer loops of `chain` to the iterations `around` until each address in `accesses` moves by constant steps
    along each loop of the chain; moves as few loops as possible. A fused loop `i` with indices i // 3 and i % 3 is an
    example of a loop whose steps are not constant. Steps may differ between iterations of `around`.
    """
    while not all(
        _is_constant(access, chain, i, around) for access in accesses for i in range(len(chain.loops))
    ):
        (name, extent), *_ = chain.loops
        around = around.expanded(name, extent(around.values), chain.positions[0])
        chain = replace(chain, loops=chain.loops[1:], positions=chain.positions[1:])
    return chain, around


def _is_constant(access: Access, chain: Chain, i: int, around: Iterations) -> bool:
    """Whether the address `access` moves by one constant step along loop number `i` (0: outermost) of `chain`. The step
    must be equal in all iterations of the chain's loops, but may differ between iterations of `around`.
    """
    name, extent = chain.loops[i]
    if access.slope(name) is not None:
        return True
    values = beside(access, chain, name, around)
    step = access.step({**values, **dict.fromkeys(chain.names, 0)}, name)
    count = extent(values)
    for k in range(1, int(np.max(count, initial=0))):
        moved = access.offset({**values, name: k}) - access.offset({**values, name: k - 1})
        if np.any((moved != step) & (k < count)):
            return False
    return True


def beside(access: Addresses, chain: Chain, name: str, around: Iterations) -> Environment:
    """The values of the loops in the iterations that determine the steps of the address `access` along the chain's loop
    `name`. These are all iterations of `around` and of those loops of `chain` that may change the steps. The loop
    `name` and loops of constant steps are at 0.
    """
    constant = [loop for loop in chain.names if loop == name or access.slope(loop) is not None]
    return chain.iterations(around, frozenset(constant)).values
