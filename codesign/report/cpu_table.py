"""The profile of a network on a processor for people: one line a kernel, the total last."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE
from rich.table import Table
from vdla.compiler.runtime.cpu_network import LaunchTime
from vdla.util.printable import printable


def profile_table(model: str, rows: Sequence[LaunchTime]) -> Table:
    """Milliseconds, share and rate of each kernel of `model`, in the order of their runs."""
    total = sum(row.milliseconds for row in rows)
    table = Table(
        title=model,
        title_justify="left",
        box=SIMPLE,
        padding=(0, 1),
        collapse_padding=True,
        show_footer=True,
    )
    table.add_column("kernel", footer="total", no_wrap=True)
    table.add_column("operator", no_wrap=True)
    for heading, footer in (("ms", f"{total:.3f}"), ("share", "100.0%" if rows else ""), ("GFLOP/s", "")):
        table.add_column(heading, footer=footer, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            printable(row.name)[-48:],
            row.operator,
            f"{row.milliseconds:.3f}",
            f"{row.milliseconds / total:.1%}",
            f"{row.gflops:,.1f}" if row.gflops else "",
        )
    return table
