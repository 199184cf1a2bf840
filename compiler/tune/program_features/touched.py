"""The regions (rectangles of elements) that a statement accesses, and the numbers of elements that an access touches
while loops run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ...ir.affine import linear_form
from ...ir.bounds import Interval, interval
from ...ir.expr import Binary, Buffer, Const, Expr, Load, Var
from ...ir.regions import operand_access
from ...ir.stmt import Assign, Copy, Intrinsic, NamedStmt, Reduce, Region
from ...ir.visit import free_vars, operands


def places(
    statement: NamedStmt, extents: Mapping[str, int]
) -> list[tuple[Buffer, tuple[Expr, ...], tuple[int, ...], bool]]:
    """Lists the distinct accesses of a statement, each as (buffer, first index in each dimension, extents of the
    region, whether the access is a write). `extents`: number of iterations of each loop around the statement, by name.
    A region of varying size counts with its largest size.
    """
    found: list[tuple[Buffer, tuple[Expr, ...], tuple[int, ...], bool]] = []
    match statement:
        case Assign(buffer=buffer, indices=indices) | Reduce(buffer=buffer, indices=indices):
            found.append((buffer, indices, (1,) * len(indices), True))
            reads: dict[Load, None] = {}
            for e in (*indices, statement.value):
                _loads(e, reads)
            found += [(load.buffer, load.indices, (1,) * len(load.indices), False) for load in reads]
        case Copy(destination=destination, source=source):
            for region, write in ((destination, True), (source, False)):
                found.append((region.buffer, region.starts, _sizes(region, extents), write))
        case Intrinsic(declaration=declaration, operands=regions):
            parts = zip(regions, operand_access(declaration), strict=True)
            found += [(r.buffer, r.starts, _sizes(r, extents), writes) for r, (_, writes) in parts]
            found.sort(key=lambda place: not place[3])
    return found


def _loads(expr: Expr, found: dict[Load, None]) -> None:
    if isinstance(expr, Load):
        found[expr] = None
    if not isinstance(expr, Var | Const):
        for operand in operands(expr):
            _loads(operand, found)


def _sizes(region: Region, extents: Mapping[str, int]) -> tuple[int, ...]:
    ranges = None
    sizes: list[int] = []
    for extent, size in zip(region.extents, region.buffer.shape, strict=True):
        if isinstance(extent, Const):
            sizes.append(int(extent.value))
            continue
        if ranges is None:
            ranges = {name: Interval(0, length - 1) for name, length in extents.items()}
        high = interval(extent, ranges).high
        sizes.append(size if high is None else high)
    return tuple(sizes)


@dataclass(frozen=True, slots=True)
class Dimension:
    """One dimension of an access.

    `steps`: coefficient of each loop variable in the index. `parts`: nonlinear terms of the index (a quotient, a
    remainder) with their coefficients. `size`: number of elements that one access touches, from the index on.
    """

    steps: dict[str, int]
    parts: tuple[tuple[Expr, int], ...]
    size: int

    @staticmethod
    def of(index: Expr, size: int) -> Dimension:
        """Describes one dimension of an access that touches `size` elements, the first at `index`."""
        if isinstance(index, Var):
            return Dimension({index.name: 1}, (), size)
        if isinstance(index, Const):
            return Dimension({}, (), size)
        steps: dict[str, int] = {}
        parts: list[tuple[Expr, int]] = []
        for atom, coefficient in linear_form(index).terms.items():
            if isinstance(atom, Var):
                steps[atom.name] = coefficient
            else:
                parts.append((atom, coefficient))
        return Dimension(steps, tuple(parts), size)

    def step(self, name: str) -> int:
        """Typical change of the index from one iteration of the loop `name` to the next. A quotient that changes in few
        iterations only counts as constant.
        """
        return self.steps.get(name, 0) + sum(c * _step(part, name) for part, c in self.parts)

    def values(self, inner: Mapping[str, int]) -> int:
        """Number of elements along this dimension that the access touches in all iterations of the loops `inner`
        (variable: number of iterations).
        """
        moves = [(abs(c), inner[v]) for v, c in self.steps.items() if v in inner]
        moves += [(abs(c), _values(part, inner)) for part, c in self.parts]
        return _reached(moves, self.size)


def _reached(moves: list[tuple[int, int]], size: int = 1) -> int:
    """Number of distinct values of a + k1 s1 + k2 s2 + ... with 0 <= a < `size` and 0 <= ki < ci. Here (si, ci) are the
    (step, count) pairs of `moves`. The number is an upper bound if values coincide but do not fill an interval.
    """
    if len(moves) > 1:
        moves.sort()
    reached = span = size
    for step, count_ in moves:
        if count_ == 1:
            continue
        width = step * (count_ - 1)
        if reached == span and step <= span:
            reached = span = span + width
        else:
            span += width
            reached = min(reached * count_, span)
    return reached


def _values(part: Expr, inner: Mapping[str, int]) -> int:
    """Number of different values that `part` takes in all iterations of the loops `inner` (number of iterations by loop
    name). `part` is a nonlinear term of an index, such as a quotient or a remainder.

    The number is exact if the index is aligned to the divisor, as in most loops over tiles; otherwise it is an
    estimate.
    """
    match part:
        case Const():
            return 1
        case Binary(op="//", a=a, b=Const(value=int(divisor))):
            return -(-_values(a, inner) // divisor)
        case Binary(op="%", a=a, b=Const(value=int(divisor))):
            return min(divisor, _values(a, inner))
        case Binary(op="min" | "max", a=a, b=b):
            return max(_values(a, inner), _values(b, inner))
        case Var() | Binary(op="+" | "-" | "*"):
            form = linear_form(part)
            return _reached(
                [
                    (abs(c), inner.get(a.name, 1) if isinstance(a, Var) else _values(a, inner))
                    for a, c in form.terms.items()
                    if a is not part or isinstance(a, Var)
                ]
            )
    return prod(inner[name] for name in free_vars(part) if name in inner)


def _step(part: Expr, name: str) -> int:
    match part:
        case Var():
            return int(part.name == name)
        case Binary(op="+", a=a, b=b):
            return _step(a, name) + _step(b, name)
        case Binary(op="-", a=a, b=b):
            return _step(a, name) - _step(b, name)
        case (
            Binary(op="*", a=a, b=Const(value=int(factor))) | Binary(op="*", a=Const(value=int(factor)), b=a)
        ):
            return factor * _step(a, name)
        case Binary(op="//", a=a, b=Const(value=int(divisor))) if divisor > 0:
            return _step(a, name) // divisor
        case Binary(op="%", a=a, b=Const(value=int(divisor))) if divisor > 0:
            return _step(a, name) % divisor
        case Binary(op="min" | "max", a=a):
            return _step(a, name)
    return 0


def touched_elements(
    buffer: Buffer, dimensions: Sequence[Dimension], names: Sequence[str], extents: Mapping[str, int]
) -> tuple[int, ...]:
    """For each loop around an access to `buffer`: the number of distinct elements that the access touches in one run of
    this loop and of all loops inside it. The results are in the order of `names`, which has the loops from the
    outermost to the innermost. A last result is for a single execution of the access.

    `dimensions`: the index of the access in each dimension. `extents`: number of iterations of each loop, by name.
    """
    users: dict[str, list[int]] = {}
    for d, dimension in enumerate(dimensions):
        for name in dimension.steps:
            users.setdefault(name, []).append(d)
        for part, _ in dimension.parts:
            for name in free_vars(part):
                users.setdefault(name, []).append(d)
    inner: dict[str, int] = {}
    counts = [min(d.values(inner), size) for d, size in zip(dimensions, buffer.shape, strict=True)]
    total = prod(counts)
    touched = [total]
    for name in reversed(names):
        if name in users:
            inner[name] = extents[name]
            if extents[name] != 1:
                for d in users[name]:
                    counts[d] = min(dimensions[d].values(inner), buffer.shape[d])
                total = prod(counts)
        touched.append(total)
    touched.reverse()
    return tuple(touched)


def run_length(region: Region, extents: Mapping[str, int]) -> int:
    """A region of a row-major buffer consists of contiguous runs of elements. Returns the length of one run.

    `extents`: number of iterations of each loop whose variable occurs in the region's sizes.
    """
    run = 1
    sizes = _sizes(region, extents)
    for size, length in zip(reversed(sizes), reversed(region.buffer.shape), strict=True):
        run *= min(size, length)
        if size < length:
            break
    return run
