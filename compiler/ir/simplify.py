"""Canonicalising simplifier of index arithmetic and of the conditions over it.

Equal affine expressions become equal trees. // and % by positive constants split off divisible terms, and vanish where
the loop ranges allow. Arithmetic on tensor elements stays as it is; only indices and conditions inside it change.
"""

from __future__ import annotations

from math import gcd

from .affine import LinearForm, atom_form, form_to_expr, linear_form, single_atom
from .bounds import Interval, Ranges, form_interval, loop_range
from .expr import (
    COMPARISONS,
    FALSE,
    TRUE,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Var,
    dtype_of,
    select,
)
from .expression_printer import format_expr
from .stmt import For, Program, Stmt
from .types import DType
from .visit import N, map_children, map_expressions, map_operands

_NO_RANGES: dict[str, Interval | Expr] = {}


def simplify(expr: Expr, ranges: Ranges = _NO_RANGES) -> Expr:
    """The canonical form of an expression under loop ranges; the same object if the expression already is in
    this form.
    """
    match expr:
        case Const():
            return expr
        case Var(name=name):
            held = ranges.get(name)
            if isinstance(held, Interval) and held.low is not None and held.low == held.high:
                return Const(held.low)
            return expr
    if dtype_of(expr) is DType.INT64:
        result = form_to_expr(simplify_form(expr, ranges))
        return expr if result == expr else result
    return _simplify_value(expr, ranges)


def simplify_form(expr: Expr, ranges: Ranges = _NO_RANGES) -> LinearForm:
    """The linear form of an int64 expression with all its atoms simplified."""
    return _recombine(linear_form(expr, lambda atom: _simplify_atom(atom, ranges)))


def simplify_node(node: N, ranges: Ranges = _NO_RANGES) -> N:
    """A statement or program with every expression simplified under its loops; `ranges`: loops around `node`."""

    def visit(statement: Stmt, around: Ranges) -> Stmt:
        statement = map_expressions(statement, lambda e: simplify(e, around))
        if isinstance(statement, For):
            around = {**around, statement.var.name: loop_range(statement.extent)}
        return map_children(statement, lambda s: visit(s, around))

    if isinstance(node, Program):
        return map_children(node, lambda s: visit(s, ranges))
    return visit(node, ranges)  # type: ignore[return-value]


def provably_equal(a: Expr, b: Expr, ranges: Ranges = _NO_RANGES) -> bool:
    """Whether simplification proves two int64 expressions equal in all iterations."""
    if a == b:
        return True
    difference = simplify_form(Binary("-", a, b), ranges)
    return form_interval(difference, ranges) == Interval(0, 0)


def _simplify_value(expr: Expr, ranges: Ranges) -> Expr:
    """Simplifies an expression of another type than int64: its comparisons of indices, and the indices of elements that
    it reads.
    """
    if isinstance(expr, Binary) and expr.op in COMPARISONS and dtype_of(expr.a) is DType.INT64:
        return _simplify_comparison(expr, ranges)
    return map_operands(expr, lambda e: simplify(e, ranges))


def _simplify_comparison(expr: Binary, ranges: Ranges) -> Expr:
    a, b = simplify_form(expr.a, ranges), simplify_form(expr.b, ranges)
    held = form_interval(a.plus(b, -1), ranges)
    below = held.high is not None and held.high < 0
    above = held.low is not None and held.low > 0
    match expr.op:
        case "<":
            decided = True if below else False if held.low is not None and held.low >= 0 else None
        case "<=":
            decided = True if held.high is not None and held.high <= 0 else False if above else None
        case "==":
            decided = True if held == Interval(0, 0) else False if below or above else None
        case _:
            decided = False if held == Interval(0, 0) else True if below or above else None
    if decided is not None:
        return TRUE if decided else FALSE
    result = Binary(expr.op, form_to_expr(a), form_to_expr(b))
    return expr if result == expr else result


def _simplify_atom(atom: Expr, ranges: Ranges) -> LinearForm:
    """The simplified linear form of one opaque int64 sub-expression (//, %, min, max, ...)."""
    match atom:
        case Var(name=name):
            held = ranges.get(name)
            if isinstance(held, Interval) and held.low is not None and held.low == held.high:
                return LinearForm({}, held.low)
            return atom_form(atom)
        case Binary(op="//" | "%" as op, a=a, b=b):
            form, divisor = simplify_form(a, ranges), simplify_form(b, ranges)
            if divisor.terms or divisor.constant <= 0:
                return atom_form(Binary(op, form_to_expr(form), form_to_expr(divisor)))
            divide = _floor_divide if op == "//" else _modulo
            return divide(form, divisor.constant, ranges)
        case Binary(op="min" | "max" as op, a=a, b=b):
            return _simplify_extremum(op, [simplify_form(a, ranges), simplify_form(b, ranges)], ranges)
        case Binary(op="*", a=a, b=b):
            x, y = simplify_form(a, ranges), simplify_form(b, ranges)
            if not x.terms:
                return y.times(x.constant)
            if not y.terms:
                return x.times(y.constant)
            p, q = sorted((form_to_expr(x), form_to_expr(y)), key=format_expr)
            return atom_form(Binary("*", p, q))
        case Binary():
            # + and - hold no atoms of their own and linear_form took them apart; comparisons are not int64.
            raise TypeError(f"not an index expression: {format_expr(atom)}")
        case Select(condition=condition, then=then, otherwise=otherwise):
            chosen = select(simplify(condition, ranges), simplify(then, ranges), simplify(otherwise, ranges))
            return atom_form(chosen) if isinstance(chosen, Select) else linear_form(chosen)
        case Cast() | Load() | Call():
            inner = map_operands(atom, lambda e: simplify(e, ranges))
            return linear_form(inner)
        case Const(value=value):
            return LinearForm({}, int(value))


def _simplify_extremum(op: str, forms: list[LinearForm], ranges: Ranges) -> LinearForm:
    """Simplifies the minimum or maximum (`op`) of the linear forms `forms`: merges nested minima or maxima, drops forms
    that never decide the result, and sorts the others. Returns the result as a linear form.
    """
    flat: list[LinearForm] = []
    while forms:
        form = forms.pop(0)
        match single_atom(form):
            case Binary(op=inner, a=a, b=b) if inner == op:
                forms[:0] = [linear_form(a), linear_form(b)]
            case _:
                flat.append(form)
    kept: list[LinearForm] = []
    for i, form in enumerate(flat):
        # An equal pair keeps its first member, so a later one is also dropped by a tie.
        others = [(j, f) for j, f in enumerate(flat) if j != i]
        if not any(_dominates(op, other, form, ranges, strict=j > i) for j, other in others):
            kept.append(form)
    if len(kept) == 1:
        return kept[0]
    exprs = sorted((form_to_expr(f) for f in kept), key=lambda e: (isinstance(e, Const), format_expr(e)))
    result = exprs[0]
    for expr in exprs[1:]:
        result = Binary("min" if op == "min" else "max", result, expr)
    return atom_form(result)


def _dominates(op: str, a: LinearForm, b: LinearForm, ranges: Ranges, *, strict: bool) -> bool:
    """Whether op(a, b), min or max, provably equals a, so that b can be dropped. With `strict`, false if a and b are
    always equal: a caller that tests both operands would otherwise drop both.
    """
    held = form_interval(a.plus(b, -1), ranges)
    # a <= b everywhere and b <= a everywhere only if they are equal everywhere.
    if strict and held == Interval(0, 0):
        return False
    if op == "min":
        return held.high is not None and held.high <= 0
    return held.low is not None and held.low >= 0


def _split(form: LinearForm, divisor: int) -> tuple[LinearForm, LinearForm]:
    """(quotient, rest) with form = divisor * quotient + rest, rest's constant within 0 .. divisor - 1."""
    quotient: dict[Expr, int] = {}
    rest: dict[Expr, int] = {}
    for atom, coefficient in form.terms.items():
        if coefficient % divisor == 0:
            quotient[atom] = coefficient // divisor
        else:
            rest[atom] = coefficient
    return LinearForm(quotient, form.constant // divisor), LinearForm(rest, form.constant % divisor)


def _constant_quotient(form: LinearForm, divisor: int, ranges: Ranges) -> int | None:
    """The value of form // divisor if it provably is the same in all iterations; else None."""
    held = form_interval(form, ranges)
    if held.low is None or held.high is None or held.low // divisor != held.high // divisor:
        return None
    return held.low // divisor


def _floor_divide(form: LinearForm, divisor: int, ranges: Ranges) -> LinearForm:
    quotient, rest = _split(form, divisor)
    if not rest.terms:
        return quotient
    constant = _constant_quotient(rest, divisor, ranges)
    if constant is not None:
        return quotient.offset(constant)
    if (parts := _digits(rest, divisor, ranges)) is not None:
        high, _, factor = parts
        return quotient.plus(_floor_divide(high, divisor // factor, ranges))
    rest, divisor, _ = _reduce(rest, divisor)
    match single_atom(rest):
        case Binary(op="//", a=a, b=Const(value=int(inner))) if inner > 0:
            return quotient.plus(_floor_divide(linear_form(a), inner * divisor, ranges))
        case Binary(op="%", a=a, b=Const(value=int(inner))) if inner > 0 and inner % divisor == 0:
            inside = _floor_divide(linear_form(a), divisor, ranges)
            return quotient.plus(_modulo(inside, inner // divisor, ranges))
    return quotient.plus(atom_form(Binary("//", form_to_expr(rest), Const(divisor))))


def _modulo(form: LinearForm, divisor: int, ranges: Ranges) -> LinearForm:
    _, rest = _split(form, divisor)
    if not rest.terms:
        return rest
    constant = _constant_quotient(rest, divisor, ranges)
    if constant is not None:
        return rest.offset(-constant * divisor)
    if (parts := _digits(rest, divisor, ranges)) is not None:
        high, low, factor = parts
        return low.plus(_modulo(high, divisor // factor, ranges), factor)
    common = rest
    rest, divisor, factor = _reduce(rest, divisor)
    remainder = LinearForm({}, common.constant % factor)
    match single_atom(rest):
        case Binary(op="%", a=a, b=Const(value=int(inner))) if inner > 0 and inner % divisor == 0:
            return remainder.plus(_modulo(linear_form(a), divisor, ranges), factor)
    return remainder.plus(atom_form(Binary("%", form_to_expr(rest), Const(divisor))), factor)


def _digits(form: LinearForm, divisor: int, ranges: Ranges) -> tuple[LinearForm, LinearForm, int] | None:
    """(high, low, g) with form = g * high + low, where low is within 0 .. g - 1 and g > 1 divides `divisor`; None if no
    such g is found.

    For l < 4, (4*h + l) // 12 then becomes h // 3, and (4*h + l) % 12 becomes 4*(h % 3) + l.
    """
    for factor in sorted({gcd(divisor, c) for c in form.terms.values()} - {1}, reverse=True):
        terms = {atom: c for atom, c in form.terms.items() if c % factor}
        low = LinearForm(terms, form.constant % factor)
        if terms and _constant_quotient(low, factor, ranges) == 0:
            high = {atom: c // factor for atom, c in form.terms.items() if atom not in terms}
            return LinearForm(high, form.constant // factor), low, factor
    return None


def _reduce(rest: LinearForm, divisor: int) -> tuple[LinearForm, int, int]:
    """(r + k//g, d, g) for `rest` = g*r + k, `divisor` = g*d and the greatest g; rest // divisor is (r + k//g) // d."""
    factor = gcd(divisor, *rest.terms.values())
    if factor == 1:
        return rest, divisor, 1
    terms = {a: c // factor for a, c in rest.terms.items()}
    return LinearForm(terms, rest.constant // factor), divisor // factor, factor


def _recombine(form: LinearForm) -> LinearForm:
    """Replaces k*c*(a // c) + k*(a % c) by k*a as long as `form` has such a pair of terms. The quotient a // c must
    have the form that `_floor_divide` returns.
    """
    for atom, coefficient in form.terms.items():
        if isinstance(atom, Binary) and atom.op == "%" and isinstance(atom.b, Const) and atom.b.value > 0:
            divisor = int(atom.b.value)
            whole = linear_form(atom.a)
            quotient = _floor_divide(whole, divisor, _NO_RANGES)
            factor = coefficient * divisor
            if all(form.terms.get(a) == factor * c for a, c in quotient.terms.items()):
                return _recombine(form.without(atom).plus(quotient, -factor).plus(whole, coefficient))
    return form
