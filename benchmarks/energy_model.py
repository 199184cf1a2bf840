"""Energy by event, fitted to programs replayed on netlists, and held against programs that nothing was fitted on.

    python benchmarks/energy_model.py [--programs N] [--rows FILE] [--tool] [--write]

Seeded programs (`verify.energy_programs`) run on the RTL of four small machines; the netlists in standard cells, mapped
to the default library, do what the ports carried and are compared with the RTL in every cycle. N programs of each
machine are fitted on; five others of each are held out. FILE keeps the replays, a line each: those that it has are not
made again, and all of them count. --tool also gives every unit of `tiny` to OpenSTA at equal activities. --write keeps
rows and figures in benchmarks/results/energy_model.json, coefficients in codesign/technology/event_energy.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from vdla.benchmarks.harness import energy_fit as fit
from vdla.benchmarks.harness.energy_rows import (
    HELD_OUT,
    Replayed,
    beside_the_tool,
    machine_facts,
    machines,
    prepare,
    row_of,
)
from vdla.benchmarks.harness.results import ROOT, provenance, write_results
from vdla.hw.activity.liberty import Library, read_library
from vdla.hw.synthesis.cells.libraries import find_library
from vdla.isa.config import Config
from vdla.sim.statistics import MEASURED
from vdla.util.errors import UserError
from vdla.util.whole_files import write_whole

COEFFICIENTS = ROOT / "codesign" / "technology" / "event_energy.json"
_REGISTER, _NANOMETRES = "DFFPOSX1", 180
"""Of the library osu018."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=16)
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--tool", action="store_true")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    known = machines()
    library = read_library(find_library().path)

    @cache
    def prepared(name: str) -> Replayed:
        return prepare(known[name], lambda text: print(text, flush=True))

    rows, facts = gather(known, prepared, arguments.programs, arguments.rows)
    figures, coefficients = evaluate(rows, facts, known, library)
    if arguments.tool:
        figures["timing_tool"] = tool_figures(prepared("tiny"))
    print(json.dumps(figures, indent=2))
    if arguments.write:
        write_results("energy_model", {**figures, "machines": facts, "rows": rows}, compact=True)
        text = json.dumps({**coefficients, "written": provenance()}, indent=2)
        write_whole(COEFFICIENTS, (text + "\n").encode())


def gather(
    known: Mapping[str, Config], prepared: Callable[[str], Replayed], programs: int, path: Path | None
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows of all programs, and the facts of machines; those in the file at `path` are taken, others are added."""
    text = path.read_text(encoding="utf-8") if path is not None and path.exists() else ""
    have = [json.loads(line) for line in text.splitlines()]
    facts = {item["facts_of"]: item["facts"] for item in have if "facts_of" in item}
    rows = {(item["machine"], item["seed"]): item for item in have if "machine" in item}

    def keep(item: dict[str, Any]) -> None:
        if path is not None:
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(item) + "\n")

    for name in known:
        if name not in facts:
            facts[name] = machine_facts(prepared(name))
            keep({"facts_of": name, "facts": facts[name]})
    for seed in [*HELD_OUT, *range(programs)]:
        for name in known:
            row = rows.get((name, seed))
            if row is None:
                try:
                    row = row_of(prepared(name), seed)
                except UserError as error:
                    print(f"{name}, program {seed}: {error}", flush=True)
                    continue
                print(f"{name}, program {seed}: {row['events']['cycles']} cycles", flush=True)
                keep(row)
            rows[name, seed] = row
    return list(rows.values()), facts


def evaluate(
    rows: list[dict[str, Any]], facts: Mapping[str, Any], known: Mapping[str, Config], library: Library
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Figures on the programs held out, and the coefficients."""
    fitted = [row for row in rows if row["seed"] not in HELD_OUT]
    held = [row for row in rows if row["seed"] in HELD_OUT]
    costs = fit.fit_events(fitted, known)
    low, high = fit.interval_of(fitted, known)
    coefficients = {
        "library": library.name,
        "corner": library.corner,
        "library_sha256": library.digest,
        "volts": library.volts,
        "nanometres": _NANOMETRES,
        "events": costs,
        "clock": round(fit.clock_of(library, _REGISTER), 6),
        "registers": fit.fit_structure(facts, known, "registers"),
        "leakage": fit.fit_structure(facts, known, "leakage_nw"),
        "interval": [round(low, 4), round(high, 4)],
    }
    model = fit.model_of(coefficients)
    programs = [_program(row, costs, known, model) for row in held]
    inside = [low <= 1 / (1 + one["error"]) <= high for one in programs]
    units = {
        unit: round(
            statistics.mean(
                abs(fit.predicted(row, costs, known)[unit] - fit.measured(row)[unit])
                / sum(fit.measured(row).values())
                for row in held
            ),
            4,
        )
        for unit in costs
    }
    figures = {
        "fitted": len(fitted),
        "held_out": len(held),
        "mean_error": round(statistics.mean(abs(one["error"]) for one in programs), 4),
        "median_error": round(statistics.median(abs(one["error"]) for one in programs), 4),
        "mean_error_with_clock": round(statistics.mean(abs(one["error_with_clock"]) for one in programs), 4),
        "mean_error_constant_energy": round(_constant(fitted, held, known), 4),
        "inside_interval": round(sum(inside) / len(inside), 3),
        "interval": coefficients["interval"],
        "mean_error_by_unit_of_total": units,
        "programs": programs,
        "shares": _shares(rows),
    }
    return figures, coefficients


def _program(
    row: dict[str, Any], costs: Mapping[str, Any], known: Mapping[str, Config], model: Any
) -> dict[str, Any]:
    config, cycles = known[row["machine"]], row["cycles_replayed"]
    data, clock = sum(fit.measured(row).values()), fit.measured_clock(row)
    ours = sum(fit.predicted(row, costs, known).values())
    clocks = sum(model.clocks(config, cycles).values())
    return {
        "machine": row["machine"],
        "seed": row["seed"],
        "cycles": row["events"]["cycles"],
        "data_pj": round(data),
        "clock_pj": round(clock),
        "error": round(ours / data - 1, 4),
        "error_with_clock": round((ours + clocks) / (data + clock) - 1, 4),
    }


def _constant(fitted: list[dict[str, Any]], held: list[dict[str, Any]], known: Mapping[str, Config]) -> float:
    """Mean error of the same model without statistics of operands: every operation costs the same."""

    def without(row: dict[str, Any]) -> dict[str, Any]:
        lanes = row["changes"]["loaded_lanes"]
        return {**row, "changes": dict.fromkeys(MEASURED, 0) | {"loaded_lanes": lanes}}

    costs = fit.fit_events([without(row) for row in fitted], known)
    return statistics.mean(abs(1 / fit.ratio(without(row), costs, known) - 1) for row in held)


def _shares(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Shares of data energy by unit, of all programs of a machine together."""
    found: dict[str, dict[str, float]] = {}
    for name in dict.fromkeys(row["machine"] for row in rows):
        sums: dict[str, float] = {}
        for row in rows:
            if row["machine"] == name:
                for unit, value in fit.measured(row).items():
                    sums[unit] = sums.get(unit, 0.0) + value
        found[name] = {unit: round(value / sum(sums.values()), 3) for unit, value in sums.items()}
    return found


def tool_figures(machine: Replayed) -> dict[str, Any]:
    """Our power beside OpenSTA's, all units of a machine, at the activities of one program."""
    rows = list(beside_the_tool(machine, 0))
    tool, same, ours = (
        [sum(row[key][part] for row in rows) for part in range(len(rows[0][key]))]
        for key in ("tool", "same_rules", "ours")
    )
    largest = max(abs(sum(row["same_rules"]) / sum(row["tool"]) - 1) for row in rows if sum(row["tool"]) > 0)
    return {
        "error_same_rules": round(abs(sum(same) / sum(tool) - 1), 7),
        "largest_error_of_a_unit": round(largest, 7),
        "tool_pj_a_cycle": {"internal": round(tool[0], 3), "switching": round(tool[1], 3)},
        # The clock pins' loads are on a net that no cell drives: the tool leaves them out.
        "ours_pj_a_cycle": {
            "internal": round(ours[0], 3),
            "switching": round(ours[1], 3),
            "clock pins": round(ours[2], 3),
        },
        "units": rows,
    }


if __name__ == "__main__":
    main()
