"""The results of a search for quantization decisions as rows of a table, as one JSON object, as a picture of the Pareto
front, and as files.
"""

from __future__ import annotations

import csv
import io
import json
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.util.files import write_whole

from ..technology.area import basis
from ..technology.clock import clock_of
from ..technology.rungs import rungs_of_machine
from .records import decisions_to_json
from .run import Outcome
from .study import COSTS, Found, Member

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODEL = "quantized.onnx"
SIMULATED = "the written file, simulated in float32 on held-out samples"


def rungs(result: Found) -> dict[str, str]:
    """The source of each figure ("sqnr", "cycles", "border_ms" ...), by name of the figure."""
    target = result.study.evaluator.target
    processor = target.processor.rung
    of_machine = rungs_of_machine(target.config, target.components)
    return {
        "sqnr": SIMULATED,
        "cycles": "exact simulation",
        "accelerator_ms": of_machine["latency"],
        "border_ms": processor,
        "processor_ms": processor,
        "accelerator_uj": of_machine["energy"],
        "processor_uj": f"assumed: {target.processor.watts:g} W",
    }


def rows(result: Found) -> list[dict[str, Any]]:
    """A table with one row (dictionary) for each evaluated set of decisions. Its columns are the set's number, a label
    for sets that make the same decision for all layers, figures such as error and cycles, whether the set is on the
    Pareto front, and the reason if it could not be run.
    """
    front = {member.number for member in result.front}
    table: list[dict[str, Any]] = []
    for member in result.members:
        table.append(
            {
                "member": member.number,
                "uniform": member.label,
                **figures(member),
                "front": member.number in front,
                "failed": member.figures.failed or "",
            }
        )
    return table


def figures(member: Member) -> dict[str, Any]:
    """The figures of an evaluated set of decisions, by names that state the units; each figure is None if the
    evaluation failed. Also the numbers of float layers, of symmetric tensor groups, and of layers with one scale for
    all weights.
    """
    found, decisions = member.figures, member.decisions
    sizes = {
        "float_layers": len(decisions.floats),
        "s8_groups": len(decisions.symmetric),
        "per_tensor_layers": len(decisions.per_tensor),
    }
    values: dict[str, Any] = {
        "sqnr_db": None if found.sqnr == inf else found.sqnr,
        "top1_agreement": found.top1,
        "latency_ms": found.milliseconds,
        "cycles": found.cycles,
        "regions": found.regions,
        "accelerator_ms": 1e3 * found.accelerator_seconds,
        "border_ms": 1e3 * found.border_seconds,
        "processor_ms": 1e3 * found.processor_seconds,
        "energy_uj": found.microjoules,
        "accelerator_uj": found.accelerator_microjoules,
        "processor_uj": found.processor_microjoules,
    }
    if found.failed is not None:
        values = dict.fromkeys(values)
    return values | sizes


def layer_choices(result: Found, member: Member) -> list[dict[str, Any]]:
    """One dictionary for each layer: its name, its operator, and how `member` (a set of decisions) quantizes it."""
    return [
        {
            "layer": layer.name,
            "operator": layer.operator,
            "choice": ",".join(member.decisions.choice(layer)),
        }
        for layer in result.study.layers
    ]


def document(outcome: Outcome) -> dict[str, Any]:
    """The search as one JSON object: its settings, the source of each figure, decisions that are equal for all layers,
    the Pareto front, and the chosen set of decisions with its layers.
    """
    found = outcome.found
    study, target = found.study, found.study.evaluator.target
    processor = target.processor
    clock = clock_of(target.config, target.components)
    return {
        "config": target.config.name,
        "clock_hertz": clock.hertz,
        "clock_is": clock.source,
        "processor": {
            "name": processor.name,
            "gflops": processor.gigaflops,
            "gbytes_per_second": processor.gigabytes,
            "watts": processor.watts,
            "measured": processor.measured,
            "source": processor.source,
        },
        "components": basis(target.components),
        "rungs": rungs(found),
        "method": study.recipe.method,
        "calibration_runs": outcome.runs,
        "held_out_runs": outcome.held_out,
        "cost": study.settings.cost,
        "seed": study.settings.seed,
        "budget": study.settings.budget,
        "members": len(found.members),
        "failed": sum(member.figures.failed is not None for member in found.members),
        "evaluated": found.evaluated,
        "interrupted": found.interrupted,
        "uniform": {member.label: figures(member) for member in found.members if member.label},
        "front": [
            {
                "member": member.number,
                "uniform": member.label,
                **figures(member),
                "decisions": decisions_to_json(member.decisions),
            }
            for member in found.front
        ],
        "chosen": {
            "member": outcome.chosen.number,
            "why": outcome.reason,
            **figures(outcome.chosen),
            "exact_sqnr_db": None if outcome.exact_sqnr == inf else outcome.exact_sqnr,
            "layers": layer_choices(found, outcome.chosen),
        },
    }


def front_figure(result: Found, chosen: Member | None = None) -> Figure:
    """A picture: SQNR against the cost of every evaluated set of decisions whose network ran with a finite SQNR. The
    Pareto front is a line; decisions that are equal for all layers have their names; a circle marks `chosen`.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    from ..report.canvas import GRID, INK, MUTED, new_figure, style, words

    study = result.study
    unit = COSTS[study.settings.cost][0]
    figure = new_figure(8, 4.8)
    axes = figure.subplots()
    style(axes)

    def place(member: Member) -> tuple[float, float]:
        return study.value(member.figures), member.figures.sqnr

    running = [m for m in result.members if m.figures.failed is None and m.figures.sqnr != inf]
    front = [member for member in result.front if member in running]
    axes.set_xscale("log")
    if running:
        axes.scatter(*zip(*map(place, running), strict=True), s=14, color="#b8bec7", label="evaluated")
    if front:
        axes.plot(
            *zip(*map(place, front), strict=True),
            color="#0072B2",
            marker="o",
            markersize=5,
            linewidth=1.4,
            drawstyle="steps-post",
            label="front",
        )
    for member, marker in zip((m for m in running if m.label), "sD^v", strict=False):
        axes.scatter(*place(member), s=44, marker=marker, color="#D55E00", label=member.label, zorder=3)
    if chosen is not None and chosen in running:
        axes.scatter(
            *place(chosen),
            s=170,
            facecolor="none",
            edgecolor=INK,
            linewidth=1.6,
            label="chosen",
            zorder=4,
        )
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _position: f"{value:,.3g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(f"{study.settings.cost}, {unit}", color=INK)
    axes.set_ylabel("SQNR on held-out samples, dB", color=INK)
    axes.grid(True, color=GRID, linewidth=0.8)
    target, processor = study.evaluator.target, study.evaluator.target.processor
    axes.set_title(
        f"{words(Path(study.evaluator.calibrated.model.source).stem, 40)} on {words(target.config.name, 30)}",
        loc="left",
        color=INK,
        fontsize=10,
        fontweight="bold",
    )
    figure.supxlabel(
        f"cycles: exact simulation; border and processor ({processor.name}): {processor.rung}; "
        f"energy: {rungs(result)['accelerator_uj']}",
        fontsize=7,
        color=MUTED,
    )
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    return figure


def write_outcome(outcome: Outcome, folder: Path) -> tuple[Path, ...]:
    """Writes quantized.onnx, members.csv, quantization.json and front.png into `folder`; returns their paths. Raises
    WriteError.
    """
    from ..report.canvas import png

    table = rows(outcome.found)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(table[0]))
    writer.writeheader()
    writer.writerows(table)
    names = (MODEL, "members.csv", "quantization.json", "front.png")
    paths = tuple(folder / name for name in names)
    write_whole(paths[0], outcome.proto.SerializeToString(deterministic=True))
    write_whole(paths[1], text.getvalue().encode())
    write_whole(paths[2], (json.dumps(document(outcome), indent=2, allow_nan=False) + "\n").encode())
    write_whole(paths[3], png(front_figure(outcome.found, outcome.chosen)))
    return paths
