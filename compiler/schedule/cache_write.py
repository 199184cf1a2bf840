"""cache_write: redirects the writes of a loop to a buffer in a nearer memory, which is copied back at the
loop's end.
"""

from __future__ import annotations

from ..ir.regions import write_regions
from ..ir.stmt import Alloc, Assign, Copy, Program, Reduce, Region, seq
from ..ir.visit import free_vars
from .coverage import fills_box
from .errors import LegalityError
from .legality import asynchronous, check_bounds, check_grid, starting_loops, touches
from .memory import ZERO, body_at, local_buffer, with_body
from .tree import (
    buffer_named,
    loops_around,
    rebase,
)


def cache_write(program: Program, buffer: str, loop: str | None, scope: str) -> Program:
    """Redirects writes to a buffer under `loop` to a new buffer in `scope`, which is copied back at the end.

    rewrite:
        for i in range(n):                      for i in range(n):
            for j in range(4):                      alloc C.acc: [4] @ acc
                C[i * 4 + j] = f(i, j)    ->        for j in range(4):
                                                        C.acc[j] = f(i, j)
                                                    C.acc: copy C[i * 4:i * 4 + 4] = C.acc[0:4]
    Legal if the only access to the buffer under `loop` is by one Assign or Reduce, which writes every element of the
    touched box (rectangle of elements); the sums of a Reduce must also start under `loop`.
    """
    path, body, ranges = body_at(program, loop)
    old = buffer_named(program, buffer)
    if (held := asynchronous(body)) is not None:
        raise LegalityError(f"cannot cache {buffer}: {held}", program, loop or "")
    uses = touches(body, buffer).get(buffer, [])
    where, at = f"loop {loop}" if loop else f"program {program.name}", loop or ""
    if not any(u.write for u in uses):
        raise LegalityError(f"cannot cache {buffer}: no statement in {where} writes it", program, at)
    writer = uses[0].by
    if len(uses) != 1 or not isinstance(writer, Assign | Reduce):
        reason = f"cannot cache {buffer}: {where} must access it in one place only, by an assignment or a sum"
        raise LegalityError(reason, program, at)
    around = loops_around(body, writer)
    inner = {inner_loop.name for inner_loop in around}
    if isinstance(writer, Reduce) and not _starts(writer, inner):
        reason = f"cannot cache {buffer}: the sum of {writer.name} starts outside {where}"
        raise LegalityError(reason, program, writer.name)
    result = write_regions(body, {}, ranges)[old]
    if not fills_box(uses[0].starts, (1,) * len(old.shape), result.extents, around, ranges):
        reason = (
            f"cannot cache {buffer}: {writer.name} must write a whole rectangle of it in {where}, not a part"
        )
        raise LegalityError(reason, program, writer.name)
    local = local_buffer(program, result, ranges, scope)
    copy = Copy(
        name=local.name,
        destination=result,
        source=Region(buffer=local, starts=(ZERO,) * len(old.shape), extents=result.extents),
    )
    new = Alloc(buffer=local, body=seq(rebase(body, buffer, local, result.starts), copy))
    return check_bounds(check_grid(with_body(path, new)), program, loop or "", changed=new)


def _starts(reduce: Reduce, inner: set[str]) -> bool:
    """Whether each element of a sum is initialized exactly once: in the iteration with all reduction loops of the sum
    at 0. False also if a reduction loop is not in `inner`.
    """
    own = None if reduce.first is None else starting_loops(reduce.first)
    if own is None or own - inner:
        return False
    return not any(free_vars(i) & own for i in reduce.indices)
