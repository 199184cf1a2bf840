"""The layer table for people: one line a layer, the total last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE
from rich.table import Table

from .accounts import RunAccount


def main_causes(stalls: Mapping[str, int], count: int = 2) -> str:
    """The `count` largest causes with their cycles, largest first; empty when nothing stalled."""
    largest = sorted(stalls.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{cause} {cycles:,}" for cause, cycles in largest[:count] if cycles)


def layer_table(run: RunAccount) -> Table:
    """The account of `run` as a table: cycles against the roofline, what the array waited for, bytes moved."""
    table = Table(
        title=f"{run.model} on {run.config}",
        title_justify="left",
        box=SIMPLE,
        padding=(0, 1),
        collapse_padding=True,
        show_footer=True,
    )
    total = run.total
    stalled = sum(sum(layer.stalls.values()) for layer in run.layers)
    table.add_column("layer", footer="total", no_wrap=True)
    table.add_column("op", no_wrap=True)
    for heading, footer in (
        ("MMAC", f"{total.macs / 1e6:,.1f}"),
        ("cycles", f"{total.cycles:,}"),
        ("roofline", f"{total.roofline_cycles:,.0f}"),
        ("bound", ""),
        ("util.", f"{total.utilization:.1%}"),
        ("GEMM", f"{total.cycles - stalled:,}"),
        ("other", f"{stalled:,}"),
    ):
        table.add_column(
            heading, footer=footer, justify="left" if heading == "bound" else "right", no_wrap=True
        )
    table.add_column("mostly", no_wrap=True)
    table.add_column(
        "DRAM KiB",
        footer=f"{_kib(total.dram_read_bytes + total.dram_write_bytes)}",
        justify="right",
        no_wrap=True,
    )
    for layer in run.layers:
        table.add_row(
            layer.name[-32:],
            layer.op,
            f"{layer.macs / 1e6:,.1f}" if layer.macs else "",
            f"{layer.cycles:,}",
            f"{layer.roofline_cycles:,.0f}" if layer.roofline_cycles else "",
            layer.bound if layer.roofline_cycles else "",
            f"{layer.utilization:.1%}" if layer.roofline_cycles else "",
            f"{layer.gemm_cycles:,}",
            f"{sum(layer.stalls.values()):,}",
            main_causes(layer.stalls, 1),
            _kib(layer.dram_bytes),
        )
    return table


def summary(run: RunAccount) -> list[str]:
    """What the table does not say: time at the clock, host time, traffic, and how the outputs compare."""
    total = run.total
    lines = [
        f"{total.seconds_at_clock * 1e3:.2f} ms at the clock; {total.instructions:,} instructions; "
        f"{total.dram_read_bytes / 2**20:.2f} MiB read, {total.dram_write_bytes / 2**20:.2f} MiB written",
        f"compiled in {total.compile_seconds:.2f} s, simulated in {total.simulate_seconds:.3f} s "
        f"({total.cycles / max(total.simulate_seconds, 1e-9) / 1e6:.0f} M cycles/s)",
    ]
    if run.check is None:
        lines.append("timing alone: no data was computed, nothing was checked")
    else:
        images = "1 image" if run.check.images == 1 else f"{run.check.images} images"
        lines.append(
            f"against {run.check.against}, {run.check.mode}, {images}: largest difference {run.check.max_lsb} LSB, "
            f"top-1 {'equal' if run.check.top1_equal else 'DIFFERENT'}"
        )
    return lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """The same network under another condition: its name, total cycles and utilization."""

    name: str
    cycles: int
    utilization: float


def comparison_table(run: RunAccount, variants: Sequence[Variant]) -> Table:
    """`run` and `variants` side by side: what hiding latency is worth, and what more latency costs."""
    table = Table(title="the same network otherwise", title_justify="left", box=SIMPLE, padding=(0, 1))
    table.add_column("condition")
    table.add_column("cycles", justify="right")
    table.add_column("utilization", justify="right")
    table.add_row("as above", f"{run.total.cycles:,}", f"{run.total.utilization:.1%}")
    for variant in variants:
        table.add_row(variant.name, f"{variant.cycles:,}", f"{variant.utilization:.1%}")
    return table


def _kib(size: int) -> str:
    return f"{size / 1024:,.0f}"
