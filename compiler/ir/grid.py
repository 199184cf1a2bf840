"""Loops over a GPU's grid of blocks and threads: rules for their nesting, and for memory that is private to a block or
a thread.

A thread's private memory may be allocated around loops over threads if every access is indexed by the threads'
variables: sum[ty, tx, 0] in loops ty and tx over threads. The dimensions with the indices ty and tx are distributed:
each thread stores only its own element along them. One kind of operation reads registers of other threads: a shuffle,
whose operand is the whole distributed dimension (`exchanging_lanes`). The lanes of a warp hold a matrix of sums
together; in a loop over lanes, each lane accesses its own elements (`lane_elements`).
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from .bounds import interval, loop_ranges
from .expr import Buffer, Const, Expr, Var
from .lane_elements import LANES, SUMS, lane_register
from .stmt import (
    AXES,
    Alloc,
    Assign,
    Copy,
    For,
    Intrinsic,
    IntrinsicDeclaration,
    Node,
    Program,
    Reduce,
    Region,
    Seq,
    Stmt,
)
from .visit import expressions, free_vars, loads_in

FRAGMENT = "fragment"
"""Prefix of scopes (memory names) of matrices in the registers of a warp."""
_BLOCK, _THREAD = ("block",), ("block", "thread")


def owners(scope: str) -> tuple[str, ...]:
    """The kinds of grid loops in which each iteration has its own memory of this `scope`: ("block",) for shared memory,
    ("block", "thread") for a thread's registers and local memory, () for all other memories.
    """
    if scope == "shared":
        return _BLOCK
    return _THREAD if scope in ("local", "register") or scope.startswith(FRAGMENT) else ()


def exchanging_lanes(declaration: IntrinsicDeclaration) -> int:
    """The number of threads along x that exchange registers in a hardware operation. If the operation has a single
    operand, which is in registers, this is the size of the operand's last dimension: one register for each thread. 0
    for all other operations, and for operations that a user declares with source text.
    """
    if len(declaration.parameters) != 1 or declaration.code:
        return 0
    (operand,) = declaration.parameters
    return operand.shape[-1] if operand.scope == "register" else 0


def distribution(alloc: Alloc) -> tuple[str | None, ...]:
    """For each dimension of an allocated buffer, the axis of threads over which the dimension is distributed, or None.

    A dimension is distributed over an axis if all accesses inside loops over this axis have the loop's variable as
    their index in the dimension. (Accesses outside of these loops are allowed until all loops are bound;
    `distribution_obstacle` finds them.)
    """
    found: _Accesses = {}
    _record(alloc.body, (), found)
    return _distributed(alloc.buffer, found.get(alloc.buffer.name, ()))


def _distributed(buffer: Buffer, accesses: Sequence[_Access]) -> tuple[str | None, ...]:
    """For each dimension of a buffer, the axis of threads that it is distributed over, or None (`distribution`), given
    all accesses within its allocation.
    """
    axes: list[set[str]] = [set() for _ in buffer.shape]
    placed = [
        ({loop.kind for loop in loops}, [_axis(s, e, loops) for s, e in zip(starts, extents, strict=True)])
        for loops, starts, extents in accesses
    ]
    for _, found in placed:
        for held, axis in zip(axes, found, strict=True):
            if axis is not None:
                held.add(axis)
    return tuple([_common(held, [(kinds, at[d]) for kinds, at in placed]) for d, held in enumerate(axes)])


def distribution_obstacle(alloc: Alloc) -> str | None:
    """The reason why a buffer that is distributed over threads is invalid, once all loops are bound; None if it is
    valid.

    A dimension of the buffer has an element for each thread along an axis. Outside of the loops over the axis only the
    first thread works, so accesses there must have index 0 in this dimension.
    """
    buffer = alloc.buffer
    found: _Accesses = {}
    _record(alloc.body, (), found)
    accesses = found.get(buffer.name, [])
    for d, axis in enumerate(_distributed(buffer, accesses)):
        for loops, starts, extents in accesses:
            inside = axis is None or any(loop.kind == axis for loop in loops)
            if not inside and buffer.shape[d] > 1 and (starts[d], extents[d]) != (_ZERO, _ONE):
                within = next((loop.name for loop in loops if loop.name in free_vars(starts[d])), None)
                return (
                    f"dimension {d} of {buffer.name}, {buffer.scope} memory, is distributed over {axis}, but used in "
                    f"no loop over it{f', in {within}' if within else ''}; bind every loop over it to {axis}"
                )
    return None


def _common(axes: set[str], accesses: Sequence[tuple[Set[str], str | None]]) -> str | None:
    """The thread axis over which one dimension of a buffer is distributed, or None. It must be the only element of
    `axes` (all axes whose variables index the dimension), and in loops over this axis, all accesses must have the
    loop's variable as their index in the dimension.

    `accesses`: for each access, the axes of the loops around it, and the axis whose variable is its index (None: no
    axis).
    """
    if len(axes) != 1:
        return None
    (axis,) = axes
    return axis if all(at == axis for kinds, at in accesses if axis in kinds) else None


def _axis(start: Expr, extent: Expr, loops: tuple[For, ...]) -> str | None:
    if not isinstance(start, Var) or extent != _ONE:
        return None
    kinds = [loop.kind for loop in loops if loop.name == start.name and loop.kind.startswith("thread")]
    return kinds[0] if kinds else None


_ZERO, _ONE = Const(0), Const(1)
_LANE = Var("lane'")
"""Stands for the number of a lane where a shuffle reads registers of all lanes; no loop has a variable of this name."""


_Access = tuple[tuple[For, ...], tuple[Expr, ...], tuple[Expr, ...]]
"""An access to a buffer: the loops around it, and its first index and extent in each dimension of the buffer."""
_Accesses = dict[str, list[_Access]]


def _record(node: Node, loops: tuple[For, ...], found: _Accesses) -> None:
    """Adds all accesses within `node` to `found`, by the buffer's name; `loops`: the loops around `node`, outermost
    first.
    """
    # `grid_obstacle` visits the whole program after most primitives, so nodes are distinguished without matching.
    if type(node) is Seq:
        for child in node.statements:
            _record(child, loops, found)
        return
    boxes: tuple[Region, ...] = ()
    if type(node) is For:
        loops = (*loops, node)
    elif type(node) is Assign or type(node) is Reduce:
        indices = node.indices
        found.setdefault(node.buffer.name, []).append((loops, indices, (_ONE,) * len(indices)))
    elif type(node) is Copy:
        boxes = (node.destination, node.source)
    elif type(node) is Intrinsic:
        boxes = node.operands
        if lanes := exchanging_lanes(node.declaration):
            (box,) = boxes
            if box.starts[-1] == _ZERO and box.buffer.shape[-1] == lanes:
                # Each thread accesses its own element.
                lane = For(var=_LANE, extent=Const(lanes), body=Seq(statements=()), kind="thread.x")
                at, ones = (*box.starts[:-1], _LANE), (_ONE,) * len(box.starts)
                found.setdefault(box.buffer.name, []).append(((*loops, lane), at, ones))
                boxes = ()
    for box in boxes:
        found.setdefault(box.buffer.name, []).append((loops, box.starts, box.extents))
    for top in expressions(node):
        for load in loads_in(top):
            found.setdefault(load.buffer.name, []).append((loops, load.indices, (_ONE,) * len(load.indices)))
    if type(node) is For or type(node) is Alloc or type(node) is Program:
        _record(node.body, loops, found)


def grid_obstacle(node: Node) -> tuple[str, str] | None:
    """Returns (error, name of the loop at fault) if a program has an incorrect loop over GPU blocks or threads (grid
    loop); None if all grid loops are correct.

    Rules: no axis is nested in itself, no block axis in a thread axis, and no axis in a parallel or vectorized loop.
    Extents have a constant bound (the number of blocks or threads launched). A buffer in the private memory of a block
    (scope "shared") or a thread ("local", "register") is allocated within these loops, or distributed over them.
    """
    accesses: _Accesses = {}
    _record(node, (), accesses)
    return _visit(node, (), (), accesses)


_Held = tuple[Buffer, int, tuple[str | None, ...]]
"""A buffer that is allocated outside of the visited loop; the number of loops around its allocation; and for each
dimension of the buffer the kind of grid loop over which it is distributed (None: not distributed).
"""


def _visit(
    node: Node, around: tuple[For, ...], held: tuple[_Held, ...], accesses: _Accesses
) -> tuple[str, str] | None:
    if type(node) is Seq:
        for child in node.statements:
            if (found := _visit(child, around, held, accesses)) is not None:
                return found
        return None
    if type(node) is For:
        name, kind = node.name, node.kind
        if kind in AXES:
            for loop in around:
                if loop.kind == kind:
                    return f"{name} is {kind} inside {loop.name}, which is {kind} too", name
                if loop.kind in ("parallel", "vectorize"):
                    return f"{name} is {kind} inside {loop.name}, which is {loop.kind}", name
                if kind.startswith("block") and loop.kind.startswith("thread"):
                    return f"{name} is {kind} inside {loop.name}, which is {loop.kind}", name
            if interval(node.extent, loop_ranges(around)).high is None:
                return f"the extent of {name}, which is {kind}, has no constant bound", name
        return _visit(node.body, (*around, node), held, accesses)
    if type(node) is Alloc:
        buffer = node.buffer
        if owned := owners(buffer.scope):
            inside = [(loops[len(around) :], a, b) for loops, a, b in accesses.get(buffer.name, ())]
            axes = _distributed(buffer, inside) if owned == _THREAD else ()
            held = (*held, (buffer, len(around), axes))
        return _visit(node.body, around, held, accesses)
    if type(node) is Program:
        return _visit(node.body, around, held, accesses)
    if isinstance(node, Assign | Reduce | Copy | Intrinsic) and held:
        return _sharing(node, around, held)
    return None


def _sharing(
    statement: Assign | Reduce | Copy | Intrinsic, around: tuple[For, ...], held: tuple[_Held, ...]
) -> tuple[str, str] | None:
    """Returns (error, name of a grid loop) if a statement makes the loop's iterations share memory that each block or
    thread has for itself; None if the statement does not. `around`: the loops around the statement, outermost first;
    `held`: the buffers in private memory that are allocated around it.
    """
    if not any(loop.kind in AXES for loop in around):
        return None
    used = _buffers(statement)
    for buffer, depth, axes in held:
        if buffer.name not in used:
            continue
        owned = owners(buffer.scope)
        for loop in around[depth:]:
            single = loop.extent == _ONE
            if loop.kind.partition(".")[0] in owned and loop.kind not in axes and not single:
                if _own_elements(statement, buffer, loop):
                    continue
                whose = f"each {owned[-1]} has its own {buffer.scope} memory"
                return f"{buffer.name} is used by all iterations of {loop.name}, but {whose}", loop.name
    return None


def _own_elements(statement: Stmt, buffer: Buffer, loop: For) -> bool:
    """Whether a statement uses only the accumulators of its own lane. `loop` is the loop over the lanes of a warp, and
    `buffer` holds matrices of sums, whose elements are distributed over the lanes: an iteration may access only the
    elements that its lane holds.
    """
    if (loop.kind, loop.extent, buffer.scope) != ("thread.x", Const(LANES), SUMS):
        return False
    if not isinstance(statement, Assign | Reduce):
        return False
    accessed = [(e.buffer, e.indices) for top in expressions(statement) for e in loads_in(top)]
    accessed.append((statement.buffer, statement.indices))
    found = [lane_register(indices) for of, indices in accessed if of.name == buffer.name]
    return all(at is not None and at[0] == loop.name for at in found)


def _buffers(statement: Assign | Reduce | Copy | Intrinsic) -> set[str]:
    names = {e.buffer.name for top in expressions(statement) for e in loads_in(top)}
    match statement:
        case Assign(buffer=buffer) | Reduce(buffer=buffer):
            names.add(buffer.name)
        case Copy(destination=destination, source=source):
            names |= {destination.buffer.name, source.buffer.name}
        case Intrinsic(operands=operands):
            names |= {r.buffer.name for r in operands}
    return names
