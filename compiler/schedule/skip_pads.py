"""skip_pads: skips iterations of a sum in which all products are zero. A product is zero if one of its factors was read
from the zero padding of a copy.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..ir.affine import LinearForm, form_to_expr, linear_form
from ..ir.bounds import Ranges, form_interval, loop_ranges
from ..ir.expr import Const, Expr, Load, Var, minimum
from ..ir.stmt import Copy, For, Program, Reduce, Stmt
from ..ir.visit import children, free_vars, loops
from .errors import LegalityError
from .legality import touches
from .pad import factors, partner
from .tree import locate_alloc, locate_loop, names_in, rebuild


def skip_pads(program: Program, loop: str) -> Program:
    """Puts a loop of at most one iteration around the body of a sum's loop: the new loop has no iteration if all
    products of the body are zero.

    rewrite (skip_pads("k")):
        alloc a: [20]                              alloc a: [20]
        a: copy a[0:20] = A[-8:12] pad 0           a: copy a[0:20] = A[-8:12] pad 0
        for i in range(4):                         for i in range(4):
            for k in range(3):               ->        for k in range(3):
                for j in range(2):                         for k.in in range(min(1, 4*k + 2*i - 6)):
                    C[i, j] += a[4*k + 2*i + j]                for j in range(2):
                         * W[k]                                    C[i, j] += a[4*k + 2*i + j] * W[k]
    An iteration of the loop is skipped if it reads only pads of the copy, in all iterations of the loops inside. If
    provably no iteration reads only pads, or if no copy with pads is found, the program stays as it is. A product of a
    pad and an infinite factor would be NaN; a skipped product does not make the sum NaN.

    Legal for a serial or unrolled loop whose body is loops around one Reduce, which must add to an initialized sum (see
    `decompose_reduction`). Raises LegalityError if the new name is taken.
    """
    path, at = locate_loop(program, loop)
    where = f"cannot skip pads in {loop}: "
    if at.kind not in ("serial", "unroll"):
        raise LegalityError(f"{where}the loop is {at.kind}, and must be serial or unroll", program, loop)
    reduce = _sum(at)
    if reduce is None or reduce.op != "add" or reduce.first is not None:
        reason = (
            f"{where}the loop must contain only loops around one sum, which is initialized before (decompose_reduction "
            "does that)"
        )
        raise LegalityError(reason, program, loop)
    around = [n for n in path if isinstance(n, For)]
    inner = {n.name for n in loops(at.body)}
    ranges = loop_ranges((*around, *loops(at.body)))
    conditions: dict[Expr, None] = {}
    for factor in factors(reduce.value):
        if isinstance(factor, Load):
            for position, size in _positions(program, factor, {n.name for n in around} | inner):
                conditions |= dict.fromkeys(_in_range_conditions(position, size, loop, inner, ranges))
    if not conditions:
        return program
    inside = Var(f"{loop}.in")
    if inside.name in names_in(program):
        raise LegalityError(f"{where}the name {inside.name} is taken", program, inside.name)
    extent: Expr = Const(1)
    for condition in conditions:
        extent = minimum(extent, condition)
    body = For(var=inside, extent=extent, body=at.body)
    return rebuild(path, For(var=at.var, extent=at.extent, body=body, kind=at.kind))


def _sum(loop: For) -> Reduce | None:
    node: Stmt = loop
    while isinstance(node, For):
        node = node.body
    return node if isinstance(node, Reduce) else None


def _positions(program: Program, load: Load, known: set[str]) -> Iterator[tuple[LinearForm, int]]:
    """For each dimension of `load`, yields (index of the element in the source array, size of the source along this
    dimension). The buffer that `load` reads must be filled by a single copy with pad zero; otherwise nothing is
    yielded. `known`: names of the loops on which the copy's position may depend; other dimensions are skipped.
    """
    allocation = locate_alloc(program, load.buffer.name)
    if allocation is None:
        return
    uses = touches(children(allocation[-1])[0], load.buffer.name)[load.buffer.name]
    writers = [use.by for use in uses if use.write]
    copy = writers[0] if len(writers) == 1 else None
    if not isinstance(copy, Copy) or copy.asynchronous or copy.pad is None or copy.pad.value != 0:
        return
    to, of = copy.destination, copy.source
    for d, index in enumerate(load.indices):
        if to.extents[d] == Const(1):
            continue
        e = partner(copy, d)
        if e is None or not (free_vars(to.starts[d]) | free_vars(of.starts[e])) <= known:
            continue
        position = linear_form(index).plus(linear_form(to.starts[d]), -1).plus(linear_form(of.starts[e]))
        yield position, of.buffer.shape[e]


def _in_range_conditions(
    position: LinearForm, size: int, loop: str, inner: set[str], ranges: Ranges
) -> Iterator[Expr]:
    """Yields expressions that are all at least 1 if `position` is within 0 .. size - 1 in at least one iteration of the
    loops `inner`. If one of them is below 1, all these iterations are thus out of range. Yields nothing if the
    expressions would not depend on `loop`.
    """
    moving = {atom: c for atom, c in position.terms.items() if free_vars(atom) & inner}
    rest = LinearForm({a: c for a, c in position.terms.items() if a not in moving}, position.constant)
    if not any(loop in free_vars(atom) for atom in rest.terms):
        return
    reach = form_interval(LinearForm(moving, 0), ranges)
    if reach.high is not None:
        yield from _possible(rest.offset(reach.high + 1), ranges)
    if reach.low is not None:
        yield from _possible(LinearForm({}, size - reach.low).plus(rest, -1), ranges)


def _possible(form: LinearForm, ranges: Ranges) -> Iterator[Expr]:
    """For the condition that `form` is at least 1: yields `form` as an expression, or nothing if the condition provably
    holds in all iterations.
    """
    low = form_interval(form, ranges).low
    if low is None or low < 1:
        yield form_to_expr(form)
