"""Transformers on the CPU against ONNX Runtime, interleaved in one process; medians of ratios.

    python benchmarks/transformers.py [--only NAME ...] [--rounds N] [--json] [--write]

BERT-base (12 layers of width 768, a sequence of 128), GPT-2 small with a prompt of 128 tokens, and one decode step of
GPT-2 and of a Llama: one token after 127 others, whose keys and values are inputs and outputs. Weights are seeded;
`vdla models NAME --form float --layers 12` writes the models. ratio = our time / ONNX Runtime's, one thread each,
thread CPU time; below 1 we are faster. `error` is max |a - b| / max |b| of the output that differs most, and must be
within 1e-5. `compile_s`: time to compile the model's bytes without a cache, as wall time and CPU time of this process.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from vdla.benchmarks.harness.case import relative_error
from vdla.benchmarks.harness.command_line import ONLY, OUTPUT, ROUNDS, Given, run_script
from vdla.benchmarks.harness.output import finish, measure_all
from vdla.benchmarks.harness.peer import session
from vdla.codesign.models.transformers import build_transformer, token_inputs
from vdla.codesign.timing import interleaved, ratio
from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.pipeline import compile_kernels

CASES = {
    "bert": ("bert", 128, 12),
    "gpt2_prompt": ("gpt2", 128, 12),
    "gpt2_decode": ("gpt2_decode", 127, 12),
    "llama_decode": ("llama_decode", 127, 12),
}
"""The measured models as (model of `codesign.models`, number of tokens, number of layers), by the name of the row."""
TOLERANCE = 1e-5
"""Largest allowed error, relative to the greatest value of an output."""


def measure(name: str, rounds: int) -> dict[str, object]:
    """Compiles the model `name` of CASES and measures it and ONNX Runtime in turns, in `rounds` rounds; returns its row
    of the results.
    """
    model, tokens, layers = CASES[name]
    exported = build_transformer(model, tokens=tokens, layers=layers)
    data, feeds = exported.SerializeToString(), token_inputs(exported)
    began, cpu_began = time.perf_counter(), time.process_time()
    network = compile_kernels(data, cpu_now())
    compiled, cpu_compiled = time.perf_counter() - began, time.process_time() - cpu_began
    try:
        peer = session(exported)
        got = network.run(feeds)
        error = max(
            relative_error(got[info.name], np.asarray(expected))
            for info, expected in zip(exported.graph.output, peer.run(None, feeds), strict=True)
        )
        ours, theirs = interleaved(
            time.thread_time, [lambda: network.run(feeds), lambda: peer.run(None, feeds)], rounds
        )
    finally:
        network.close()
    return {
        "name": name,
        "tokens": tokens,
        "layers": layers,
        "ours_ms": round(statistics.median(ours) * 1e3, 3),
        "peer_ms": round(statistics.median(theirs) * 1e3, 3),
        "ratio": round(ratio(ours, theirs), 3),
        "error": error,
        "right": error <= TOLERANCE,
        "compile_s": round(compiled, 2),
        "compile_cpu_s": round(cpu_compiled, 2),
        "threads": 1,
        "kernels": len(network.kernels),
    }


def line(row: Mapping[str, Any]) -> str:
    return (
        f"{row['name']:14} ours {row['ours_ms']:>8} ms  peer {row['peer_ms']:>8} ms  ratio {row['ratio']:>6}  "
        f"error {row['error']:.1e}  compiled in {row['compile_s']} s ({row['compile_cpu_s']} s of CPU)"
    )


OPTIONS = (ONLY.but(default=list(CASES), choices=list(CASES)), ROUNDS.but(default=15), *OUTPUT)


def main(options: Given) -> int:
    rows = measure_all(options.only, lambda name: measure(name, options.rounds), line, quiet=options.json)
    finish(options, "transformers", {"rows": rows})
    return not all(row["right"] for row in rows)


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
