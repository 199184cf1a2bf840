"""The output of commands and the contents of pictures, as golden texts.

    PYTHONPATH=tests/helpers python -m tests.codesign.shown      # from the clone: writes the texts anew

Tests of a command check only the output that they are about. These texts hold everything else: each column of a table,
each default of an option, each sum; and, of a picture, its axes, marks and words. Measured times are left out. After an
intended change, write the texts anew and read the difference.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import cache, partial
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import kept_texts
import numpy as np
import typer
from kept_texts import KeptTexts
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from mixed_networks import MixedNetwork

from vdla import compile as vdla_compile
from vdla import explore as vdla_explore
from vdla import simulate
from vdla.codesign.cli import synth
from vdla.codesign.cli.commands import app
from vdla.codesign.cli.main import main
from vdla.codesign.explore.report import pictures
from vdla.codesign.explore.report.data import Details, exploration_data
from vdla.codesign.report import diagrams, plots, study_plots
from vdla.isa.config import load_config
from vdla.isa.describe import c_header, field_table

from .report import test_plots, test_study

MACHINES = ("vta", "tiny", "edge8", "osdi18")
SPACE = {
    "base": "tiny",
    "fields": {
        "block_in": [4, 8],
        "block_out": "block_in",
        "bus_bytes": [8, 16],
        "inp_buffer_bytes": [256, 1024],
    },
}
CLOCKED = re.compile(
    r"\d+ M cycles|\d[\d.,]*(e-\d+)? (s|ms|seconds)\b|\"(compile|simulate)_seconds\": [\d.e-]+"
)
LONG = re.compile(r"\d+\.\d{6,}(e-?\d+)?")


def network() -> bytes:
    """A small quantized network: convolutions of three kinds, an addition, pools and a dense layer."""
    net = MixedNetwork(1, 3, 12, 12)
    net.pair()
    net.quantized_convolution(8, strides=[2, 2])
    entry = net.last
    net.quantized_convolution(8)
    net.add("Add", entry)
    net.pair()
    net.quantized_convolution(8, group=8)
    net.other("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    net.pair()
    net.other("GlobalAveragePool")
    net.pair()
    net.quantized_convolution(6, 1)
    return net.model()


@cache
def folder() -> Path:
    """A temporary folder with the files that the commands read, made once for this process."""
    path = Path(tempfile.mkdtemp(prefix="vdla-shown-"))
    (path / "net.onnx").write_bytes(network())
    return path


def printed(*arguments: str) -> Iterator[str]:
    """The output of a command run in this process, without measured times."""
    yield f"$ vdla {' '.join(arguments)}"
    out, err = StringIO(), StringIO()
    given = [word.replace("FOLDER", str(folder())) for word in arguments]
    with redirect_stdout(out), redirect_stderr(err), patch.object(sys, "argv", ["vdla", *given]):
        try:
            main()
        except SystemExit as stop:
            yield f"exit {stop.code}"
    # Notes of progress come and go with the machine's load.
    for text in (out.getvalue(), err.getvalue().partition("error: ")[2]):
        for line in text.replace(str(folder()), "FOLDER").splitlines():
            yield LONG.sub(lambda found: number(float(found[0])), CLOCKED.sub("TIME", line)).rstrip()


def options_text() -> Iterator[str]:
    """Each command's parameters with their defaults."""
    group = typer.main.get_command(app)
    for name, command in sorted(group.commands.items()):  # type: ignore[attr-defined]
        yield name
        for item in command.params:
            several = ", several" * bool(getattr(item, "multiple", False) or item.nargs != 1)
            yield f"  {' '.join(item.opts)}: default {item.default}{several}"


def machines_text() -> Iterator[str]:
    """The output of commands that describe machine configurations."""
    for name in MACHINES:
        yield from printed("config", name)
        config = load_config(name)
        yield f"extra storage {config.extra_storage}"
    yield from printed("config", "--fields")
    yield from field_table().splitlines()
    yield from c_header(load_config("vta")).splitlines()


def commands_text() -> Iterator[str]:
    """The output of commands and functions that compile and simulate a small network."""
    yield from printed("run", "FOLDER/net.onnx", "--config", "tiny", "--timing-only")
    yield from printed("run", "FOLDER/net.onnx", "--config", "tiny", "--json")
    yield from printed(
        "compile", "FOLDER/net.onnx", "--target", "vdla", "--config", "tiny", "-o", "FOLDER/out.tar"
    )
    yield from printed("compare", "tiny", "edge8", "--network", "FOLDER/net.onnx")
    report = simulate(vdla_compile(folder() / "net.onnx", config="tiny"))
    yield from report._repr_html_().splitlines()
    yield from json.dumps(rounded(report.rows()), indent=1).splitlines()


def synthesis_text() -> Iterator[str]:
    """The text of `vdla synth` for made-up syntheses."""
    counted: dict[str, Any] = {
        "config": "tiny",
        "device": None,
        "family": "xc7",
        "total": {"lut": 1200, "ff": 900, "dsp": 12.0},
        "units": {"load": {"lut": 700, "ff": 500, "dsp": 0}, "compute": {"lut": 500, "ff": 400, "dsp": 12.0}},
        "capacity": {},
        "multipliers": {
            "array": 8,
            "beyond_array": 4,
            "beyond_array_per_lane": 1.0,
            "lanes": 4,
            "by_instance": {"compute.array": 8, "": 4},
        },
        "memories": {"load.fifo": "flip-flops", "acc": "block RAM", "store.queue": "flip-flops"},
        "extra_storage": {"load FIFO": 1024, "patch window": 256},
        "warnings": [],
        "seeds": [],
        "mhz": None,
    }
    segment = {"path": "compute.array", "ns": 3.25}
    path = {"logic_ns": 4.5, "routing_ns": 5.25, "segments": [segment, {"path": "", "ns": 1.5}]}
    estimated = {"ns": 7.4, "start": "a", "end": "b", "pin": "D", "path": "", "endpoints": 3, "loads": [2, 9]}
    placed = {
        **counted,
        "device": "LFE5U-85F",
        "capacity": {"lut": 84000, "ff": 84000, "dsp": 156},
        "seeds": [{"seed": 1, "mhz": 101.5, "critical_path": path}, {"seed": 2, "mhz": None}],
        "estimated_paths": [estimated],
        "mhz": 101.5,
    }
    for document in (counted, placed):
        out = StringIO()
        with redirect_stdout(out):
            synth._print(document)
        yield from map(str.rstrip, out.getvalue().splitlines())


# --- pictures -------------------------------------------------------------------------------------------


number = partial(kept_texts.number, digits=4)


def numbers(values: Any) -> str:
    """The text of an array of numbers: their count, and the sum of the finite numbers."""
    found = np.asarray(values, np.float64).ravel()
    return f"{len(found)} numbers, sum {number(found[np.isfinite(found)].sum())}"


def axes_lines(axes: Axes) -> Iterator[str]:
    """The labels, limits, lines and texts of axes, in units of the data."""
    labels = (axes.get_title(), axes.get_xlabel(), axes.get_ylabel(), axes.get_xscale(), axes.get_yscale())
    yield f"  axes {labels}"
    yield f"    from {', '.join(map(number, (*axes.get_xlim(), *axes.get_ylim())))}"
    for line in axes.lines:
        yield f"    line {line.get_label()!r}: {numbers(line.get_xdata())}; {numbers(line.get_ydata())}"
        yield f"      {line.get_color()} {line.get_linestyle()} {number(line.get_linewidth())} {line.get_marker()}"
    boxes = [patch.get_path().get_extents(patch.get_patch_transform()).bounds for patch in axes.patches]
    yield f"    patches: {numbers(boxes)}"
    for marks in axes.collections:
        edges = [path.vertices for path in marks.get_paths()]
        points = np.concatenate(edges) if edges else []
        yield f"    marks {marks.get_label()!r}: {numbers(marks.get_offsets())}; {numbers(points)}"
    for words in axes.texts:
        place = ", ".join(map(number, (*words.get_position(), words.get_fontsize())))
        yield f"    {words.get_text()!r} at {place}"
    legend = axes.get_legend()
    if legend is not None:
        yield f"    legend: {[words.get_text() for words in legend.get_texts()]}"


def figure_lines(name: str, figure: Figure) -> Iterator[str]:
    """Yields lines of text on a picture: its size and its axes."""
    yield f"{name}: {' x '.join(map(number, figure.get_size_inches()))}, {[words.get_text() for words in figure.texts]}"
    for axes in figure.axes:
        yield from axes_lines(axes)


def drawn(module: ModuleType, writer: str, draw: Callable[[], object]) -> Figure:
    """The figure that `draw()` passes to the function of `module` that is called `writer`, which is replaced so that
    it writes no file.
    """
    figures: list[Figure] = []

    def keep(figure: Figure) -> bytes:
        figures.append(figure)
        return b""

    with patch.object(module, writer, keep):
        draw()
    (figure,) = figures
    return figure


def pictures_text() -> Iterator[str]:
    """The text of every picture of reports, studies and tuning."""
    for name in MACHINES:
        yield from figure_lines(f"machine {name}", diagrams.machine_figure(load_config(name)))
    yield from figure_lines("compiler", diagrams.compiler_figure(load_config("vta")))
    report = simulate(vdla_compile(folder() / "net.onnx", config="tiny"))
    for kind in ("layers", "roofline"):
        yield from figure_lines(kind, report.plot(kind))
    many = test_plots.account(test_plots.MANY)
    yield from figure_lines("many layers", plots.layers_figure(many))
    yield from figure_lines("many points", plots.roofline_figure(many, load_config("vta")))
    study, series = test_study.STUDY, study_plots.searches(test_study.STUDY)
    timed = replace(study, peer_seconds={"C2": 90.0, "C3": 1.0}, flops={"C2": 1e12, "C3": 1e12})
    costs = {"C2": np.array([3.0, 1.0, np.inf, 2.0])}
    draws: dict[str, Callable[[], object]] = {
        "curves": lambda: study_plots.curves_png(study, series, floors={"C2": 90.0, "C3": 80.0}),
        "speeds": lambda: study_plots.speeds_png(timed, series),
        "shares": lambda: study_plots.shares_png(costs, {"C2": 1.0}, {"C2": {"floor": 0.9, "default": 1.5}}),
        "needed": lambda: study_plots.needed_png(study, series),
        "gained": lambda: study_plots.gained_png(
            test_study.account((900, 500)), test_study.account((700, 450))
        ),
    }
    for name, draw in draws.items():
        yield from figure_lines(name, drawn(study_plots, "small_png", draw))


def exploration_text() -> Iterator[str]:
    """The text of an exploration: the figures of each machine, the effects of the fields, and the pictures."""
    found = vdla_explore(SPACE, folder() / "net.onnx", ("latency", "area"), budget=8, strategy="exhaustive")
    data = exploration_data(found.exploration, Details())
    yield from json.dumps(rounded(data), indent=1).replace(str(folder()), "FOLDER").splitlines()
    for draw in (
        pictures.front_figure,
        pictures.parallel_figure,
        pictures.sensitivity_figure,
        pictures.history_figure,
    ):
        figure = draw(data)
        if figure is not None:
            yield from figure_lines(draw.__name__, figure)


def rounded(value: Any) -> Any:
    """The document with every float rounded to 4 significant digits, and with infinities and NaN as text."""
    match value:
        case float():
            return float(number(value)) if np.isfinite(value) else str(value)
        case dict():
            return {key: rounded(item) for key, item in value.items()}
        case list() | tuple():
            return [rounded(item) for item in value]
        case _:
            return value


TEXTS = KeptTexts(
    Path(__file__).parent / "golden",
    {
        "options": options_text,
        "machines": machines_text,
        "commands": commands_text,
        "synthesis": synthesis_text,
        "pictures": pictures_text,
        "exploration": exploration_text,
    },
)

if __name__ == "__main__":
    # Commands that are called from the main program take its streams.
    from tests.codesign import shown

    shown.TEXTS.write()
