"""Overhead of the Python package `vdla`: the time of `vdla.simulate` without data over the time of the simulator
itself, and the time of `vdla.compile` (for this processor) for a network that is in the cache.

    python benchmarks/front_door.py [--repeat N] [--network NAME ...] [--json] [--write]

Networks with seeded weights: DenseNet-121 (`densenet121`) and an encoder of 24 layers of 128 numbers on 32 tokens
(`encoder24`). For the accelerator, the networks are quantized as a new user would (`harness.quantized`); the
accelerator is `vta` with the extensions that the networks need and a chain memory (on-chip memory between layers) of
16,384 bytes. Times are medians of thread CPU seconds: `simulator` is the time of `vdla.sim.simulate` without data,
`simulate` the time of `vdla.simulate`, measured one after the other in each round; `ratio` is the median of the rounds'
ratios. `account_us` are microseconds per layer for the first access to the report's layers. `first_compile` are CPU
seconds of all threads for `vdla.compile` of the float32 network for this processor with an empty cache;
`second_compile` is the median of the calls after it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import process_time, thread_time
from typing import Any

import numpy as np
import onnx

import vdla
from vdla.benchmarks.encoders import embeddings
from vdla.benchmarks.harness.command_line import OUTPUT, RUNS, Given, Option, run_script
from vdla.benchmarks.harness.output import finish
from vdla.benchmarks.harness.quantized import quantize_qdq, vta_with
from vdla.codesign.models.originals import build_original
from vdla.codesign.models.transformers.bert import BertSizes, bert_encoder
from vdla.compiler.runtime.accelerator import AcceleratorExecutable
from vdla.sim import simulate

CACHE = "XDG_CACHE_HOME"
CHAIN_BYTES, TOKENS, SEED, CALIBRATIONS = 16384, 32, 5, 2
SIZES = BertSizes(layers=24, width=128, heads=2, inner=512)


Feeds = Iterator[dict[str, np.ndarray]]


def densenet121() -> tuple[onnx.ModelProto, Feeds]:
    """DenseNet-121 as an ONNX model, and its calibration data."""
    rng = np.random.default_rng(SEED)
    images = (rng.standard_normal((1, 3, 224, 224), dtype=np.float32) for _ in range(CALIBRATIONS))
    return build_original("densenet121"), ({"x": image} for image in images)


def encoder24() -> tuple[onnx.ModelProto, Feeds]:
    """The transformer encoder of 24 layers as an ONNX model, and its calibration data."""
    rng = np.random.default_rng(SEED)
    return bert_encoder(0, 1, TOKENS, SIZES), (
        embeddings(rng, TOKENS, SIZES.width) for _ in range(CALIBRATIONS)
    )


NETWORKS = {"densenet121": densenet121, "encoder24": encoder24}


def seconds(call: Callable[[], object], clock: Callable[[], float] = thread_time) -> float:
    """Seconds that one call of the function `call` takes by `clock`, by default this thread's CPU time."""
    start = clock()
    call()
    return clock() - start


@contextmanager
def empty_cache(folder: Path) -> Iterator[None]:
    """A context in which this user's cache is the folder "cache" in `folder`; `folder` must not have it before."""
    before = os.environ.get(CACHE)
    os.environ[CACHE] = str(folder / "cache")
    try:
        yield
    finally:
        os.environ.pop(CACHE)
        if before is not None:
            os.environ[CACHE] = before


def measure(name: str, repeat: int) -> dict[str, Any]:
    """Measures the network `name`, with `repeat` calls of each measured function; returns its row of the results."""
    with tempfile.TemporaryDirectory() as folder:
        plain, quantized = (Path(folder) / f"{kind}.onnx" for kind in ("float", "quantized"))
        model, feeds = NETWORKS[name]()
        onnx.save(model, plain)
        quantize_qdq(plain, quantized, feeds)
        network = vdla.compile(quantized, config=replace(vta_with(), chain_buffer_bytes=CHAIN_BYTES))
        assert isinstance(network, AcceleratorExecutable)
        with empty_cache(Path(folder)):
            compiles = [
                seconds(lambda: vdla.compile(plain, target="llvm"), process_time) for _ in range(repeat)
            ]
    program, report = network.program, vdla.simulate(network)
    own, whole, account = [], [], []
    for _ in range(repeat):
        own.append(seconds(lambda: simulate(program.config, program.instructions, program.image, data=False)))
        whole.append(seconds(lambda: vdla.simulate(network)))
        report = vdla.simulate(network)
        account.append(seconds(report.rows))
    return {
        "network": name,
        "layers": len(program.groups),
        "instructions": len(program.instructions),
        "cycles": report.cycles,
        "simulator": round(median(own), 4),
        "simulate": round(median(whole), 4),
        "ratio": round(median(b / a for a, b in zip(own, whole, strict=True)), 2),
        "account_us": round(median(account) / len(program.groups) * 1e6, 1),
        "first_compile": round(compiles[0], 3),
        "second_compile": round(median(compiles[1:]), 3),
    }


OPTIONS = (
    RUNS.but(default=7),
    Option(
        "--network",
        "measure only these networks",
        choices=sorted(NETWORKS),
        nargs="+",
        default=sorted(NETWORKS),
    ),
    *OUTPUT,
)


def main(options: Given) -> None:
    rows = [measure(name, options.repeat) for name in options.network]
    lines = (
        f"{row['network']}: {row['layers']} layers, {row['cycles']:,} cycles\n"
        f"  simulator {row['simulator']:.4f} s, vdla.simulate {row['simulate']:.4f} s, ratio {row['ratio']:.2f}\n"
        f"  layers, when they are looked at: {row['account_us']:.0f} us each\n"
        f"  for this processor: {row['first_compile']:.2f} s, again {row['second_compile']:.3f} s"
        for row in rows
    )
    finish(options, "front_door", {"rows": rows}, shown=rows, lines=lines)


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
