"""The records that ship with the package: the papers' layers on the preset configurations, ResNet-18 in its place.

    python benchmarks/shipped_records.py [--configs vta osdi18 edge8 tiny] [--trials 96] [--in-place 1500]
                                         [--jobs 2] [--write]

Each configuration gets `--trials` of the tuner for each of C1-C12 and D1-D9 by themselves, and for ResNet-18 the layers
that are not among them, then `--in-place` trials in the whole network. The best of each workload is kept. With --write
those of these configurations are replaced in compiler/tune/records/shipped/vdla.jsonl. Trials on `tiny`, whose array
has 16 multipliers, take ten times as long as the others'.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from vdla.codesign import models
from vdla.codesign.named_layers import CONVOLUTIONS, DEPTHWISE
from vdla.codesign.tune_options import Options, Watchers
from vdla.codesign.tune_run import tune_network, tune_workloads
from vdla.codesign.workload_names import accelerator_workload
from vdla.compiler.tune.measure.backends import InProcess
from vdla.compiler.tune.records.book import best_records, shipped_files
from vdla.compiler.tune.records.files import write_records
from vdla.compiler.tune.records.network import is_trial_in_place
from vdla.compiler.tune.records.record import Record, describe_target
from vdla.isa.config import load_config

ROOT = Path(__file__).parents[1]
SHIPPED = ROOT / "compiler" / "tune" / "records" / "shipped" / "vdla.jsonl"
NETWORK = "resnet18"


def tuned(config: str, trials: int, in_place: int, folder: Path) -> tuple[list[Record], list[str]]:
    """The best records of one preset, and lines on what they gain."""
    machine, records = load_config(config), list[Record]()
    watchers = Watchers(write=records.append)
    names = [f"conv2d:{name}" for name in CONVOLUTIONS] + [f"depthwise:{name}" for name in DEPTHWISE]
    named = [(name, accelerator_workload(name, machine)) for name in names]
    alone = Options(trials=trials * len(named), in_place=0, batch=16, seed=0, strategy="evolution")
    with InProcess() as backend:
        document = tune_workloads(machine, named, alone, backend, [], [], watchers)
        print(config, "layers done", file=sys.stderr, flush=True)
        path = folder / f"{NETWORK}-{config}.onnx"
        models.write(path, NETWORK)
        options = Options(trials=trials * 20, in_place=in_place, batch=16, seed=0, strategy="evolution")
        network = tune_network(machine, path, options, backend, records, [], watchers)
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


def main() -> None:
    """Tune, print, and replace the file if told to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--configs", nargs="+", default=["vta", "osdi18", "edge8", "tiny"])
    parser.add_argument("--trials", type=int, default=96, help="of each layer")
    parser.add_argument("--in-place", type=int, default=1500)
    parser.add_argument("--jobs", type=int, default=2, help="configurations at a time")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
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
        targets = [describe_target(load_config(config)) for config in options.configs]
        others = [record for records, _ in shipped_files() for record in records]
        kept = [record for record in others if record.task.target not in targets]
        write_records(SHIPPED, kept + [record for records, _ in found for record in records])


if __name__ == "__main__":
    main()
