"""Two pictures of a run: layers under the roofline, and the breakdown of each layer's cycles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from vdla.isa.config import Config

from .canvas import GRID, INK, MUTED, new_figure, png, style, words
from .cycle_breakdown import LayerAccount, RunAccount
from .memory_roofs import memory_roofs
from .palette import BLUE, PARTS, VERMILLION, YELLOW

COMPUTE, MEMORY = BLUE, VERMILLION
CAUSE_COLORS = PARTS[1:7]
SAME_SPOT = 2.5
"""Distance in points (1/72 inch) within which layers share one label in the roofline plot."""
TITLE = 40
"""Largest number of characters of a network's or configuration's name in a picture's title."""
LARGEST_CAUSES = len(CAUSE_COLORS) - 1
"""Number of causes of stalls that have their own colour in the plot, if there are more causes than `CAUSE_COLORS`; the
other causes are then drawn as one.
"""


def _short(value: float, _position: int = 0) -> str:
    return f"{value:g}"


def roofline_figure(run: RunAccount, config: Config) -> Figure:
    """A roofline plot: multiplies per cycle against multiplies per DRAM byte (intensity), one numbered point for each
    layer of `run` that multiplies, and a star for the whole network.

    At each intensity, the roof is the smaller of two numbers: the peak of the array, and the bytes that the memory can
    move in a cycle times the intensity. Both follow from `config`. If reads and writes overlap, a dashed line shows the
    roof of layers that use only one direction. The intensity of a layer counts all moved bytes, not only the compulsory
    ones.
    """
    layers = [(n, layer) for n, layer in enumerate(run.layers, 1) if layer.macs and layer.cycles]
    figure = new_figure(11, 6.2)
    axes, key = figure.subplots(1, 2, width_ratios=(3.1, 1))
    style(axes)
    peak, roofs = config.multiplies_per_cycle, memory_roofs(config)
    bus = roofs[0].bytes_per_cycle
    points = [(layer.macs / layer.dram_bytes, layer.macs / layer.cycles) for _, layer in layers]
    ridge = peak / bus
    low = min([ridge / 8, *(x / 2 for x, _ in points)])
    high = max([ridge * 8, *(x * 2 for x, _ in points)])
    reach = np.array([low, ridge, high])
    roof = np.minimum(peak, bus * reach)
    axes.fill_between(reach, roof, 1e9, color="#f1f3f5", linewidth=0)
    axes.plot(reach, roof, color=INK, linewidth=2, label="what array and bus allow")
    for other in roofs[1:]:
        ends = np.array([low, peak / other.bytes_per_cycle])
        axes.plot(ends, other.bytes_per_cycle * ends, color=INK, linewidth=1.2, linestyle="--")
    axes.annotate(
        f"peak {peak} MAC/cycle", (high, peak), (-4, 6), textcoords="offset points", ha="right", color=INK
    )
    axes.set_xscale("log")
    axes.set_yscale("log")
    floor = min([bus * low, peak / 40, *(y / 2 for _, y in points)])
    axes.set_xlim(low, high)
    axes.set_ylim(floor, peak * 2)
    for bound, color in (("compute", COMPUTE), ("memory", MEMORY)):
        chosen = [point for point, (_, layer) in zip(points, layers, strict=True) if layer.bound == bound]
        if chosen:
            axes.scatter(
                *zip(*chosen, strict=True),
                s=70,
                color=color,
                edgecolor="white",
                linewidth=1,
                zorder=3,
                label=f"{bound} bound",
            )
    moved = run.total.dram_read_bytes + run.total.dram_write_bytes
    if moved:
        axes.scatter(
            [run.total.macs / moved],
            [run.total.macs / run.total.cycles],
            marker="*",
            s=260,
            color=YELLOW,
            edgecolor=INK,
            linewidth=0.8,
            zorder=4,
            label=f"whole network, {run.total.utilization:.1%} of its roofline",
        )
    axes.grid(True, which="major", color=GRID, linewidth=0.8)
    axes.xaxis.set_major_formatter(FuncFormatter(_short))
    axes.yaxis.set_major_formatter(FuncFormatter(_short))
    axes.set_xlabel("operational intensity, multiplies per DRAM byte moved", color=INK)
    axes.set_ylabel("achieved, multiplies per cycle", color=INK)
    axes.set_title(
        f"{words(run.model, TITLE)} on {words(run.config, TITLE)}: roofline",
        loc="left",
        color=INK,
        fontweight="bold",
    )
    axes.legend(loc="lower right", frameon=True, framealpha=0.95, edgecolor=GRID, fontsize=9)
    _key(key, [(n, layer) for n, layer in layers], peak)
    # The texts below are placed in pixels, so the layout must be final first.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    across, up = axes.transData.transform((ridge, peak)) - axes.transData.transform((low, bus * low))
    middle = np.sqrt(low * ridge)
    for number, slope in enumerate(roofs):
        axes.annotate(
            slope.words,
            (middle, slope.bytes_per_cycle * middle),
            (-9, 9) if number == 0 else (9, -9),
            textcoords="offset points",
            rotation=np.degrees(np.arctan2(up, across)),
            rotation_mode="anchor",
            ha="center",
            va="baseline" if number == 0 else "top",
            color=INK,
        )
    _number_points(axes, points, [n for n, _ in layers])
    return figure


def roofline_png(run: RunAccount, config: Config) -> bytes:
    """`roofline_figure` as a PNG."""
    return png(roofline_figure(run, config))


def _number_points(axes: Axes, points: Sequence[tuple[float, float]], numbers: Sequence[int]) -> None:
    # Layers crowd under the roof: layers at one spot share a label, and each label gets the highest free place below
    # its point, with a thin leader.
    to_points = 72 / axes.get_figure(root=True).dpi  # type: ignore[union-attr]
    spots: list[tuple[float, float, tuple[float, float], list[int]]] = []
    for point, number in zip(points, numbers, strict=True):
        x, y = axes.transData.transform(point) * to_points
        for spot in spots:
            if abs(spot[0] - x) < SAME_SPOT and abs(spot[1] - y) < SAME_SPOT:
                spot[3].append(number)
                break
        else:
            spots.append((x, y, point, [number]))
    taken = [(x, y, 0.0) for x, y, _, _ in spots]
    for x, y, point, members in spots:
        label = number_ranges(members)
        half = 2.4 * len(label)
        level = next(
            y - 13 - 10 * step
            for step in range(2 * len(points) + 2)
            if all(
                abs(x - other) > half + width + 3 or abs(y - 13 - 10 * step - height) > 9.5
                for other, height, width in taken
            )
        )
        taken.append((x, level, half))
        axes.annotate(
            label,
            point,
            (0, level - y),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=8,
            color=INK,
            zorder=5,
            bbox={"boxstyle": "square,pad=0.08", "facecolor": "white", "edgecolor": "none"},
            arrowprops={"arrowstyle": "-", "color": MUTED, "linewidth": 0.5, "shrinkB": 4},
        )


def number_ranges(numbers: Sequence[int], longest: int = 14) -> str:
    """Ascending `numbers` as text like "3, 5-7"; if the text would have more than `longest` characters, their count
    instead.
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    text = ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
    return text if len(text) <= longest else f"{len(numbers)} layers"


def _key(axes: Axes, layers: Sequence[tuple[int, LayerAccount]], peak: int) -> None:
    axes.set_axis_off()
    shown = layers if len(layers) <= 36 else layers[:35]
    lines = [f"{n:>3}  {words(layer.name, 26)}  {layer.macs / layer.cycles / peak:.0%}" for n, layer in shown]
    if len(layers) > len(shown):
        lines.append(f"     and {len(layers) - len(shown)} more")
    text = "layer, share of peak\n\n" + "\n".join(lines)
    axes.text(
        0, 1, text, va="top", family="monospace", fontsize=7.5, color=INK, linespacing=1.45
    ).set_in_layout(False)


def layers_figure(run: RunAccount) -> Figure:
    """A figure of two panels with a bar for each layer. Left: all cycles, GEMM first, then stalls by cause; a tick
    marks the layer's roofline. Right: the stalls alone, on their own scale.
    """
    layers = run.layers
    figure = new_figure(12.5, max(3.4, 1.9 + 0.29 * len(layers)))
    whole, stalled = figure.subplots(1, 2, width_ratios=(1.7, 1), sharey=True)
    rows = np.arange(len(layers))
    gemm = np.array([layer.gemm_cycles for layer in layers], dtype=float)
    whole.barh(rows, gemm, height=0.68, color=COMPUTE, label="GEMM issues")
    left, alone = gemm.copy(), np.zeros(len(layers))
    for (label, cycles), color in zip(stacked_causes(layers).items(), CAUSE_COLORS, strict=False):
        width = np.array(cycles, dtype=float)
        whole.barh(rows, width, left=left, height=0.68, color=color, label=label)
        stalled.barh(rows, width, left=alone, height=0.68, color=color)
        left += width
        alone += width
    roofline = np.array([layer.roofline_cycles for layer in layers], dtype=float)
    marked = rows[roofline > 0]
    whole.vlines(
        roofline[marked], marked - 0.46, marked + 0.46, color=INK, linewidth=2, label="roofline of the layer"
    )
    _layer_axis(
        whole,
        np.maximum(left, roofline),
        [f"{x.utilization:.0%}" if x.roofline_cycles else "" for x in layers],
    )
    _layer_axis(stalled, alone, [f"{cycles:,.0f}" for cycles in alone])
    whole.set_yticks(rows, [f"{words(layer.name, 30)}  {n:>2}" for n, layer in enumerate(layers, 1)])
    whole.set_ylim(len(layers) - 0.4, -0.6)
    for axes in (whole, stalled):
        axes.tick_params(axis="y", labelsize=8, length=0)
    total = run.total
    whole.set_title(
        f"{words(run.model, TITLE)} on {words(run.config, TITLE)}: {total.cycles:,} cycles, "
        f"{total.utilization:.1%} of the roofline",
        loc="left",
        color=INK,
        fontweight="bold",
    )
    stalled.set_title("cycles without a GEMM, by cause", loc="left", color=INK, fontsize=10)
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return figure


def layers_png(run: RunAccount) -> bytes:
    """`layers_figure` as a PNG."""
    return png(layers_figure(run))


def _layer_axis(axes: Axes, ends: NDArray[np.float64], labels: Sequence[str]) -> None:
    style(axes)
    longest = max(1.0, *ends)
    for row, (end, label) in enumerate(zip(ends, labels, strict=True)):
        axes.text(end + 0.012 * longest, row, label, va="center", fontsize=8, color=MUTED)
    axes.set_xlim(0, 1.14 * longest)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _position: f"{value:,.0f}"))
    axes.grid(True, axis="x", color=GRID, linewidth=0.8)
    axes.set_xlabel("cycles", color=INK)


def stacked_causes(layers: Sequence[LayerAccount]) -> Mapping[str, list[int]]:
    """Stall cycles by cause, one value for each of `layers`: the causes that are largest over the whole run first. If
    there are more causes than `LARGEST_CAUSES` + 1, those beyond the largest are summed as "all other causes".
    """
    totals: dict[str, int] = {}
    for layer in layers:
        for cause, cycles in layer.stalls.items():
            totals[cause] = totals.get(cause, 0) + cycles
    ranked = [c for c, cycles in sorted(totals.items(), key=lambda item: (-item[1], item[0])) if cycles]
    own = ranked if len(ranked) <= LARGEST_CAUSES + 1 else ranked[:LARGEST_CAUSES]
    stacks = {cause: [layer.stalls.get(cause, 0) for layer in layers] for cause in own}
    if len(own) < len(ranked):
        stacks["all other causes"] = [
            sum(cycles for cause, cycles in layer.stalls.items() if cause not in own) for layer in layers
        ]
    return stacks
