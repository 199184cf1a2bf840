"""CPU kernels against ONNX Runtime, one thread each, interleaved in one process; medians of ratios of thread CPU time.

    python benchmarks/cpu.py [--only NAME ...] [--others] [--rounds N] [--json]

ratio = peer's time / ours, as in `vdla bench`, whose rows these are, without the networks. `--others`: shapes beside
those of the papers, from other networks and with sizes that divide nothing.
"""

from __future__ import annotations

import argparse
import json

from vdla.codesign.bench.suite import choose, measured, other_suite, paper_suite


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--others", action="store_true")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    layers = tuple(entry for entry in paper_suite() if entry.group != "networks")
    entries = other_suite() if arguments.others else layers
    if arguments.only:
        entries = (*layers, *other_suite())
    rows = []
    for entry in choose(entries, arguments.only):
        row = measured(entry, threads=1, rounds=arguments.rounds)
        rows.append(row.to_dict())
        if not arguments.json:
            print(
                f"{row.name:18} ours {row.ours_ms:>9} ms {row.gflops:>7} GFLOP/s  peer {row.peer_ms:>9} ms"
                f"  ratio {row.ratio:>6}  error {row.error:.1e}",
                flush=True,
            )
    if arguments.json:
        print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
