"""The model of energy by event: fitted to programs replayed on netlists, and judged on machines (accelerator
configurations) that no fit has used.

    python benchmarks/energy_model.py [--programs N] [--rows FILE] [--judge] [--write]

Seeded programs (`verify.energy_programs`) run on the RTL of small machines. The recorded inputs of the ports are
replayed on netlists of standard cells (default library), which must agree with the RTL in every cycle. Memory accesses
are counted. The model is fitted to N programs of each of `fitted_machines` (`harness/energy_rows.py`) and to further
replays in FILE. Leaving out each machine in turn measures the error on a new machine. --judge replays RESERVED programs
of `judged_machines`, on which nothing is fitted, and counts the programs whose total energy is inside the predicted
interval. FILE stores replays, one in a line, so that they are not repeated. --write, which implies --judge, stores rows
and figures in benchmarks/results/energy_model.json and coefficients in codesign/technology/event_energy.json.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from vdla.benchmarks.harness import energy_fit as fit
from vdla.benchmarks.harness.command_line import PROGRAMS, WRITE, Given, Option, run_script
from vdla.benchmarks.harness.energy_rows import (
    FITTED,
    RESERVED,
    Replayed,
    fitted_machines,
    is_reserved,
    judged_machines,
    machine_facts,
    machines,
    prepare,
    row_of,
)
from vdla.benchmarks.harness.results import ROOT, provenance, write_results
from vdla.codesign.technology.cell_model import shipped_cell_model
from vdla.codesign.technology.event_energy import Spread
from vdla.hw.activity.liberty import Library, read_library
from vdla.hw.synthesis.cells.libraries import find_library
from vdla.hw.synthesis.cells.sram import scale_of
from vdla.isa.config import Config
from vdla.sim.statistics import MEASURED
from vdla.util.errors import UserError
from vdla.util.files import write_whole

COEFFICIENTS = ROOT / "codesign" / "technology" / "event_energy.json"
Rows = list[dict[str, Any]]


OPTIONS = (
    PROGRAMS.but(default=18, help="number of programs of each machine in the fit"),
    Option("--rows", "file of replays: existing ones are read, new ones are added", Path, metavar="FILE"),
    Option("--judge", "also predict the machines that no fit has used", flag=True),
    WRITE,
)


def main(options: Given) -> None:
    known = machines()
    library = read_library(find_library().path)

    @cache
    def prepared(name: str) -> Replayed:
        return prepare(known[name], lambda text: print(text, flush=True))

    wanted = dict.fromkeys(fitted_machines(), FITTED[: options.programs])
    if options.judge or options.write:
        wanted |= dict.fromkeys(judged_machines(), RESERVED)
    rows, facts = gather(wanted, prepared, options.rows)
    figures, coefficients = evaluate(rows, facts, known, library)
    print(json.dumps({name: value for name, value in figures.items() if name != "programs"}, indent=2))
    if options.write:
        write_results("energy_model", {**figures, "machines": facts, "rows": rows}, compact=True)
        text = json.dumps({**coefficients, "written": provenance()}, indent=2)
        write_whole(COEFFICIENTS, (text + "\n").encode())


def gather(
    wanted: Mapping[str, Sequence[int]], prepared: Callable[[str], Replayed], path: Path | None
) -> tuple[Rows, dict[str, Any]]:
    """Collects the measured programs on which the energy model is fitted. Returns (their rows, facts about each machine
    by the machine's name). `wanted`: for each machine, the seeds of its programs. `prepared`: a function that makes the
    replay of a machine from its name.

    Rows and facts that the file at `path` has are read from it; others are measured and appended to it (`path` None: no
    file). A program that cannot be replayed is reported and left out. The result also includes the file's rows of these
    machines whose seeds are in FITTED.
    """
    text = path.read_text(encoding="utf-8") if path is not None and path.exists() else ""
    have = [json.loads(line) for line in text.splitlines()]
    facts = {item["facts_of"]: item["facts"] for item in have if "facts_of" in item}
    kept = {(item["machine"], item["seed"]): item for item in have if "machine" in item}

    def keep(item: dict[str, Any]) -> None:
        if path is not None:
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(item) + "\n")

    rows: Rows = []
    for name, seeds in wanted.items():
        if name not in facts:
            facts[name] = machine_facts(prepared(name))
            keep({"facts_of": name, "facts": facts[name]})
        for seed in seeds:
            if (name, seed) in kept:
                continue
            try:
                row = row_of(prepared(name), seed)
            except UserError as error:
                print(f"{name}, program {seed}: {error}", flush=True)
                continue
            print(f"{name}, program {seed}: {row['events']['cycles']} cycles", flush=True)
            keep(row)
            kept[name, seed] = row
        of_machine = [seed for machine, seed in kept if machine == name]
        rows += [kept[name, seed] for seed in sorted(of_machine) if seed in seeds or seed in FITTED]
    return rows, {name: facts[name] for name in wanted}


def evaluate(
    rows: Rows, facts: Mapping[str, Any], known: Mapping[str, Config], library: Library
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fits the energy model to the rows that are not reserved for evaluation. Returns (figures, coefficients). The
    figures are errors of predictions: for machines that were left out of a fit, and for the reserved machines. The
    coefficients are the fitted model.

    `facts`: leakage and area of the parts of each machine; `known`: the machines by name; `library`: the cell library.
    """
    fitted = [row for row in rows if not is_reserved(row)]
    judged = [row for row in rows if is_reserved(row)]
    scale = scale_of(find_library())
    clock = round(fit.clock_of(library), 6)
    rest = fit.Rest(cells=shipped_cell_model(), clock=clock, scale=scale)
    costs = fit.fit_events(fitted, known)
    left_out = fit.left_out(fitted, known, rest)
    spread = fit.spread_of(left_out)
    of_leakage = sum(own["leakage_nw"] for parts in facts.values() for own in parts.values())
    of_area = sum(own["um2"] for parts in facts.values() for own in parts.values())
    coefficients = {
        "library": library.name,
        "corner": library.corner,
        "library_sha256": library.digest,
        "volts": library.volts,
        "nanometres": round(scale.node_nm),
        "sram_scale": {"area": scale.area, "delay": scale.delay, "energy": scale.energy},
        "machines": list(dict.fromkeys(row["machine"] for row in fitted)),
        "events": costs,
        "clock": clock,
        "leakage": round(of_leakage / of_area, 8),
        "spread": {name: getattr(spread, name) for name in Spread.__slots__},
    }
    reserved = [fit.judge(row, costs, known, rest) for row in judged]
    figures = {
        "fitted": len(fitted),
        "spread": coefficients["spread"],
        "left_out": _figures(left_out, spread),
        **({"judged": _figures(reserved, spread)} if reserved else {}),
        **({"mean_error_constant_energy": _constant(fitted, judged, known)} if reserved else {}),
        "mean_error_by_part_of_data": _by_part(judged or fitted, costs, known),
        "programs": [_program(one, spread) for one in reserved],
        "shares": _shares(rows),
    }
    return figures, coefficients


def _mean(values: Iterable[float]) -> float:
    return round(statistics.mean(values), 4)


def _figures(found: Sequence[fit.Judged], spread: Spread) -> dict[str, Any]:
    """Errors of the predicted energy of the programs `found`: mean relative error of each part of the energy and of the
    total, the share of programs inside the predicted interval, which `spread` determines, and each part's share of the
    total. These figures are for all machines together; "machines" has errors and programs inside for each machine.
    """

    def errors(own: Sequence[fit.Judged], name: str) -> float:
        return _mean(abs(getattr(one.predicted, name) / getattr(one.replayed, name) - 1) for one in own)

    def inside(own: Sequence[fit.Judged]) -> int:
        return sum(_is_inside(one, spread) for one in own)

    names = dict.fromkeys(one.machine for one in found)
    by_machine = {name: [one for one in found if one.machine == name] for name in names}
    parts = ("data", "clock", "memories", "whole")
    return {
        "programs": len(found),
        "mean_error": {name: errors(found, name) for name in parts},
        "largest_error": round(max(abs(one.predicted.whole / one.replayed.whole - 1) for one in found), 4),
        "shares": {
            name: _mean(getattr(one.replayed, name) / one.replayed.whole for one in found)
            for name in parts[:3]
        },
        "inside_interval": round(inside(found) / len(found), 3),
        "mean_width": _mean(
            (high - low) / one.predicted.whole for one in found for low, high in [fit.ends_of(one, spread)]
        ),
        "machines": {
            name: {
                "programs": len(own),
                "inside": inside(own),
                "mean_error": {part: errors(own, part) for part in parts},
            }
            for name, own in by_machine.items()
        },
    }


def _is_inside(one: fit.Judged, spread: Spread) -> bool:
    low, high = fit.ends_of(one, spread)
    return low <= one.replayed.whole <= high


def _program(one: fit.Judged, spread: Spread) -> dict[str, Any]:
    low, high = fit.ends_of(one, spread)
    return {
        "machine": one.machine,
        "seed": one.seed,
        "data_pj": round(one.replayed.data),
        "clock_pj": round(one.replayed.clock),
        "memories_pj": round(one.replayed.memories),
        "predicted_pj": round(one.predicted.whole),
        "low_pj": round(low),
        "high_pj": round(high),
        "inside": _is_inside(one, spread),
    }


def _by_part(rows: Rows, costs: fit.Costs, known: Mapping[str, Config]) -> dict[str, float]:
    """Mean errors of the predicted energy of changing data, by part of the machine, over the programs `rows`. `costs`
    is the model that predicts. Each error is relative to the program's energy of changing data in all parts. `known`:
    the machines by name.
    """
    return {
        part: _mean(
            abs(fit.predicted(row, costs, known)[part] - fit.measured(row)[part])
            / sum(fit.measured(row).values())
            for row in rows
        )
        for part in costs
    }


def _constant(fitted: Rows, judged: Rows, known: Mapping[str, Config]) -> float:
    """Mean relative error of a simpler model of the energy of changing data. In this model, all operations of a kind
    cost the same, whatever bits change. It is fitted to the programs `fitted` and judged on the programs `judged`.
    `known`: the machines by name.
    """

    def without(row: dict[str, Any]) -> dict[str, Any]:
        lanes = row["changes"]["loaded_lanes"]
        return {**row, "changes": dict.fromkeys(MEASURED, 0) | {"loaded_lanes": lanes}}

    costs = fit.fit_events([without(row) for row in fitted], known)
    return _mean(
        abs(sum(fit.predicted(row, costs, known).values()) / sum(fit.measured(row).values()) - 1)
        for row in map(without, judged)
    )


def _shares(rows: Rows) -> dict[str, dict[str, float]]:
    """Share of each part of a machine (array, lanes, scratchpads ...) in the energy of changing data, by machine,
    summed over all its programs.
    """
    found: dict[str, dict[str, float]] = {}
    for name in dict.fromkeys(row["machine"] for row in rows):
        sums: dict[str, float] = {}
        for row in rows:
            if row["machine"] == name:
                for part, value in fit.measured(row).items():
                    sums[part] = sums.get(part, 0.0) + value
        found[name] = {part: round(value / sum(sums.values()), 3) for part, value in sums.items()}
    return found


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
