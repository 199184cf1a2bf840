"""expand_copy: turns a copy into loops around the assignment of one element."""

from __future__ import annotations

from ..ir.bounds import loop_range, loop_ranges
from ..ir.expr import Const, Expr, Load, Var, all_of, cast, select
from ..ir.simplify import simplify
from ..ir.stmt import Assign, Copy, For, Program, Region, nest
from ..ir.verify import wide
from .errors import LegalityError
from .tree import (
    locate,
    names_in,
    plus,
    rebuild,
)

_ONE = Const(1)


def expand_copy(program: Program, name: str) -> Program:
    """Turns a copy into loops, one for each dimension of its regions, around an assignment of the same name.

    rewrite:
        T: copy T[0:4, 0:n] = A[i - 1:i + 3, 0:n] pad 0   ->   for T.0 in range(4):
                                                                   for T.1 in range(n):
                                                                       T: T[T.0, T.1] = select(0 <= i - 1 + T.0 and
                                                                          i - 1 + T.0 < 8, A[i - 1 + T.0, T.1], 0)
    Dimensions of extent 1 get loops only if both regions have extents of 1 in the same dimensions. Conditions that
    provably hold are left out. Legal unless the copy is asynchronous or stays within one buffer.
    """
    path = locate(program, name)
    copy = path[-1]
    if not isinstance(copy, Copy) or copy.asynchronous:
        raise LegalityError(f"cannot expand {name}: it is not a plain copy", program, name)
    if copy.source.buffer.name == copy.destination.buffer.name:
        raise LegalityError(f"cannot expand {name}: it copies within one buffer", program, name)
    target, source = copy.destination, copy.source
    alike = len(target.extents) == len(source.extents) and all(
        (a == _ONE) == (b == _ONE) for a, b in zip(target.extents, source.extents, strict=True)
    )
    extents = target.extents if alike else tuple(wide(target.extents))
    around = [(Var(f"{name}.{d}"), extent) for d, extent in enumerate(extents)]
    taken = names_in(program)
    for var, _ in around:
        if var.name in taken:
            raise LegalityError(f"cannot expand {name}: the name {var.name} is taken", program, var.name)
    ranges = loop_ranges(n for n in path if isinstance(n, For))
    ranges |= {var.name: loop_range(extent) for var, extent in around}

    def place(box: Region) -> tuple[Expr, ...]:
        offsets = iter([var for var, _ in around])
        return tuple(
            [
                start if extent == _ONE and not alike else plus(start, next(offsets))
                for start, extent in zip(box.starts, box.extents, strict=True)
            ]
        )

    at = place(source)
    value: Expr = Load(source.buffer, at)
    if copy.pad is not None:
        inside: list[Expr] = []
        for index, size in zip(at, source.buffer.shape, strict=True):
            inside += [simplify(Const(0) <= index, ranges), simplify(index < size, ranges)]
        value = select(all_of(*inside), value, copy.pad)
    assign = Assign(
        name=name, buffer=target.buffer, indices=place(target), value=cast(value, target.buffer.dtype)
    )
    return rebuild(path, nest(around, assign))
