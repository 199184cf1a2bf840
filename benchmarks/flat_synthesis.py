"""Synthesis by module against synthesis of a whole flattened machine: area of logic, and the longest path.

    python benchmarks/flat_synthesis.py [--machine NAME ...] [--liberty FILE|NAME] [--write]

The model of area and clock (`benchmarks/area_model.py`) is fitted to machines that are mapped module by module, as
`vdla synth --for cells` does. Here each machine is flattened and mapped in one piece, with the same steps, library and
memory macros, and timed by the same tool. Its figures are compared with synthesis by module and with the model. A
machine of 4x4 takes some minutes. --write keeps the figures in benchmarks/results/flat_synthesis.json.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from typing import Any

from vdla.benchmarks.harness.command_line import LIBERTY, WRITE, Given, Option, run_script
from vdla.benchmarks.harness.energy_rows import machines
from vdla.benchmarks.harness.results import write_results
from vdla.codesign.technology.cell_model import shipped_cell_model
from vdla.hw.synthesis.cells.area import area_by_module
from vdla.hw.synthesis.cells.design import CellDesign, map_flat, map_verilog
from vdla.hw.synthesis.cells.liberty import Liberty
from vdla.hw.synthesis.cells.libraries import find_library
from vdla.hw.synthesis.cells.timing import longest_paths
from vdla.hw.verilog import TOP, generate_verilog
from vdla.isa.config import Config

MACHINES = ("tiny", "4x8", "4x4 bus 16")
"""Machines that are flattened by default. They are small, because every flattened machine is mapped from scratch."""


OPTIONS = (
    Option(
        "--machine", "machines of the energy model", choices=list(machines()), nargs="+", default=MACHINES
    ),
    LIBERTY,
    WRITE,
)


def main(options: Given) -> None:
    library = find_library(options.liberty)
    rows: list[dict[str, Any]] = []
    for name in options.machine:
        rows.append(compared(machines()[name], library))
        print(json.dumps(rows[-1]), flush=True)
    figures = summary(rows)
    print(json.dumps(figures, indent=2))
    if options.write:
        write_results("flat_synthesis", {"library": library.name, **figures, "machines": rows})


def compared(config: Config, library: Liberty) -> dict[str, Any]:
    """Logic area (square micrometres), number of flip-flops and longest path (ns) of the machine `config` in cells of
    `library`: synthesized flattened ("flattened"), synthesized module by module ("by_module"), and predicted by the
    model ("model", without flip-flops).
    """
    verilog = generate_verilog(config)
    by_module = _figures(map_verilog(verilog, library, top=TOP, report=_quiet))
    flat = _figures(map_flat(verilog, library, top=TOP, report=_quiet))
    ours = shipped_cell_model().predict(config)
    return {
        "machine": config.name,
        "flattened": flat,
        "by_module": by_module,
        "model": {"logic_um2": round(1e6 * sum(ours.logic.values()), 1), "ns": round(ours.longest_ns, 4)},
    }


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over all machines. "flattened_over_by_module": by what fraction the figures of flattened synthesis exceed
    those of synthesis by module. "mean_error_of_model": relative error of the model's predictions against flattened
    synthesis.
    """

    def mean(name: str, key: str) -> float:
        return round(statistics.mean(row["flattened"][key] / row[name][key] - 1 for row in rows), 4)

    def error(key: str) -> float:
        return round(statistics.mean(abs(row["model"][key] / row["flattened"][key] - 1) for row in rows), 4)

    return {
        "flattened_over_by_module": {
            "logic": mean("by_module", "logic_um2"),
            "flip_flops": mean("by_module", "flip_flops"),
            "path": mean("by_module", "ns"),
        },
        "mean_error_of_model": {"logic": error("logic_um2"), "path": error("ns")},
    }


def _figures(design: CellDesign) -> dict[str, Any]:
    modules = area_by_module(design).values()
    path = longest_paths(design, report=_quiet)[0]
    return {
        "logic_um2": round(sum(count * own.logic for count, own in modules), 1),
        "flip_flops": sum(count * own.flip_flops for count, own in modules),
        "memory_bits": sum(count * own.memory_bits for count, own in modules),
        "ns": round(path.ns, 4),
        "ends_in": path.end,
    }


def _quiet(text: str) -> None:
    """Ignores a line of text on the progress of synthesis."""


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
