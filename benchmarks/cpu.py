"""CPU kernels against ONNX Runtime, one thread each, interleaved in one process; medians of ratios of thread CPU time.

    python benchmarks/cpu.py [--only NAME ...] [--others] [--rounds N] [--json] [--write]

ratio = time of ONNX Runtime (the "peer") / our time, as in `vdla bench`; the rows are those of `vdla bench` without
whole networks. `--others`: instead, layers of networks that the TVM paper did not measure, with sizes that are no
multiples of tiles. `--write`: rows and geometric means go to benchmarks/results/cpu_layers.json or, with `--others`,
cpu_other_layers.json; an incomplete set of rows is not written.
"""

from __future__ import annotations

from functools import partial

from vdla.benchmarks.harness.case import RATIO_IS, Row
from vdla.benchmarks.harness.command_line import ONLY, OUTPUT, ROUNDS, Given, Option, run_script
from vdla.benchmarks.harness.output import finish, measure_all
from vdla.benchmarks.harness.peer import peer_version
from vdla.benchmarks.harness.suite import choose, geometric_means, measured, other_suite, paper_suite


def line(row: Row) -> str:
    return (
        f"{row.name:18} ours {row.ours_ms:>9} ms {row.gflops:>7} GFLOP/s  peer {row.peer_ms:>9} ms"
        f"  ratio {row.ratio:>6}  error {row.error:.1e}"
    )


OPTIONS = (
    ONLY.but(part=True),
    Option("--others", "measure shapes of networks that the papers did not measure", flag=True),
    ROUNDS.but(default=9),
    *OUTPUT,
)


def main(options: Given) -> None:
    layers = tuple(entry for entry in paper_suite() if entry.group != "networks")
    entries = other_suite() if options.others else layers
    if options.only:
        entries = (*layers, *other_suite())
    measure = partial(measured, threads=1, rounds=options.rounds)
    rows = measure_all(choose(entries, options.only), measure, line, quiet=options.json)
    document = {
        "peer": peer_version(),
        "ratio_is": RATIO_IS,
        "threads": 1,
        "geometric_means": geometric_means(entries, rows),
        "rows": [row.to_dict() for row in rows],
    }
    finish(options, "cpu_other_layers" if options.others else "cpu_layers", document)


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
