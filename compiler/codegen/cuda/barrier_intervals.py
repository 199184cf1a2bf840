"""Cuts a block's body at its barriers into pieces, which are emulated one after the other.

A loop that contains barriers forms one piece with the statements before and after it: the end of an iteration and the
beginning of the next iteration are between the same barriers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import gcd

import numpy as np

from ...ir.expr import Const, Expr, Var
from ...ir.kernels import is_thread_loop
from ...ir.stmt import Barrier, For, Seq, Stmt
from ...ir.visit import walk


@dataclass(slots=True)
class BarrierInterval:
    """Statements between two barriers, in program order. Each thread executes all of them by itself."""

    items: list[Stmt] = field(default_factory=list)


@dataclass(slots=True)
class Rotated:
    """A loop whose body has barriers, all of them outside of inner loops. `parts`: the body's statements, split at the
    barriers. `before`: statements from the preceding barrier to the loop. `behind`: statements from the loop to the
    next barrier.
    """

    loop: For
    before: list[Stmt]
    parts: list[list[Stmt]]
    behind: list[Stmt] = field(default_factory=list)


@dataclass(slots=True)
class Nested:
    """A loop with barriers whose body contains further loops with barriers. `pieces`: the body, cut at its barriers."""

    loop: For
    pieces: list[Piece]


Piece = BarrierInterval | Rotated | Nested


class Cut:
    """Visits a block's body and cuts it at its barriers into pieces, which are emulated one after the other."""

    def __init__(self) -> None:
        interval = BarrierInterval()
        self.pieces: list[Piece] = [interval]
        self.open = interval.items

    def barrier(self) -> None:
        """Ends the current interval (the statements between two barriers) and begins the next one."""
        interval = BarrierInterval()
        self.pieces.append(interval)
        self.open = interval.items

    def visit(self, node: Stmt) -> None:
        """Cuts a statement, which all threads of the block run together, at its barriers; appends it to `pieces`."""
        match node:
            case Seq(statements=statements):
                for inner in statements:
                    self.visit(inner)
            case Barrier():
                self.barrier()
            case For() if not is_thread_loop(node) and _has_barrier(node):
                parts = _parts(node.body)
                if parts is None:
                    inner = Cut()
                    inner.visit(node.body)
                    self.pieces.append(Nested(node, inner.pieces))
                    self.barrier()
                    return
                before: list[Stmt] = []
                if isinstance(last := self.pieces[-1], BarrierInterval):
                    before = last.items
                    self.pieces.pop()
                piece = Rotated(node, before, parts)
                self.pieces.append(piece)
                self.open = piece.behind
            case _:
                self.open.append(node)


def _has_barrier(node: Stmt) -> bool:
    return any(isinstance(n, Barrier) for n in walk(node))


def _parts(body: Stmt) -> list[list[Stmt]] | None:
    """The statements of a loop's body between its barriers; None if inner loops contain barriers."""
    parts: list[list[Stmt]] = [[]]
    for item in body.statements if isinstance(body, Seq) else (body,):
        if isinstance(item, Barrier):
            parts.append([])
        elif _has_barrier(item):
            return None
        else:
            parts[-1].append(item)
    return parts


Order = Callable[[Var, int], Expr]
"""An order in which threads are emulated. The function takes a position variable and the number of threads, and returns
the number of the thread at this position.
"""


def reversed_order(var: Var, count: int) -> Expr:
    """The emulation order (see `Order`) in which the last of the `count` threads along an axis runs first: at position
    `var` runs thread `count` - 1 - `var`.
    """
    return Const(count - 1) - var


def mixed_order(var: Var, count: int) -> Expr:
    """An emulation order (see `Order`) of the `count` threads along an axis that exposes missing barriers.

    A missing barrier shows if a thread runs before the thread whose result it reads. Tree reductions read the result of
    thread t + h, where h is a power of two; so for each h, some thread t runs before thread t + h. Scans read the
    result of thread t - h; so for each h, some thread t runs before thread t - h. Thread 0, whose result other threads
    often read, runs about in the middle.

    The thread at position `var` is (step * var + start) % count. `step` is the first number from 0.618 * count on that
    has no common factor with `count`. `start` is the first number for which the order has the properties above, if
    there is one. One or two threads run in reverse order.
    """
    if count <= 2:
        return reversed_order(var, count)
    step = next(s for s in range(max(1, round(count * 0.618)), 2 * count) if gcd(s, count) == 1)
    start = 0
    for shift in range(count):
        middle = (count // 2 + shift) % count
        start = -step * middle % count
        place = np.empty(count, np.int64)
        place[(step * np.arange(count) + start) % count] = np.arange(count)
        distances = [h for h in (1 << e for e in range(count.bit_length())) if h < count]
        before = all((place[: count - h] < place[h:])[:h].any() for h in distances)
        behind = all((place[: count - h] > place[h:]).any() for h in distances)
        if before and behind and middle != 0:
            break
    return (var * step + start) % count
