"""Elements of a warp's sums that each lane can access by itself: the elements in the lane's own registers.

The 32 lanes of a warp hold a matrix of sums, 16 rows and 8 columns (scope `SUMS`), in registers of their own. For h and
p of 0 or 1, register 2 * h + p of lane x holds the element in row x // 4 + 8 * h and column x % 4 * 2 + p (PTX ISA,
"Matrix Fragments for mma.m16n8k16"). A statement in a loop over lanes accesses elements of its own lane only.
"""

from __future__ import annotations

from collections.abc import Sequence

from .affine import LinearForm, atom_form, linear_form
from .expr import Binary, Const, Expr, Var
from .visit import free_vars

SUMS = "fragment.c"
"""Scope of the matrices of sums in the registers of a warp."""
LANES, LANES_OF_ROW = 32, 4
"""Number of lanes of a warp, and number of neighbouring lanes that hold the elements of a row."""
OWN_ROWS, OWN_COLUMNS = 2, 2
"""A lane has elements in OWN_ROWS rows of a matrix, and in each of these rows OWN_COLUMNS neighbouring elements."""
ROWS_APART = 8
"""Distance between the two rows of a matrix in which a lane has elements."""


def own_row(lane: Expr, half: Expr) -> Expr:
    """A lane has elements in two rows of a matrix of sums. Returns the index of row number `half` (0 or 1) of these
    two.
    """
    return lane // LANES_OF_ROW + half * ROWS_APART


def own_column(lane: Expr, part: Expr) -> Expr:
    """A lane has elements in two columns of a matrix of sums. Returns the index of column number `part` (0 or 1) of
    these two.
    """
    return lane % LANES_OF_ROW * OWN_COLUMNS + part


def lane_register(indices: Sequence[Expr]) -> tuple[str, LinearForm] | None:
    """Finds where an element of a matrix of sums is stored, when lanes of a warp hold the matrix in registers. The last
    two of `indices` are the element's row and column.

    Returns (the name of the variable that is the lane, the number of the lane's register); None unless the indices
    select an element of a single lane.
    """
    row, column = (linear_form(at) for at in indices[-2:])
    upper, lower = (_digit(form, op) for form, op in ((row, "//"), (column, "%")))
    if upper is None or lower is None or upper.a != lower.a or not isinstance(upper.a, Var):
        return None
    lane, half, part = (
        upper.a.name,
        row.plus(atom_form(upper), -1),
        column.plus(atom_form(lower), -OWN_COLUMNS),
    )
    if any(lane in free_vars(atom) for atom in (*half.terms, *part.terms)):
        return None
    if any(number % ROWS_APART for number in (half.constant, *half.terms.values())):
        return None
    terms = {atom: factor // ROWS_APART for atom, factor in half.terms.items()}
    return lane, part.plus(LinearForm(terms, half.constant // ROWS_APART), OWN_COLUMNS)


def _digit(form: LinearForm, op: str) -> Binary | None:
    """The only atom `... // LANES_OF_ROW` (or `... % LANES_OF_ROW`, by `op`) of a linear form, with any dividend and
    any coefficient; None if there is none or several.
    """
    found = [
        atom
        for atom in form.terms
        if isinstance(atom, Binary) and atom.op == op and atom.b == Const(LANES_OF_ROW)
    ]
    return found[0] if len(found) == 1 else None
