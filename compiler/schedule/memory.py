"""cache_read: copies the part of a buffer that a loop reads to a nearer memory."""

from __future__ import annotations

from ..ir.bounds import Ranges, interval, loop_ranges
from ..ir.expr import Buffer, Const
from ..ir.regions import read_regions
from ..ir.stmt import Alloc, Copy, For, Node, Program, Region, Stmt, seq
from .annotate import check_operands
from .errors import LegalityError
from .legality import asynchronous, check_bounds, check_grid, written
from .tree import (
    buffer_named,
    locate_loop,
    rebase,
    rebuild,
    unused,
)

ZERO = Const(0)


def cache_read(program: Program, buffer: str, loop: str | None, scope: str) -> Program:
    """Copies the box (rectangle of elements) of a buffer that is read under `loop` (None: in the whole program) into a
    new buffer in `scope`.

    rewrite:
        for i in range(n):                      for i in range(n):
            for j in range(4):                      alloc A.inp: [4] @ inp
                C[i] += A[i * 4 + j]      ->        A.inp: copy A.inp[0:4] = A[i * 4:i * 4 + 4]
                                                    for j in range(4):
                                                        C[i] += A.inp[j]
    The new buffer, and the copy, are called `buffer`.`scope` (with a number if taken); the buffer's shape is that of
    the greatest box read in one iteration. Legal if nothing under `loop` writes the buffer or copies asynchronously,
    the box is within the buffer, and the hardware operations that read the buffer accept `scope`."""
    path, body, ranges = body_at(program, loop)
    old = buffer_named(program, buffer)
    if (held := asynchronous(body)) is not None:
        raise LegalityError(f"cannot cache {buffer}: {held}", program, loop or "")
    where = f"loop {loop}" if loop else f"program {program.name}"
    if buffer in written(body):
        reason = f"cannot cache {buffer}: {where} also writes it; choose a loop that only reads it"
        raise LegalityError(reason, program, loop or "")
    needed = read_regions(body, {}, ranges, only=buffer).get(old)
    if needed is None:
        raise LegalityError(f"cannot cache {buffer}: no statement in {where} reads it", program, loop or "")
    check_inside(program, needed, ranges, loop)
    check_operands(program, body, buffer, scope, f"cannot cache {buffer} in {scope}")
    local = local_buffer(program, needed, ranges, scope)
    copy = Copy(
        name=local.name,
        destination=Region(buffer=local, starts=(ZERO,) * len(old.shape), extents=needed.extents),
        source=needed,
    )
    new = Alloc(buffer=local, body=seq(copy, rebase(body, buffer, local, needed.starts)))
    return check_bounds(check_grid(with_body(path, new)), program, loop or "", changed=new)


def cache_name(program: Program, buffer: str, scope: str) -> str:
    """The name that `cache_read` and `cache_write` give to the new buffer and to its copy statement."""
    return unused(program, f"{buffer}.{scope}")


def body_at(program: Program, loop: str | None) -> tuple[tuple[Node, ...], Stmt, Ranges]:
    """Nodes from `program` to `loop` (None: `program` alone), body of the last node, and ranges of these loops."""
    if loop is None:
        return (program,), program.body, {}
    path, at = locate_loop(program, loop)
    return path, at.body, loop_ranges(n for n in path if isinstance(n, For))


def with_body(path: tuple[Node, ...], body: Stmt) -> Program:
    """The program with `body` as the body of the loop or program at the end of `path`."""
    match path[-1]:
        case For(var=var, extent=extent, kind=kind):
            return rebuild(path, For(var=var, extent=extent, body=body, kind=kind))
        case Program(name=name, parameters=parameters):
            return Program(name=name, parameters=parameters, body=body)
    raise TypeError(f"a {type(path[-1]).__name__} has no body; only loops and programs have one")


def local_buffer(program: Program, box: Region, ranges: Ranges, scope: str) -> Buffer:
    """A new buffer in `scope` for the region `box`, as large as the region can be in the `ranges` of loops."""
    shape: list[int] = []
    for extent, size in zip(box.extents, box.buffer.shape, strict=True):
        high = interval(extent, ranges).high
        shape.append(max(1, size if high is None else min(high, size)))
    name = cache_name(program, box.buffer.name, scope)
    return Buffer(name=name, shape=tuple(shape), dtype=box.buffer.dtype, scope=scope)


def check_inside(
    program: Program, box: Region, ranges: Ranges, loop: str | None, doing: str = "cache"
) -> None:
    """Raises LegalityError (about `loop` and action `doing`) if region `box` may exceed its buffer under `ranges`."""
    for start, extent, size in zip(box.starts, box.extents, box.buffer.shape, strict=True):
        low = interval(start, ranges).low
        end = interval(start + extent, ranges).high
        if low is None or low < 0 or end is None or end > size:
            reason = f"cannot {doing} {box.buffer.name}: the part of it that is read may exceed its shape"
            raise LegalityError(reason, program, loop or "")
