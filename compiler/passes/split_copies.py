"""Split copies of boxes (rectangles of elements) so that each is one strided two-dimensional transfer of a DMA engine.

    rewrite:  copy inp[0:4, 0:9, 0:58, ...] <- X[n, c:c+4, y-1:y+8, -1:57, ...]
              ->  for copy.0 in 4: copy inp[copy.0, 0:9, 0:58, ...] <- X[n, c+copy.0, y-1:y+8, -1:57, ...]

The dimensions that make up one element (a vector, a tile, a parameter entry) stay whole. Two neighbouring dimensions
count as one if the copy covers the whole inner dimension of both buffers, so dense boxes stay single transfers.
"""

from __future__ import annotations

from ..ir.expr import Const, Expr, Var, binary
from ..ir.stmt import Copy, For, Program, Region, Stmt
from ..ir.visit import map_stmt

ELEMENT_DIMENSIONS = 2
"""Number of trailing dimensions of a buffer that form one element (a vector, a tile, a parameter entry)."""

DMA_DIMENSIONS = 2
"""Number of dimensions, counted in elements, of the transfer that one DMA instruction makes."""


def split_copies(program: Program) -> Program:
    """Puts loops around each Copy of more than two (merged) dimensions, so that the Copy keeps the last two."""
    return map_stmt(program, _split)


def _split(statement: Stmt) -> Stmt:
    if not isinstance(statement, Copy):
        return statement
    destination, source = _moving(statement.destination), _moving(statement.source)
    groups = _groups(statement, destination, source)
    outer = [pair for group in groups[:-DMA_DIMENSIONS] for pair in group]
    if not outer:
        return statement
    result: Stmt = statement
    loops: list[For] = []
    for number, (to, origin) in enumerate(outer):
        assert isinstance(result, Copy)
        var = Var(f"{statement.name}.{number}")
        loops.append(For(var=var, extent=statement.destination.extents[to], body=result))
        result = Copy(
            name=statement.name,
            destination=_pick(result.destination, to, var),
            source=_pick(result.source, origin, var),
            pad=statement.pad,
            asynchronous=statement.asynchronous,
        )
    for loop in reversed(loops):
        result = For(var=loop.var, extent=loop.extent, body=result)
    return result


def _moving(region: Region) -> list[int]:
    """The dimensions of a region with an extent above 1, except the last dimensions, which form one element."""
    return [
        d
        for d in range(len(region.extents) - ELEMENT_DIMENSIONS)
        if not (isinstance(extent := region.extents[d], Const) and extent.value == 1)
    ]


def _groups(copy: Copy, destination: list[int], source: list[int]) -> list[list[tuple[int, int]]]:
    """The dimensions along which a copy has an extent above 1, as pairs (number in the destination, number in the
    source). Neighbouring pairs that are contiguous on both sides are in one group.
    """
    groups: list[list[tuple[int, int]]] = []
    for pair in zip(destination, source, strict=True):
        if groups and _contiguous(copy, groups[-1][-1], pair):
            groups[-1].append(pair)
        else:
            groups.append([pair])
    return groups


def _contiguous(copy: Copy, outer: tuple[int, int], inner: tuple[int, int]) -> bool:
    for region, first, second in (
        (copy.destination, outer[0], inner[0]),
        (copy.source, outer[1], inner[1]),
    ):
        if second != first + 1:
            return False
        start, extent = region.starts[second], region.extents[second]
        whole = (
            isinstance(start, Const)
            and start.value == 0
            and isinstance(extent, Const)
            and extent.value == region.buffer.shape[second]
        )
        if not whole:
            return False
    return True


def _pick(region: Region, dimension: int, var: Var) -> Region:
    starts: list[Expr] = list(region.starts)
    extents: list[Expr] = list(region.extents)
    starts[dimension] = binary("+", starts[dimension], var)
    extents[dimension] = Const(1)
    return Region(buffer=region.buffer, starts=tuple(starts), extents=tuple(extents))
