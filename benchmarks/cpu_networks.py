"""Whole networks on the CPU against ONNX Runtime, interleaved in one process; medians of ratios.

    python benchmarks/cpu_networks.py [--only NAME ...] [--rounds N] [--json]

ratio = our time / the peer's, one thread each, thread CPU time; below 1 we are faster. `threads2` is our wall time on
one thread over that on two, measured alternately, and `peer_threads2` the same of the peer. `fusion` is our time
without fusion over that with it. `bytes` are the arena's, `bytes_without_reuse` those without sharing.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import numpy as np
from peer import session
from vdla.codesign.models import build, sample_inputs
from vdla.compiler.cpu_driver import compile_cpu

Timed = Callable[[], object]
INT8 = "_int8"
"""What the names of quantized networks end with: QDQ models with uint8 activations, the peer's fastest form."""
NETWORKS = (
    "resnet18",
    "mobilenet",
    "dqn",
    "dcgan",
    "language_model",
    f"resnet18{INT8}",
    f"mobilenet{INT8}",
    f"dqn{INT8}",
)


def interleaved(clock: Callable[[], float], runs: list[Timed], rounds: int) -> list[list[float]]:
    """Seconds of each run in each round."""
    times: list[list[float]] = [[] for _ in runs]
    for run in runs:
        run()
    for _ in range(rounds):
        for run, seconds in zip(runs, times, strict=True):
            start = clock()
            run()
            seconds.append(clock() - start)
    return times


def ratio(numerators: list[float], denominators: list[float]) -> float:
    """Median of the rounds' ratios."""
    return round(statistics.median(a / b for a, b in zip(numerators, denominators, strict=True)), 3)


def measure(name: str, rounds: int) -> dict[str, object]:
    shipped = name.removesuffix(INT8)
    exported = build(shipped, "float" if name == shipped else "u8")
    model = exported.SerializeToString()
    feeds = {"input": sample_inputs(shipped, 1)}
    started = time.process_time()
    network = compile_cpu(model)
    compile_cpu_seconds = time.process_time() - started
    unfused = compile_cpu(model, fusion=False)
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
    )
    # The peer's threads spin for a while after each run: they are measured by themselves.
    pair = session(exported, 2)
    peer_one, peer_two = interleaved(
        time.perf_counter, [lambda: peer.run(None, feeds), lambda: pair.run(None, feeds)], rounds
    )
    network.close()
    return {
        "name": name,
        "ours_ms": round(statistics.median(ours) * 1e3, 3),
        "peer_ms": round(statistics.median(theirs) * 1e3, 3),
        "ratio": ratio(ours, theirs),
        "threads": 1,
        "threads2": ratio(one, two),
        "peer_threads2": ratio(peer_one, peer_two),
        "fusion": ratio(apart, ours),
        "error": float(np.abs(got - expected).max() / np.abs(expected).max()),
        "compile_s": round(network.compile_seconds, 2),
        "compile_cpu_s": round(compile_cpu_seconds, 2),
        "launches": len(network.launches),
        "kernels": len(network.kernels),
        "bytes": network.plan.bytes,
        "bytes_without_reuse": network.plan.bytes_without_reuse,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=list(NETWORKS))
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = []
    for name in arguments.only:
        row = measure(name, arguments.rounds)
        rows.append(row)
        if not arguments.json:
            print(
                f"{name:15} ours {row['ours_ms']:>8} ms  peer {row['peer_ms']:>8} ms  ratio {row['ratio']:>6}  "
                f"2 threads {row['threads2']}x (peer {row['peer_threads2']}x)  fusion {row['fusion']}x  "
                f"error {row['error']:.1e}  compiled in {row['compile_s']} s ({row['compile_cpu_s']} s of CPU)  "
                f"{row['bytes']} bytes ({row['bytes_without_reuse']} without reuse)",
                flush=True,
            )
    if arguments.json:
        print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
