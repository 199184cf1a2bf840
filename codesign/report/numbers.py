"""Formatting of figures: integers exactly, other numbers with a few digits."""

from __future__ import annotations


def figure(value: float, digits: int = 4) -> str:
    """An integer with all digits; any other number with `digits` significant digits, or more if its integer part has
    more.
    """
    if float(value).is_integer():
        return f"{value:,.0f}"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    if abs(value) >= 1e-4:
        return f"{value:.{digits}g}"
    return f"{value:.{digits - 1}e}"
