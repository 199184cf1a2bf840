"""The model of area and clock in standard cells: fitted to synthesized machines (accelerator configurations), compared
with machines that were not fitted.

    python benchmarks/area_model.py [--liberty FILE|NAME] [--write]

The machines are those of benchmarks/results/cell_areas_NAME.jsonl (`benchmarks/cell_areas.py`). Each machine is a
numbered draw. The draws below HELD_OUT are the training machines. Each training machine is predicted once by a fit
without it; the errors decide the interval of predictions, and whether the structured model is used alone or with
XGBoost on its residuals. The draws from HELD_OUT on are predicted once, and no fit may use them. These draws are few,
so the share of draws inside the interval is known to some 4% only. Therefore fit and interval are also repeated on
SPLITS random splits of the training machines.

Machines share modules. `seen_in_training` says how much of the predicted machines also occurs in training machines: the
share of logic in equal modules, and the number of machines with an equal longest path.
benchmarks/results/flat_synthesis.json (`benchmarks/flat_synthesis.py`) compares synthesis module by module with
synthesis of the whole machine. --write stores the figures in benchmarks/results/area_model.json and the coefficients
in codesign/technology/cell_model.json.
"""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from vdla.benchmarks.cell_areas import SPECIAL
from vdla.benchmarks.harness import area_fit as fit
from vdla.benchmarks.harness.area_residual import left_out_with_trees
from vdla.benchmarks.harness.area_rows import HELD_OUT, Synthesized, read_rows
from vdla.benchmarks.harness.command_line import LIBERTY, WRITE, Given, run_script
from vdla.benchmarks.harness.results import RESULTS, ROOT, provenance, write_results
from vdla.codesign.technology.cell_model import CellModel
from vdla.codesign.technology.memories import memories_of
from vdla.hw.synthesis.cells.libraries import find_library
from vdla.hw.synthesis.cells.sram import Scale, memory_figures, scale_of
from vdla.isa.config import Config, load_config
from vdla.util.files import write_whole

_FIRST = {"any machine": 0, **{draws.kind: draws.first for draws in SPECIAL}}
KINDS = {
    kind: range(HELD_OUT + first, HELD_OUT + end)
    for (kind, first), end in zip(
        _FIRST.items(), (*[draws.first for draws in SPECIAL], HELD_OUT), strict=True
    )
}
"""Ranges of draws (numbers of random machines) on which the area and clock model is judged, by kind: any machines, and
small machines with one feature in common.
"""
SPLITS, FITTED_OF = 10, 0.75
"""Number of random splits of the training machines on which fit and interval are repeated, and the share of each kind
of machine that a split uses for the fit; the rest judges the fit.
"""
COEFFICIENTS = ROOT / "codesign" / "technology" / "cell_model.json"


OPTIONS = (LIBERTY, WRITE)


def main(options: Given) -> None:
    library = find_library(options.liberty)
    head, rows = read_rows(RESULTS / f"cell_areas_{library.name}.jsonl")
    training = [row for row in rows if row.draw < HELD_OUT]
    held = [row for row in rows if row.draw >= HELD_OUT]
    scale = scale_of(library)
    model, chosen = fitted(training, head, scale)
    figures = {
        "training": len(training),
        "held_out": len(held),
        **chosen,
        "seen_in_training": seen(training, held),
        **judged(model, held, scale),
        "random_splits": split_anew(training, head, scale),
        "larger_than_fitted": beyond(training, head, scale),
        "vta": shares(model, load_config("vta")),
    }
    print(json.dumps({name: value for name, value in figures.items() if name != "machines"}, indent=2))
    if options.write:
        write_results("area_model", figures, compact=True)
        text = json.dumps(document(model, head, training), indent=1)
        write_whole(COEFFICIENTS, (text + "\n").encode())


def fitted(
    training: Sequence[Synthesized], head: Mapping[str, Any], scale: Scale
) -> tuple[CellModel, dict[str, Any]]:
    """Fits the area and clock model to the machines `training`. Returns (the model with its prediction intervals,
    figures). The figures are the intervals and the mean relative errors of logic area and longest path by leave-one-out
    cross-validation. There are two sets of errors: for the model alone, and for the model with XGBoost trees that
    predict its residuals. `head`: the first line of the file of machines; `scale`: factors of memory macros' areas.
    """
    logic, path = fit.ratios_left_out(training, head, scale)
    trees = left_out_with_trees(training, logic, path)
    model = _with_intervals(training, logic, path, head, scale)
    return model, {
        "logic_interval": [round(end, 4) for end in model.logic_ends],
        "path_interval": [round(end, 4) for end in model.path_ends],
        "left_out": {
            "structured": {"logic": _mean_error(logic), "path": _mean_error(path)},
            "structured and XGBoost": {"logic": _mean_error(trees[0]), "path": _mean_error(trees[1])},
        },
    }


def _with_intervals(
    training: Sequence[Synthesized],
    logic: Sequence[float],
    path: Sequence[float],
    head: Mapping[str, Any],
    scale: Scale,
) -> CellModel:
    """The model fitted to all machines in `training`, with its prediction intervals. The intervals come from `logic`
    and `path`: the ratios true value / predicted value of logic area and of longest path, one for each training
    machine. The prediction for a machine is by a model that was fitted to the other machines. `head`, `scale`: as for
    `fitted`.
    """
    return replace(
        fit.fit(training, head, scale),
        logic_ends=fit.interval(logic),
        path_ends=fit.interval(path),
    )


def split_anew(training: Sequence[Synthesized], head: Mapping[str, Any], scale: Scale) -> dict[str, Any]:
    """Mean error and coverage of the interval, for area and clock, as means over SPLITS random splits of the training
    machines: the model is fitted on a part of each kind, and judged on the rest. `head`: the first line of the file of
    machines; `scale`: factors of memory macros.
    """
    kinds = [[row for row in training if row.draw in _below(draws)] for draws in KINDS.values()]
    found: list[dict[str, dict[str, float]]] = []
    for number in range(SPLITS):
        chance = random.Random(number)
        chosen: list[Synthesized] = []
        for own in kinds:
            chosen += chance.sample(own, round(FITTED_OF * len(own)))
        model = _with_intervals(chosen, *fit.ratios_left_out(chosen, head, scale), head, scale)
        found.append(_errors([_machine(model, row, scale) for row in training if row not in chosen]))
    return {"splits": SPLITS} | {
        name: {
            figure: round(statistics.mean(one[name][figure] for one in found), 5)
            for figure in ("mean_error", "inside_interval")
        }
        for name in ("area", "clock")
    }


def _below(draws: range) -> range:
    """For a range `draws` of random machines that are reserved for evaluation: the range of machines of the same kind
    that are for fitting. Their numbers are smaller by HELD_OUT.
    """
    return range(draws.start - HELD_OUT, draws.stop - HELD_OUT)


def seen(training: Sequence[Synthesized], held: Sequence[Synthesized]) -> dict[str, Any]:
    """Overlap of the judged machines (`held`) with the training machines.

    `logic_share`: a module is known if a training machine has the same module with the same area (to 0.01 square
    micrometres); this is the share of known modules in a machine's logic area, as median, least and most over the
    judged machines. `longest_paths`: number of machines whose longest path ends in the same place as a path of a
    training machine that takes the same time (to 0.1 ps).
    """
    known = {(module, _each(own)) for row in training for module, own in row.modules.items()}
    paths = {(place, ns) for row in training for place, (ns, _) in row.ends.items()}
    shares = [
        sum(own[1] for module, own in row.modules.items() if (module, _each(own)) in known) / row.logic
        for row in held
    ]
    longest = [max((ns, place) for place, (ns, _) in row.ends.items()) for row in held]
    return {
        "logic_share": {
            "median": round(statistics.median(shares), 3),
            "least": round(min(shares), 3),
            "most": round(max(shares), 3),
        },
        "longest_paths": sum((place, ns) in paths for ns, place in longest),
    }


def _each(own: tuple[int, float]) -> float:
    """Area of one instance in square micrometres, computed from `own` = (number of instances, total area)."""
    return round(own[1] / own[0], 2)


def _mean_error(ratios: Sequence[float]) -> float:
    return round(statistics.mean(abs(1 / ratio - 1) for ratio in ratios), 5)


def judged(model: CellModel, held: Sequence[Synthesized], scale: Scale) -> dict[str, Any]:
    """Relative errors of the model, and coverage of its interval, on the machines `held`, which were not used for any
    fit: over all of them, by kind of machine, and for each machine. `scale`: factors of memory macros' areas.
    """
    machines = [_machine(model, row, scale) for row in held]
    kinds = {
        kind: [machine for machine in machines if machine["draw"] in draws] for kind, draws in KINDS.items()
    }
    return {
        **_errors(machines),
        "by_kind": {kind: {"machines": len(own), **_errors(own)} for kind, own in kinds.items() if own},
        "machines": machines,
    }


def _errors(machines: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for name in ("area", "logic", "clock", "flip_flops"):
        errors = [abs(machine[f"{name}_error"]) for machine in machines]
        found[name] = {"mean_error": round(statistics.mean(errors), 5), "worst_error": round(max(errors), 5)}
    for name in ("area", "clock"):
        inside = sum(machine[f"{name}_inside"] for machine in machines)
        found[name]["inside_interval"] = round(inside / len(machines), 3)
    return found


def _machine(model: CellModel, row: Synthesized, scale: Scale) -> dict[str, Any]:
    memory = sum(
        count * memory_figures(words, width, scale).area
        for own in row.macros.values()
        for count, words, width in own
    )
    measured, ours = row.logic + memory, model.predict(row.config)
    registers = sum(model.flip_flops_by_module(row.config, memories_of(row.config)).values())
    area = 1e6 * sum(ours.area.values())
    logic = 1e6 * sum(ours.logic.values())
    area_ratio, path_ratio = measured / area, row.longest / ours.longest_ns
    return {
        "draw": row.draw,
        "area_mm2": round(measured / 1e6, 3),
        "logic_mm2": round(row.logic / 1e6, 3),
        "clock_mhz": round(1e3 / row.longest, 2),
        "area_error": round(1 / area_ratio - 1, 5),
        "logic_error": round(logic / row.logic - 1, 5),
        "clock_error": round(path_ratio - 1, 5),
        "flip_flops_error": round(registers / sum(row.flip_flops.values()) - 1, 5),
        "area_inside": ours.area_ends[0] <= area_ratio <= ours.area_ends[1],
        "clock_inside": ours.path_ends[0] <= path_ratio <= ours.path_ends[1],
        "slowest": ours.slowest,
    }


def beyond(training: Sequence[Synthesized], head: Mapping[str, Any], scale: Scale) -> dict[str, Any]:
    """Fits the model to the half of the training machines with the smaller logic areas, and judges it on the other
    half. Returns the relative errors in logic area, and the coverage of the interval. `head`: the first line of the
    file of machines; `scale`: factors of memory macros.
    """
    rows = sorted(training, key=lambda row: row.logic)
    small, large = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    model, ends = fit.fit(small, head, scale), fit.interval(fit.ratios_left_out(small, head, scale)[0])
    ratios = [row.logic / fit.predicted(model, row)[0] for row in large]
    return {
        "machines": len(large),
        "times_larger": round(large[-1].logic / small[-1].logic, 1),
        "mean_error": _mean_error(ratios),
        "worst_error": round(max(abs(1 / ratio - 1) for ratio in ratios), 5),
        "inside_interval": round(sum(ends[0] <= ratio <= ends[1] for ratio in ratios) / len(ratios), 3),
    }


def shares(model: CellModel, config: Config) -> dict[str, Any]:
    """The area and clock that the model predicts for the machine `config`, the memories' share of the area, and each
    unit's share (0..1), the largest first.
    """
    found = model.predict(config)
    area = found.area
    whole = sum(area.values())
    return {
        "area_mm2": round(whole, 2),
        "clock_mhz": round(found.clock_mhz, 1),
        "memories": round(sum(found.memory.values()) / whole, 3),
        "units": {unit: round(area[unit] / whole, 3) for unit in sorted(area, key=lambda unit: -area[unit])},
    }


def document(model: CellModel, head: Mapping[str, Any], training: Sequence[Synthesized]) -> dict[str, Any]:
    """The fitted model as the JSON object that `parse_cell_model` reads, with its provenance (command, library, draws
    of the training machines). `head`: the first line of the file of machines, which has the library's hash.
    """
    return {
        "written": provenance(),
        "library": model.library,
        "liberty_sha256": head["liberty_sha256"],
        "node_nm": model.node_nm,
        "training_draws": [row.draw for row in training],
        "scale": asdict(model.scale),
        "intervals": {
            "logic": list(model.logic_ends),
            "path": list(model.path_ends),
        },
        "areas": model.areas,
        "registers": model.registers,
        "paths": model.paths,
        "units": model.units,
    }


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
