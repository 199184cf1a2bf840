"""Legality of reordered and concurrent iterations: loop-carried dependences, from the affine accesses of the body."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from ..ir.affine import LinearForm, linear_form
from ..ir.bounds import Ranges, form_interval, interval, loop_ranges
from ..ir.expr import TRUE, Binary, Const, Expr, Var
from ..ir.quick_init import quick_init
from ..ir.regions import operand_access
from ..ir.split_axes import determined_loops
from ..ir.stmt import (
    AXES,
    Alloc,
    Assign,
    Commit,
    Copy,
    For,
    Intrinsic,
    NamedStmt,
    Node,
    Program,
    Reduce,
    Wait,
)
from ..ir.verify import VerifyError, verify
from ..ir.visit import expressions, free_vars, loads_in, loops, operands, walk
from .errors import LegalityError
from .idle_loops import loops_with_work
from .unequal_indices import apart, residues

CONCURRENT = ("vectorize", "parallel", *AXES)
"""The kinds of loops whose iterations may run concurrently or in any order."""


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """One access by statement `by`: first index and number of elements (None: unknown) in each dimension."""

    starts: tuple[Expr, ...]
    extents: tuple[int | None, ...]
    write: bool
    by: NamedStmt


def touches(node: Node, only: str | None = None) -> dict[str, list[Touch]]:
    """All accesses in a tree by buffer name, except accesses to buffers allocated in it; `only`: name of the one buffer
    whose accesses are wanted (None: all buffers).
    """
    found: dict[str, list[Touch]] = {}
    hidden: set[str] = set()

    def add(
        name: str, starts: tuple[Expr, ...], extents: tuple[Expr, ...] | None, write: bool, by: NamedStmt
    ) -> None:
        if only is not None and name != only:
            return
        if extents is None:
            sizes: tuple[int | None, ...] = (1,) * len(starts)
        else:
            sizes = tuple([getattr(e, "value", None) for e in extents])
        found.setdefault(name, []).append(Touch(starts=starts, extents=sizes, write=write, by=by))

    for s in walk(node):
        match s:
            case Alloc(buffer=buffer):
                hidden.add(buffer.name)
                continue
            case Assign(buffer=buffer, indices=indices) | Reduce(buffer=buffer, indices=indices):
                add(buffer.name, indices, None, True, s)
            case Copy(destination=to, source=of):
                add(to.buffer.name, to.starts, to.extents, True, s)
                add(of.buffer.name, of.starts, of.extents, False, s)
            case Intrinsic(declaration=declaration, operands=operands):
                for region, (_, writes) in zip(operands, operand_access(declaration), strict=True):
                    add(region.buffer.name, region.starts, region.extents, writes, s)
        if isinstance(s, Assign | Reduce | Copy | Intrinsic):
            for top in expressions(s):
                for e in loads_in(top):
                    add(e.buffer.name, e.indices, None, False, s)
    return {name: uses for name, uses in found.items() if name not in hidden}


def written(node: Node) -> set[str]:
    """The names of the buffers that a tree writes, except buffers allocated in it."""
    found: set[str] = set()
    hidden: set[str] = set()
    for s in walk(node):
        match s:
            case Alloc(buffer=buffer):
                hidden.add(buffer.name)
            case Assign(buffer=buffer) | Reduce(buffer=buffer):
                found.add(buffer.name)
            case Copy(destination=destination):
                found.add(destination.buffer.name)
            case Intrinsic(declaration=declaration, operands=operands):
                access = zip(operands, operand_access(declaration), strict=True)
                found |= {region.buffer.name for region, (_, writes) in access if writes}
    return found - hidden


def single(loop: For) -> bool:
    """Whether a loop provably has at most one iteration, like the loops that `guard` adds."""
    return _at_most_one(loop.extent)


def _at_most_one(extent: Expr) -> bool:
    match extent:
        case Const(value=value):
            return value <= 1
        case Binary(op="min", a=a, b=b):
            return _at_most_one(a) or _at_most_one(b)
    return False


def conjuncts(condition: Expr) -> list[Expr]:
    """The conditions joined by "and" in `condition`; empty for a condition that is always true."""
    match condition:
        case Binary(op="and", a=a, b=b):
            return [*conjuncts(a), *conjuncts(b)]
    return [] if condition == TRUE else [condition]


def starting_loops(first: Expr) -> set[str] | None:
    """The variables that all must be 0 for `first` to hold (empty if it is TRUE); None if `first` has another form."""
    names: set[str] = set()
    for condition in conjuncts(first):
        match condition:
            case Binary(op="==", a=a, b=b):
                form = linear_form(a).plus(linear_form(b), -1)
                if form.constant == 0 and all(isinstance(v, Var) and c > 0 for v, c in form.terms.items()):
                    names |= {v.name for v in form.terms if isinstance(v, Var)}
                    continue
        return None
    return names


def asynchronous(node: Node) -> str | None:
    """The reason why a tree with asynchronous copies must not be reordered; None for a tree without them."""
    for s in walk(node):
        kind = type(s)
        if kind is Commit or kind is Wait or (type(s) is Copy and s.asynchronous):
            return "it contains asynchronous copies, whose order must not change"
    return None


def check_grid(program: Program) -> Program:
    """`program` itself, if its grid loops nest correctly; raises LegalityError otherwise."""
    if any(type(node) is For and node.kind in AXES for node in walk(program)):
        from ..ir.grid import grid_obstacle

        if (found := grid_obstacle(program)) is not None:
            raise LegalityError(found[0], program, found[1])
    return program


def check_bounds(after: Program, before: Program, at: str, changed: Node | None = None) -> Program:
    """Returns `after` if no index in its new part contains a division. Otherwise verifies `after` first, and raises
    LegalityError, which quotes `before` and underlines its loop or statement `at`, if `after` is invalid.

    `changed`: the new part of `after` (None: all of it); older parts were verified before. Bounds of quotients and
    remainders of several loops cannot always be proven, and no target compiles a program that does not verify.
    """
    return (
        check_verified(after, before, at)
        if _divides_somewhere(after if changed is None else changed)
        else after
    )


def check_verified(after: Program, before: Program, at: str) -> Program:
    """Returns `after` if it verifies; else raises LegalityError, which quotes `before` and underlines `at` in it."""
    try:
        verify(after)
    except VerifyError as error:
        raise LegalityError(f"the result could not be verified: {error}", before, at) from None
    return after


def _divides_somewhere(node: Node) -> bool:
    for statement in walk(node):
        if type(statement) is For:
            if type(statement.extent) is not Const and _divides(statement.extent):
                return True
            continue
        for expr in expressions(statement):
            if type(expr) is not Var and type(expr) is not Const and _divides(expr):
                return True
    return False


def _divides(expr: Expr) -> bool:
    # Fast path without a generator: most expressions are variables and sums.
    if type(expr) is Var or type(expr) is Const:
        return False
    if type(expr) is Binary:
        return expr.op == "//" or expr.op == "%" or _divides(expr.a) or _divides(expr.b)
    return any(map(_divides, operands(expr)))


def order_obstacle(body: Node, around: Sequence[For], moved: AbstractSet[str], inside: int) -> str | None:
    """The reason why the iterations of the loops `moved` may not run in another order; None if they may.

    `around`: the loops around `body`, outermost first; loops from position `inside` on belong to the reordered nest,
    and earlier loops are constant in it. The iterations of a Reduce may be reordered among themselves if the moved
    loops occur in the indices of its target or in `first`; if several loops move, `first` must be the condition that
    all of them are 0. All other accesses must touch different elements in each iteration.
    """
    if (reason := asynchronous(body)) is not None:
        return reason
    inner = tuple(loops(body))
    ranges = loop_ranges((*around, *inner))
    varying = {loop.name for loop in (*around[inside:], *inner)}
    for name, uses in touches(body).items():
        if not any(u.write for u in uses):
            continue
        free = _reduction_loops(uses[0].by, name) if len({id(u.by) for u in uses}) == 1 else None
        if free == _ANY:
            continue
        if free is not None and len(free & moved) > 1 and starting_loops(_first(uses[0].by)) is None:
            free = None
        own = distinct_loops(uses, ranges, varying) | (free or frozenset())
        if not moved <= own and (missing := loops_with_work(moved - own, around, body, inside)):
            return f"{uses[0].by.name} touches the same elements of {name} in different iterations of {missing[0]}"
    return None


def parallel_obstacle(loop: For, around: Sequence[For]) -> str | None:
    """The reason why `loop`, inside the loops `around`, may not run in parallel; None if iterations touch different
    elements of written buffers and the body has no asynchronous copies.
    """
    if (reason := asynchronous(loop.body)) is not None:
        return reason
    inner = tuple(loops(loop.body))
    ranges = loop_ranges((*around, loop, *inner))
    varying = {loop.name, *(nested.name for nested in inner)}
    for name, uses in touches(loop.body).items():
        shared = any(u.write for u in uses) and loop.name not in distinct_loops(uses, ranges, varying)
        if shared and loops_with_work({loop.name}, around, loop, len(around)):
            return f"its iterations share elements of {name}"
    return None


def distinct_loops(uses: list[Touch], ranges: Ranges, varying: AbstractSet[str]) -> set[str]:
    """The loops among `varying` whose iterations provably never touch an element that another iteration touches.
    `uses`: all accesses to one buffer.
    """
    found: set[str] = set()
    for d, start in enumerate(uses[0].starts):
        extents = [u.extents[d] for u in uses]
        known = [e for e in extents if e is not None]
        # An index read from memory may change from one iteration to the next.
        if len(known) < len(extents) or any(loads_in(u.starts[d]) for u in uses):
            continue
        if all(u.starts[d] == start for u in uses[1:]):
            found |= _injective(linear_form(start), max(known), ranges, varying)
        else:
            forms = [linear_form(u.starts[d]) for u in uses]
            found |= apart(forms, max(known), ranges, varying)
            found |= residues(forms, max(known), ranges, varying)
    same = [
        start
        for d, start in enumerate(uses[0].starts)
        if all(u.extents[d] == 1 and u.starts[d] == start for u in uses) and not loads_in(start)
    ]
    # Only indices with divisions need the joint test; the others were decided one by one.
    return found | determined_loops(same, ranges, varying) if any(map(_divides, same)) else found


def _injective(form: LinearForm, extent: int, ranges: Ranges, varying: AbstractSet[str]) -> set[str]:
    """The `varying` loops in an index if the index is a mixed-radix number of them, so that accesses to `extent`
    elements in different iterations never overlap.

    A digit's weight must exceed the largest value of all smaller digits together: 7*o + 4*x.0 + x.1 is a mixed-radix
    number for x.1 < min(4, 6 - 4*x.0), since 4*x.0 + x.1 is at most 5.
    """
    found: set[str] = set()
    smaller = LinearForm({}, 0)
    for atom, coefficient in sorted(form.terms.items(), key=lambda term: abs(term[1])):
        if not free_vars(atom) & varying:
            continue
        held = interval(atom, ranges)
        if not isinstance(atom, Var) or held.low is None or held.high is None:
            return set()
        reached = form_interval(smaller, ranges)
        if held.low < held.high and (
            reached.low is None
            or reached.high is None
            or abs(coefficient) < extent + reached.high - reached.low
        ):
            return set()
        smaller = smaller.plus(LinearForm({atom: coefficient}, 0))
        found.add(atom.name)
    return found


_ANY = frozenset({""})


def _reduction_loops(by: NamedStmt, target: str) -> frozenset[str] | None:
    """The loops over which statement `by`, a Reduce or an intrinsic made of Reduces, sums into `target`. The set `_ANY`
    if the loops may run in any order.

    None for other statements, and if `by` also reads `target` as an ordinary operand.
    """
    match by:
        case Reduce(first=first):
            if any(e.buffer.name == target for e in loads_in(by.value)):
                return None
        case Intrinsic(declaration=declaration, operands=operands, first=first):
            if sum(r.buffer.name == target for r in operands) > 1:
                return None
            if not all(
                isinstance(s, Reduce) for s in walk(declaration.body) if isinstance(s, Assign | Reduce)
            ):
                return None
        case _:
            return None
    return _ANY if first is None else frozenset(free_vars(first))


def _first(by: NamedStmt) -> Expr:
    assert isinstance(by, Reduce | Intrinsic) and by.first is not None
    return by.first
