"""Index arithmetic: in 32 bits wherever every partial sum provably fits, otherwise in 64.

Quotients `a // b` and remainders `a % b` round down in the IR and toward zero in GPU languages; for operands that are
provably not negative both are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...ir.affine import LinearForm, linear_form
from ...ir.bounds import form_interval, interval
from ...ir.expr import Binary, Call, Cast, Const, Expr, Load, Operator, Select, Var, dtype_of
from ...ir.expression_printer import format_expr
from ...ir.types import DType
from ...ir.visit import free_vars, loads_in
from .dialect import Dialect
from .errors import LoweringError
from .text import BIT_AND, PRODUCT, RELATION, SHIFT, SUM, UNARY, Text, call

if TYPE_CHECKING:
    from .expressions import ExpressionEmitter

_LIMIT, _LIMIT_64 = 2**31, 2**63


@dataclass(frozen=True, slots=True)
class Index:
    """An integer expression: its text, and whether its type has 64 bits (`wide`) or 32."""

    text: Text
    wide: bool

    def as_wide(self, dialect: Dialect) -> Text:
        """The text, converted to 64 bits if necessary."""
        return self.text if self.wide else dialect.converted(DType.INT64, self.text)


def index(values: ExpressionEmitter, form: LinearForm) -> Index:
    """The text of a simplified linear form, in 32 or 64 bits. In a language without 64-bit integers, raises
    LoweringError for a form of bounded terms that may exceed 32 bits, unless a term is read from memory.
    """
    # The variable of a loop that runs at most once is replaced by 0, even if its range would help a proof.
    form = LinearForm({a: c for a, c in form.terms.items() if not _is_zero(values, a)}, form.constant)
    sizes = {atom: _most(values, atom) for atom in form.terms}
    parts = [None if s is None else abs(form.terms[a]) * s for a, s in sizes.items()]
    total = None if None in parts else abs(form.constant) + sum(p or 0 for p in parts)
    wide = total is None or total >= _LIMIT
    if wide and total is not None and not values.dialect.long_integers and not any(map(loads_in, form.terms)):
        raise LoweringError(
            f"an index up to {total:,} needs integers of 64 bits, which {values.dialect.name} does not have; use a "
            "smaller batch"
        )
    alone = not form.constant and list(form.terms.values()) == [1]
    if form.terms and not alone and (total is None or total >= _LIMIT_64):
        return Index(_wrapping(values, form), True)
    result: Text | None = None
    # Positive terms first, and among them the terms of the least variable loops.
    order = sorted(form.terms.items(), key=lambda term: (term[1] < 0, _depth(values, term[0])))
    constant = form.constant
    if order and order[0][1] < 0 and constant > 0:
        # A leading constant is better than a factor of -1.
        result, constant = values.dialect.integer(constant, wide=wide), 0
    for atom, coefficient in order:
        held = _atom(values, atom)
        most, size = sizes[atom], abs(coefficient)
        # If the first term is wide, all further sums are; a product beyond 32 bits must itself be wide.
        narrow = most is not None and size * most < _LIMIT
        text = held.text if narrow and not (wide and result is None) else held.as_wide(values.dialect)
        if result is None:
            result = (
                text
                if coefficient == 1
                else values.dialect.operated("*", PRODUCT, text, values.dialect.integer(coefficient))
            )
            continue
        term = (
            text if size == 1 else values.dialect.operated("*", PRODUCT, text, values.dialect.integer(size))
        )
        result = values.dialect.operated("+" if coefficient > 0 else "-", SUM, result, term)
    if result is None:
        return Index(values.dialect.integer(form.constant), not -_LIMIT < form.constant < _LIMIT)
    if constant:
        result = values.dialect.operated(
            "+" if constant > 0 else "-", SUM, result, values.dialect.integer(abs(constant))
        )
    return Index(result, wide)


def _wrapping(values: ExpressionEmitter, form: LinearForm) -> Text:
    """The text, of type int64, of a linear form whose value may exceed 64 bits, computed as unsigned so that an
    overflow wraps. Terms that are read from memory have no bound, so forms with these terms are of this kind.
    """
    result: Text | None = None
    for atom, coefficient in form.terms.items():
        term = _unsigned(values, _atom(values, atom))
        if coefficient != 1:
            factor = values.dialect.as_unsigned(values.dialect.integer(coefficient), wide=True)
            term = values.dialect.operated("*", PRODUCT, term, factor)
        result = term if result is None else values.dialect.operated("+", SUM, result, term)
    assert result is not None
    if form.constant:
        constant = values.dialect.as_unsigned(values.dialect.integer(form.constant), wide=True)
        result = values.dialect.operated("+", SUM, result, constant)
    return values.dialect.converted(DType.INT64, result)


def _unsigned(values: ExpressionEmitter, held: Index) -> Text:
    return values.dialect.as_unsigned(held.as_wide(values.dialect), wide=True)


def comparison(values: ExpressionEmitter, op: str, precedence: int, a: LinearForm, b: LinearForm) -> Text:
    """The text of `a op b` for two linear forms. `precedence`: the precedence of `op`."""
    left, right = index(values, a), index(values, b)
    return values.dialect.operated(op, precedence, left.text, right.text)


def less(values: ExpressionEmitter, a: LinearForm, b: LinearForm) -> Text:
    """The text of the condition `a` < `b`. Each term moves to the side of the comparison where its sign is positive."""
    gap = b.plus(a, -1)
    low = LinearForm({x: -c for x, c in gap.terms.items() if c < 0}, max(0, -gap.constant))
    high = LinearForm({x: c for x, c in gap.terms.items() if c > 0}, max(0, gap.constant))
    return comparison(values, "<", RELATION, low, high)


def positive(values: ExpressionEmitter, gap: LinearForm) -> list[Text]:
    """Texts of conditions that together are equivalent to `gap` > 0 for the linear form `gap`; empty if `gap` > 0 is
    provable at compile time.
    """
    low = form_interval(gap, values.ranges).low
    if low is not None and low > 0:
        return []
    for atom, coefficient in gap.terms.items():
        rest = gap.without(atom)
        match atom:
            case Binary(op="min" | "max" as op, a=a, b=b) if (op == "min") == (coefficient > 0):
                # The lesser of two sums.
                sides = [positive(values, rest.plus(linear_form(x), coefficient)) for x in (a, b)]
                return [*sides[0], *sides[1]]
            case Binary(op="//", a=a, b=Const(value=int(d))) if coefficient == 1 and d > 0:
                # a // d > -rest is a >= d * (1 - rest).
                return positive(values, linear_form(a).plus(rest, d).offset(1 - d))
    return [less(values, LinearForm({}, 0), gap)]


def _is_zero(values: ExpressionEmitter, atom: Expr) -> bool:
    return isinstance(atom, Var) and values.variables.get(atom.name) == "0"


def _atom(values: ExpressionEmitter, atom: Expr) -> Index:
    """The text of an atom, the non-constant factor of one term: a variable, or a subexpression that is not a sum."""
    match atom:
        case Var(name=name):
            return Index(Text(values.variables[name]), _leaves_32_bits(values, atom))
        case Binary(op="//" | "%" as op, a=a, b=b):
            return _division(values, op, a, b)
        case Binary(op="min" | "max" as op, a=a, b=b):
            x, y = index(values, linear_form(a)), index(values, linear_form(b))
            if x.wide != y.wide:
                return Index(call(op, x.as_wide(values.dialect), y.as_wide(values.dialect)), True)
            return Index(call(op, x.text, y.text), x.wide)
        case Binary(op="*", a=a, b=b):
            x, y = index(values, linear_form(a)), index(values, linear_form(b))
            size = _most(values, atom)
            if size is None or size >= _LIMIT_64:
                product = values.dialect.operated("*", PRODUCT, _unsigned(values, x), _unsigned(values, y))
                return Index(values.dialect.converted(DType.INT64, product), True)
            wide = x.wide or y.wide or size >= _LIMIT
            return Index(
                values.dialect.operated("*", PRODUCT, x.as_wide(values.dialect) if wide else x.text, y.text),
                wide,
            )
        case Select(condition=condition, then=then, otherwise=otherwise):
            x, y = index(values, linear_form(then)), index(values, linear_form(otherwise))
            wide = x.wide or y.wide
            sides = [s.as_wide(values.dialect) if wide else s.text for s in (x, y)]
            return Index(values.dialect.chosen(values.emit(condition), *sides), wide)
        case Cast(value=value) if dtype_of(value).is_integer or dtype_of(value) is DType.BOOL:
            text = values.emit(value)
            if dtype_of(value) is DType.BOOL:
                text = values.dialect.converted(DType.INT32, text)
            return Index(text, False)
        case Cast(value=value):
            return Index(values.dialect.converted(DType.INT64, values.as_float(value)), True)
        case Load() | Call():
            return Index(values.emit(atom), True)
    raise LoweringError(f"GPUs have no code for {type(atom).__name__} in an index: {format_expr(atom)}")


def _division(values: ExpressionEmitter, op: Operator, a: Expr, b: Expr) -> Index:
    """The text of `a op b`, for `op` "//" or "%", which both round down."""
    key = Binary(op, a, b)
    if (held := values.named.get(key)) is not None:
        return held
    values.divisions[key] += 1
    x, y = index(values, linear_form(a)), index(values, linear_form(b))
    low = interval(a, values.ranges).low
    wide = x.wide or y.wide
    divisor = int(b.value) if isinstance(b, Const) else 0
    if divisor > 0 and divisor & (divisor - 1) == 0:
        # An arithmetic shift and a mask round down for either sign.
        if op == "//":
            shift = divisor.bit_length() - 1
            return Index(Text(f"{x.text.within(UNARY)} >> {shift}", SHIFT), x.wide)
        return Index(Text(f"{x.text.within(UNARY)} & {divisor - 1}", BIT_AND), x.wide)
    least = interval(b, values.ranges).low
    if low is not None and low >= 0 and least is not None and least > 0:
        return Index(values.dialect.operated("/" if op == "//" else "%", PRODUCT, x.text, y.text), wide)
    name = "floor_divide" if op == "//" else "floor_modulo"
    values.used.add(name)
    if wide:
        return Index(call(name, x.as_wide(values.dialect), y.as_wide(values.dialect)), True)
    return Index(call(name, x.text, y.text), False)


def _most(values: ExpressionEmitter, atom: Expr) -> int | None:
    """The greatest magnitude of an atom (subexpression that is not a sum) over all loop iterations; None if the
    magnitude has no bound.
    """
    held = interval(atom, values.ranges)
    return None if held.low is None or held.high is None else max(abs(held.low), abs(held.high))


def _leaves_32_bits(values: ExpressionEmitter, atom: Expr) -> bool:
    size = _most(values, atom)
    return size is None or size >= _LIMIT


def _depth(values: ExpressionEmitter, atom: Expr) -> int:
    """The nesting depth (0: outermost) of the innermost loop whose variable occurs in an atom; -1 if no loop variable
    occurs. An atom is a subexpression that is not a sum.
    """
    order: Mapping[str, int] = {name: depth for depth, name in enumerate(values.ranges)}
    return max((order.get(name, -1) for name in free_vars(atom)), default=-1)
