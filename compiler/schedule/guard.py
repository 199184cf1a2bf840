"""guard: rounds a loop up to a multiple of a tile, with a loop of at most one iteration around its body."""

from __future__ import annotations

from ..ir.bounds import interval, loop_ranges
from ..ir.expr import Const, Var, minimum
from ..ir.simplify import simplify
from ..ir.stmt import For, Program
from .errors import LegalityError
from .legality import check_verified
from .tree import locate_loop, names_in, rebuild


def guard(program: Program, loop: str, multiple: int) -> Program:
    """Rounds the extent of a loop up to a constant multiple; its body runs in the old iterations only.

    rewrite (guard("i", 4)):
        for i in range(10):            for i in range(12):
            body(i)              ->        for i.in in range(min(1, 10 - i)):
                                               body(i)
    Tiles of the loop are then whole, as threads require, and `i.in` may move inside all loops of a perfect nest. Does
    nothing if the extent is a constant multiple. Legal for a serial or unrolled loop whose extent has a constant bound.
    Raises LegalityError for a multiple below 1, or if the new name is taken.
    """
    path, at = locate_loop(program, loop)
    where = f"cannot guard {loop}: "
    if multiple < 1:
        raise LegalityError(f"{where}the multiple is {multiple}, and must be 1 or more", program, loop)
    if at.kind not in ("serial", "unroll"):
        raise LegalityError(f"{where}the loop is {at.kind}, and must be serial or unroll", program, loop)
    ranges = loop_ranges(n for n in path if isinstance(n, For))
    most = interval(at.extent, ranges).high
    if most is None:
        raise LegalityError(f"{where}its extent has no constant bound", program, loop)
    size = -(-most // multiple) * multiple
    if at.extent == Const(size):
        return program
    inside = Var(f"{loop}.in")
    if inside.name in names_in(program):
        raise LegalityError(f"{where}the name {inside.name} is taken", program, inside.name)
    exists = simplify(minimum(1, at.extent - at.var))
    body = For(var=inside, extent=exists, body=at.body)
    result = rebuild(path, For(var=at.var, extent=Const(size), body=body, kind=at.kind))
    # Bounds of nested guards, and of two guards in one index, cannot always be proven.
    return check_verified(result, program, loop)
