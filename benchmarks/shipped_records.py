"""Makes the tuning records that ship with the package, on the preset configurations: records of the single layers that
the TVM paper measures, and of ResNet-18's layers inside the whole network.

    python benchmarks/shipped_records.py [--configs vta osdi18 edge8 tiny] [--trials 96] [--in-place 1500]
                                         [--jobs 2] [--write]
    python benchmarks/shipped_records.py --measure [--configs ...] [--write]

For each configuration, the tuner makes `--trials` trials for each convolution C1-C12 (of ResNet-18) and D1-D9 (of
MobileNet) and for each layer of ResNet-18 that is not among these, then `--in-place` trials in the whole network. The
file gets the best record of each workload. With --write the records of these configurations are replaced in
compiler/records/shipped/vdla.jsonl. Trials on `tiny`, whose array has 16 multipliers, take ten times as long as on
other presets.

With --measure nothing is searched: the schedules in the file are measured again. This is needed after a change of the
compiler that alters their programs. A schedule that has become worse than the default is replaced by the default.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from vdla.benchmarks.harness.command_line import JOBS, TRIALS, WRITE, Given, Option, run_script
from vdla.codesign import models
from vdla.codesign.named_layers import CONVOLUTIONS, DEPTHWISE
from vdla.codesign.tuning.accelerator import AcceleratorTunable, network_trials
from vdla.codesign.tuning.options import Options, Watchers
from vdla.codesign.tuning.session import tune
from vdla.codesign.tuning.target import Run
from vdla.compiler.records.book import best_records, shipped_book, shipped_files
from vdla.compiler.records.files import write_records
from vdla.compiler.records.network import best_settings, is_trial_in_place
from vdla.compiler.records.package_identity import compiler_identity
from vdla.compiler.records.record import Record
from vdla.compiler.templates.vdla.read_workload import workload_from_dict
from vdla.compiler.tune.measure.backends import InProcess
from vdla.compiler.tune.measure.measure_vdla import AcceleratorTask, measure
from vdla.isa.config import load_config

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = ROOT / "compiler" / "records" / "shipped" / "vdla.jsonl"
NETWORK = "resnet18"


def tuned(config: str, trials: int, in_place: int, folder: Path) -> tuple[list[Record], list[str]]:
    """The best records of the preset `config` from `trials` trials for each layer alone and `in_place` trials within
    the whole network; and lines of text that state their gains. The network's file is written into `folder`. Raises
    SystemExit if a schedule computes other outputs than the default.
    """
    machine, records = load_config(config), list[Record]()
    watchers = Watchers(write=records.append)
    names = [f"conv2d:{name}" for name in CONVOLUTIONS] + [f"depthwise:{name}" for name in DEPTHWISE]
    tunable = AcceleratorTunable(machine)
    alone = Options(trials=trials * len(names), in_place=0, batch=16, seed=0, strategy="evolution")
    with InProcess() as backend:
        document = tune(tunable, None, names, Run(options=alone, backend=backend, watchers=watchers))
        print(config, "layers done", file=sys.stderr, flush=True)
        path = folder / f"{NETWORK}-{config}.onnx"
        models.write(path, NETWORK)
        options = Options(trials=trials * 20, in_place=in_place, batch=16, seed=0, strategy="evolution")
        run = Run(options=options, backend=backend, known=tuple(records), watchers=watchers)
        network = tune(tunable, path, (), run)
    checked = [*document["tasks"], *network["tasks"], network["network"]]
    if any(task["outputs_equal"] is False for task in checked):
        raise SystemExit(f"{config}: a schedule computes something else")
    lines = [
        f"{config:8}{task['name']:16}{task['default']:12,.0f}{task['best']:12,.0f}"
        for task in document["tasks"]
    ]
    found = network["network"]
    lines.append(
        f"{config:8}{NETWORK:16}{found['default_cycles']:12,.0f}{found['tuned_cycles']:12,.0f}"
        f"  {found['distance_closed']:.1%} of the distance to {found['bound_cycles']:,.0f} cycles"
    )
    return best_records((record for record in records if not is_trial_in_place(record)), 1), lines


def measured(config: str, folder: Path) -> list[Record]:
    """The shipped records of the preset `config`, each with the cycles that its schedule takes with the present
    compiler. If a layer's schedule is now worse than the default, its record gets the default's knobs (none) and
    cycles. Prints the records whose cycles differ. The network's file is written into `folder`.
    """
    machine, book = load_config(config), shipped_book()
    path = folder / f"{NETWORK}-{config}.onnx"
    models.write(path, NETWORK)
    network = network_trials(path, machine)
    again: list[Record] = []
    for records, _ in shipped_files():
        for record in records:
            if record.task.target != machine.described:
                continue
            if record.task.workload.get("template") == "network":
                settings = best_settings(book, machine, network.key, network.workloads) or {}
                cost, knobs = float(network.cycles(settings)), record.knobs
            else:
                task = AcceleratorTask.of(machine, workload_from_dict(record.task.workload))
                choices = [(measure(task, knobs or None).cost, knobs) for knobs in (record.knobs, {})]
                cost, knobs = min(choices, key=lambda choice: choice[0])
            if cost != record.cost:
                print(f"{config:8}{record.task.workload['template']:20}{record.cost:12,.0f}{cost:12,.0f}")
            again.append(replace(record, cost=cost, knobs=knobs, compiler=compiler_identity("vdla")))
    return again


OPTIONS = (
    Option(
        "--configs",
        "presets whose records are made",
        nargs="+",
        default=["vta", "osdi18", "edge8", "tiny"],
        metavar="NAME",
    ),
    TRIALS.but(default=96, help="number of trials of each layer"),
    Option("--in-place", "number of trials in the whole network ResNet-18", int, 1500, metavar="N"),
    JOBS.but(help="number of configurations that are tuned at the same time"),
    WRITE.but(help="replace the records of these configurations in the shipped file"),
    Option("--measure", "measure the shipped schedules again, without a search", flag=True),
)


def main(options: Given) -> None:
    if options.measure:
        print(f"{'config':8}{'template':20}{'recorded':>12}{'today':>12}  cycles")
        with tempfile.TemporaryDirectory() as folder:
            again = [measured(config, Path(folder)) for config in options.configs]
        if options.write:
            keep(options.configs, [record for records in again for record in records])
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool,
    ):
        work = partial(tuned, trials=options.trials, in_place=options.in_place, folder=Path(folder))
        found = list(pool.map(work, options.configs))
    print(f"{'config':8}{'layer':16}{'default':>12}{'tuned':>12}  cycles")
    for _, lines in found:
        print(*lines, sep="\n")
    if options.write:
        keep(options.configs, [record for records, _ in found for record in records])


def keep(configs: Sequence[str], records: list[Record]) -> None:
    """Writes `records` to the shipped file in place of its records of the presets `configs`."""
    targets = [load_config(config).described for config in configs]
    others = [record for shipped, _ in shipped_files() for record in shipped]
    write_records(SHIPPED, [record for record in others if record.task.target not in targets] + records)


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
