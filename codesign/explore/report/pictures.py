"""Pictures of an exploration as PNG files for papers, drawn from the data of the report's page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray

from ...report.canvas import INK, MUTED, new_figure, plain_ticks, png, short, style, words
from ...report.palette import BLUE, GREEN, PARTS, VERMILLION
from ..space import size_text

FRONT, PLAIN, A, B = GREEN, "#8d97a6", VERMILLION, BLUE
SERIES = PARTS[:7]
MOST_SERIES = len(SERIES) - 2
"""Largest number of parts of a bar that have their own colours, besides the first part; the other parts are drawn as
one.
"""
MOST_UNITS = 12
LEAST_BAR = 0.002
"""Length of the shortest bar that is drawn, relative to the longest bar of the panel; rows that have only shorter bars
are left out.
"""
LINE = 120
"""Number of characters in a line of the small print below a picture."""
WIDE = 8.0
"""An axis is logarithmic if the ratio of its largest to its least value is above WIDE."""
Data = Mapping[str, Any]


def all_pictures(data: Data) -> Iterator[tuple[str, bytes]]:
    """Name and PNG of every picture of an exploration's page; pictures without data are left out."""
    drawings: dict[str, Callable[[Data], Figure | None]] = {
        "front": front_figure,
        "parallel": parallel_figure,
        "sensitivity": sensitivity_figure,
        "history": history_figure,
        "layers": layers_figure,
        "compare": compare_figure,
    }
    for name, draw in drawings.items():
        if (figure := draw(data)) is not None:
            yield name, png(figure)


def unpacked(data: Data, column: Mapping[str, Any]) -> list[Any]:
    """A column of the page's data (`columns.column`) as a list with one value for each design."""
    if "all" in column:
        return [column["all"]] * data["count"]
    if "index" in column:
        return [column["values"][place] for place in column["index"]]
    return list(column["each"])


def _metric(data: Data, name: str) -> Mapping[str, Any]:
    return next(metric for metric in data["metrics"] if metric["name"] == name)


def _states(data: Data) -> list[str]:
    return [data["states"][place] for place in unpacked(data, data["state"])]


def _figures(data: Data, name: str) -> NDArray[np.float64]:
    """The metric `name` of every design, float64 [designs]; NaN for a design without it."""
    return np.array(
        [np.nan if v is None else v for v in unpacked(data, data["figures"][name])], dtype=np.float64
    )


def _label(data: Data, place: int) -> str:
    text = str(data["labels"][place])
    return words(text if _states(data)[place] == "reference" else f"design {text}", 40)


def front_figure(data: Data) -> Figure:
    """A scatter plot of all designs that ran. Its axes are the first two objectives; if there is only one objective,
    they are the number of the design and the objective. The designs of the Pareto front are drawn on top of the others.
    """
    names = data["objectives"]
    figure = new_figure(8.6, 4.5)
    axes = figure.subplots()
    style(axes)
    states = np.array(_states(data))
    if len(names) > 1:
        x, y = _figures(data, names[0]), _figures(data, names[1])
        axes.set_xlabel(_metric(data, names[0])["heading"])
        axes.set_ylabel(_metric(data, names[1])["heading"])
        scales = [(axes.set_xscale, x), (axes.set_yscale, y)]
    else:
        x, y = np.arange(len(states), dtype=np.float64), _figures(data, names[0])
        axes.set_xlabel("design")
        axes.set_ylabel(_metric(data, names[0])["heading"])
        scales = [(axes.set_yscale, y)]
    kinds = (
        ("over", "breaks a constraint", PLAIN, 12, "x"),
        ("feasible", "feasible", PLAIN, 12, "o"),
        ("front", "no other one beats it", FRONT, 28, "o"),
        ("reference", f"the base, {data['base']}", INK, 40, "D"),
    )
    for state, label, color, size, marker in kinds:
        which = states == state
        if which.any():
            count = "" if state == "reference" else f": {which.sum():,}"
            edge = {} if marker == "x" else {"edgecolor": "white", "linewidth": 0.5}
            axes.scatter(
                x[which], y[which], s=size, color=color, marker=marker, label=words(label + count, 60), **edge
            )
    if len(names) > 1:
        _intervals(axes, data, names, states == "front")
    for scale, values in scales:
        known = values[np.isfinite(values)]
        if known.size and known.min() > 0 and known.max() > WIDE * known.min():
            scale("log")
    plain_ticks(axes.xaxis)
    plain_ticks(axes.yaxis)
    axes.set_title(words(data["title"], 60), color=INK, fontsize=11)
    figure.supxlabel(_standing(data, names[:2]), fontsize=7, color=MUTED)
    axes.grid(alpha=0.3)
    if axes.collections:
        figure.legend(fontsize=8, loc="outside right upper", frameon=False)
    return figure


def _intervals(axes: Axes, data: Data, names: Sequence[str], which: NDArray[np.bool_]) -> None:
    """Draws the 90% intervals of the designs that the mask `which` selects. `names` are the objectives on the
    horizontal and on the vertical axis; an objective without intervals gets none.
    """

    def around(name: str) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        values = _figures(data, name)[which]
        if name not in data["low"]:
            return values, None
        ends = [np.array(unpacked(data, data[end][name]), float)[which] for end in ("low", "high")]
        return values, np.nan_to_num(np.abs(np.array([values - ends[0], ends[1] - values])))

    (x, across), (y, up) = (around(name) for name in names[:2])
    if across is not None or up is not None:
        axes.errorbar(
            x,
            y,
            xerr=across,
            yerr=up,
            fmt="none",
            ecolor=MUTED,
            elinewidth=0.9,
            alpha=0.7,
            zorder=0.5,
            label="90% interval",
        )


def _standing(data: Data, names: Sequence[str]) -> str:
    text = "; ".join(dict.fromkeys(f"{name}: {_metric(data, name)['rung']}" for name in names))
    return fill(text, LINE)


def parallel_figure(data: Data) -> Figure | None:
    """A parallel-coordinates plot: every design that ran is a line through its fields and objectives. None if fewer
    than two of the fields and objectives differ between designs.
    """
    states = _states(data)
    ran = [place for place, state in enumerate(states) if state not in ("failed", "reference")]
    columns: list[tuple[str, NDArray[np.float64], list[tuple[float, str]]]] = []
    for field in data["fields"]:
        values = unpacked(data, field["value"])
        different = sorted({values[place] for place in ran}, key=lambda v: (isinstance(v, str), v))
        if len(different) > 1:
            place_of = {value: (k + 0.5) / len(different) for k, value in enumerate(different)}
            shown = different if len(different) <= 8 else different[:: len(different) // 8 + 1]
            ticks = [(place_of[value], size_text(value)) for value in shown]
            columns.append((field["name"], np.array([place_of.get(v, np.nan) for v in values]), ticks))
    for name in data["objectives"]:
        values = _figures(data, name)
        low, high = (values[ran].min(), values[ran].max()) if ran else (0.0, 0.0)
        if high > low:
            ends = [(0.0, short(float(f"{low:.3g}"))), (1.0, short(float(f"{high:.3g}")))]
            columns.append((_metric(data, name)["heading"], (values - low) / (high - low), ends))
    if len(columns) < 2:
        return None
    figure = new_figure(max(7.0, 1.15 * len(columns)), 4.2)
    axes = figure.subplots()
    table = np.array([column for _, column, _ in columns])
    xs = list(range(len(columns)))
    plain = [place for place in ran if states[place] != "front"]
    alpha = min(0.5, 60 / (len(plain) + 60) + 0.05)
    if plain:
        axes.plot(xs, table[:, plain], color=PLAIN, alpha=alpha, linewidth=0.7)
    front = [place for place in ran if states[place] == "front"]
    if front:
        axes.plot(xs, table[:, front], color=FRONT, alpha=0.8, linewidth=1.1)
    for x, (name, _, ticks) in zip(xs, columns, strict=True):
        axes.vlines(x, 0, 1, color=MUTED, linewidth=0.6)
        for y, text in ticks:
            place = axes.text(x + 0.04, y, text, fontsize=7, color=INK, va="center", zorder=4)
            place.set_path_effects([withStroke(linewidth=2.5, foreground="white")])
        axes.text(x, 1.08, name.replace("_", "_\n", 1), fontsize=8, color=INK, ha="center", va="bottom")
    axes.set_axis_off()
    axes.set_ylim(-0.05, 1.3)
    shown = ((front, FRONT, "no other one beats it"), (plain, PLAIN, "other designs"))
    lines = [Line2D([], [], color=color, label=label) for places, color, label in shown if places]
    figure.legend(handles=lines, fontsize=8, loc="outside lower center", ncols=2, frameon=False)
    return figure


def sensitivity_figure(data: Data) -> Figure | None:
    """Bars that divide the variance of each objective into the parts that are explained by each field alone, by several
    fields together, and by no field. None if no objective has a fitted sensitivity.
    """
    found = data["sensitivity"]["figures"]
    names = [name for name in data["objectives"] if name in found]
    if not names:
        return None
    fields = list(dict.fromkeys(effect["field"] for name in names for effect in found[name]["effects"]))
    rows = [*fields, "several fields together", "no field"]
    figure = new_figure(7.5, 1.2 + 0.32 * len(rows))
    for axes, name in zip(np.atleast_1d(figure.subplots(1, len(names), sharey=True)), names, strict=True):
        style(axes)
        effects = {effect["field"]: effect for effect in found[name]["effects"]}
        shares = [effects[field]["share"] for field in fields]
        explained = found[name]["explained"]
        shares += [max(0.0, explained - sum(shares)), max(0.0, 1 - explained)]
        axes.barh(range(len(rows)), shares, color=[SERIES[0]] * len(fields) + [SERIES[1], PLAIN])
        for row, share in enumerate(shares):
            factor = f", {effects[fields[row]]['factor']:.2f}x" if row < len(fields) else ""
            axes.text(share + 0.01, row, f"{share:.0%}{factor}", fontsize=7, va="center", color=INK)
        axes.set_xlim(0, max([0.1, *shares]) * 1.45)
        axes.set_title(name, fontsize=9, color=INK)
        axes.set_yticks(range(len(rows)), rows)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.xaxis.set_major_locator(MaxNLocator(3))
        axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.tick_params(axis="x", labelsize=7)
    figure.supxlabel(
        "share of the variance that the field alone explains, and the factor between its best and worst value",
        fontsize=7,
        color=MUTED,
    )
    return figure


def history_figure(data: Data) -> Figure | None:
    """A plot of the front's hypervolume, as a share of its final value, against the number of designs. None without a
    feasible design.
    """
    history = data["history"]
    if not history["designs"]:
        return None
    figure = new_figure(6, 3.2)
    axes = figure.subplots()
    style(axes)
    axes.step(history["designs"], history["volume"], where="post", color=FRONT)
    axes.set_xlabel("designs")
    axes.set_ylabel("share of the last hypervolume")
    axes.set_ylim(0, 1.03)
    axes.set_title(f"{', '.join(history['objectives'])}: {data['study']['strategy']}", fontsize=9, color=INK)
    axes.grid(alpha=0.3)
    return figure


def _parts(table: Mapping[str, Sequence[float]]) -> list[tuple[str, NDArray[np.float64]]]:
    """The `MOST_SERIES` columns of `table` with the largest sums, as (name, values), the largest first; then, if there
    are more, the sum of the others under the name "others".
    """
    ordered = sorted(table.items(), key=lambda item: -sum(item[1]))
    parts = [(name, np.asarray(column, float)) for name, column in ordered[:MOST_SERIES]]
    rest = [np.asarray(column, float) for _, column in ordered[MOST_SERIES:]]
    return [*parts, ("others", np.sum(rest, axis=0))] if rest else parts


def layers_figure(data: Data) -> Figure | None:
    """Bars for the layers of the first network on the design that the page shows first: cycles by cause, with the
    roofline, and energy by unit. None without layers.
    """
    layers = _layers(data, "a")
    if layers is None:
        return None
    names = [words(name, 30) for name in layers["name"]]
    figure = new_figure(10, 1.4 + 0.2 * len(names))
    left, right = figure.subplots(1, 2, sharey=True)
    cycles = [("GEMM", np.asarray(layers["gemm"], float)), *_parts(layers["stalls"])]
    for axes, parts, title in ((left, cycles, "cycles"), (right, _parts(layers["energy"]), "energy (uJ)")):
        style(axes)
        begin = np.zeros(len(names))
        for (name, column), color in zip(parts, SERIES, strict=False):
            axes.barh(range(len(names)), column, left=begin, color=color, height=0.7, label=name)
            begin = begin + column
        axes.set_xlabel(title)
        plain_ticks(axes.xaxis)
        place = "outside lower left" if axes is left else "outside lower right"
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, fontsize=6.5, loc=place, ncols=4, frameon=False)
    roof = np.asarray(layers["roofline"], float)
    left.scatter(roof, range(len(names)), marker="|", s=60, color=INK, zorder=3)
    left.set_yticks(range(len(names)), names, fontsize=7)
    left.invert_yaxis()
    title = (
        f"{data['networks'][0]['name']} on {_label(data, data['chosen']['a'])}; the marks are the roofline"
    )
    figure.suptitle(words(title, 80), fontsize=9, color=INK)
    return figure


def _layers(data: Data, which: str) -> Mapping[str, Any] | None:
    if data["chosen"] is None:
        return None
    return data["layers"].get(str(data["chosen"][which]), {}).get(data["networks"][0]["name"])


def compare_figure(data: Data) -> Figure | None:
    """Bars that compare the two designs that the page shows first: area by unit and, for the first network, energy by
    unit and cycles by cause (only if the layers of both were computed). None if no design ran.
    """
    if data["chosen"] is None:
        return None
    a, b = data["chosen"]["a"], data["chosen"]["b"]
    network = data["networks"][0]["name"]

    def pair(table: Mapping[str, Any]) -> list[tuple[str, float, float]]:
        columns = [(unit, unpacked(data, column)) for unit, column in table.items()]
        return [(unit, column[a] or 0.0, column[b] or 0.0) for unit, column in columns]

    panels = [
        ("area (mm2)", pair(data["area"])),
        (f"energy of {network} (uJ)", pair(data["by_network"][network]["energy"])),
    ]
    first, second = _layers(data, "a"), _layers(data, "b")
    if first is not None and second is not None:
        causes = list(dict.fromkeys([*first["stalls"], *second["stalls"]]))
        rows = [("GEMM", float(sum(first["gemm"])), float(sum(second["gemm"])))]
        for cause in causes:
            left, right = (float(sum(one["stalls"].get(cause, ()))) for one in (first, second))
            rows.append((cause, left, right))
        panels.append((f"cycles of {network}", rows))
    figure = new_figure(4 * len(panels), 4)
    for axes, (title, rows) in zip(np.atleast_1d(figure.subplots(1, len(panels))), panels, strict=True):
        style(axes)
        least = LEAST_BAR * max((max(row[1:]) for row in rows), default=0.0)
        shown = sorted((row for row in rows if max(row[1:]) > least), key=lambda row: -max(row[1:]))[
            :MOST_UNITS
        ]
        places = np.arange(len(shown))
        axes.barh(places - 0.2, [row[1] for row in shown], height=0.38, color=A, label=_label(data, a))
        axes.barh(places + 0.2, [row[2] for row in shown], height=0.38, color=B, label=_label(data, b))
        axes.set_yticks(places, [words(row[0], 24) for row in shown], fontsize=7)
        axes.invert_yaxis()
        axes.set_title(words(title, 50), fontsize=9, color=INK)
        axes.tick_params(axis="x", labelsize=7)
        axes.xaxis.set_major_locator(MaxNLocator(4))
        plain_ticks(axes.xaxis)
    figure.legend(
        *figure.axes[0].get_legend_handles_labels(), fontsize=8, loc="outside lower center", ncols=2
    )
    return figure
