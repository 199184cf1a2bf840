"""The profile of a network on a GPU for people: one line a node, with its part of what the card can do."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE
from rich.table import Table
from vdla.compiler.runtime.cuda_network import DeviceTime
from vdla.compiler.target.cuda.machine import CudaTarget
from vdla.util.printable import printable


def device_table(model: str, rows: Sequence[DeviceTime], target: CudaTarget) -> Table:
    """Milliseconds, share, and rates of each node of `model`, in the order of their runs.

    "of peak" are parts of the card's peak in float32 (tf32 where the target allows it) and of its memory's bandwidth;
    bytes count each array once, so where the level 2 cache holds them they may be more than the memory's.
    """
    total = sum(row.milliseconds for row in rows)
    peak = target.peak("tf32" if target.tensor_float else "float32")
    table = Table(
        title=model,
        title_justify="left",
        box=SIMPLE,
        padding=(0, 1),
        collapse_padding=True,
        show_footer=True,
    )
    table.add_column("node", footer="total", no_wrap=True)
    table.add_column("operator", no_wrap=True)
    for heading, footer in (
        ("kernels", str(sum(row.kernels for row in rows))),
        ("ms", f"{total:.4f}"),
        ("share", "100.0%" if total else ""),
        ("GFLOP/s", ""),
        ("of peak", ""),
        ("GB/s", ""),
        ("of peak", ""),
    ):
        table.add_column(heading, footer=footer, justify="right", no_wrap=True)
    for row in rows:
        share = row.milliseconds / total if total else 0.0
        table.add_row(
            printable(row.name)[-48:],
            row.operator,
            str(row.kernels),
            f"{row.milliseconds:.4f}",
            f"{share:.1%}",
            f"{row.gflops:,.1f}" if row.gflops else "",
            f"{row.gflops * 1e9 / peak:.1%}" if row.gflops else "",
            f"{row.gigabytes_per_second:,.1f}",
            f"{row.gigabytes_per_second * 1e9 / target.memory_bandwidth:.1%}",
        )
    return table
