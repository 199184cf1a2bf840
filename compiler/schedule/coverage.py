"""Coverage: whether the loops around an access touch every element of its box (rectangle of elements), also if `split`
has shortened their last iterations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..ir.affine import LinearForm, form_to_expr, linear_form
from ..ir.bounds import Ranges, form_interval, interval, loop_ranges, provably_at_least
from ..ir.expr import Binary, Const, Expr, Var, minimum
from ..ir.stmt import For
from ..ir.visit import free_vars
from .tree import plus


def fills_box(
    starts: Sequence[Expr],
    sizes: Sequence[int | None],
    extents: Sequence[Expr],
    over: Sequence[For],
    ranges: Ranges,
) -> bool:
    """Whether an access to `sizes` elements from `starts` on provably touches all of a box (rectangle of elements)
    while the loops `over` run.

    The box is the hull of the touched elements (`ir.regions`); `extents`: its size. `ranges`: ranges of the loops
    around `over`. A size of None is unknown. Each dimension's index must be a mixed-radix number of loops that occur in
    no other dimension. Loops may have the shortened extents of a `split` tail: 4*o + i with i < min(4, 10 - 4*o) runs
    through 0 .. 9.
    """
    loops = {loop.name: loop.extent for loop in over}
    everything: Ranges = {**ranges, **loop_ranges(over)}
    used: set[str] = set()
    for start, width, extent in zip(starts, sizes, extents, strict=True):
        form = linear_form(start)
        digits = [(c, a) for a, c in form.terms.items() if free_vars(a) & loops.keys()]
        if not digits:
            continue
        names = {a.name for _, a in digits if isinstance(a, Var)}
        if width is None or len(names) < len(digits) or names & used:
            return False
        used |= names
        if not _Digits(loops=loops, ranges=everything, width=width).fill(digits, extent):
            return False
    return all(provably_at_least(loop.extent, 1, everything) for loop in over if loop.name not in used)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Digits:
    """Decides whether accesses touch every index of one dimension. The index is a mixed-radix number with loop
    variables as digits. `loops`: the extent of each loop, by loop name; `ranges`: ranges of all loops; `width`:
    elements touched by one access.
    """

    loops: dict[str, Expr]
    ranges: Ranges
    width: int

    def fill(self, digits: list[tuple[int, Expr]], extent: Expr) -> bool:
        """Whether accesses provably touch every index 0 .. extent - 1 of the dimension. Each access touches `width`
        adjacent elements; its first index is the sum of step * variable over the pairs (step, variable) in `digits`.
        False if a step exceeds the number of elements that the digits with smaller steps cover together: elements are
        then left out.
        """
        reach, exact, across = self.width - 1, True, False
        reached: Expr = Const(reach)
        before: dict[str, tuple[int, int, bool]] = {}
        clips: dict[str, list[tuple[str, Expr]]] = {}
        steps = {a.name: c for c, a in digits if isinstance(a, Var)}
        order = sorted(steps, key=lambda name: steps[name])
        for name in order:
            step = steps[name]
            if not 0 < step <= reach + 1:
                return False
            before[name] = step, reach, exact
            count, rest = self.parts(self.loops[name])
            if count is None or count < 1:
                return False
            for part in rest:
                found = self.clip(name, part, order, steps)
                if found is None:
                    return False
                top, limit = found
                across = across or top != name
                clips.setdefault(top, []).append((name, limit))
            reach += step * (count - 1)
            reached = plus(reached, Const(step * (count - 1)))
            for bottom, limit in clips.get(name, []):
                step, below, known = before[bottom]
                low = interval(limit, self.ranges).low
                if not known or below + 1 != step or low is None:
                    return False
                if low < 1 and (len(order) > 1 or self.width > 1):
                    return False
                reach = min(reach, step * (low - 1) + below)
                reached = minimum(reached, (limit - 1) * step + below)
                exact = exact and isinstance(limit, Const)
        # The hull of the loops' ranges may ignore a cut that involves several digits.
        return not across or _same(extent, reached + 1, self.ranges)

    def parts(self, extent: Expr) -> tuple[int | None, list[Expr]]:
        """Splits an extent that is a minimum of several expressions. Returns (number, the expressions that are not
        constants). The number is the least constant among the expressions; if there is no constant, it is an upper
        bound of the extent.
        """
        flat, stack = [], [extent]
        while stack:
            match stack.pop():
                case Binary(op="min", a=a, b=b):
                    stack += [a, b]
                case part:
                    flat.append(part)
        constants = [int(part.value) for part in flat if isinstance(part, Const)]
        rest = [part for part in flat if not isinstance(part, Const)]
        return min(constants, default=interval(extent, self.ranges).high), rest

    def clip(self, name: str, part: Expr, order: list[str], steps: dict[str, int]) -> tuple[str, Expr] | None:
        """Converts a bound on the loop variable `name` to a bound on a mixed-radix number whose lowest digit is this
        variable: the bound i < 10 - 4*o on i becomes the bound 4*o + i < 10 on the number 4*o + i.

        `part` is the upper bound on the variable (here 10 - 4*o); the loop variables in it are the other digits.
        `steps` gives the weight of each digit, by loop variable; `order` lists the variables by ascending weight.
        Returns (name of the number's most significant digit, upper bound on the number). Returns None if the variables
        in `part` are not the next digits after `name` in `order`, or if their coefficients do not match `steps`.
        """
        form = linear_form(part)
        others = {a.name: c for a, c in form.terms.items() if isinstance(a, Var) and a.name in self.loops}
        step, first = steps[name], order.index(name)
        members = order[first : first + 1 + len(others)]
        if set(members) != {name, *others}:
            return None
        if any(step * c != -steps[other] for other, c in others.items()):
            return None
        terms = {a: c for a, c in form.terms.items() if not (isinstance(a, Var) and a.name in others)}
        if any(free_vars(a) & self.loops.keys() for a in terms):
            return None
        return members[-1], form_to_expr(LinearForm(terms, form.constant))


def _same(a: Expr, b: Expr, ranges: Ranges) -> bool:
    """Whether two minima of linear forms are provably equal: for each form of either minimum, the other minimum has a
    form that is not greater.
    """
    x, y = _least(linear_form(a)), _least(linear_form(b))
    return all(
        any((low := form_interval(own.plus(form, -1), ranges).low) is not None and low >= 0 for form in other)
        for forms, other in ((x, y), (y, x))
        for own in forms
    )


def _least(form: LinearForm) -> list[LinearForm]:
    """Expands the `min` operators in `form`: returns linear forms without `min`; the least of these forms equals
    `form`.
    """
    for atom, coefficient in form.terms.items():
        if isinstance(atom, Binary) and atom.op == "min" and coefficient > 0:
            rest = form.without(atom)
            ends = [_least(rest.plus(linear_form(e), coefficient)) for e in (atom.a, atom.b)]
            return [*ends[0], *ends[1]]
    return [form]
