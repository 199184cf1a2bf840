"""Primitives on reductions: a separate statement for the initial value, and partial sums."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ..ir.bounds import loop_ranges, provably_at_least
from ..ir.expr import Buffer, Const, Expr, Load, Var, all_of, equal
from ..ir.simplify import simplify
from ..ir.stmt import Alloc, Assign, For, Node, Program, Reduce, Seq, Stmt, seq
from ..ir.types import DType
from ..ir.visit import free_vars, map_expressions, substitute_expr, walk_expr
from .errors import LegalityError
from .legality import single, starting_loops
from .tree import locate, names_in, rebuild, unused


def decompose_reduction(program: Program, name: str, loop: str) -> Program:
    """Initializes the sum `name` in a separate loop nest before `loop`, with its identity (0, or the least value).

    rewrite:
                                                           for j.init in range(4):
        for k in range(n):                                     C[j.init] = 0
            for j in range(4):                       ->    for k in range(n):
                C[j] += A[k, j] first k == 0                   for j in range(4):
                                                                   C[j] += A[k, j]
    The new statement is called `name`.init; its loops are copies of the non-reduction loops from `loop` inwards, with
    the same kinds and the suffix ".init". Legal if the nest under `loop` contains only the Reduce, `first` is the
    condition that all its reduction loops are at 0, these are `loop` or inside it, and the extents of the other loops
    do not depend on reduction loops.
    """
    path, reduce = _reduce_named(program, name)
    chain = [n for n in path if isinstance(n, For)]
    position = next((i for i, n in enumerate(chain) if n.name == loop), None)
    if position is None:
        raise LegalityError(f"cannot decompose {name}: it is not inside {loop}", program, loop)
    inner = chain[position:]
    _check_perfect(program, inner, reduce)
    own = _reduction_loops(program, reduce, chain, inner)
    if outside := sorted(own - {n.name for n in inner}):
        reason = f"cannot decompose {name} at {loop}: its sum also runs over {outside[0]}, which is outside"
        raise LegalityError(reason, program, outside[0])
    kept = [n for n in inner if n.name not in own]
    names = {n.name: f"{n.name}.init" for n in kept}
    values: dict[str, Expr] = {old: Var(new) for old, new in names.items()}
    taken = names_in(program)
    for new in (*names.values(), f"{name}.init"):
        if new in taken:
            raise LegalityError(f"cannot decompose {name}: the name {new} is taken", program, new)
    for n in kept:
        if bad := sorted(free_vars(n.extent) & own):
            reason = f"cannot decompose {name}: the extent of {n.name} depends on {bad[0]}"
            raise LegalityError(reason, program, n.name)
    start: Stmt = Assign(
        name=f"{name}.init",
        buffer=reduce.buffer,
        indices=tuple([substitute_expr(i, values) for i in reduce.indices]),
        value=identity(reduce.op, reduce.buffer.dtype),
    )
    for n in reversed(kept):
        extent = substitute_expr(n.extent, values)
        start = For(var=Var(names[n.name]), extent=extent, body=start, kind=n.kind)
    adding = Reduce(name=name, op=reduce.op, buffer=reduce.buffer, indices=reduce.indices, value=reduce.value)
    body = _nest(inner, adding)
    top = path.index(inner[0])
    return rebuild(path[: top + 1], seq(start, body))


def rfactor(program: Program, name: str, loop: str) -> Program:
    """Makes a partial sum for each iteration of one of the reduction loops of `name`, then adds the partial sums.

    rewrite:
                                                     alloc C.rf: [m, n]
        for i in range(n):                           for i.rf in range(n):
            for k in range(m):                           for k.rf in range(m):
                for j in range(4):         ->                for j in range(4):
                    C[i] += A[i, k, j]                           C.rf[k.rf, i.rf] += A[i.rf, k.rf, j] first j == 0
                        first k == 0 and j == 0      for i in range(n):
                                                         for k in range(m):
                                                             C[i] += C.rf[k, i] first k == 0
    The partial sums' statement is called `name`.rf, their buffer has the target's name with .rf. Legal if all loops
    around the Reduce, from the allocation of its target on, are one perfect nest of no other statement, `loop` is one
    of its reduction loops, `first` is the condition that all reduction loops are at 0, and the extents of the other
    loops do not depend on reduction loops.
    """
    path, reduce = _reduce_named(program, name)
    around = [n for n in path if isinstance(n, For)]
    inside = max(
        (i for i, n in enumerate(path) if isinstance(n, Alloc) and n.buffer.name == reduce.buffer.name),
        default=0,
    )
    chain = [n for n in path[inside:] if isinstance(n, For)]
    _check_perfect(program, chain, reduce)
    own = _reduction_loops(program, reduce, around, chain)
    if loop not in own or any(n.name in own for n in around if n not in chain):
        raise LegalityError(f"cannot factor {name}: {loop} is none of its reduction loops", program, loop)
    factored = next(n for n in chain if n.name == loop)
    if not isinstance(factored.extent, Const):
        raise LegalityError(f"cannot factor {name}: the extent of {loop} is not constant", program, loop)
    shared = [n for n in chain if n.name == loop or n.name not in own]
    for n in shared:
        if bad := sorted(free_vars(n.extent) & own):
            reason = f"cannot factor {name}: the extent of {n.name} depends on {bad[0]}"
            raise LegalityError(reason, program, n.name)
    values: dict[str, Expr] = {n.name: Var(f"{n.name}.rf") for n in shared}
    partial = Buffer(
        name=unused(program, f"{reduce.buffer.name}.rf"),
        shape=(int(factored.extent.value), *reduce.buffer.shape),
        dtype=reduce.buffer.dtype,
        scope=reduce.buffer.scope,
    )
    taken = names_in(program)
    for new in (*(f"{n.name}.rf" for n in shared), f"{name}.rf"):
        if new in taken:
            raise LegalityError(f"cannot factor {name}: the name {new} is taken", program, new)
    rest = [equal(n.var, 0) for n in chain if n.name in own and n.name != loop]
    summing = Reduce(
        name=f"{name}.rf",
        op=reduce.op,
        buffer=partial,
        indices=(factored.var, *reduce.indices),
        value=reduce.value,
        first=all_of(*rest),
    )
    renamed = map_expressions(summing, lambda e: substitute_expr(e, values))
    first_nest = _nest(
        [
            For(
                var=Var(f"{n.name}.rf") if n.name in values else n.var,
                extent=substitute_expr(n.extent, values),
                body=n.body,
                kind=n.kind,
            )
            for n in chain
        ],
        renamed,
    )
    adding = Reduce(
        name=name,
        op=reduce.op,
        buffer=reduce.buffer,
        indices=reduce.indices,
        value=Load(partial, (factored.var, *reduce.indices)),
        first=equal(factored.var, 0),
    )
    top = path.index(chain[0])
    both = (first_nest, _nest(shared, adding))
    if top == 0 or not isinstance(parent := path[top - 1], Seq):
        return rebuild(path[: top + 1], Alloc(buffer=partial, body=seq(*both)))
    # The allocation encloses all following statements, so that producers and users are in one sequence.
    position = next(i for i, s in enumerate(parent.statements) if s is path[top])
    before, after = parent.statements[:position], parent.statements[position + 1 :]
    return rebuild(path[:top], seq(*before, Alloc(buffer=partial, body=seq(*both, *after))))


def identity(op: str, dtype: DType) -> Const:
    """The identity of a reduction: 0 for "add", the least value of the type for "max"."""
    if op == "add":
        return Const(0.0 if dtype.is_float else 0, dtype)
    return Const(float("-inf") if dtype.is_float else dtype.limits[0], dtype)


def _reduce_named(program: Program, name: str) -> tuple[tuple[Node, ...], Reduce]:
    path = locate(program, name)
    reduce = path[-1]
    if not isinstance(reduce, Reduce):
        raise LegalityError(f"{name} is not a sum", program, name)
    if reduce.op not in ("add", "max"):
        raise LegalityError(f"{name} combines by {reduce.op}, which may not be regrouped", program, name)
    if reduce.first is None:
        raise LegalityError(
            f"{name} adds to earlier contents of its buffer: it has no `first`", program, name
        )
    if any(isinstance(e, Load) and e.buffer.name == reduce.buffer.name for e in walk_expr(reduce.value)):
        raise LegalityError(f"{name} reads the buffer of its own sum", program, name)
    return path, reduce


def _check_perfect(program: Program, chain: Sequence[For], reduce: Reduce) -> None:
    for n, inside in pairwise((*chain, reduce)):
        if isinstance(n, For) and n.body is not inside:
            reason = f"{n.name} holds more than the nest of {reduce.name}"
            raise LegalityError(reason, program, n.name)


def _reduction_loops(program: Program, reduce: Reduce, chain: Sequence[For], nest: Sequence[For]) -> set[str]:
    """The loops over which a sum runs, if `first` is true exactly when all of them are at 0.

    `chain`: all loops around the sum; `nest`: the loops in which the sum must not start again.
    """
    assert reduce.first is not None
    ranges = loop_ranges(chain)
    own = starting_loops(simplify(reduce.first, ranges))
    if own is None:
        reason = f"`first` of {reduce.name} is not the condition that its reduction loops are at 0"
        raise LegalityError(reason, program, reduce.name)
    for n in chain:
        if n.name in own and not provably_at_least(n.extent, 1, ranges):
            raise LegalityError(
                f"{n.name}, over which {reduce.name} sums, may have no iteration", program, n.name
            )
    indexed: set[str] = set()
    for i in reduce.indices:
        indexed |= free_vars(i)
    if both := sorted(own & indexed):
        raise LegalityError(
            f"{reduce.name} sums over {both[0]}, which its target depends on", program, both[0]
        )
    for n in nest:
        if n.name not in own and n.name not in indexed and not single(n):
            reason = f"{reduce.name} starts anew in each iteration of {n.name}"
            raise LegalityError(reason, program, n.name)
    return own


def _nest(chain: Sequence[For], body: Stmt) -> Stmt:
    for n in reversed(chain):
        body = For(var=n.var, extent=n.extent, body=body, kind=n.kind)
    return body
