"""Two pictures of a run on a machine with a DRAM: the words of each bank in an interval of cycles, and row misses by
layer.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from vdla.isa.program import Program
from vdla.sim.dram_log import word_runs
from vdla.util.errors import UserError

from .canvas import GRID, INK, MUTED, new_figure, plain_ticks, style, words
from .cycle_breakdown import LayerAccount, RunAccount
from .palette import BLUE, ORANGE, VERMILLION

TITLE = 40
"""Largest number of characters of a name in a picture's title."""
MOST_LAYERS = 60
"""Largest number of layers in the picture of row misses. If a network has more layers, the picture shows the layers
that open most rows.
"""


def banks_figure(program: Program, first: int, last: int) -> Figure:
    """A timeline of the banks of a DRAM from cycle `first` to cycle `last`: words read and written, and openings of
    rows. Raises UserError if the program's machine has no DRAM, or if the simulator cannot determine the accesses to
    its banks.
    """
    runs = word_runs(program.config, np.asarray(program.instructions), np.asarray(program.image))
    if runs is None:
        raise UserError(
            f"configuration {program.config.name} has no DRAM, so there are no banks to plot; choose one with a DRAM"
        )
    shown = (runs.stop > first) & (runs.start < last)
    bank_of, names_of_banks = runs.banks()
    banks = range(len(names_of_banks))
    figure = new_figure(11, 1.6 + 0.28 * len(banks))
    axes = figure.subplots()
    style(axes)
    for writes, color in ((False, BLUE), (True, ORANGE)):
        for place in banks:
            own = shown & (bank_of == place) & (runs.write == writes)
            spans = list(zip(runs.start[own].tolist(), (runs.stop - runs.start)[own].tolist(), strict=True))
            axes.broken_barh(spans, (place - 0.35, 0.7), facecolors=color, linewidth=0)
    opened = shown & (runs.opened > 0)
    places = bank_of[opened]
    axes.vlines(runs.start[opened], places - 0.48, places + 0.48, color=VERMILLION, linewidth=1.2)
    axes.set_yticks(banks, names_of_banks)
    axes.set_xlim(first, last)
    axes.set_ylim(len(banks) - 0.4, -0.6)
    plain_ticks(axes.xaxis)
    axes.grid(True, axis="x", color=GRID, linewidth=0.8)
    axes.set_xlabel("cycle", color=INK)
    axes.set_title(
        f"{words(program.config.name, TITLE)}: banks of {words(program.config.memory.part or '', TITLE)}",
        loc="left",
        color=INK,
        fontweight="bold",
    )
    names = (("words read", BLUE), ("words written", ORANGE), ("a row was opened before", VERMILLION))
    figure.legend(
        handles=[Patch(color=color, label=name) for name, color in names],
        loc="outside upper right",
        ncols=3,
        frameon=False,
        fontsize=9,
    )
    return figure


def rows_figure(run: RunAccount) -> Figure:
    """Bars with the share of each layer's bus words that did not find their row open. Raises UserError on a machine
    without a DRAM.
    """
    known = [(layer, layer.row_hits) for layer in run.layers if layer.row_hits is not None]
    if not known:
        raise UserError(
            f"configuration {run.config} has no DRAM, so there are no rows to plot; choose one with a DRAM"
        )
    most = sorted(known, key=_opened, reverse=True)[:MOST_LAYERS]
    layers = [item for item in known if item in most]
    figure = new_figure(11, 1.3 + 0.24 * len(layers))
    axes = figure.subplots()
    style(axes)
    misses = [100 * (1 - hits) for _, hits in layers]
    axes.barh(range(len(layers)), misses, height=0.7, color=BLUE)
    for place, (layer, _) in enumerate(layers):
        axes.annotate(
            f"{layer.dram_bytes / 1024:,.0f} KiB",
            (misses[place], place),
            (4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=MUTED,
        )
    axes.set_yticks(range(len(layers)), [words(layer.name, 32) for layer, _ in layers])
    axes.set_ylim(len(layers) - 0.4, -0.6)
    axes.grid(True, axis="x", color=GRID, linewidth=0.8)
    axes.set_xlabel("bus words that did not find their row open, percent", color=INK)
    axes.set_title(
        f"{words(run.model, TITLE)} on {words(run.config, TITLE)}: row misses by layer",
        loc="left",
        color=INK,
        fontweight="bold",
    )
    return figure


def _opened(item: tuple[LayerAccount, float]) -> float:
    """A number proportional to the rows that a layer opened; `item` is the pair (account of the layer, share of its
    words that hit an open row).
    """
    layer, hits = item
    return layer.dram_bytes * (1 - hits)
