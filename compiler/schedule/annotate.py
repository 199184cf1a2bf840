"""annotate: how the iterations of a loop may run (unrolled, as lanes, on threads, as an axis of a grid)."""

from __future__ import annotations

from ..ir.stmt import AXES, LOOP_KINDS, For, LoopKind, Program
from .errors import LegalityError
from .legality import CONCURRENT, check_grid, parallel_obstacle, single
from .tree import locate_loop, rebuild


def annotate(program: Program, name: str, kind: LoopKind) -> Program:
    """Sets the kind of a loop, which says how its iterations may run.

    rewrite (`kind` is "serial", "unroll", "vectorize", "parallel", "virtual_thread", "block.x" … "thread.z"):
        for i in range(n):             for i in kind(n):
            body                 ->        body
    The meaning is the same for all kinds, also in the interpreter: every iteration, in order. Code of the targets:
    "unroll" repeats the body; "vectorize" computes all iterations at once, one a lane; "parallel" distributes them to
    the threads of a processor; "virtual_thread" gives every iteration its own copy of the buffers in it, in turn, so
    that an accelerator's units overlap iterations; "block.x" and so on make the loop an axis of a GPU's grid, where
    loops on one axis, side by side in one block, share its threads and are ordered by a barrier between them.
    Targets refuse kinds that they do not support.
    "serial", "unroll" and "virtual_thread" are always legal (they keep the order, or every dependence). The other kinds
    are legal if no two iterations touch the same element of a buffer that the body writes; this is not checked again
    for a loop that already has one of these kinds (so parallel loops can be fused first, then bound). Axes of a grid
    must also obey `ir.grid.grid_obstacle`: no axis within itself, blocks around threads, constant bounds, memories of a
    block or a thread allocated in it.
    """
    path, old = locate_loop(program, name)
    if kind not in LOOP_KINDS:
        reason = f"unknown kind of loop {kind!r}; there are: {', '.join(LOOP_KINDS)}"
        raise LegalityError(reason, program, name)
    if kind in CONCURRENT and old.kind not in CONCURRENT and not single(old):
        obstacle = parallel_obstacle(old, [n for n in path[:-1] if isinstance(n, For)])
        if obstacle is not None:
            raise LegalityError(f"cannot make {name} {kind}: {obstacle}", program, name)
    new = rebuild(path, For(var=old.var, extent=old.extent, body=old.body, kind=kind))
    if kind in AXES or old.kind in AXES or kind in ("parallel", "vectorize"):
        try:
            check_grid(new)
        except LegalityError as error:
            raise LegalityError(f"cannot make {name} {kind}: {error.reason}", program, error.at) from None
    return new
