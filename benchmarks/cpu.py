"""CPU kernels against ONNX Runtime, one thread each, interleaved in one process; medians of ratios of thread CPU time.

    python benchmarks/cpu.py [--only NAME ...] [--others] [--rounds N] [--json] [--write]

ratio = peer's time / ours, as in `vdla bench`, whose rows these are, without the networks. `--others`: shapes of other
networks than the papers', with sizes that are multiples of nothing. `--write`: rows and geometric means go to
benchmarks/results/cpu_layers.json or, with `--others`, cpu_other_layers.json; a part of the rows is not written.
"""

from __future__ import annotations

import json
from argparse import Namespace

from vdla.benchmarks.harness.case import RATIO_IS, Row
from vdla.benchmarks.harness.command_line import JSON, ONLY, ROUNDS, WRITE, flag, run_script
from vdla.benchmarks.harness.peer import peer_version
from vdla.benchmarks.harness.results import write_results
from vdla.benchmarks.harness.suite import choose, geometric_means, measured, other_suite, paper_suite

OPTIONS = (
    ONLY.but(part=True),
    flag("--others", "shapes of other networks than the papers'"),
    ROUNDS.but(default=9),
    JSON,
    WRITE,
)


def main(options: Namespace) -> None:
    layers = tuple(entry for entry in paper_suite() if entry.group != "networks")
    entries = other_suite() if options.others else layers
    if options.only:
        entries = (*layers, *other_suite())
    rows: list[Row] = []
    for entry in choose(entries, options.only):
        row = measured(entry, threads=1, rounds=options.rounds)
        rows.append(row)
        if not options.json:
            print(
                f"{row.name:18} ours {row.ours_ms:>9} ms {row.gflops:>7} GFLOP/s  peer {row.peer_ms:>9} ms"
                f"  ratio {row.ratio:>6}  error {row.error:.1e}",
                flush=True,
            )
    document = {
        "peer": peer_version(),
        "ratio_is": RATIO_IS,
        "threads": 1,
        "geometric_means": geometric_means(entries, rows),
        "rows": [row.to_dict() for row in rows],
    }
    if options.json:
        print(json.dumps(document))
    if options.write:
        write_results("cpu_other_layers" if options.others else "cpu_layers", document)


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
