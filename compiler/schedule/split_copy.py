"""split_copy: splits a copy along one dimension into copies of smaller boxes (rectangles of elements)."""

from __future__ import annotations

from dataclasses import replace

from ..ir.expr import Const, Var
from ..ir.stmt import Copy, For, Program, Region
from .errors import LegalityError
from .tree import locate, names_in, plus, rebuild

_ONE = Const(1)


def split_copy(program: Program, name: str, dimension: int, size: int) -> Program:
    """Turns the copy `name` into a loop of copies, each of `size` elements in `dimension` of the destination.

    rewrite (split_copy("S", 1, 16)):
        S: copy S[0:8, 0:64] = A[i:i + 8, 0:64] pad 0    ->    for S.1 in range(4):
                                                                  S: copy S[0:8, S.1 * 16:S.1 * 16 + 16] =
                                                                      A[i:i + 8, S.1 * 16:S.1 * 16 + 16] pad 0
    Legal for a plain copy between two buffers if its extent in this dimension is a constant above 1 that `size`
    divides.
    """
    path = locate(program, name)
    copy = path[-1]
    where = f"cannot split {name}: "
    if not isinstance(copy, Copy) or copy.asynchronous:
        raise LegalityError(f"{where}it is not a plain copy", program, name)
    if copy.source.buffer.name == copy.destination.buffer.name:
        raise LegalityError(f"{where}it copies within one buffer", program, name)
    extents = copy.destination.extents
    extent = extents[dimension] if 0 <= dimension < len(extents) else None
    if size < 1 or not isinstance(extent, Const) or extent == _ONE or int(extent.value) % size:
        reason = f"{where}dimension {dimension} has no constant extent of more than 1 that {size} divides"
        raise LegalityError(reason, program, name)
    var = Var(f"{name}.{dimension}")
    if var.name in names_in(program):
        raise LegalityError(f"{where}the name {var.name} is taken", program, var.name)
    # The k-th dimension of extent above 1 of one region corresponds to the k-th of the other.
    number = sum(e != _ONE for e in extents[:dimension])
    source = [d for d, e in enumerate(copy.source.extents) if e != _ONE][number]

    def piece(region: Region, d: int) -> Region:
        starts, sizes = list(region.starts), list(region.extents)
        starts[d], sizes[d] = plus(starts[d], var * size), Const(size)
        return replace(region, starts=tuple(starts), extents=tuple(sizes))

    body = replace(copy, destination=piece(copy.destination, dimension), source=piece(copy.source, source))
    return rebuild(path, For(var=var, extent=Const(int(extent.value) // size), body=body))
