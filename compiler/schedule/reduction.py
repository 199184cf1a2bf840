"""The primitive `decompose_reduction`, which makes a separate statement for a sum's initial value, and checks of
reductions that the primitive `rfactor` also calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ..ir.bounds import loop_ranges, provably_at_least
from ..ir.expr import Const, Expr, Load, Var
from ..ir.simplify import simplify
from ..ir.stmt import Assign, For, Node, Program, Reduce, Stmt, seq
from ..ir.types import DType
from ..ir.visit import free_vars, substitute_expr, walk_expr
from .errors import LegalityError
from .legality import single, starting_loops
from .tree import locate, names_in, rebuild


def decompose_reduction(program: Program, name: str, loop: str) -> Program:
    """Initializes the sum `name` with its operator's identity (0 or the least value) in a loop nest before `loop`.

    rewrite:
                                                           for j.init in range(4):
        for k in range(n):                                     C[j.init] = 0
            for j in range(4):                       ->    for k in range(n):
                C[j] += A[k, j] first k == 0                   for j in range(4):
                                                                   C[j] += A[k, j]
    The new statement is called `name`.init; its loops are copies of the non-reduction loops from `loop` inwards, with
    the same kinds and the suffix ".init". Legal if the nest under `loop` contains only the Reduce; `first` is the
    condition that all its reduction loops are at 0; each reduction loop is `loop` or inside `loop`; and the extents of
    the other loops do not depend on reduction loops.
    """
    path, reduce = reduce_named(program, name)
    chain = [n for n in path if isinstance(n, For)]
    position = next((i for i, n in enumerate(chain) if n.name == loop), None)
    if position is None:
        raise LegalityError(f"cannot decompose {name}: it is not inside {loop}", program, loop)
    inner = chain[position:]
    check_perfect(program, inner, reduce)
    own = reduction_loops(program, reduce, chain, inner)
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
    body = nested(inner, adding)
    top = path.index(inner[0])
    return rebuild(path[: top + 1], seq(start, body))


def identity(op: str, dtype: DType) -> Const:
    """The identity of a reduction: 0 for "add", the least value of the type for "max"."""
    if op == "add":
        return Const(0.0 if dtype.is_float else 0, dtype)
    return Const(float("-inf") if dtype.is_float else dtype.limits[0], dtype)


def reduce_named(program: Program, name: str) -> tuple[tuple[Node, ...], Reduce]:
    """The path to the Reduce `name`, and the Reduce; raises LegalityError if there is none, or if its terms may not be
    regrouped.
    """
    path = locate(program, name)
    reduce = path[-1]
    if not isinstance(reduce, Reduce):
        raise LegalityError(f"{name} is not a sum", program, name)
    if reduce.op not in ("add", "max"):
        raise LegalityError(f"{name} combines by {reduce.op}; it must combine by add or max", program, name)
    if reduce.first is None:
        raise LegalityError(
            f"{name} only adds to earlier contents of its buffer: no condition says when the sum starts at zero",
            program,
            name,
        )
    if any(isinstance(e, Load) and e.buffer.name == reduce.buffer.name for e in walk_expr(reduce.value)):
        raise LegalityError(f"{name} reads the buffer of its own sum", program, name)
    return path, reduce


def check_perfect(program: Program, chain: Sequence[For], reduce: Reduce) -> None:
    """Raises LegalityError unless each loop of `chain` contains only the next one, and the last loop contains only
    `reduce`.
    """
    for n, inside in pairwise((*chain, reduce)):
        if isinstance(n, For) and n.body is not inside:
            reason = f"{n.name} contains statements other than {reduce.name}"
            raise LegalityError(reason, program, n.name)


def reduction_loops(program: Program, reduce: Reduce, chain: Sequence[For], nest: Sequence[For]) -> set[str]:
    """The loops over which a sum runs. Raises LegalityError unless `first` is the condition that all of these are at 0.

    `chain`: all loops around the sum; `nest`: the loops in which the sum must not start again.
    """
    assert reduce.first is not None
    ranges = loop_ranges(chain)
    own = starting_loops(simplify(reduce.first, ranges))
    if own is None:
        reason = f"`first` of {reduce.name} is not the condition that all of its reduction loops are in iteration 0"
        raise LegalityError(reason, program, reduce.name)
    for n in chain:
        if n.name in own and not provably_at_least(n.extent, 1, ranges):
            raise LegalityError(
                f"{n.name}, over which {reduce.name} sums, may have 0 iterations", program, n.name
            )
    indexed: set[str] = set()
    for i in reduce.indices:
        indexed |= free_vars(i)
    if both := sorted(own & indexed):
        reason = f"{reduce.name} sums over loop {both[0]}, but {both[0]} also selects the element that holds the sum"
        raise LegalityError(reason, program, both[0])
    for n in nest:
        if n.name not in own and n.name not in indexed and not single(n):
            reason = f"{reduce.name} starts a new sum in each iteration of {n.name}"
            raise LegalityError(reason, program, n.name)
    return own


def nested(chain: Sequence[For], body: Stmt) -> Stmt:
    """`body` in copies of the loops `chain`, outermost first."""
    for n in reversed(chain):
        body = For(var=n.var, extent=n.extent, body=body, kind=n.kind)
    return body
