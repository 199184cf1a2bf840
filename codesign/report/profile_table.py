"""The profile of a network as a table, with the total in the last line. There is one line for each kernel or, if the
device's peak is known, one line for each node with its share of the peak.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.box import SIMPLE
from rich.table import Table

from vdla.compiler.backends.kernels import KernelTime, Peaks
from vdla.util.printable import printable


def profile_table(title: str, rows: Sequence[KernelTime], peaks: Peaks | None = None) -> Table:
    """A table, headed `title`, of milliseconds, share and rates of each kernel in `rows`, in the order of execution.

    With `peaks`, `rows` are nodes, and the table has the number of kernels of each. The two columns "of peak" are then
    the fractions of the device's peak operations and of its memory bandwidth. The bytes of each array are counted once;
    if an array is in a cache, the real memory traffic is smaller than this fraction says.
    """
    total = sum(row.milliseconds for row in rows)
    digits = 3 if peaks is None else 4
    table = Table(
        title=title,
        title_justify="left",
        box=SIMPLE,
        padding=(0, 1),
        collapse_padding=True,
        show_footer=True,
    )
    table.add_column("kernel" if peaks is None else "node", footer="total", no_wrap=True)
    table.add_column("operator", no_wrap=True)
    columns: list[tuple[str, str, Callable[[Any], str]]] = []
    if peaks is not None:
        kernels = str(sum(getattr(row, "kernels", 1) for row in rows))
        columns.append(("kernels", kernels, lambda row: str(row.kernels)))
    columns += [
        ("ms", f"{total:.{digits}f}", lambda row: f"{row.milliseconds:.{digits}f}"),
        ("share", "100.0%" if total else "", lambda row: f"{row.milliseconds / total if total else 0.0:.1%}"),
        ("GFLOP/s", "", lambda row: f"{row.gflops:,.1f}" if row.gflops else ""),
    ]
    if peaks is not None:
        columns += [
            ("of peak", "", lambda row: f"{row.gflops * 1e9 / peaks.operations:.1%}" if row.gflops else ""),
            ("GB/s", "", lambda row: f"{row.gigabytes_per_second:,.1f}"),
            ("of peak", "", lambda row: f"{row.gigabytes_per_second * 1e9 / peaks.bytes:.1%}"),
        ]
    for heading, footer, _ in columns:
        table.add_column(heading, footer=footer, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(printable(row.name)[-48:], row.operator, *[text(row) for _, _, text in columns])
    return table
