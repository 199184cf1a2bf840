"""Sets of operators that the table of operators defines by its rows."""

from __future__ import annotations

from .table import ROWS, operators

STRUCTURE = frozenset(operators("either"))
"""Operators that compute nothing."""
FUNCTIONS = frozenset(
    name
    for name, rows in ROWS.items()
    if any(row.kind == "quantized" and row.reads is None and not row.behind for row in rows)
)
"""Names of operators that are functions of one quantized tensor if all their other operands are single numbers."""
MERGED_INTO_FUNCTIONS = frozenset(
    name for name, rows in ROWS.items() if any("Function" in row.behind for row in rows)
)
"""Names of operators that usually become integer nodes of their own. If an input is a pending `Function` (an
element-wise function of one tensor that the next QuantizeLinear will round), the operator is merged into the function.
"""
