"""The table of a network's layers that `vdla run` prints: one line for each layer, the total last."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from vdla.util.printable import printable

from ..technology.clock import Clock
from .console import PlainConsole
from .cycle_breakdown import CheckAccount, RunAccount
from .hardware import warning_lines
from .numbers import figure


def main_causes(stalls: Mapping[str, int], count: int = 2) -> str:
    """The `count` largest causes of stalls with their cycles, largest first; empty if nothing stalled."""
    largest = sorted(stalls.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{cause} {cycles:,}" for cause, cycles in largest[:count] if cycles)


def layer_table(run: RunAccount, width: int | None = None) -> Table:
    """The layers of `run` as a table: cycles against the roofline, causes of the array's stalls, bytes moved.

    If `width` characters do not suffice, the columns of _DISPENSABLE are left out one after the other; digits of
    numbers are never cut.
    """
    table = _layer_table(run, ())
    for hidden in range(1, len(_DISPENSABLE) + 1):
        if width is None or _width(table) <= width:
            break
        table = _layer_table(run, _DISPENSABLE[:hidden])
    return table


_DISPENSABLE = ("mostly", "op", "bound", "DRAM KiB", "roofline")
"""Columns that are left out if the terminal is too narrow, in this order."""


MARKS = {"overlap": "*", "fusion": "+"}
"""Marks printed before the cycles of a layer that takes fewer cycles than its roofline, by reason
(`LayerAccount.below_roofline`).
"""
WHY = {
    "overlap": "below its roofline: it began while the layer before it was still running",
    "fusion": "below its roofline, which counts the stores of the convolution without the fused pool",
}


def _width(table: Table) -> int:
    """Width of a table in characters, with all its columns."""
    console = PlainConsole(width=1000)
    return Measurement.get(console, console.options, table).maximum


def _layer_table(run: RunAccount, hidden: Collection[str]) -> Table:
    below = {layer.below_roofline for layer in run.layers}
    table = Table(
        title=f"{run.model} on {run.config}",
        title_justify="left",
        box=SIMPLE,
        padding=(0, 1),
        collapse_padding=True,
        show_footer=True,
        caption=Text("\n".join(f"{MARKS[why]} {WHY[why]}" for why in WHY if why in below)) if below else None,
        caption_justify="left",
    )
    total = run.total
    stalled = sum(sum(layer.stalls.values()) for layer in run.layers)
    columns = {
        "layer": "total",
        "op": "",
        "MMAC": f"{total.macs / 1e6:,.1f}",
        "cycles": f"{total.cycles:,}",
        "roofline": f"{total.roofline_cycles:,.0f}",
        "bound": "",
        "util.": f"{total.utilization:.1%}",
        "GEMM": f"{total.cycles - stalled:,}",
        "other": f"{stalled:,}",
        "mostly": "",
        "DRAM KiB": _kib(total.dram_read_bytes + total.dram_write_bytes),
        "row hits": "",
    }
    shown = [heading for heading in columns if heading not in hidden]
    if all(layer.row_hits is None for layer in run.layers):
        shown.remove("row hits")
    for heading in shown:
        left = heading in ("layer", "op", "bound", "mostly")
        table.add_column(heading, footer=columns[heading], justify="left" if left else "right", no_wrap=True)
    for layer in run.layers:
        cells = {
            "layer": printable(layer.name)[-32:],
            "op": layer.op,
            "MMAC": f"{layer.macs / 1e6:,.1f}" if layer.macs else "",
            "cycles": f"{MARKS[layer.below_roofline] if layer.below_roofline else ''}{layer.cycles:,}",
            "roofline": f"{layer.roofline_cycles:,.0f}" if layer.roofline_cycles else "",
            "bound": layer.bound if layer.roofline_cycles else "",
            "util.": f"{layer.utilization:.1%}" if layer.roofline_cycles else "",
            "GEMM": f"{layer.gemm_cycles:,}",
            "other": f"{sum(layer.stalls.values()):,}",
            "mostly": main_causes(layer.stalls, 1),
            "DRAM KiB": _kib(layer.dram_bytes),
            "row hits": "" if layer.row_hits is None else f"{layer.row_hits:.1%}",
        }
        table.add_row(*[cells[heading] for heading in shown])
    return table


def summary(run: RunAccount, *, computed: bool = False) -> list[str]:
    """Lines of text below the table of layers: time and energy, host time, traffic, and the comparison of outputs.
    `computed`: outputs were computed, even if they were not compared.
    """
    total = run.total
    clock = Clock(hertz=total.clock_hertz, source=total.clock_is)
    energy = "" if total.energy_uj is None else f"{_energy(total.energy_uj)} ({total.energy_is}); "
    lines = [
        f"{total.seconds_at_clock * 1e3:.2f} ms at {clock}; {energy}"
        f"{total.instructions:,} instructions; {total.dram_read_bytes / 2**20:.2f} MiB read, "
        f"{total.dram_write_bytes / 2**20:.2f} MiB written",
        f"compiled in {total.compile_seconds:.2f} s, simulated in {total.simulate_seconds:.3f} s "
        f"({total.cycles / max(total.simulate_seconds, 1e-9) / 1e6:.0f} M cycles/s)",
    ]
    if run.check is not None:
        lines.append(check_text(run.check))
    elif not computed:
        lines.append("timing only: no data was computed, nothing was checked")
    return lines + warning_lines(run.warnings)


def check_text(check: CheckAccount) -> str:
    """One line of text on the comparison of outputs. It has the reference, the largest difference, the allowed
    difference with its reason, and whether the top-1 classes agree.
    """
    images = "1 image" if check.images == 1 else f"{check.images} images"
    because = f": {check.tolerance_because}" if check.tolerance_because else ""
    alone = "" if check.mode == "end to end" else f"; end to end {check.end_to_end_max_lsb} LSB"
    return (
        f"against {check.against}, {check.mode}, {images}: largest difference {check.max_lsb} LSB in {check.compared} "
        f"({check.tolerance} allowed{because}){alone}; top-1 {'equal' if check.top1_equal else 'DIFFERENT'}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """The same network under another condition, such as a longer memory latency: name, cycles and utilization."""

    name: str
    cycles: int
    utilization: float


def comparison_table(run: RunAccount, variants: Sequence[Variant]) -> Table:
    """A table of `run` and of the same network under other conditions (`variants`): the gain of hiding latency, and the
    cost of a longer memory latency.
    """
    table = Table(
        title="the same network under other conditions", title_justify="left", box=SIMPLE, padding=(0, 1)
    )
    table.add_column("condition")
    table.add_column("cycles", justify="right")
    table.add_column("utilization", justify="right")
    table.add_row("as above", f"{run.total.cycles:,}", f"{run.total.utilization:.1%}")
    for variant in variants:
        table.add_row(variant.name, f"{variant.cycles:,}", f"{variant.utilization:.1%}")
    return table


def _energy(microjoules: float) -> str:
    return f"{figure(microjoules)} uJ" if microjoules < 1000 else f"{figure(microjoules / 1000)} mJ"


def _kib(size: int) -> str:
    return f"{size / 1024:,.0f}"
