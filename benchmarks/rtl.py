"""The RTL against the simulator on one machine: ResNet-18 on Verilator, on the simulator with data, and timing alone.

    python benchmarks/rtl.py [--config vta] [--model resnet18] [--json] [--write]

Times are thread CPU time and wall time of the launch, libraries and compiled code there; the simulator's are medians of
5. All that the RTL tells is compared with the simulator's: a difference ends the benchmark with exit code 1. With
`--write` the figures go to benchmarks/results/rtl.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from vdla.codesign import models
from vdla.codesign.bench.results import write_results
from vdla.codesign.bench.timing import median_seconds
from vdla.codesign.evaluate import sample_arrays
from vdla.codesign.rtl_run import library_for, run_on_rtl
from vdla.compiler.driver import compile_model
from vdla.compiler.runtime.executor import run
from vdla.isa.config import load_config


def measure(model: str, config_name: str) -> dict[str, object]:
    """Every figure by name; `differences` lists what the RTL told otherwise than the simulator."""
    config = load_config(config_name)
    compiled = compile_model(models.build(model).SerializeToString(), config)
    launches = sample_arrays(compiled.graph, 1)
    started = time.perf_counter()
    optimize = library_for(compiled)
    library_seconds = time.perf_counter() - started
    started = time.perf_counter()
    result = run_on_rtl(compiled, launches, optimize=optimize)
    wall = time.perf_counter() - started
    cycles = result.simulated.simulation.cycles
    with_data = median_seconds(lambda: run(compiled, dict(launches[0])))
    timing = median_seconds(lambda: run(compiled, {}, data=False))
    on_rtl = result.simulated.seconds
    return {
        "model": model,
        "config": config.name,
        "cycles": cycles,
        "differences": list(result.differences),
        "library, s (0 where it was there)": round(library_seconds, 1),
        "RTL, CPU s": on_rtl,
        "RTL and its comparison, wall s": wall,
        "RTL, k cycles/s": cycles / on_rtl / 1e3,
        "simulator with data, CPU s": with_data,
        "simulator with data, M cycles/s": cycles / with_data / 1e6,
        "timing alone, CPU s": timing,
        "Verilator over simulator with data": on_rtl / with_data,
        "Verilator over timing alone": on_rtl / timing,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", default="vta", help="a preset or a TOML file")
    parser.add_argument("--model", default="resnet18", help="resnet18, small_cnn or mlp")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/rtl.json")
    options = parser.parse_args()
    figures = measure(options.model, options.config)
    if options.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name}: {value:.3f}" if isinstance(value, float) else f"{name}: {value}")
    if options.write:
        write_results("rtl", figures, packages=("amaranth", "verilator"))
    if figures["differences"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
