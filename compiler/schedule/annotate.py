"""The primitives `annotate`, which sets how the iterations of a loop may run (unrolled, as lanes, on threads, as an
axis of a grid), and `set_scope`, which sets the memory of a buffer.
"""

from __future__ import annotations

from ..ir.expr import Buffer, Const
from ..ir.stmt import (
    AXES,
    LOOP_KINDS,
    Alloc,
    For,
    Intrinsic,
    LoopKind,
    Program,
    Stmt,
)
from ..ir.visit import walk
from .errors import LegalityError
from .legality import (
    CONCURRENT,
    check_grid,
    parallel_obstacle,
    single,
)
from .tree import locate_alloc, locate_loop, rebase, rebuild


def annotate(program: Program, name: str, kind: LoopKind) -> Program:
    """Sets the kind of a loop, which says how its iterations may run.

    rewrite (`kind` is "serial", "unroll", "vectorize", "parallel", "virtual_thread", "block.x" … "thread.z"):
        for i in range(n):             for i in kind(n):
            body                 ->        body
    The meaning is the same for all kinds, also in the interpreter: every iteration, in order. In code for a target,
    "unroll" repeats the body; "vectorize" computes all iterations at once, one in each lane; "parallel" distributes
    them to the threads of a processor; "virtual_thread" gives every iteration its own copy of the buffers in it, so
    that an accelerator's units overlap iterations; "block.x" and so on make the loop an axis of a GPU's grid. Loops on
    the same axis, one after the other in a block, run on the same threads, in an order that barriers ensure. Code
    generation raises an error for kinds that the target does not support.
    "serial", "unroll" and "virtual_thread" are always legal (they keep the order or all dependences). The other kinds
    are legal if no two iterations touch the same element of a buffer that the body writes; this is not checked again
    for a loop that already has one of these kinds (so parallel loops can be fused first, then bound). Axes of a grid
    must also obey `ir.grid.grid_obstacle`: no axis contains itself, no thread axis contains a block axis, extents have
    constant bounds, and the memory of a block or thread is allocated inside the loops over blocks or threads.
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


def set_scope(program: Program, buffer: str, scope: str) -> Program:
    """Puts an allocation into another memory.

    rewrite:
        alloc T: int8[64] @ dram   ->   alloc T: int8[64] @ inp
    A scope is the memory of a buffer and does not change its contents. Illegal only for parameters, which the caller
    placed; for operands of hardware operations that require another scope; and if each block or thread of a grid would
    get its own copy of a buffer that it must share with others.
    """
    path = locate_alloc(program, buffer)
    if path is None:
        raise LegalityError(f"cannot place {buffer}: it is not allocated in this program", program, buffer)
    alloc = path[-1]
    assert isinstance(alloc, Alloc)
    old = alloc.buffer
    check_operands(program, alloc.body, buffer, scope, f"cannot place {buffer} in {scope}")
    new = Buffer(name=old.name, shape=old.shape, dtype=old.dtype, scope=scope)
    moved = rebase(alloc.body, buffer, new, (Const(0),) * len(old.shape))
    return check_grid(rebuild(path, Alloc(buffer=new, body=moved)))


def check_operands(program: Program, body: Stmt, buffer: str, scope: str, problem: str) -> None:
    """Raises LegalityError (text: `problem`) if an Intrinsic in `body` needs another scope than `scope` of `buffer`."""
    for node in walk(body):
        if isinstance(node, Intrinsic):
            for formal, region in zip(node.declaration.parameters, node.operands, strict=True):
                if region.buffer.name == buffer and formal.scope != scope:
                    reason = f"{problem}: {node.declaration.name} requires it in {formal.scope}"
                    raise LegalityError(reason, program, node.name)
