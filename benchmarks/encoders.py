"""BERT's encoder, quantized by ONNX Runtime, on the accelerator: cycles of each layer, and the share of cycles in
layers without products.

    python benchmarks/encoders.py [--layers N] [--width N] [--heads N] [--sequence N] [--chain N] [--json] [--write]

BERT-base's shape with seeded weights, from embeddings on and without a mask (`codesign.models.transformers`), is
quantized as a new user would (QDQ, uint8 activations, int8 weights by channel, after ONNX Runtime's own preprocessing)
and compiled for `vta` with the extensions `table`, `broadcast`, `zero_points` and `rows`, and a chain memory (on-chip
memory between layers) of `--chain` bytes, which holds the attention scores and their softmax. The simulator gives the
cycles of each layer. `utilization` is the roofline cycles of all products over all cycles. `no_product` is the share of
cycles that layers without products take. `attention` is the utilization of the attention layers alone (scores, softmax,
context, and moves for them). `attention_unchained` and `cycles_unchained` are the utilization of the attention layers,
and all cycles, on a machine without a chain memory. `interpreter_steps` and `onnxruntime_steps` are the largest
differences of the outputs from our interpreter's and from ONNX Runtime's, in quantization steps.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from vdla.benchmarks.harness.command_line import OUTPUT, Given, Option, run_script
from vdla.benchmarks.harness.output import finish
from vdla.benchmarks.harness.quantized import quantize_qdq, vta_with
from vdla.codesign.evaluate import interpreter_outputs, largest_difference, onnxruntime_outputs
from vdla.codesign.models.transformers.bert import BertSizes, bert_encoder
from vdla.codesign.report.split import layer_boundaries
from vdla.compiler.pipeline import compile_program
from vdla.compiler.runtime.accelerator import RunResult, run
from vdla.compiler.runtime.artifact import Compiled
from vdla.compiler.runtime.layers import layers_of

CALIBRATIONS, SEED = 4, 5
CHAIN_BYTES = 16384
ATTENTION = ("Products", "Rows", "Table")
"""Kinds of layers that belong to attention if they are between its first and its last product."""


def quantized(sizes: BertSizes, sequence: int, folder: Path) -> Path:
    """Writes the encoder with these sizes, for `sequence` tokens, to `folder` and quantizes it; returns the path of the
    quantized file.
    """
    plain, out = (folder / f"{name}.onnx" for name in ("plain", "quantized"))
    plain.write_bytes(bert_encoder(0, 1, sequence, sizes).SerializeToString())
    rng = np.random.default_rng(SEED)
    quantize_qdq(plain, out, (embeddings(rng, sequence, sizes.width) for _ in range(CALIBRATIONS)))
    return out


def embeddings(rng: np.random.Generator, sequence: int, width: int) -> dict[str, np.ndarray]:
    """Random inputs with a normal distribution, in place of embeddings: float32 (1, `sequence`, `width`) by name."""
    return {"embeddings": rng.standard_normal((1, sequence, width), dtype=np.float32)}


def attention_alone(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows of attention layers. These are fused attention layers; pairs of products of activations (scores,
    context), together with the layers of the kinds ATTENTION between the two; and moves of data (operator "Swap").
    """
    products = [place for place, row in enumerate(rows) if row["operator"] == "Products"]
    pairs = list(zip(products[::2], products[1::2], strict=True))
    between = {place for first, last in pairs for place in range(first, last + 1)}
    return [
        row
        for place, row in enumerate(rows)
        if row["operator"] in ("Attention", "Swap") or (place in between and row["operator"] in ATTENTION)
    ]


def utilization(rows: Iterable[Mapping[str, Any]]) -> float:
    """The sum of the roofline cycles of the layers `rows`, divided by the sum of their cycles."""
    rows = list(rows)
    return sum(row["roofline"] for row in rows) / sum(row["cycles"] for row in rows)


def layers_and_run(
    compiled: Compiled, arrays: Mapping[str, np.ndarray]
) -> tuple[list[dict[str, Any]], RunResult]:
    """Runs a compiled network on the inputs `arrays`. Returns (rows with name, operator, cycles and roofline cycles of
    each layer; the result of the run).
    """
    result = run(compiled, arrays)
    bounds = layer_boundaries(compiled.program, result.simulation.end, result.simulation.cycles)
    rows = [
        {
            "layer": layer.name,
            "operator": layer.op,
            "cycles": int(after - before),
            "roofline": layer.roofline_cycles,
        }
        for layer, before, after in zip(layers_of(compiled), bounds, bounds[1:], strict=False)
    ]
    return rows, result


def measure(sizes: BertSizes, sequence: int, chain: int) -> dict[str, Any]:
    """Compiles and runs the encoder with these sizes, on `sequence` tokens and a chain memory (on-chip memory between
    layers) of `chain` bytes; returns all figures of the benchmark by name.
    """
    config = replace(vta_with(), chain_buffer_bytes=chain)
    with tempfile.TemporaryDirectory() as folder:
        path = quantized(sizes, sequence, Path(folder))
        compiled = compile_program(path, config)
        unchained = compile_program(path, replace(config, chain_buffer_bytes=0))
        arrays = embeddings(np.random.default_rng(SEED + 1), sequence, sizes.width)
        theirs = onnxruntime_outputs(path, compiled.graph, [arrays])[0]
    rows, result = layers_and_run(compiled, arrays)
    rows_unchained, without = layers_and_run(unchained, arrays)
    ours, graph, cycles = dict(result.outputs), compiled.graph, result.simulation.cycles
    return {
        "layers": sizes.layers,
        "width": sizes.width,
        "heads": sizes.heads,
        "sequence": sequence,
        "extensions": list(config.extensions),
        "store_fifo_bytes": config.fifo_bytes("store"),
        "chain_buffer_bytes": chain,
        "cycles": cycles,
        "cycles_unchained": without.simulation.cycles,
        "utilization": sum(row["roofline"] for row in rows) / cycles,
        "no_product": sum(row["cycles"] for row in rows if not row["roofline"]) / cycles,
        "attention": utilization(attention_alone(rows)),
        "attention_unchained": utilization(attention_alone(rows_unchained)),
        "interpreter_steps": largest_difference(graph, ours, interpreter_outputs(graph, arrays)),
        "onnxruntime_steps": largest_difference(graph, ours, theirs),
        "rows": rows,
    }


def table(figures: dict[str, Any]) -> Iterator[str]:
    """Yields lines of text for `figures`, as from `measure`: one for each layer, then one for each figure of the whole
    encoder.
    """
    for row in figures["rows"]:
        part = f"{row['roofline'] / row['cycles']:.2f}" if row["roofline"] and row["cycles"] else ""
        yield f"{row['operator']:12}{row['layer']:44}{row['cycles']:>10,} {part}"
    chained = ("cycles", "cycles_unchained", "utilization", "no_product", "attention", "attention_unchained")
    for name in (*chained, "interpreter_steps", "onnxruntime_steps"):
        value = figures[name]
        yield f"{name:20}{value:,.4g}" if isinstance(value, float) else f"{name:20}{value:,}"


OPTIONS = (
    Option("--layers", "number of layers of the encoder", int, BertSizes().layers),
    Option("--width", "width: elements of a token", int, BertSizes().width),
    Option("--heads", "number of attention heads", int, BertSizes().heads),
    Option("--sequence", "number of tokens", int, 128),
    Option("--chain", "size of the chain memory in bytes", int, CHAIN_BYTES),
    *OUTPUT,
)


def main(options: Given) -> None:
    width = options.width
    sizes = BertSizes(layers=options.layers, width=width, heads=options.heads, inner=4 * width)
    figures = measure(sizes, options.sequence, options.chain)
    finish(options, "encoders", figures, lines=table(figures))


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
