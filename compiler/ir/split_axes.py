"""Finds loops whose variables follow from the values of several indices. The indices are mixed-radix digits of one
number, such as n // 49, n % 49 // 7 and n % 7; together they determine n, and so the variables that occur in n.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from math import gcd

from .affine import LinearForm, form_to_expr, linear_form
from .bounds import Interval, Ranges, form_interval, interval
from .expr import Binary, Const, Expr, Var, binary
from .simplify import simplify
from .visit import free_vars, substitute_expr, walk_expr


def determined_loops(indices: Sequence[Expr], ranges: Ranges, varying: AbstractSet[str]) -> set[str]:
    """The `varying` loops whose variables are determined by the values of all `indices`.

    Different iterations of these loops therefore differ in at least one index: i and j of n = 8*i + j, j < 8, follow
    from n // 49, n % 49 // 7 and n % 7.
    """
    # Replace variables of loops of one iteration by 0, so that equal numbers become equal trees.
    once = {name: Const(0) for name in varying if interval(Var(name), ranges) == Interval(0, 0)}
    parts = [part for index in indices for part in walk_expr(index)]
    divisors = {int(p.b.value) for p in parts if isinstance(p, Binary) and isinstance(p.b, Const)}
    known: list[Expr] = []
    queue = [substitute_expr(index, once) for index in indices]
    while queue:
        fact = queue.pop()
        if fact in known:
            continue
        known.append(fact)
        queue += [*_reduced(fact, divisors, ranges), *_summands(linear_form(fact), ranges, varying)]
        for other in known:
            queue += _number(fact, other)
            queue += _number(other, fact)
    return {fact.name for fact in known if isinstance(fact, Var) and fact.name in varying}


def _reduced(fact: Expr, divisors: AbstractSet[int], ranges: Ranges) -> list[Expr]:
    """Simpler expressions that are equal to `fact`, a quotient or a remainder.

    A remainder x % c is x if x is within 0 .. c - 1. A quotient x // c is (x // f) // (c // f) for each factor f of c,
    where x // f may be simpler: (2*h + r) // 6 is (h + r // 2) // 3. As f, the function tries gcd(c, n) for each
    coefficient n in x and for each n in `divisors`.
    """
    found: list[Expr] = []
    match fact:
        case Binary(op="%", a=a, b=Const(value=int(c))):
            held = interval(a, ranges)
            if held.low is not None and held.high is not None and held.low >= 0 and held.high < c:
                found.append(a)
        case Binary(op="//", a=a, b=Const(value=int(c))):
            form = linear_form(a)
            for factor in {gcd(c, n) for n in (*form.terms.values(), *divisors)} - {1, c}:
                whole = {atom: n // factor for atom, n in form.terms.items() if n % factor == 0}
                rest = LinearForm({t: n for t, n in form.terms.items() if t not in whole}, form.constant)
                carry = simplify(binary("//", form_to_expr(rest), factor), ranges)
                dividend = binary("+", form_to_expr(LinearForm(whole, 0)), carry)
                found.append(binary("//", dividend, c // factor))
    return found


def _summands(form: LinearForm, ranges: Ranges, varying: AbstractSet[str]) -> list[Expr]:
    """The atoms (variables, quotients ...) of `form` that depend on loops of `varying`, if the value of the form
    determines all of them: as in a mixed-radix number, each coefficient must exceed the range of the sum of all terms
    with smaller coefficients. Empty if a coefficient does not exceed that range, or if a range is unknown.
    """
    found: list[Expr] = []
    smaller = LinearForm({}, 0)
    for atom, coefficient in sorted(form.terms.items(), key=lambda term: abs(term[1])):
        if not free_vars(atom) & varying:
            continue
        held, reached = interval(atom, ranges), form_interval(smaller, ranges)
        if held.low is None or held.high is None or reached.low is None or reached.high is None:
            return []
        if held.low < held.high and abs(coefficient) <= reached.high - reached.low:
            return []
        smaller = smaller.plus(LinearForm({atom: coefficient}, 0))
        found.append(atom)
    return found


def _number(high: Expr, low: Expr) -> list[Expr]:
    """[n] if `high` is n // c and `low` is n % c for an expression n and a number c; an empty list if there is no such
    n.
    """
    match high, low:
        case Binary(op="//", a=a, b=Const(value=c)), Binary(op="%", a=b, b=Const(value=d)):
            if c == d and _congruent(a, b, int(c)):
                # a // c and a % c.
                return [a]
            match a, b:
                case Binary(op="%", a=n, b=Const(value=m)), _ if (
                    c == d and m % c == 0 and _congruent(n, b, int(c))
                ):
                    # n % m // c and n % c, which is n % m % c.
                    return [a]
                case _, Binary(op="//", a=n, b=Const(value=e)) if n == a and c == d * e:
                    # n // (e * d), which is n // e // d, and n // e % d.
                    return [b]
        case Binary(op="%", a=Binary(op="//", a=a, b=Const(value=c)), b=Const(value=d)), Binary(
            op="%", a=b, b=Const(value=e)
        ) if c == e and _congruent(a, b, int(c)):
            # a // c % d and a % c.
            return [binary("%", a, Const(c * d))]
    return []


def _congruent(a: Expr, b: Expr, modulus: int) -> bool:
    """Whether two expressions provably are equal modulo `modulus`."""
    difference = _without_remainders(linear_form(a), modulus).plus(
        _without_remainders(linear_form(b), modulus), -1
    )
    return all(value % modulus == 0 for value in (*difference.terms.values(), difference.constant))


def _without_remainders(form: LinearForm, modulus: int) -> LinearForm:
    """A form equal to `form` modulo `modulus`: x % m becomes x where that changes the form by a multiple of `modulus`
    only, as in 4 * (x % 25) modulo 10.
    """
    for atom, coefficient in form.terms.items():
        match atom:
            case Binary(op="%", a=a, b=Const(value=int(m))) if coefficient * m % modulus == 0:
                return _without_remainders(form.without(atom).plus(linear_form(a), coefficient), modulus)
    return form
