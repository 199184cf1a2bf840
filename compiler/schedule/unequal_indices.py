"""Finds loops whose iterations provably touch different elements of a buffer, even if a loop's body accesses the buffer
several times with different linear forms as indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from math import gcd

from ..ir.affine import LinearForm
from ..ir.bounds import Ranges, form_interval, interval
from ..ir.expr import Var
from ..ir.visit import free_vars


def apart(forms: Sequence[LinearForm], extent: int, ranges: Ranges, varying: AbstractSet[str]) -> set[str]:
    """The loops among `varying` whose step is equal in all indices and greater than the range of the indices' other
    terms, so that different iterations touch different elements. `forms`: the index of each access, which touches
    `extent` adjacent elements.

    8*x + i and 8*x + 4 + j for i, j < 4 differ for different values of x.
    """
    fixed = [{a: c for a, c in form.terms.items() if not free_vars(a) & varying} for form in forms]
    if any(terms != fixed[0] for terms in fixed[1:]):
        return set()
    found: set[str] = set()
    for atom, step in forms[0].terms.items():
        if not isinstance(atom, Var) or atom.name not in varying:
            continue
        if any(form.terms.get(atom) != step for form in forms[1:]):
            continue
        rests = [
            LinearForm(
                {a: c for a, c in form.terms.items() if a != atom and a not in fixed[0]}, form.constant
            )
            for form in forms
        ]
        if any(atom.name in free_vars(a) for rest in rests for a in rest.terms):
            continue
        reached = [form_interval(rest, ranges) for rest in rests]
        lows, highs = [r.low for r in reached], [r.high for r in reached]
        known = [v for v in (*lows, *highs) if v is not None]
        if len(known) == 2 * len(rests) and max(known) - min(known) + extent <= abs(step):
            found.add(atom.name)
    return found


def residues(forms: Sequence[LinearForm], extent: int, ranges: Ranges, varying: AbstractSet[str]) -> set[str]:
    """The loops among `varying` whose iterations provably touch different elements, because their indices have
    different remainders modulo some number. `forms`: the index of each access, which touches `extent` adjacent
    elements. The remainder may contain several terms, if these are the same in all `forms`.

    For example, 8*k + x and 32 + x with x < 8 have the remainder x modulo 8, so they differ if x differs. For the same
    reason 64*k + 32*y + x and 256 + 32*y + x with y < 2 and x < 32 differ if y differs.
    """
    shifts: list[LinearForm] = []
    for form in forms:
        # A loop of at most one iteration adds a constant.
        single = {
            a: h.low for a in form.terms if (h := interval(a, ranges)).low is not None and h.low == h.high
        }
        terms = {a: c for a, c in form.terms.items() if a not in single}
        shifts.append(
            LinearForm(terms, form.constant + sum(form.terms[a] * int(v or 0) for a, v in single.items()))
        )
    fixed = [{a: c for a, c in form.terms.items() if not free_vars(a) & varying} for form in shifts]
    common = fixed[0] if all(terms == fixed[0] for terms in fixed) else {}
    found: set[str] = set()
    for atom, step in shifts[0].terms.items():
        if not isinstance(atom, Var) or atom.name not in varying:
            continue
        if any(form.terms.get(atom) != step for form in shifts[1:]):
            continue
        held = interval(atom, ranges)
        smaller = {
            a: c
            for a, c in shifts[0].terms.items()
            if abs(c) < abs(step) and a not in common and all(form.terms.get(a) == c for form in shifts)
        }
        inside = form_interval(LinearForm(smaller, 0), ranges)
        rests = [
            [(a, c) for a, c in f.terms.items() if a != atom and a not in common and a not in smaller]
            for f in shifts
        ]
        if (
            held.low is None
            or held.high is None
            or inside.low is None
            or inside.high is None
            or any(atom.name in free_vars(a) for a in smaller)
            or any(atom.name in free_vars(a) for r in rests for a, _ in r)
        ):
            continue
        differences = [form.constant - shifts[0].constant for form in shifts]
        modulus = gcd(*differences, *[c for rest in rests for _, c in rest])
        width = extent + inside.high - inside.low
        reached = abs(step) * (held.high - held.low) + width
        if abs(step) >= width and (modulus == 0 or reached <= modulus):
            found.add(atom.name)
    return found
