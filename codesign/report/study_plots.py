"""Pictures, as PNG files, that compare the tuner's searches, and that show the gain of a tuned network by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator
from numpy.typing import NDArray

from .canvas import GRID, INK, MUTED, new_figure, small_png, style, words
from .cycle_breakdown import RunAccount
from .palette import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION, YELLOW
from .study import Run, Study, StudyError, spread

DPI = 96
"""Resolution, in dots per inch, of pictures that are stored in a notebook."""
HIGHEST = 1.3
"""Largest cost shown in curves, as a multiple of the best known cost; random schedules may cost several times
as much.
"""
LEAST_RANGE = 0.04
"""Least height of the plotted range above the best known cost, relative to that cost, so that nearly equal curves do
not look different.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One search in a picture: its runs have the strategy `strategy`; `transfer`: whether their cost model had learned
    from other layers.
    """

    label: str
    strategy: str
    transfer: bool = False
    color: str
    marker: str

    def runs(self, study: Study, layer: str) -> tuple[Run, ...]:
        """The search's runs on a layer, one for each seed."""
        return study.of(layer, self.strategy, self.transfer)


_LEARNED = {"evolution": (BLUE, "o"), "model": (SKY, "v"), "thompson": (PURPLE, "P")}
"""Maps the strategy of each search that uses a learned model to its (colour, marker)."""
_OTHERS = {
    "estimate": ("estimate only", VERMILLION, "d"),
    "model-first": ("model, other first points", SKY, "v"),
    "genetic+first": ("genetic, same first points", ORANGE, "s"),
    "random+first": ("random, same first points", BLACK, "^"),
    "genetic": ("genetic", YELLOW, "p"),
    "random": ("random", PURPLE, "<"),
    "grid": ("grid", MUTED, "x"),
}
"""The other searches in a plot: those without a learned model, and those that begin with other candidates than the
tuner's own search. Maps the name of each strategy to its (label, colour, marker).
"""
_TAUGHT = (GREEN, "D")
LOST, GAINED = VERMILLION, BLUE
NEEDED_ROOM = 0.8
"""Height of all bars of one layer together in the picture of `needed_png`, relative to the layer's row; the rest of the
row separates it from the next.
"""


def searches(study: Study) -> tuple[Series, ...]:
    """The searches of a comparison whose cost models have not learned from other layers. Searches with a learned model
    come first; if there is only one, its label is "model".
    """
    there = {run.strategy for run in study.runs if not run.transfer}
    learned = [name for name in _LEARNED if name in there]
    looks = {name: (_label(name, learned), *look) for name, look in _LEARNED.items()} | _OTHERS
    return tuple(
        Series(label=label, strategy=name, color=color, marker=marker)
        for name, (label, color, marker) in looks.items()
        if name in there
    )


def taught(study: Study) -> Series:
    """The search of a comparison whose cost model had learned from other layers (transfer). Raises StudyError if there
    is none.
    """
    for run in study.runs:
        if run.transfer:
            color, marker = _TAUGHT
            return Series(
                label="model, taught by the other layers",
                strategy=run.strategy,
                transfer=True,
                color=color,
                marker=marker,
            )
    raise StudyError(
        "the study has no runs with transfer between layers; such a study needs at least two layers"
    )


def _label(name: str, learned: Sequence[str]) -> str:
    return "model" if len(learned) == 1 else f"model ({name})"


def curves_png(
    study: Study,
    series: Sequence[Series],
    *,
    floors: Mapping[str, float] | None = None,
    columns: int = 4,
    trials: int | None = None,
) -> bytes:
    """A PNG with one panel for each layer: the least cost so far divided by the best known cost, against trials. A
    curve is the median over a search's runs, in a band from the least to the largest value.

    The first of `series` is drawn on top. `floors`: lower bounds of the cost by layer, drawn as dashed lines. At most
    `trials` trials are shown. `columns`: number of panels side by side.
    """
    figure, panels = _grid(len(study.layers), columns)
    for axes, layer in zip(panels, study.layers, strict=True):
        known = study.best_known(layer)
        top = 1 + LEAST_RANGE
        for below, item in enumerate(series):
            if not (runs := item.runs(study, layer)) or not np.isfinite(known):
                continue
            shown = spread(runs)
            x = np.arange(1, len(shown.median) + 1)[:trials]
            low, median, high = (values[:trials] / known for values in (shown.low, shown.median, shown.high))
            _band(axes, x, (low, median, high), item, below)
            top = max(top, float(np.max(high[np.isfinite(high)], initial=0)))
        top = min(top, HIGHEST)
        bottom = 1 - 0.16 * (top - 1)
        axes.axhline(study.near, color=MUTED, linewidth=0.8, linestyle=":")
        axes.set_ylim(bottom, top + 0.05 * (top - 1))
        if floors is not None and np.isfinite(known):
            _floor(axes, floors[layer] / known, bottom)
        _trials_axis(axes, layer)
        axes.yaxis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 5, 10]))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _position: f"{value:.3g}"))
    _name_axes(figure, panels, columns, "least cost so far / best known")
    return small_png(figure)


def speeds_png(study: Study, series: Sequence[Series], share: float = 0.85) -> bytes:
    """A PNG with one panel for each layer: the fastest speed so far in GFLOP/s against trials. Two lines mark the speed
    of another library (`peer_seconds`) and the fraction `share` of that speed. The study needs `peer_seconds` and
    `flops` of its layers, and costs in seconds.
    """
    columns = max(1, min(3, len(study.layers)))
    figure, panels = _grid(len(study.layers), columns, height=2.9)
    for axes, layer in zip(panels, study.layers, strict=True):
        work, peer = study.flops[layer] / 1e9, study.flops[layer] / 1e9 / study.peer_seconds[layer]
        for below, item in enumerate(series):
            if runs := item.runs(study, layer):
                shown = spread(runs)
                x = np.arange(1, len(shown.median) + 1)
                # Costs are inf, and speeds 0, before the first success.
                _band(axes, x, (work / shown.high, work / shown.median, work / shown.low), item, below)
        axes.axhline(peer, color=INK, linewidth=1.4, label="ONNX Runtime")
        axes.axhline(share * peer, color=INK, linewidth=0.9, linestyle="--", label=f"{share:.0%} of it")
        axes.set_ylim(bottom=0)
        _trials_axis(axes, layer)
    _name_axes(figure, panels, columns, "fastest so far, GFLOP/s")
    return small_png(figure)


def needed_png(study: Study, series: Sequence[Series]) -> bytes:
    """A PNG with one row for each layer. A mark shows the number of trials that a run needed until its cost was at most
    `study.near` times the best known cost; large marks are means.

    A run that never gets there counts with all its trials; its mark, at its last trial, is hollow.
    """
    layers = study.layers
    figure = new_figure(10, 1.3 + max(0.42, 0.11 * len(series)) * len(layers), DPI)
    axes = figure.subplots()
    style(axes)
    axes.set_xscale("log", base=2)
    for number, item in enumerate(series):
        offset = (number - (len(series) - 1) / 2) * NEEDED_ROOM / len(series)
        hollow: list[tuple[int, float]] = []
        solid: list[tuple[int, float]] = []
        means: list[tuple[float, float]] = []
        for row, layer in enumerate(layers):
            needed = study.needed(layer, item.strategy, item.transfer)
            counted = study.counted(layer, item.strategy, item.transfer)
            for trial, place in zip(needed, counted, strict=True):
                (hollow if trial is None else solid).append((place, row + offset))
            if counted:
                means.append((float(np.mean(counted)), row + offset))
        for places, face in ((solid, item.color), (hollow, "none")):
            if places:
                axes.scatter(
                    *zip(*places, strict=True),
                    s=20,
                    marker=item.marker,
                    edgecolor=item.color,
                    facecolor=face,
                    alpha=0.6,
                )
        if means:
            axes.scatter(
                *zip(*means, strict=True),
                s=64,
                marker=item.marker,
                color=item.color,
                edgecolor="white",
                label=item.label,
                zorder=3,
            )
    for row in range(1, len(layers)):
        axes.axhline(row - 0.5, color=GRID, linewidth=0.8)
    axes.set_yticks(range(len(layers)), layers)
    axes.set_ylim(len(layers) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(f"trials to within {study.near - 1:.0%} of the best known", color=INK)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _position: f"{value:,.0f}"))
    axes.grid(True, axis="x", color=GRID, linewidth=0.8)
    figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    return small_png(figure)


def shares_png(
    costs: Mapping[str, NDArray[np.float64]],
    known: Mapping[str, float],
    marks: Mapping[str, Mapping[str, float]],
    columns: int = 2,
    over: str = "best known",
) -> bytes:
    """A PNG with one panel for each layer: the cumulative distribution of the costs of random legal points (candidate
    schedules). The costs are divided by the layer's cost in `known`; `over` is the text that names this divisor on the
    axis.

    `costs`: for each layer, float64 [points], inf for failed points. `marks`: for each layer, named costs that are
    drawn as vertical lines. `columns`: number of panels side by side.
    """
    columns = max(1, min(columns, len(costs)))
    figure, panels = _grid(len(costs), columns, height=2.6)
    dashes = ("-", "--", ":", "-.")
    for axes, (layer, values) in zip(panels, costs.items(), strict=True):
        ordered = np.sort(values[np.isfinite(values)]) / known[layer]
        axes.step(
            ordered,
            100 * np.arange(1, len(ordered) + 1) / max(1, len(values)),
            where="post",
            color=GAINED,
            linewidth=1.8,
            label="random legal points",
        )
        for (name, cost), dash in zip(marks[layer].items(), dashes, strict=False):
            axes.axvline(cost / known[layer], color=LOST if dash == "-" else INK, linestyle=dash, label=name)
        axes.set_title(words(layer, 40), loc="left", color=INK, fontsize=10, fontweight="bold")
        axes.set_ylim(0, 102)
        axes.grid(True, color=GRID, linewidth=0.8)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _position: f"{value:g}"))
    _name_axes(figure, panels, columns, "points that cost no more, %", across=f"cost / {over}")
    return small_png(figure)


def gained_png(default: RunAccount, tuned: RunAccount) -> bytes:
    """A PNG of two panels with a bar for each layer. Left: cycles above the layer's roofline, before and after tuning.
    Right: cycles gained by tuning.

    Both runs are of the same network on the same configuration. A layer ends with its last output byte, when its
    successor may already have begun; so a layer may be below its roofline, or lose cycles that a neighbour gains. Sums
    are exact.
    """
    layers = list(zip(default.layers, tuned.layers, strict=True))
    figure = new_figure(10, 1.6 + 0.22 * len(layers), DPI)
    above, gained = figure.subplots(1, 2, width_ratios=(1.5, 1), sharey=True)
    rows = np.arange(len(layers))
    for run, offset, color, label in (
        (default, -0.2, ORANGE, "default"),
        (tuned, 0.2, GAINED, "tuned"),
    ):
        over = [layer.cycles - layer.roofline_cycles for layer in run.layers]
        above.barh(rows + offset, over, 0.4, color=color, label=label)
    change = np.array([before.cycles - after.cycles for before, after in layers])
    gained.barh(rows, change, 0.6, color=[GAINED if value >= 0 else LOST for value in change])
    reach = max(1.0, float(np.abs(change).max(initial=0)))
    for row, value in zip(rows, change, strict=True):
        if value:
            side = 1 if value > 0 else -1
            gained.annotate(
                f"{value:+,}",
                (value, row),
                (4 * side, 0),
                textcoords="offset points",
                ha="left" if value > 0 else "right",
                va="center",
                fontsize=7.5,
                color=MUTED,
            )
    lowest = float(change.min(initial=0))
    gained.set_xlim(lowest - 0.35 * reach if lowest < 0 else -0.03 * reach, 1.35 * reach)
    for axes, label in (
        (above, "cycles above the layer's roofline"),
        (gained, "cycles gained"),
    ):
        style(axes)
        axes.axvline(0, color=MUTED, linewidth=0.8)
        axes.grid(True, axis="x", color=GRID, linewidth=0.8)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _position: f"{value:,.0f}"))
        axes.set_xlabel(label, color=INK)
        axes.tick_params(axis="y", labelsize=8, length=0)
    above.set_yticks(rows, [words(layer.name, 30) for layer in default.layers])
    above.set_ylim(len(layers) - 0.4, -0.6)
    above.legend(frameon=False, fontsize=9)
    above.set_title(
        f"{default.model} on {default.config}: {default.total.cycles:,} cycles, tuned {tuned.total.cycles:,}",
        loc="left",
        color=INK,
        fontsize=10,
        fontweight="bold",
    )
    return small_png(figure)


def _grid(count: int, columns: int, height: float = 1.95) -> tuple[Figure, list[Axes]]:
    columns = max(1, min(columns, count))
    rows = -(-count // columns)
    figure = new_figure(10, height * rows + 0.6, DPI)
    every = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in every[count:]:
        axes.set_axis_off()
    for axes in every[:count]:
        style(axes)
        axes.tick_params(labelsize=8)
    return figure, every[:count]


def _band(
    axes: Axes, x: NDArray[np.int64], values: tuple[NDArray[np.float64], ...], item: Series, below: int
) -> None:
    # Infinite before the first success: bands extend beyond the edge there, lines begin after it.
    low, median, high = values
    order = 3 - 0.1 * below
    cap = np.nan_to_num(high, posinf=1e9)
    axes.fill_between(x, low, cap, step="post", color=item.color, alpha=0.16, linewidth=0, zorder=order - 1)
    axes.step(x, median, where="post", color=item.color, linewidth=1.6, label=item.label, zorder=order)


def _floor(axes: Axes, floor: float, bottom: float) -> None:
    if floor >= bottom:
        axes.axhline(floor, color=LOST, linewidth=1, linestyle="--")
    axes.annotate(
        f"floor {floor:.3f}",
        (0.98, 0.95),
        xycoords="axes fraction",
        ha="right",
        va="top",
        fontsize=7.5,
        color=LOST,
    )


def _trials_axis(axes: Axes, layer: str) -> None:
    axes.set_xscale("log", base=2)
    last = max(2.0, axes.get_xlim()[1])
    axes.set_xlim(1, last)
    powers = 4 ** np.arange(int(np.log(last) / np.log(4)) + 1)
    axes.xaxis.set_major_locator(FixedLocator(powers.tolist()))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _position: f"{value:.0f}"))
    axes.set_title(words(layer, 40), loc="left", color=INK, fontsize=10, fontweight="bold")
    axes.grid(True, color=GRID, linewidth=0.8)


def _name_axes(figure: Figure, panels: Sequence[Axes], columns: int, up: str, across: str = "trials") -> None:
    for number, axes in enumerate(panels):
        if number + columns >= len(panels):
            axes.set_xlabel(across, color=INK, fontsize=9)
    figure.supylabel(up, color=INK, fontsize=9)
    drawn = [axes.get_legend_handles_labels() for axes in panels]
    named = {
        label: handle for handles, labels in drawn for handle, label in zip(handles, labels, strict=True)
    }
    figure.legend(
        list(named.values()), list(named), loc="outside upper center", ncols=6, frameon=False, fontsize=9
    )
