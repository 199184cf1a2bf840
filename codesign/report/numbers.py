"""Formatting of figures: integers exactly, other numbers with a few digits."""

from __future__ import annotations


def figure(value: float, digits: int = 4) -> str:
    """Formats `value` as text. An integer gets all its digits. Any other number gets `digits` significant digits, or
    all digits of its integer part if these are more.
    """
    if float(value).is_integer():
        return f"{value:,.0f}"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    if abs(value) >= 1e-4:
        return f"{value:.{digits}g}"
    return f"{value:.{digits - 1}e}"
