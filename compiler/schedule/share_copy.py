"""share_copy: distributes the elements of a copy over the threads of a block (cooperative fetching)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..ir.bounds import loop_range, loop_ranges
from ..ir.expr import Const, Expr, Var, minimum
from ..ir.simplify import simplify
from ..ir.stmt import AXES, Copy, For, LoopKind, Program, Region, Stmt
from ..ir.verify import wide
from .errors import LegalityError
from .legality import check_bounds, check_grid
from .tree import locate, names_in, plus, rebuild

_ONE = Const(1)

Axes = tuple[tuple[str, int], ...]


def share_copy(program: Program, name: str, axes: Axes, width: int) -> Program:
    """Cuts the copy `name` into pieces of `width` neighbouring elements; in each step, every thread copies one piece.

    rewrite (share_copy("S", (("thread.y", 2), ("thread.x", 16)), 4)):
        S: copy S[0:32, 0:8] = A[i:i + 32, 0:8]    ->    for S.y in thread.y(2):
                                                             for S.x in thread.x(16):
                                                                 for S.step in unroll(2):
                                                                     S: copy S[e // 2, e % 2 * 4:e % 2 * 4 + 4] =
                                                                         A[i + e // 2, e % 2 * 4:e % 2 * 4 + 4]
    with e = (S.step * 2 + S.y) * 16 + S.x, the number of a piece: neighbouring threads copy neighbouring pieces. If the
    number of threads does not divide the number of pieces, the last step has too few pieces: a loop S.in of one or no
    iteration, around the copy, then makes the other threads idle.

    `name`: the copy statement. `axes`: the axes of the block's threads with their sizes, the fastest last. An axis of
    one thread gets no loop; but if the whole block has a single thread, the last axis does get one. `width`: elements
    of a piece.

    Legal for a plain copy between two buffers if its extents are constants, and `width` divides the innermost extent
    that is not 1. Apply `pipeline` to a loop around the copy only afterwards.
    """
    path = locate(program, name)
    copy = path[-1]
    where = f"cannot share {name}: "
    if not isinstance(copy, Copy) or copy.asynchronous:
        raise LegalityError(f"{where}it is not a plain copy", program, name)
    if copy.source.buffer.name == copy.destination.buffer.name:
        raise LegalityError(f"{where}it copies within one buffer", program, name)
    kinds = [axis for axis, _ in axes]
    threads = [axis for axis in AXES if axis.startswith("thread")]
    if len(set(kinds)) != len(kinds) or not kinds or not set(kinds) <= set(threads):
        reason = (
            f"{where}its axes ({', '.join(kinds) or 'none'}) must be different ones of {', '.join(threads)}"
        )
        raise LegalityError(reason, program, name)
    for axis, count in axes:
        if count < 1:
            raise LegalityError(f"{where}{axis} has {count} threads, but needs at least one", program, name)
    extents = [e.value if isinstance(e, Const) else None for e in wide(copy.destination.extents)]
    sizes = [int(e) for e in extents if e is not None]
    if len(sizes) < len(extents):
        raise LegalityError(f"{where}not all of its extents are constants", program, name)
    if width < 1 or (sizes or [1])[-1] % width:
        reason = f"{where}pieces of {width} do not divide its innermost extent, {(sizes or [1])[-1]}"
        raise LegalityError(reason, program, name)
    pieces = prod(sizes) // width
    threads_in_all = prod(count for _, count in axes)
    steps = -(-pieces // threads_in_all)

    loops: list[tuple[Var, int, LoopKind]] = []
    piece: Expr = Const(0)
    if steps > 1:
        loops.append((Var(f"{name}.step"), steps, "unroll"))
        piece = loops[0][0]
    for axis, count in axes:
        # A block of one thread is that thread, not the block as a whole.
        if count > 1 or (threads_in_all == 1 and axis == kinds[-1]):
            var = Var(f"{name}.{axis.partition('.')[2]}")
            loops.append((var, count, axis))  # type: ignore[arg-type]
            piece = piece * count + var
    inside = Var(f"{name}.in")
    ragged = pieces % threads_in_all != 0
    limit = minimum(1, pieces - piece)
    if ragged:
        piece = piece + inside
    taken = names_in(program)
    for var in (*(var for var, _, _ in loops), inside):
        if var.name in taken:
            raise LegalityError(f"{where}the name {var.name} is taken", program, var.name)

    ranges = loop_ranges(n for n in path if isinstance(n, For))
    ranges |= {var.name: loop_range(Const(extent)) for var, extent, _ in loops}
    ranges |= {inside.name: loop_range(limit)}
    offsets = [simplify(offset, ranges) for offset in _offsets(piece, sizes, width)]
    body: Stmt = Copy(
        name=name,
        destination=_piece(copy.destination, offsets, width),
        source=_piece(copy.source, offsets, width),
        pad=copy.pad,
    )
    if ragged:
        body = For(var=inside, extent=limit, body=body)
    # Loops over threads outermost, each thread's steps within.
    for var, extent, kind in reversed([*(lp for lp in loops if lp[2] != "unroll"), *loops[: steps > 1]]):
        body = For(var=var, extent=Const(extent), body=body, kind=kind)
    return check_bounds(check_grid(rebuild(path, body)), program, name)


def _offsets(piece: Expr, sizes: Sequence[int], width: int) -> list[Expr]:
    """The index, in each dimension of a box of `sizes`, at which piece number `piece` begins. Pieces are `width`
    elements along the last dimension, numbered in row-major order.
    """
    counts = [*sizes[:-1], sizes[-1] // width] if sizes else []
    offsets: list[Expr] = []
    below = prod(counts)
    for d, count in enumerate(counts):
        above, below = below, below // count
        digit = piece if d == 0 else piece % above
        offsets.append(digit // below * (width if d == len(counts) - 1 else 1))
    return offsets


def _piece(box: Region, offsets: Sequence[Expr], width: int) -> Region:
    """The piece of a box (rectangle of elements) that begins at `offsets`, one for each dimension of the box whose
    extent is not 1: `width` elements along the last of these dimensions.
    """
    ahead = iter(offsets)
    starts = [s if e == _ONE else plus(s, next(ahead)) for s, e in zip(box.starts, box.extents, strict=True)]
    innermost = max((d for d, e in enumerate(box.extents) if e != _ONE), default=None)
    extents = [Const(width) if d == innermost else _ONE for d in range(len(starts))]
    return Region(buffer=box.buffer, starts=tuple(starts), extents=tuple(extents))
