"""Prints and writes the results of a benchmark: a line of text for each row as soon as it is measured; at the end all
figures, as text, as JSON, or in a file of benchmarks/results.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from .command_line import Given
from .results import ROOT, write_results

Of = TypeVar("Of")
Row = TypeVar("Row")


def measure_all(
    cases: Iterable[Of], measure: Callable[[Of], Row], line: Callable[[Row], str], *, quiet: bool
) -> list[Row]:
    """Measures all cases one after the other by `measure` and returns their rows; the text that `line` makes of each
    row is printed at once, unless `quiet`.
    """
    rows: list[Row] = []
    for case in cases:
        rows.append(measure(case))
        if not quiet:
            print(line(rows[-1]), flush=True)
    return rows


def finish(
    options: Given,
    name: str,
    figures: Mapping[str, Any],
    *,
    lines: Iterable[str] = (),
    shown: Any = None,
    packages: Sequence[str] = (),
    compact: bool = False,
) -> None:
    """Prints the figures of a benchmark. With --json, prints `shown` or, if it is None, `figures` as JSON; otherwise
    prints `lines`. With --write, the figures are also written to the file `name`.json in benchmarks/results, with the
    versions of `packages`; `compact`: the file is written without spaces.
    """
    if options.json:
        print(json.dumps(figures if shown is None else shown, indent=2))
    else:
        for line in lines:
            print(line)
    if options.write:
        path = write_results(name, figures, packages=packages, compact=compact)
        print(f"wrote {path.relative_to(ROOT)}", file=sys.stderr)


def listed(figures: Mapping[str, Any]) -> Iterator[str]:
    """Lines of text, one for each figure of a benchmark: its name and its value."""
    for name, value in figures.items():
        yield f"{name}: {value}"
