"""Linear forms: integer combinations of atoms, which are variables or opaque index expressions (//, %, min, …)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd

from .expr import (
    Binary,
    Const,
    Expr,
    Operand,
    Var,
)
from .expression_printer import format_expr
from .quick_init import quick_init
from .types import DType
from .visit import free_vars


@quick_init
@dataclass(frozen=True, slots=True)
class LinearForm:
    """Linear form: sum of coefficient * atom over `terms`, plus `constant`. No coefficient is 0; never edit `terms`."""

    terms: dict[Expr, int]
    constant: int

    def plus(self, other: LinearForm, factor: int = 1) -> LinearForm:
        """self + factor * other."""
        if not other.terms:
            return LinearForm(self.terms, self.constant + factor * other.constant)
        terms = dict(self.terms)
        for atom, coefficient in other.terms.items():
            total = terms.get(atom, 0) + factor * coefficient
            if total:
                terms[atom] = total
            else:
                terms.pop(atom, None)
        return LinearForm(terms, self.constant + factor * other.constant)

    def times(self, factor: int) -> LinearForm:
        """factor * self."""
        if factor == 0:
            return LinearForm({}, 0)
        return LinearForm({a: c * factor for a, c in self.terms.items()}, self.constant * factor)

    def offset(self, constant: int) -> LinearForm:
        """self + constant."""
        return LinearForm(self.terms, self.constant + constant)

    def without(self, atom: Expr) -> LinearForm:
        """self without the term of `atom`, which must be the very object that is a key of `terms`."""
        return LinearForm({a: c for a, c in self.terms.items() if a is not atom}, self.constant)


def atom_form(atom: Expr) -> LinearForm:
    """The linear form 1 * `atom`."""
    return LinearForm({atom: 1}, 0)


def linear_form(expr: Expr, atom: Callable[[Expr], LinearForm] = atom_form) -> LinearForm:
    """The linear form of an int64 expression; `atom` returns the form of a variable or an opaque sub-expression."""
    if atom is not atom_form:
        terms: dict[Expr, int] = {}
        constant = _accumulate(expr, 1, terms, atom)
        return LinearForm(terms, constant)
    kept: LinearForm | None = getattr(expr, "kept_form", None)
    if kept is None:
        terms = {}
        constant = _accumulate(expr, 1, terms, atom)
        kept = LinearForm(terms, constant)
        _keep_form(expr, kept)
    return kept


_keep_form = Operand.__dict__["kept_form"].__set__


def _accumulate(expr: Expr, factor: int, terms: dict[Expr, int], atom: Callable[[Expr], LinearForm]) -> int:
    """Adds the terms of `factor` * `expr` to `terms`, a map from atoms to coefficients; returns the constant part.
    `atom` converts a variable or another non-linear part of the expression to a form.
    """
    if type(expr) is Const:
        return factor * int(expr.value)
    if type(expr) is Binary:
        op, a, b = expr.op, expr.a, expr.b
        if op == "+" or op == "-":
            first = _accumulate(a, factor, terms, atom)
            return first + _accumulate(b, factor if op == "+" else -factor, terms, atom)
        if op == "*" and isinstance(b, Const):
            return _accumulate(a, factor * int(b.value), terms, atom) if b.value else 0
        if op == "*" and isinstance(a, Const):
            return _accumulate(b, factor * int(a.value), terms, atom) if a.value else 0
    if atom is atom_form:
        _add_term(terms, expr, factor)
        return 0
    form = atom(expr)
    for a, c in form.terms.items():
        _add_term(terms, a, factor * c)
    return factor * form.constant


def _add_term(terms: dict[Expr, int], atom: Expr, coefficient: int) -> None:
    total = terms.get(atom, 0) + coefficient
    if total:
        terms[atom] = total
    else:
        terms.pop(atom, None)


def form_to_expr(form: LinearForm) -> Expr:
    """The canonical expression of a form: positive terms before negative ones, variables (by name) before
    other atoms.
    """
    result: Expr | None = None
    items = list(form.terms.items())
    if len(items) > 1:
        items.sort(key=_order)
    for atom, coefficient in items:
        size = abs(coefficient)
        term: Expr = atom if size == 1 else Binary("*", atom, Const(size))
        if result is None:
            if coefficient > 0:
                result = term
            elif form.constant > 0:
                # Begin with the constant rather than with a negated term.
                result = Binary("-", Const(form.constant), term)
                form = LinearForm(form.terms, 0)
            else:
                result = Binary("*", atom, Const(coefficient))
        else:
            result = Binary("+" if coefficient > 0 else "-", result, term)
    if result is None:
        return Const(form.constant)
    if form.constant == 0:
        return result
    return Binary("+" if form.constant > 0 else "-", result, Const(abs(form.constant)))


def constant_difference(a: Expr, b: Expr) -> int | None:
    """a - b if it provably is the same for all values of the variables, else None."""
    if a == b:
        return 0
    form = linear_form(a).plus(linear_form(b), -1)
    return None if form.terms else form.constant


def quotient(expr: Expr, factor: int) -> Expr | None:
    """`expr` / `factor` if the division is provably exact for all values of the variables; else None."""
    form = linear_form(expr)
    if form.constant % factor:
        return None
    total = LinearForm({}, form.constant // factor)
    for atom, coefficient in form.terms.items():
        if coefficient % factor == 0:
            total = total.plus(atom_form(atom), coefficient // factor)
            continue
        common = gcd(factor, coefficient)
        match atom:
            case Binary(op="min" | "max" as op, a=a, b=b):
                x, y = quotient(a, factor // common), quotient(b, factor // common)
                if x is not None and y is not None:
                    total = total.plus(atom_form(Binary(op, x, y)), coefficient // common)
                    continue
        return None
    return form_to_expr(total)


def coefficient_of(expr: Expr, name: str) -> int | None:
    """The factor of variable `name` in an index, 0 if absent; None if an operation such as // contains `name`."""
    form = linear_form(expr)
    if any(not isinstance(a, Var) and name in free_vars(a) for a in form.terms):
        return None
    return form.terms.get(Var(name, DType.INT64), 0)


def _order(item: tuple[Expr, int]) -> tuple[bool, bool, str]:
    atom, coefficient = item
    if isinstance(atom, Var):
        return coefficient < 0, False, atom.name
    return coefficient < 0, True, format_expr(atom)


def single_atom(form: LinearForm) -> Expr | None:
    """The atom if a form is exactly one atom (coefficient 1, constant 0); None for other forms."""
    if form.constant == 0 and len(form.terms) == 1:
        ((atom, coefficient),) = form.terms.items()
        if coefficient == 1:
            return atom
    return None
