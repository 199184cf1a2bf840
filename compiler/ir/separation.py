"""Separation of accesses: a proof that two accesses touch different elements, for threads and blocks that run side by
side.

Two iterations touch the same element if all their indices are equal. Let p, t, j be the loop variables in one
iteration, and p', t', j' in the other. Equal indices give an equation, for example

    256 * (p' - p) + 4 * (t' - t) + (j' - j) = 0  with  t < 64, j < 4.

The equation is solved from the greatest coefficient down: the other terms are too small to cancel a multiple of 256, so
p' = p, then t' = t, then j' = j. A pair of indices that are quotient and remainder of one expression is replaced by the
expression.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from .affine import LinearForm, linear_form
from .bounds import Interval, Ranges, form_interval, interval, loop_range
from .expr import Binary, Const, Expr, Var
from .kernels import Access
from .simplify import simplify_form
from .split_axes import determined_loops
from .stmt import For
from .visit import loads_in, substitute_expr

Coordinates = Sequence[tuple[str | None, str | None]]
"""Pairs of loop names that stand for the same coordinate (a block or thread index) at two accesses: a loop around the
first and a loop around the second. None: the access is in no such loop, and the coordinate is 0.
"""


def meets_only_at(p: Access, q: Access, coordinates: Coordinates, common: Collection[str] = ()) -> bool:
    """Whether it can be proven that `p` and `q` touch a common element only if both loops of each pair in `coordinates`
    are at the same value.

    Loops named in `common` have the same value at both accesses; all other loops run independently of one another, even
    if both accesses are inside them. Without coordinates: whether the accesses provably never touch the same element.
    """
    if p.buffer.name != q.buffer.name:
        return True
    if _same_digits(p, q, coordinates, common):
        return True
    names = {loop.name: Var(f"{loop.name}'") for loop in q.loops if loop.name not in common}
    ranges = {**_ranges(p.loops, {}), **_ranges(q.loops, names)}
    pairs = [
        (None if a is None else Var(a), None if b is None else names.get(b, Var(b))) for a, b in coordinates
    ]
    equations = _Equations(ranges)
    boxes = list(zip(_boxes(p, {}, ranges), _boxes(q, names, ranges), strict=True))
    for left, right in boxes:
        if _apart_by_remainder(left[0], right[0], left[1], right[1]):
            return True
        equations.add(left[0], right[0], left[1], right[1])
    for first, second, weight in _quotients(p, q):
        one = _joined(p, first, second, weight, {}, ranges)
        other = _joined(q, first, second, weight, names, ranges)
        widths = [_width(boxes[first][side][1], boxes[second][side][1], weight) for side in (0, 1)]
        equations.add(one, other, *widths)
    equations.solve()
    if equations.impossible:
        return True
    return bool(pairs) and all(equations.agree(a, b) for a, b in pairs)


def _same_digits(p: Access, q: Access, coordinates: Coordinates, common: Collection[str]) -> bool:
    """A quick proof that accesses `p` and `q` touch a common element only where the two loops of each pair in
    `coordinates` are at the same value. True if both accesses are to single elements, with equal indices in equal
    loops, and if the values of the indices determine the values of the loops in `coordinates`.
    """
    if p.starts != q.starts or p.loops != q.loops or not coordinates:
        return False
    loops = {a for a, b in coordinates if a is not None and a == b}
    single = all(e == Const(1) for e in (*p.extents, *q.extents))
    if len(loops) < len(coordinates) or not single or any(loads_in(start) for start in p.starts):
        return False
    varying = {loop.name for loop in p.loops} - set(common)
    ranges = _ranges(p.loops, {})
    several = {name for name in loops if interval(Var(name), ranges) != Interval(0, 0)}
    return several <= determined_loops(p.starts, ranges, varying)


def _ranges(loops: Sequence[For], names: Mapping[str, Expr]) -> dict[str, Interval | Expr]:
    """The range of each loop's variable, with variables renamed by `names`."""
    found: dict[str, Interval | Expr] = {}
    for loop in loops:
        new = names.get(loop.name)
        name = new.name if isinstance(new, Var) else loop.name
        found[name] = loop_range(substitute_expr(loop.extent, names))
    return found


def _boxes(
    access: Access, names: Mapping[str, Expr], ranges: Ranges
) -> Iterator[tuple[LinearForm, int | None]]:
    """For each dimension of an access: (first index, greatest extent; None: unknown), with loop variables renamed by
    `names`.
    """
    for start, extent in zip(access.starts, access.extents, strict=True):
        yield (
            linear_form(substitute_expr(start, names)),
            interval(substitute_expr(extent, names), ranges).high,
        )


def _apart_by_remainder(a: LinearForm, b: LinearForm, width: int | None, other: int | None) -> bool:
    """Whether two indices of single elements (`width` and `other` are 1) are remainders that always differ, such as the
    slots k % 2 and (k + 1) % 2.
    """
    if width != 1 or other != 1 or a.constant != b.constant:
        return False
    match tuple(a.terms.items()), tuple(b.terms.items()):
        case (
            ((Binary(op="%", a=x, b=Const(value=int(n))), factor),),
            ((Binary(op="%", a=y, b=Const(value=int(m))), same),),
        ) if n == m and factor == same:
            gap = linear_form(x).plus(linear_form(y), -1)
            return gap.constant % n != 0 and all(c % n == 0 for c in gap.terms.values())
    return False


def _quotients(p: Access, q: Access) -> Iterator[tuple[int, int, int]]:
    """Yields (i, j, weight) for each pair of dimensions of a buffer in which both accesses have a quotient and a
    remainder of one expression a: index i contains the term n * (a // c), and index j contains m * (a % c). Then weight
    * i + j contains m * a, where weight = c * m / n.
    """
    for first in range(len(p.starts)):
        for second in range(len(p.starts)):
            found = _weights(p, first, second) & _weights(q, first, second)
            for weight in sorted(found):
                yield first, second, weight


def _width(first: int | None, second: int | None, weight: int) -> int | None:
    """Length of the range from the least to the greatest value of weight * i + j, for indices i below `first` and j
    below `second`; None if `first` or `second` is unknown.
    """
    return None if first is None or second is None else weight * (first - 1) + second


def _weights(access: Access, first: int, second: int) -> set[int]:
    parts = linear_form(access.starts[second]).terms
    found: set[int] = set()
    for atom, coefficient in linear_form(access.starts[first]).terms.items():
        match atom:
            case Binary(op="//", a=a, b=Const(value=value) as b) if Binary("%", a, b) in parts:
                weight = int(value) * parts[Binary("%", a, b)]
                if weight % coefficient == 0 and weight // coefficient > 0:
                    found.add(weight // coefficient)
    return found


def _joined(
    access: Access, first: int, second: int, weight: int, names: Mapping[str, Expr], ranges: Ranges
) -> LinearForm:
    whole = Binary("+", Binary("*", access.starts[first], Const(weight)), access.starts[second])
    return simplify_form(substitute_expr(whole, names), ranges)


class _Equations:
    """Consequences of the assumption that two accesses touch a common element: bounded linear forms, and the equalities
    of variables that follow from these forms.
    """

    def __init__(self, ranges: Ranges) -> None:
        self.ranges = ranges
        self.impossible = False
        self._pending: list[tuple[LinearForm, int, int]] = []
        self._values: dict[Var, LinearForm] = {}

    def add(self, a: LinearForm, b: LinearForm, width: int | None, other: int | None) -> None:
        """Adds the assumption that two ranges of indices have an index in common. The first range has `width` elements
        from `a` on, the second has `other` elements from `b` on. Nothing is added if a number of elements is unknown
        (None).
        """
        if width is not None and other is not None:
            self._pending.append((b.plus(a, -1), -(other - 1), width - 1))

    def agree(self, a: Var | None, b: Var | None) -> bool:
        """Whether `a` and `b` are known to be equal; None stands for the number 0."""
        form = LinearForm({}, 0)
        if a is not None:
            form = form.plus(LinearForm({a: 1}, 0))
        if b is not None:
            form = form.plus(LinearForm({b: 1}, 0), -1)
        return form_interval(self._known(form), self.ranges) == Interval(0, 0)

    def solve(self) -> None:
        """Derives equalities of variables from all equations, until nothing new follows."""
        progress = True
        while progress and not self.impossible:
            progress = False
            for form, low, high in self._pending:
                progress |= self._split(self._known(form), low, high)

    def _known(self, form: LinearForm) -> LinearForm:
        for _ in range(len(self._values) + 1):
            found = next((a for a in form.terms if isinstance(a, Var) and a in self._values), None)
            if found is None:
                break
            form = form.without(found).plus(self._values[found], form.terms[found])
        return form

    def _split(self, form: LinearForm, low: int, high: int) -> bool:
        """Learns equalities from low <= form <= high; returns whether there is a new one."""
        low, high = low - form.constant, high - form.constant
        spans: dict[Expr, tuple[int, int]] = {}
        for atom, coefficient in form.terms.items():
            held = interval(atom, self.ranges)
            if held.low is None or held.high is None:
                return False
            if held.low == held.high:
                # The variable of a loop of at most one iteration, such as a guard.
                low, high = low - coefficient * held.low, high - coefficient * held.low
                continue
            ends = coefficient * held.low, coefficient * held.high
            spans[atom] = (min(ends), max(ends))
        progress = False
        levels = sorted({abs(form.terms[a]) for a in spans}, reverse=True)
        left = {a: form.terms[a] for a in spans}
        for level in levels:
            top = {a: c for a, c in left.items() if abs(c) == level}
            rest = {a: c for a, c in left.items() if abs(c) != level}
            # level * (sum of +-a) lies within low - rest .. high - rest
            least = low - sum(spans[a][1] for a in rest)
            most = high - sum(spans[a][0] for a in rest)
            if least > sum(spans[a][1] for a in top) or most < sum(spans[a][0] for a in top):
                self.impossible = True
                return False
            quotients = range(-(-least // level), most // level + 1)
            if len(quotients) == 0:
                self.impossible = True
                return False
            if len(quotients) != 1:
                break
            value = quotients[0]
            progress |= self._learn({a: c // level for a, c in top.items()}, value)
            low, high, left = low - level * value, high - level * value, rest
        if not left and not low <= 0 <= high:
            self.impossible = True
        return progress

    def _learn(self, terms: Mapping[Expr, int], value: int) -> bool:
        """Solves the equation sum of `terms` = `value`, of one or two variables with coefficients 1 or -1, for one
        variable, and records the solution. Returns False for other terms, and if the variable has a solution already.
        """
        variables = [a for a in terms if isinstance(a, Var)]
        if not variables or len(terms) > 2 or len(variables) != len(terms):
            return False
        last = max(variables, key=lambda v: v.name)
        sign = terms[last]
        others = LinearForm({a: -sign * c for a, c in terms.items() if a is not last}, sign * value)
        if last in self._values:
            return False
        self._values[last] = others
        return True
