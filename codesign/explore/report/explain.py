"""Sentences on the difference of two machines: its amount, its causes, and the layers that contribute most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...report.numbers import figure

SMALL = 0.05
"""Changes below this fraction of the sum of all absolute changes are not mentioned."""
MOST = 3
Rows = Sequence[tuple[str, float, float]]
"""Rows of (name, value of the first machine, value of the second)."""


def change(name: str, first: float, second: float, unit: str = "") -> str:
    """Text on `second` - `first`: "`name`: 5 `unit` more (1.2x)", where the ratio is second / first."""
    if first == second:
        return f"{name}: equal"
    word = "more" if second > first else "less" if unit else "fewer"
    space = f" {unit}" if unit else ""
    times = f" ({second / first:.3g}x)" if first else ""
    return f"{name}: {_digits(abs(second - first))}{space} {word}{times}"


def main_changes(rows: Rows, most: int = MOST) -> str:
    """Text on the largest changes among the rows, at most `most`: names and signed differences, second - first. Changes
    below the fraction `SMALL` of the sum of all changes are left out; the text is empty if no change remains.
    """
    changed = sorted(((name, b - a) for name, a, b in rows if a != b), key=lambda item: -abs(item[1]))
    total = sum(abs(by) for _, by in changed)
    main = [f"{name} {_signed(by)}" for name, by in changed[:most] if abs(by) >= SMALL * total]
    return ", ".join(main)


def cycles_by_cause(first: Mapping[str, Any], second: Mapping[str, Any]) -> Rows:
    """Compares how two machines spend their cycles on one network. `first` and `second` are the tables of its layers on
    the two machines (`layers.columns`). Returns rows (name, cycles on the first machine, cycles on the second machine):
    one row for the cycles in which the array issues GEMM, and one for each cause of stalls.
    """
    causes = dict.fromkeys([*first["stalls"], *second["stalls"]])
    rows = [("GEMM", float(sum(first["gemm"])), float(sum(second["gemm"])))]
    for cause in causes:
        left, right = (float(sum(layers["stalls"].get(cause, ()))) for layers in (first, second))
        rows.append((f"stall: {cause}", left, right))
    return rows


def cycles_by_layer(first: Mapping[str, Any], second: Mapping[str, Any]) -> Rows:
    """Rows (layer, cycles on the first machine, cycles on the second) for the layers that both machines have."""
    of_second = dict(zip(second["name"], second["cycles"], strict=True))
    return [
        (name, float(cycles), float(of_second[name]))
        for name, cycles in zip(first["name"], first["cycles"], strict=True)
        if name in of_second
    ]


def _digits(value: float) -> str:
    return figure(value, 3)


def _signed(value: float) -> str:
    return ("+" if value > 0 else "-") + _digits(abs(value))
