"""Whole float32 networks on the CPU against ONNX Runtime, interleaved in one process; medians of ratios.

    python benchmarks/cpu_networks.py [--only NAME ... | --files A.onnx ... | --originals [NAME ...]] [--rounds N]
                                      [--json] [--write] [--again]

ratio = our time / time of ONNX Runtime (the "peer"), in thread CPU time on one thread each. Below 1 we are faster;
`vdla bench` shows the inverse. `threads2` is our wall time on one thread over our wall time on two, measured
alternately; `peer_threads2` is the same for the peer. `fusion` is our time without fusion over our time with fusion.
`bytes` is the size of the arena (memory for intermediate tensors), `bytes_without_reuse` its size if tensors share no
memory.

With `--files` the networks come from ONNX files instead, and run on one thread only; benchmarks/outside_networks.py
makes such files. With `--originals` they are the networks of codesign/models/originals (all, or only NAMEs) in float32
at their original size, which need no torch. With `--write` each row then goes to benchmarks/results/cpu_originals.json
as soon as it is measured. An interrupted run continues: rows of this commit that the file already has are measured
again only with `--again`. Exit code 1: outputs of a network differ from the peer's.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from vdla.benchmarks.harness.case import relative_error
from vdla.benchmarks.harness.command_line import AGAIN, ONLY, OUTPUT, ROUNDS, Given, Option, run_script
from vdla.benchmarks.harness.networks import NETWORKS
from vdla.benchmarks.harness.originals import figures, measured
from vdla.benchmarks.harness.output import finish, measure_all
from vdla.benchmarks.harness.outside import RESULTS_NAME, OutsideRow, measure_file
from vdla.benchmarks.harness.peer import session
from vdla.benchmarks.harness.results import write_results
from vdla.codesign.models import build, sample_inputs
from vdla.codesign.models.originals import NAMES as ORIGINALS
from vdla.codesign.timing import interleaved, ratio
from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.pipeline import compile_kernels


def measure(name: str, rounds: int) -> dict[str, object]:
    shipped, form = NETWORKS[name]
    exported = build(shipped, form)
    model = exported.SerializeToString()
    feeds = {"input": sample_inputs(shipped, 1)}
    started = time.process_time()
    network = compile_kernels(model, cpu_now())
    compile_cpu_seconds = time.process_time() - started
    unfused = compile_kernels(model, cpu_now(), fusion=False)
    peer = session(exported)
    expected = np.asarray(peer.run(None, feeds)[0])
    got = network.run(feeds)["output"]
    ours, theirs, apart = interleaved(
        time.thread_time,
        [lambda: network.run(feeds), lambda: peer.run(None, feeds), lambda: unfused.run(feeds)],
        rounds,
    )
    one, two = interleaved(
        time.perf_counter,
        [lambda: network.run(feeds), lambda: network.run(feeds, threads=2)],
        rounds,
        alone=True,
    )
    pair = session(exported, 2)
    peer_one, peer_two = interleaved(
        time.perf_counter,
        [lambda: peer.run(None, feeds), lambda: pair.run(None, feeds)],
        rounds,
        alone=True,
    )
    network.close()
    return {
        "name": name,
        "ours_ms": round(statistics.median(ours) * 1e3, 3),
        "peer_ms": round(statistics.median(theirs) * 1e3, 3),
        "ratio": round(ratio(ours, theirs), 3),
        "threads": 1,
        "threads2": round(ratio(one, two), 3),
        "peer_threads2": round(ratio(peer_one, peer_two), 3),
        "fusion": round(ratio(apart, ours), 3),
        "error": relative_error(got, expected),
        "compile_s": round(network.compile_seconds, 2),
        "compile_cpu_s": round(compile_cpu_seconds, 2),
        "launches": len(network.launches),
        "kernels": len(network.kernels),
        "bytes": network.plan.bytes,
        "bytes_without_reuse": network.plan.bytes_without_reuse,
    }


def measure_files(paths: Sequence[Path], rounds: int, *, write: bool) -> Iterator[dict[str, Any]]:
    """Measures the networks in the ONNX files `paths`, each in `rounds` rounds; yields the row of each as soon as it is
    measured. With `write`, all rows are written to benchmarks/results at the end.
    """
    rows: list[OutsideRow] = []
    for path in paths:
        rows.append(measure_file(path, rounds))
        yield asdict(rows[-1])
    if write:
        write_results(RESULTS_NAME, {"rows": [asdict(row) for row in rows]})


def report(rows: Iterable[Mapping[str, Any]], *, quiet: bool) -> list[Mapping[str, Any]]:
    """Prints each of `rows` as soon as it is measured, unless `quiet`; returns them as a list."""
    kept: list[Mapping[str, Any]] = []
    for row in rows:
        kept.append(row)
        if not quiet:
            print(
                f"{row['name']:32} ours {row['ours_ms']:>8} ms  peer {row['peer_ms']:>8} ms  ratio {row['ratio']:>6}  "
                f"error {row['error']:.1e} ({row['check']})  compiled in {row['compile_s']} s of CPU",
                flush=True,
            )
    return kept


def line(row: Mapping[str, Any]) -> str:
    return (
        f"{row['name']:14} ours {row['ours_ms']:>8} ms  peer {row['peer_ms']:>8} ms  ratio {row['ratio']:>6}  "
        f"2 threads {row['threads2']}x (peer {row['peer_threads2']}x)  fusion {row['fusion']}x  "
        f"error {row['error']:.1e}  compiled in {row['compile_s']} s ({row['compile_cpu_s']} s of CPU)  "
        f"{row['bytes']} bytes ({row['bytes_without_reuse']} without reuse)"
    )


OPTIONS = (
    ONLY.but(default=list(NETWORKS), group="networks"),
    Option(
        "--files", "measure networks from these ONNX files", Path, nargs="+", metavar="FILE", group="networks"
    ),
    Option(
        "--originals",
        "measure the networks of codesign/models/originals (default: all of them)",
        nargs="*",
        choices=ORIGINALS,
        metavar="NAME",
        group="networks",
    ),
    ROUNDS.but(default=25),
    *OUTPUT,
    AGAIN.but(help="measure again the originals that the results file has"),
)


def main(options: Given) -> int:
    if options.files or options.originals is not None:
        if options.files:
            made = measure_files(options.files, options.rounds, write=options.write)
        else:
            names = options.originals or ORIGINALS
            made = measured(names, options.rounds, write=options.write, again=options.again)
        rows = report(made, quiet=options.json)
        if options.json:
            print(json.dumps({"rows": rows}))
        elif options.originals is not None:
            found = figures(rows)
            print(f"{found['networks']} networks: geometric mean {found['geomean']}, worst {found['worst']}")
        return any(row["check"] == "wrong" for row in rows)
    rows = measure_all(options.only, lambda name: measure(name, options.rounds), line, quiet=options.json)
    finish(options, "cpu_networks", {"rows": rows})
    return 0


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
