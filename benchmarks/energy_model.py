"""Energy by event, fitted to programs replayed on netlists, and held against programs that nothing was fitted on.

    python benchmarks/energy_model.py [--programs N] [--rows FILE] [--held-out] [--write]

Seeded programs (`verify.energy_programs`) run on the RTL of five small machines; the netlists in standard cells, mapped
to the default library, do what the ports carried and are compared with the RTL in every cycle. N programs of each
machine are fitted on; six others of each (VALIDATION) judge while features are chosen, and are fitted on at the end.
--held-out replays fifteen more of each (HELD_OUT), for the figures of the final model. FILE keeps the replays, a line
each: those that it has are not made again. --write, which implies --held-out, keeps rows and figures in
benchmarks/results/energy_model.json and coefficients in codesign/technology/event_energy.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from vdla.benchmarks.harness import energy_fit as fit
from vdla.benchmarks.harness.energy_rows import (
    HELD_OUT,
    VALIDATION,
    Replayed,
    machine_facts,
    machines,
    prepare,
    row_of,
)
from vdla.benchmarks.harness.results import ROOT, provenance, write_results
from vdla.codesign.technology.event_energy import EventEnergy, parse_event_energy
from vdla.hw.activity.liberty import Library, read_library
from vdla.hw.synthesis.cells.libraries import find_library
from vdla.hw.synthesis.cells.sram import scale_of
from vdla.isa.config import Config
from vdla.sim.statistics import MEASURED
from vdla.util.errors import UserError
from vdla.util.whole_files import write_whole

COEFFICIENTS = ROOT / "codesign" / "technology" / "event_energy.json"
Rows = list[dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=60)
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    known = machines()
    library = read_library(find_library().path)

    @cache
    def prepared(name: str) -> Replayed:
        return prepare(known[name], lambda text: print(text, flush=True))

    final = arguments.held_out or arguments.write
    seeds = [*range(arguments.programs), *VALIDATION, *(HELD_OUT if final else ())]
    rows, facts = gather(known, prepared, seeds, arguments.rows)
    if not final:
        fitted = [row for row in rows if row["seed"] not in VALIDATION]
        costs = fit.fit_events(fitted, known)
        print(json.dumps(_errors([row for row in rows if row["seed"] in VALIDATION], costs, known), indent=2))
        return
    figures, coefficients = evaluate(rows, facts, known, library)
    print(json.dumps(figures, indent=2))
    if arguments.write:
        write_results("energy_model", {**figures, "machines": facts, "rows": rows}, compact=True)
        text = json.dumps({**coefficients, "written": provenance()}, indent=2)
        write_whole(COEFFICIENTS, (text + "\n").encode())


def gather(
    known: Mapping[str, Config], prepared: Callable[[str], Replayed], seeds: Iterable[int], path: Path | None
) -> tuple[Rows, dict[str, Any]]:
    """The rows of all programs, and the facts of machines; those in the file at `path` are taken, others are added."""
    text = path.read_text(encoding="utf-8") if path is not None and path.exists() else ""
    have = [json.loads(line) for line in text.splitlines()]
    facts = {item["facts_of"]: item["facts"] for item in have if "facts_of" in item}
    kept = {(item["machine"], item["seed"]): item for item in have if "machine" in item}

    def keep(item: dict[str, Any]) -> None:
        if path is not None:
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(item) + "\n")

    for name in known:
        if name not in facts:
            facts[name] = machine_facts(prepared(name))
            keep({"facts_of": name, "facts": facts[name]})
    rows: Rows = []
    for seed in seeds:
        for name in known:
            row = kept.get((name, seed))
            if row is None:
                try:
                    row = row_of(prepared(name), seed)
                except UserError as error:
                    print(f"{name}, program {seed}: {error}", flush=True)
                    continue
                print(f"{name}, program {seed}: {row['events']['cycles']} cycles", flush=True)
                keep(row)
            rows.append(row)
    return rows, facts


def evaluate(
    rows: Rows, facts: Mapping[str, Any], known: Mapping[str, Config], library: Library
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Figures on the programs held out, and the coefficients."""
    fitted = [row for row in rows if row["seed"] not in HELD_OUT]
    held = [row for row in rows if row["seed"] in HELD_OUT]
    costs = fit.fit_events(fitted, known)
    ratios = fit.fold_ratios(fitted, known)
    interval = fit.interval_of(ratios)
    scale = scale_of(find_library())
    of_leakage = sum(own["leakage_nw"] for parts in facts.values() for own in parts.values())
    of_area = sum(own["um2"] for parts in facts.values() for own in parts.values())
    areas = fit.fit_structure(fit.synthesized("logic_um2"))
    coefficients = {
        "library": library.name,
        "corner": library.corner,
        "library_sha256": library.digest,
        "volts": library.volts,
        "nanometres": round(scale.node_nm),
        "sram_scale": {"area": scale.area, "delay": scale.delay, "energy": scale.energy},
        "events": costs,
        "clock": round(fit.clock_of(library), 6),
        "registers": fit.fit_structure(fit.synthesized("flip_flops")),
        "leakage": {
            part: {name: round(each * of_leakage / of_area, 4) for name, each in own.items()}
            for part, own in areas.items()
        },
        "interval": [round(end, 4) for end in interval],
        "interval_outside": [round(end, 4) for end in fit.interval_of(fit.machine_ratios(fitted, known))],
    }
    model = parse_event_energy(coefficients)
    programs = [_program(row, costs, known, model) for row in held]
    inside = [interval[0] <= 1 / (1 + one["error"]) <= interval[1] for one in programs]
    figures = {
        "fitted": len(fitted),
        "held_out": len(held),
        **_errors(held, costs, known),
        "mean_error_with_clock": _mean(abs(one["error_with_clock"]) for one in programs),
        "clock_share": _mean(one["clock_pj"] / (one["clock_pj"] + one["data_pj"]) for one in programs),
        "mean_error_constant_energy": _constant(fitted, held, known),
        "inside_interval": round(sum(inside) / len(inside), 3),
        "interval": coefficients["interval"],
        "interval_outside": coefficients["interval_outside"],
        "mean_error_in_folds": _mean(abs(1 / one - 1) for one in ratios),
        "mean_error_machine_left_out": {
            name: _errors(
                [row for row in rows if row["machine"] == name],
                fit.fit_events([row for row in fitted if row["machine"] != name], known),
                known,
            )["mean_error"]
            for name in known
        },
        "programs": programs,
        "shares": _shares(rows),
    }
    return figures, coefficients


def _mean(values: Iterable[float]) -> float:
    return round(statistics.mean(values), 4)


def _errors(rows: Rows, costs: fit.Costs, known: Mapping[str, Config]) -> dict[str, Any]:
    """Errors of data energy, clock pins left out; and by part, of the program's total."""
    errors = [abs(1 / fit.ratio(row, costs, known) - 1) for row in rows]
    parts = {}
    for part in costs:
        off = (abs(fit.predicted(row, costs, known)[part] - fit.measured(row)[part]) for row in rows)
        parts[part] = _mean(one / sum(fit.measured(row).values()) for one, row in zip(off, rows, strict=True))
    return {
        "mean_error": _mean(errors),
        "median_error": round(statistics.median(errors), 4),
        "largest_error": round(max(errors), 4),
        "mean_error_by_part_of_total": parts,
    }


def _program(
    row: dict[str, Any], costs: fit.Costs, known: Mapping[str, Config], model: EventEnergy
) -> dict[str, Any]:
    config, cycles = known[row["machine"]], row["events"]["cycles"]
    data, clock = sum(fit.measured(row).values()), fit.measured_clock(row)
    ours = sum(fit.predicted(row, costs, known).values())
    clocks = sum(model.clocks(config, cycles).values())
    return {
        "machine": row["machine"],
        "seed": row["seed"],
        "cycles": cycles,
        "data_pj": round(data),
        "clock_pj": round(clock),
        "error": round(ours / data - 1, 4),
        "error_with_clock": round((ours + clocks) / (data + clock) - 1, 4),
    }


def _constant(fitted: Rows, held: Rows, known: Mapping[str, Config]) -> float:
    """Mean error of the same model without the bits that change: every operation costs the same."""

    def without(row: dict[str, Any]) -> dict[str, Any]:
        lanes = row["changes"]["loaded_lanes"]
        return {**row, "changes": dict.fromkeys(MEASURED, 0) | {"loaded_lanes": lanes}}

    costs = fit.fit_events([without(row) for row in fitted], known)
    return _errors([without(row) for row in held], costs, known)["mean_error"]


def _shares(rows: Rows) -> dict[str, dict[str, float]]:
    """Shares of data energy by part, of all programs of a machine together."""
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
    main()
