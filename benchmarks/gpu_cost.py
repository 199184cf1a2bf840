"""Errors of the cost models by which GPU templates choose tiles: estimates compared with times measured on a card.

    python benchmarks/gpu_cost.py [RECORDS.jsonl ...] [--arch sm_90a] [--all] [--json]

Without records, the candidates are those of benchmarks/results/gpu-tiles-nvidia-h100-80gb-hbm3.json. They were drawn at
random among candidates that the cost model estimates at no more than 2.5 to 4 times the best time. The constants of the
cost model were fitted to them. Candidates of another card come from the tuner:

    vdla tune --target cuda --strategy random --trials 200 --workload conv2d:C2 -o RECORDS.jsonl

Prints for each template the number of candidates, the slowdown of the cost model's first choice against the best
candidate (geometric mean and worst), and the spread of its errors (`Judgement.spread`); with --all for each workload.
Needs no GPU.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from vdla.benchmarks.harness.command_line import JSON, Given, Option, run_script
from vdla.benchmarks.harness.gpu_costs import Judgement, judge, mean_regret, measured_in, read_tiles
from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.records.files import read_records
from vdla.util.errors import UserError

TILES = Path(__file__).parent / "results" / "gpu-tiles-nvidia-h100-80gb-hbm3.json"


OPTIONS = (
    Option(
        "records",
        "files of tuning records (default: the committed candidates)",
        Path,
        nargs="*",
        metavar="RECORDS.jsonl",
    ),
    Option("--arch", "architecture of the card on which the records were measured", default="sm_90a"),
    Option("--all", "print a line for every workload", flag=True),
    JSON,
)


def main(options: Given) -> None:
    judgements = judged(options.records, options.arch)
    if options.json:
        print(json.dumps([asdict(judgement) for judgement in judgements]))
    else:
        report(judgements, every=options.all)


def judged(records: list[Path], arch: str) -> list[Judgement]:
    if records:
        read = [record for path in records for record in read_records(path)[0]]
        measured = measured_in(read, cuda_target(arch))
    else:
        measured = read_tiles(TILES)
    if not measured:
        raise UserError("no candidates with knobs were measured on a GPU")
    return [judge(each) for each in measured]


def report(judgements: list[Judgement], *, every: bool) -> None:
    if every:
        for j in judgements:
            print(
                f"{j.template:20} {j.name:28} {j.candidates:4} candidates, best {j.best * 1e6:8.2f} us, "
                f"regret {j.regret:.2f}, spread {j.spread:.2f}, bias {j.bias:.2f}"
            )
    for template in dict.fromkeys(j.template for j in judgements):
        own = [j for j in judgements if j.template == template]
        worst = max(own, key=lambda j: j.regret)
        spread = sum(j.spread * j.candidates for j in own) / sum(j.candidates for j in own)
        print(
            f"{template:20} {len(own):3} workloads, {sum(j.candidates for j in own):5} candidates: regret "
            f"{mean_regret(own):.3f} (worst {worst.regret:.2f}, {worst.name}), spread {spread:.2f}"
        )


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
