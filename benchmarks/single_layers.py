"""Models of one convolution, plain NCHW in and out, against ONNX Runtime: C1-C12 and D1-D9.

    python benchmarks/single_layers.py [--only NAME ...] [--threads N] [--rounds N] [--write]

Each is compiled as `vdla run --device cpu` does and called as a user calls it; ONNX Runtime gets the same model, array
and number of threads. `ratio` is ONNX Runtime's time over ours, interleaved in one process, the median over the rounds:
thread CPU time for one thread, wall time for several. Outputs are compared first. --write keeps the rows in
benchmarks/results/single_layers.json.
"""

from __future__ import annotations

import math
from contextlib import closing

from vdla.benchmarks.harness.case import RATIO_IS, measure
from vdla.benchmarks.harness.command_line import ONLY, ROUNDS, WRITE, Given, Option, run_script
from vdla.benchmarks.harness.results import write_results
from vdla.benchmarks.harness.single_layers import layers, single_layer_case

OPTIONS = (
    ONLY.but(default=list(layers()), choices=list(layers()), metavar=None),
    Option("--threads", "number of threads of either side", int, 1),
    ROUNDS.but(default=25),
    WRITE,
)


def main(options: Given) -> None:
    rows = []
    for name in options.only:
        with closing(single_layer_case(name, options.threads)) as case:
            row = measure(case, options.rounds)
        rows.append(row)
        print(
            f"{name:4} ours {row.ours_ms:>8.4f} ms  peer {row.peer_ms:>8.4f} ms  ratio {row.ratio:>6.3f}  "
            f"{row.gflops:>6.1f} GFLOP/s  error {row.error:.1e}",
            flush=True,
        )
    mean = round(math.exp(sum(math.log(row.ratio) for row in rows) / len(rows)), 3)
    print(f"geometric mean of ratios {mean}")
    if options.write:
        write_results(
            "single_layers",
            {"ratio_is": RATIO_IS, "geometric_mean": mean, "rows": [row.to_dict() for row in rows]},
        )


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
