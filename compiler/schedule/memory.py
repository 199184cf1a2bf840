"""Primitives on buffers: their size, and copies nearer to their use."""

from __future__ import annotations

from dataclasses import replace

from ..ir.bounds import Ranges, interval, loop_range, loop_ranges
from ..ir.expr import Buffer, Const, Expr, Load, Var, all_of, cast, select
from ..ir.regions import read_regions, write_regions
from ..ir.simplify import simplify
from ..ir.stmt import Alloc, Assign, Copy, For, Node, Program, Reduce, Region, Stmt, nest, seq
from ..ir.verify import wide
from ..ir.visit import free_vars, replace_buffers
from .annotate import check_operands
from .coverage import fills_box
from .errors import LegalityError
from .legality import asynchronous, check_bounds, check_grid, starting_loops, touches, written
from .tree import (
    buffer_named,
    locate,
    locate_alloc,
    locate_loop,
    loops_around,
    names_in,
    plus,
    rebase,
    rebuild,
    unused,
)

_ZERO, _ONE = Const(0), Const(1)


def widen(program: Program, buffer: str, dimension: int, size: int) -> Program:
    """Enlarges an allocation in a dimension, so that later elements have other addresses (other banks, aligned).

    rewrite (widen("T", 1, 40)):
        alloc T: [8, 32] @ shared        ->    alloc T: [8, 40] @ shared
            T[i, j] = f(i, j)                      T[i, j] = f(i, j)
    Nothing uses the new elements. Legal for every allocation that is not wider already.
    """
    path = locate_alloc(program, buffer)
    if path is None:
        raise LegalityError(f"cannot widen {buffer}: it is not allocated in this program", program, buffer)
    alloc = path[-1]
    assert isinstance(alloc, Alloc)
    shape = list(alloc.buffer.shape)
    if not 0 <= dimension < len(shape) or size < shape[dimension]:
        reason = f"cannot widen {buffer}: it has no dimension {dimension} of at most {size}"
        raise LegalityError(reason, program, buffer)
    shape[dimension] = size
    new = replace(alloc.buffer, shape=tuple(shape))
    return rebuild(path, Alloc(buffer=new, body=replace_buffers(alloc.body, {buffer: new})))


def cache_read(program: Program, buffer: str, loop: str | None, scope: str) -> Program:
    """Copies the box (rectangle of elements) of a buffer that is read under `loop` (None: in the whole program) into a
    new buffer in `scope`.

    rewrite:
        for i in range(n):                      for i in range(n):
            for j in range(4):                      alloc A.inp: [4] @ inp
                C[i] += A[i * 4 + j]      ->        A.inp: copy A.inp[0:4] = A[i * 4:i * 4 + 4]
                                                    for j in range(4):
                                                        C[i] += A.inp[j]
    The new buffer, and the copy, are called `buffer`.`scope` (with a number if taken); its shape is that of the
    greatest box read in one iteration. Legal if nothing under `loop` writes the buffer, and the box is within the
    buffer.
    """
    path, body, ranges = _body_at(program, loop)
    old = buffer_named(program, buffer)
    if (held := asynchronous(body)) is not None:
        raise LegalityError(f"cannot cache {buffer}: {held}", program, loop or "")
    where = loop or program.name
    if buffer in written(body):
        raise LegalityError(f"cannot cache {buffer}: it is written under {where}", program, loop or "")
    needed = read_regions(body, {}, ranges, only=buffer).get(old)
    if needed is None:
        raise LegalityError(f"cannot cache {buffer}: nothing under {where} reads it", program, loop or "")
    check_inside(program, needed, ranges, loop)
    check_operands(program, body, buffer, scope, f"cannot cache {buffer} in {scope}")
    local = _local(program, needed, ranges, scope)
    copy = Copy(
        name=local.name,
        destination=Region(buffer=local, starts=(_ZERO,) * len(old.shape), extents=needed.extents),
        source=needed,
    )
    new = Alloc(buffer=local, body=seq(copy, rebase(body, buffer, local, needed.starts)))
    return check_bounds(check_grid(_with_body(path, new)), program, loop or "", changed=new)


def cache_write(program: Program, buffer: str, loop: str | None, scope: str) -> Program:
    """Redirects writes to a buffer under `loop` to a new buffer in `scope`, which is copied back at the end.

    rewrite:
        for i in range(n):                      for i in range(n):
            for j in range(4):                      alloc C.acc: [4] @ acc
                C[i * 4 + j] = f(i, j)    ->        for j in range(4):
                                                        C.acc[j] = f(i, j)
                                                    C.acc: copy C[i * 4:i * 4 + 4] = C.acc[0:4]
    Legal if one Assign or Reduce under `loop` writes the buffer and every element of the touched box, and reads only
    sums that start under `loop`.
    """
    path, body, ranges = _body_at(program, loop)
    old = buffer_named(program, buffer)
    if (held := asynchronous(body)) is not None:
        raise LegalityError(f"cannot cache {buffer}: {held}", program, loop or "")
    uses = touches(body, buffer).get(buffer, [])
    where, at = loop or program.name, loop or ""
    if not any(u.write for u in uses):
        raise LegalityError(f"cannot cache {buffer}: nothing under {where} writes it", program, at)
    writer = uses[0].by
    if len(uses) != 1 or not isinstance(writer, Assign | Reduce):
        raise LegalityError(f"cannot cache {buffer}: more than one access to it under {where}", program, at)
    around = loops_around(body, writer)
    inner = {inner_loop.name for inner_loop in around}
    if isinstance(writer, Reduce) and not _starts(writer, inner):
        reason = f"cannot cache {buffer}: the sum of {writer.name} starts outside {where}"
        raise LegalityError(reason, program, writer.name)
    result = write_regions(body, {}, ranges)[old]
    if not fills_box(uses[0].starts, (1,) * len(old.shape), result.extents, around, ranges):
        reason = f"cannot cache {buffer}: {writer.name} does not write all of a box under {where}"
        raise LegalityError(reason, program, writer.name)
    local = _local(program, result, ranges, scope)
    copy = Copy(
        name=local.name,
        destination=result,
        source=Region(buffer=local, starts=(_ZERO,) * len(old.shape), extents=result.extents),
    )
    new = Alloc(buffer=local, body=seq(rebase(body, buffer, local, result.starts), copy))
    return check_bounds(check_grid(_with_body(path, new)), program, loop or "", changed=new)


def cache_name(program: Program, buffer: str, scope: str) -> str:
    """The name of the new buffer and of the copy made by `cache_read` and `cache_write`."""
    return unused(program, f"{buffer}.{scope}")


def expand_copy(program: Program, name: str) -> Program:
    """Turns a copy into loops, one for each dimension of its regions, around an assignment of the same name.

    rewrite:
        T: copy T[0:4, 0:n] = A[i - 1:i + 3, 0:n] pad 0   ->   for T.0 in range(4):
                                                                   for T.1 in range(n):
                                                                       T: T[T.0, T.1] = select(0 <= i - 1 + T.0 and
                                                                          i - 1 + T.0 < 8, A[i - 1 + T.0, T.1], 0)
    Dimensions of extent 1 get loops too, unless the two regions differ in them. Conditions that provably hold are left
    out. Legal unless the copy is asynchronous or stays within one buffer.
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


def _body_at(program: Program, loop: str | None) -> tuple[tuple[Node, ...], Stmt, Ranges]:
    if loop is None:
        return (program,), program.body, {}
    path, at = locate_loop(program, loop)
    return path, at.body, loop_ranges(n for n in path if isinstance(n, For))


def _with_body(path: tuple[Node, ...], body: Stmt) -> Program:
    match path[-1]:
        case For(var=var, extent=extent, kind=kind):
            return rebuild(path, For(var=var, extent=extent, body=body, kind=kind))
        case Program(name=name, parameters=parameters):
            return Program(name=name, parameters=parameters, body=body)
    raise TypeError("only loops and programs have a body")


def _local(program: Program, box: Region, ranges: Ranges, scope: str) -> Buffer:
    shape: list[int] = []
    for extent, size in zip(box.extents, box.buffer.shape, strict=True):
        high = interval(extent, ranges).high
        shape.append(max(1, size if high is None else min(high, size)))
    name = cache_name(program, box.buffer.name, scope)
    return Buffer(name=name, shape=tuple(shape), dtype=box.buffer.dtype, scope=scope)


def check_inside(
    program: Program, box: Region, ranges: Ranges, loop: str | None, doing: str = "cache"
) -> None:
    """Raises LegalityError unless a box is within its buffer for all values of loops in their `ranges`."""
    for start, extent, size in zip(box.starts, box.extents, box.buffer.shape, strict=True):
        low = interval(start, ranges).low
        end = interval(start + extent, ranges).high
        if low is None or low < 0 or end is None or end > size:
            reason = f"cannot {doing} {box.buffer.name}: the part of it that is read may exceed its shape"
            raise LegalityError(reason, program, loop or "")


def _starts(reduce: Reduce, inner: set[str]) -> bool:
    """Whether every element of a sum starts from its initial value exactly when those of the loops `inner` over which
    it sums are all at 0.
    """
    own = None if reduce.first is None else starting_loops(reduce.first)
    if own is None or own - inner:
        return False
    return not any(free_vars(i) & own for i in reduce.indices)
