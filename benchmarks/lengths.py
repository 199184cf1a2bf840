"""One artefact (compiled network) for sequences of 1 to 512 tokens, compared with a compilation for each length, on
accelerator and processor.

    python benchmarks/lengths.py [NAME ...] [--tolerance T] [--rounds N] [--json] [--write]

`accelerator` is a BERT of MiniLM's width with two layers, from embeddings on. It is quantized as in
benchmarks/language.py, runs on `vta` with the extensions of such networks, and is measured in the simulator's cycles.
`bert` is the same BERT starting at token ids, and `gpt2` is GPT-2 small with two layers on a prompt. These two are
float32 and run on this processor, artefact and static network in turns; the figures are medians of the rounds' ratios
of thread CPU time. Vocabularies have 2,048 words, weights are seeded. `ratio` is the cost of the artefact over the cost
of the network compiled for exactly that length; `worst` and `geomean` are over the lengths measured. Outputs of both
are compared: on the accelerator every bit, on the processor within 1e-5 of the greatest value. `bytes` is the size of
the artefact's file, `static_bytes` the size of a file for 512 tokens only.
"""

from __future__ import annotations

import json
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vdla.benchmarks.harness.case import relative_error
from vdla.benchmarks.harness.command_line import OUTPUT, ROUNDS, Given, Option, names_of, run_script
from vdla.benchmarks.harness.language_models import WORDS, Feeds, LanguageModel, from_embeddings
from vdla.benchmarks.harness.quantized import vta_with
from vdla.benchmarks.harness.results import RESULTS, read_results, write_results
from vdla.benchmarks.language import quantized
from vdla.codesign.models.transformers import BertSizes, Gpt2Sizes, bert, gpt2, token_inputs
from vdla.codesign.models.transformers.writer import LEAST
from vdla.codesign.timing import LEAST_SECONDS, interleaved, ratio
from vdla.compiler.backends.backend import CompileOptions
from vdla.compiler.backends.length_rungs import LADDER_TOLERANCE, TOLERANCE
from vdla.compiler.backends.lengths import compile_lengths
from vdla.compiler.backends.registry import backend_of
from vdla.compiler.frontends.onnx.model.read import Source
from vdla.compiler.frontends.onnx.model.sizes import with_dimensions
from vdla.compiler.runtime.executable import Executable
from vdla.compiler.runtime.lengths import Lengths, LengthsExecutable
from vdla.compiler.runtime.lengths_archive import save_lengths

RESULTS_NAME = "lengths"
SYMBOL, LEAST_LENGTH, MOST = "sequence", 1, 512
MEASURED = (1, 7, 16, 17, 33, 64, 100, 128, 129, 200, 255, 256, 300, 400, 511, 512)
SEED = 100
ALLOWED = 1e-5
"""Largest allowed difference between outputs of two float32 networks, relative to the greatest value of an output."""
_BERT = BertSizes(layers=2, width=384, heads=12, inner=1536, vocabulary=WORDS)
_GPT2 = Gpt2Sizes(layers=2, vocabulary=WORDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A model that takes sequences of any length. `options`: how it is compiled; `feeds`: returns its inputs for a seed
    and a length; `pads`: by name of an input, the value that fills it at padded positions (others: 0).
    """

    model: Source
    options: CompileOptions
    feeds: Feeds
    pads: Mapping[str, float]


def accelerator() -> Case:
    """The case for the accelerator: a quantized BERT that starts at embeddings. Its additive mask is the lowest float32
    at padded positions.
    """
    whole = bert(0, 1, None, _BERT)
    of = LanguageModel(lambda: whole, ("embeddings", "mask"), {"pooler_output": "pooler"})
    part, feeds = from_embeddings(whole, of)
    options = CompileOptions(target="vdla", config=vta_with())
    return Case(model=quantized("lengths", part, feeds), options=options, feeds=feeds, pads={"mask": LEAST})


def processor_bert() -> Case:
    """A case for the processor: a BERT that starts at token ids. Its mask is 0 at padded positions."""
    model = bert(0, 1, None, _BERT)
    return Case(
        model=model.SerializeToString(),
        options=CompileOptions(target="llvm"),
        feeds=lambda seed, tokens=MOST: token_inputs(model, seed, tokens=tokens),
        pads={},
    )


def processor_gpt2() -> Case:
    """A case for the processor: GPT-2 on a prompt. Its attention is causal, so that padding after a token does not
    affect it.
    """
    model = gpt2(0, 1, None, _GPT2)
    return Case(
        model=model.SerializeToString(),
        options=CompileOptions(target="llvm"),
        feeds=lambda seed, tokens=MOST: token_inputs(model, seed, tokens=tokens),
        pads={},
    )


CASES: Mapping[str, Callable[[], Case]] = {
    "accelerator": accelerator,
    "bert": processor_bert,
    "gpt2": processor_gpt2,
}


def measure(name: str, tolerance: float | None, rounds: int) -> dict[str, Any]:
    """Compiles the model `name` for all lengths and for single lengths, and measures both; returns its row: ratios of
    costs, and sizes of the files. `tolerance`: largest extra cost of padding, as a share, None for the compiler's
    default; `rounds`: how often the two are timed in turns on the processor.
    """
    case = CASES[name]()
    backend = backend_of(case.options.target)
    began = time.process_time()
    artefact = compile_lengths(
        case.model,
        backend,
        case.options,
        Lengths(symbol=SYMBOL, least=LEAST_LENGTH, most=MOST),
        tolerance=tolerance,
        pads=case.pads,
    )
    seconds = time.process_time() - began
    print(
        f"{name}: {len(artefact.rungs)} rungs, {artefact.compiled_lengths} lengths compiled in {seconds:.0f} s of CPU",
        flush=True,
    )
    rows: list[dict[str, Any]] = []
    with artefact:
        for length in MEASURED:
            rows.append(_row(case, artefact, length, rounds))
            print(_line(rows[-1]), flush=True)
        size = _file_bytes(artefact)
    alone = Lengths(symbol=SYMBOL, least=MOST, most=MOST)
    with compile_lengths(case.model, backend, case.options, alone) as static:
        static_size = _file_bytes(static)
    ratios = [row["ratio"] for row in rows]
    return {
        "name": name,
        "tolerance": tolerance or (LADDER_TOLERANCE if name != "accelerator" else TOLERANCE),
        "lengths": [LEAST_LENGTH, MOST],
        "rungs": [rung.length for rung in artefact.rungs],
        "compiled_lengths": artefact.compiled_lengths,
        "compile_cpu_s": round(seconds, 1),
        "bytes": size,
        "static_bytes": static_size,
        "worst": max(ratios),
        "geomean": math.exp(statistics.fmean(map(math.log, ratios))),
        "right": all(row["right"] for row in rows),
        "rows": rows,
    }


def _row(case: Case, artefact: LengthsExecutable, length: int, rounds: int) -> dict[str, Any]:
    """Measures one length of `case`; returns its row: the network for all lengths (`artefact`) compared with a network
    compiled for that length, by exact cycles or, if the artefact does not know them, by the times of `rounds` rounds.
    """
    backend, arrays = backend_of(case.options.target), case.feeds(SEED, length)
    with backend.compile(with_dimensions(case.model, {SYMBOL: length}), case.options) as static:
        ours, theirs = artefact.run(arrays), static.run(arrays)
        if artefact.rung(length).cycles is not None:
            alone = _cycles(static)
            spent = artefact.rung(length).cycles
            assert spent is not None
            figures = {
                "cycles": spent,
                "static_cycles": alone,
                "ratio": spent / alone,
                "right": all(np.array_equal(ours[key], theirs[key]) for key in theirs),
            }
        else:
            taken, alone = interleaved(
                time.thread_time,
                [lambda: artefact.run(arrays), lambda: static.run(arrays)],
                rounds,
                least=LEAST_SECONDS,
            )
            error = max(relative_error(ours[key], theirs[key]) for key in theirs)
            figures = {
                "ms": statistics.median(taken) * 1e3,
                "static_ms": statistics.median(alone) * 1e3,
                "ratio": ratio(taken, alone),
                "error": error,
                "right": error <= ALLOWED,
            }
    return {"length": length, "rung": artefact.rung(length).length, **figures}


def _cycles(static: Executable) -> int:
    from vdla.compiler.runtime.accelerator import AcceleratorExecutable

    assert isinstance(static, AcceleratorExecutable)
    return static.launch()[0].cycles


def _file_bytes(executable: LengthsExecutable) -> int:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.tar"
        save_lengths(path, executable)
        return path.stat().st_size


def _line(row: Mapping[str, Any]) -> str:
    if "cycles" in row:
        spent = f"{row['cycles']:>12,} cycles, alone {row['static_cycles']:>12,}"
    else:
        spent = f"{row['ms']:>9.3f} ms, alone {row['static_ms']:>9.3f} ms, error {row['error']:.1e}"
    return f"{row['length']:>4} as {row['rung']:>3} {spent}, ratio {row['ratio']:.3f}, right {row['right']}"


def _write(row: Mapping[str, Any]) -> None:
    """Writes a model's row to benchmarks/results/lengths.json, where it replaces an earlier row of the same model."""
    rows: dict[str, Any] = {}
    if (RESULTS / f"{RESULTS_NAME}.json").exists():
        rows = {known["name"]: known for known in read_results(RESULTS_NAME)["models"]}
    rows[row["name"]] = row
    document = {"models": [rows[name] for name in CASES if name in rows]}
    write_results(RESULTS_NAME, json.loads(json.dumps(document)))


OPTIONS = (
    names_of(CASES, "model"),
    Option(
        "--tolerance",
        "largest allowed slowdown of a length against a network of its own (default: the compiler's)",
        float,
    ),
    ROUNDS.but(default=15),
    *OUTPUT,
)


def main(options: Given) -> int:
    found: dict[str, dict[str, Any]] = {}
    for name in options.names or CASES:
        row = found[name] = measure(name, options.tolerance, options.rounds)
        print(
            f"{name}: worst {row['worst']:.3f}, geomean {row['geomean']:.3f}, {len(row['rungs'])} rungs, "
            f"{row['bytes']:,} bytes, one length {row['static_bytes']:,}",
            flush=True,
        )
        if options.write:
            _write(row)
    if options.json:
        print(json.dumps({"models": list(found.values())}))
    return not all(row["right"] for row in found.values())


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
