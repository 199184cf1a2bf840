"""accumulate: keeps a thread's sums in registers, not in memory, while loops add to the sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...ir.bounds import Interval, Ranges, interval, loop_range
from ...ir.expr import Binary, Buffer, Const, Expr, Load, Var
from ...ir.simplify import simplify
from ...ir.stmt import Alloc, Assign, Copy, For, Intrinsic, Node, Reduce, Stmt, seq
from ...ir.types import DType
from ...ir.visit import children, expressions, free_vars, loads_in, map_stmt, substitute_expr, walk
from .storage import Storage


def accumulate(
    loop: For, ranges: Ranges, storages: Mapping[str, Storage], fresh: Callable[[str], str]
) -> Stmt:
    """`loop` with one sum or maximum in a register, written to memory once after the loop.

    rewrite:
        for k in range(64):                               alloc s: float32[1] @ register
            Y[i] += X[k] first k == 0                ->   s[0] = 0
                                                          for k in range(64): s[0] += X[k]
                                                          Y[i] = s[0]

    Rewrites the first Reduce statement (sum or maximum) in `loop` whose updated element meets four conditions. The
    element is in device or shared memory. It is the same element in all iterations of `loop` and of the loops inside.
    No other statement in `loop` accesses it. The statement certainly updates it. If no statement meets the conditions,
    returns `loop` itself.

    `ranges`: ranges of the variables of the loops around `loop`. `storages`: storage of each buffer, by name. `fresh`
    makes a new buffer name from another name.
    """
    for path, reduce in _sums(loop, ()):
        storage = storages.get(reduce.buffer.name)
        if storage is None or storage.space == "register":
            continue
        bound = {x.name for x in path}
        if any(free_vars(at) & bound for at in reduce.indices) or not _runs(path, ranges):
            continue
        if any(s is not reduce and _touches(s, reduce.buffer) for s in walk(loop)):
            continue
        if reduce.buffer.name in {x.buffer.name for x in loads_in(reduce.value)}:
            continue
        return _rewrite(loop, path, reduce, ranges, fresh(reduce.buffer.name))
    return loop


def _rewrite(loop: For, path: tuple[For, ...], reduce: Reduce, ranges: Ranges, name: str) -> Stmt:
    dtype = reduce.buffer.dtype
    own = Buffer(name=name, shape=(1,), dtype=dtype, scope="register")
    at = (Const(0),)
    starts, first = _start(path, reduce, ranges)
    total = Reduce.into(reduce.name, reduce.op, own[at], reduce.value, first)
    inside = map_stmt(loop, lambda s: total if s is reduce else s)
    before = [Assign.to(f"{reduce.name}.start", own[at], starts)]
    after = Assign.to(f"{reduce.name}.end", Load(reduce.buffer, reduce.indices), own[at])
    return Alloc(buffer=own, body=seq(*before, inside, after))


def _start(path: tuple[For, ...], reduce: Reduce, ranges: Ranges) -> tuple[Expr, Expr | None]:
    """For the register that accumulates a sum or maximum, returns (initial value, predicate). Where the predicate is
    true, an update overwrites the register. Where it is false, and everywhere if it is None, an update adds to the
    register. `path`: the loops around `reduce`, from the rewritten loop inwards. `ranges`: ranges of the variables of
    the loops around the rewritten loop.
    """
    start = neutral(reduce.op, reduce.buffer.dtype)
    if reduce.first is not None:
        turning = {x.name for x in path if x.extent != Const(1)}
        if _zeros(reduce.first) == turning:
            # True in the first iteration only.
            return start, None
        begin = substitute_expr(reduce.first, {x.name: Const(0) for x in path})
        decided = simplify(begin, ranges)
        if isinstance(decided, Const) and decided.value:
            return start, reduce.first
    return Load(reduce.buffer, reduce.indices), reduce.first


def neutral(op: str, dtype: DType) -> Const:
    """The neutral element of a sum ("add") or a maximum ("max")."""
    if op == "add":
        return Const(0.0 if dtype.is_float else 0, dtype)
    return Const(float("-inf") if dtype.is_float else dtype.limits[0], dtype)


def _zeros(condition: Expr) -> set[str] | None:
    """The variables that a conjunction (`i == 0 and j == 0`) compares with 0 ({i, j}); None for other conditions."""
    match condition:
        case Binary(op="and", a=a, b=b):
            x, y = _zeros(a), _zeros(b)
            return None if x is None or y is None else x | y
        case Binary(op="==", a=Var(name=name), b=Const(value=0)):
            return {name}
    return None


def _sums(statement: Stmt, path: tuple[For, ...]) -> list[tuple[tuple[For, ...], Reduce]]:
    """All Reduce statements (sums and maxima) in `statement` outside of loops over threads. Each has the list of its
    enclosing loops, outermost first.
    """
    match statement:
        case Reduce():
            return [(path, statement)]
        case For(kind=kind):
            if kind.startswith("thread."):
                return []
            path = (*path, statement)
    return [found for child in children(statement) for found in _sums(child, path)]


def _runs(path: tuple[For, ...], ranges: Ranges) -> bool:
    """Whether every loop of the nest `path` certainly has at least one iteration. `ranges`: ranges of the variables of
    the loops around the nest.
    """
    around: dict[str, Interval | Expr] = dict(ranges)
    for loop in path:
        low = interval(loop.extent, around).low
        if low is None or low < 1:
            return False
        around[loop.name] = loop_range(loop.extent)
    return True


def _touches(statement: Node, buffer: Buffer) -> bool:
    """Whether a statement itself, without nested statements, reads or writes a buffer."""
    regions = statement.operands if isinstance(statement, Intrinsic) else ()
    if isinstance(statement, Copy):
        regions = (statement.destination, statement.source)
    written = [statement.buffer] if isinstance(statement, Assign | Reduce) else [r.buffer for r in regions]
    read = [load.buffer for e in expressions(statement) for load in loads_in(e)]
    return any(touched.name == buffer.name for touched in (*written, *read))
