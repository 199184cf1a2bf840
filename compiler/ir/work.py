"""Amount of work of a program, independent of the machine."""

from __future__ import annotations

from .bounds import Ranges, interval, loop_range
from .stmt import Assign, Copy, For, Intrinsic, Node, Reduce
from .visit import children


def statement_runs(node: Node) -> int:
    """Number of executions of the statements that write; loops whose extent depends on outer loops count with their
    greatest extent.

    A copy or an intrinsic counts once, regardless of its size. Raises ValueError for an extent without a known bound.
    """
    return _runs(node, {})


def _runs(node: Node, ranges: Ranges) -> int:
    match node:
        case For(var=var, extent=extent, body=body):
            most = interval(extent, ranges).high
            if most is None:
                raise ValueError(f"the number of iterations of loop {var.name} has no known bound")
            return max(0, most) * _runs(body, {**ranges, var.name: loop_range(extent)})
        case Assign() | Reduce() | Copy() | Intrinsic():
            return 1
    return sum(_runs(child, ranges) for child in children(node))
