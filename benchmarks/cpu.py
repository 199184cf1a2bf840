"""CPU kernels against ONNX Runtime, one thread each, interleaved in one process; medians of ratios of thread CPU time.

    python benchmarks/cpu.py [--only NAME ...] [--others] [--rounds N] [--json] [--write]

ratio = peer's time / ours, as in `vdla bench`, whose rows these are, without the networks. `--others`: shapes of other
networks than the papers', with sizes that are multiples of nothing. `--write`: rows and geometric means go to
benchmarks/results/cpu_layers.json or, with `--others`, cpu_other_layers.json; a part of the rows is not written.
"""

from __future__ import annotations

import argparse
import json

from vdla.benchmarks.harness.case import RATIO_IS, Row
from vdla.benchmarks.harness.peer import peer_version
from vdla.benchmarks.harness.results import write_results
from vdla.benchmarks.harness.suite import choose, geometric_means, measured, other_suite, paper_suite


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--others", action="store_true")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    if arguments.write and arguments.only:
        parser.error("--write takes all rows: leave out --only")
    layers = tuple(entry for entry in paper_suite() if entry.group != "networks")
    entries = other_suite() if arguments.others else layers
    if arguments.only:
        entries = (*layers, *other_suite())
    rows: list[Row] = []
    for entry in choose(entries, arguments.only):
        row = measured(entry, threads=1, rounds=arguments.rounds)
        rows.append(row)
        if not arguments.json:
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
    if arguments.json:
        print(json.dumps(document))
    if arguments.write:
        write_results("cpu_other_layers" if arguments.others else "cpu_layers", document)


if __name__ == "__main__":
    main()
