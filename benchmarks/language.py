"""Language models, quantized by ONNX Runtime, on the accelerator: whether a model runs entirely on it, or else the
first node that cannot.

    python benchmarks/language.py [NAME ...] [--run] [--layers] [--write] [--again] [--file PATH ...] [--base]

Models of `codesign.models.transformers` with seeded weights and few layers (harness/language_models.py) are quantized
as a new user would (QDQ, uint8 activations, int8 weights by channel, after ONNX Runtime's own preprocessing; look-ups,
masks and softmaxes stay float, see `left_float`) and compiled for `vta` with the extensions that such networks need.
`whole` says whether all nodes from the embeddings on run on the accelerator. `elsewhere` has the operators that run on
the processor if the model starts at token ids. `--run` also simulates, and compares the outputs with the interpreter
and with ONNX Runtime, end to end and layer by layer. `no_product` is the share of cycles that layers without products
take. `memory_bound` is about the products: the share of their roofline cycles that is bounded by the bus bandwidth, for
example where each weight is used for one token only. `--file` measures other quantized files, whose models start at
token ids. `--base` measures the time to compile the encoder of BERT-base (12 layers of width 768, a sequence of 128):
the median of three, wall time and CPU time. With `--write` all rows go to benchmarks/results/language.json.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from vdla.benchmarks.harness.command_line import AGAIN, SIMULATE, WRITE, Given, Option, names_of, run_script
from vdla.benchmarks.harness.language_models import MODELS, from_embeddings, left_float
from vdla.benchmarks.harness.quantized import quantize_qdq, vta_with
from vdla.benchmarks.harness.results import RESULTS, read_results, write_results
from vdla.codesign.evaluate import (
    compare_layers,
    interpreter_outputs,
    largest_difference,
    onnxruntime_outputs,
)
from vdla.codesign.models.transformers import BertSizes, token_inputs
from vdla.codesign.models.transformers.bert import bert_encoder
from vdla.codesign.report.split import layer_boundaries
from vdla.compiler.frontends.onnx.float_importer import OLDEST_OPSET
from vdla.compiler.frontends.onnx.partition import Partition, partition_model
from vdla.compiler.frontends.onnx.submodel import prepare_model
from vdla.compiler.graph.abilities import Abilities
from vdla.compiler.pipeline import compile_program
from vdla.compiler.runtime.accelerator import run
from vdla.compiler.runtime.layers import layers_of
from vdla.isa.config import Config
from vdla.util.errors import UserError
from vdla.util.user_cache import cache_directory

RESULTS_NAME = "language"
CALIBRATIONS, SEED = 4, 100
"""Number of calibration inputs (their seeds begin at 0), and the seed of the measured inputs."""
Feeds = Callable[[int], dict[str, np.ndarray]]


def quantized(name: str, model: onnx.ModelProto, feeds: Feeds) -> Path:
    """The path of a file in the cache with the quantized form of the float model `model`. The file is made if it does
    not exist; its name begins with `name`. `feeds`: a function that returns the model's inputs for a seed; the inputs
    for the first seeds are used for calibration.
    """
    exclude = left_float(model)
    content = model.SerializeToString(deterministic=True)
    key = hashlib.sha256(content + "\n".join(exclude).encode()).hexdigest()[:16]
    folder = cache_directory("language")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{key}.onnx"
    if not path.exists():
        plain = folder / f"{path.stem}.float.onnx"
        plain.write_bytes(content)
        try:
            quantize_qdq(plain, path, map(feeds, range(CALIBRATIONS)), exclude=exclude)
        finally:
            plain.unlink()
    return path


def divided(path: Path, config: Config) -> tuple[Partition, dict[str, str]]:
    """Returns (the partition of a quantized model between accelerator and processor, the operator of each node by node
    name).
    """
    label, model = prepare_model(path, least_opset=OLDEST_OPSET)
    partition = partition_model(label, model, abilities=Abilities.of(config))
    return partition, {node.name: node.op_type for node in model.graph.node}


def processor_nodes(path: Path, config: Config) -> dict[str, Any]:
    """Figures of the division of a quantized model that starts at token ids: `elsewhere`, the numbers of nodes that run
    on the processor, by operator; `regions`, the side of each region in order; `first_elsewhere`, whether there is one
    region on the accelerator and at most one before it.
    """
    partition, _ = divided(path, config)
    sides = [region.side for region in partition.regions]
    kept = Counter(
        operator
        for region in partition.regions
        if region.side == "cpu"
        for operator in region.node_types
        if operator not in ("QuantizeLinear", "DequantizeLinear")
    )
    return {
        "elsewhere": dict(kept.most_common()),
        "regions": sides,
        "first_elsewhere": sides.count("accelerator") == 1 and sides.index("accelerator") <= 1,
    }


def measure(name: str, config: Config, simulate: bool) -> dict[str, Any]:
    """Measures the model `name`, also by simulation if `simulate`; returns its row of the results. A model that cannot
    be made, quantized or compiled gives a row with the message as `error`.
    """
    row: dict[str, Any] = {"name": name, "whole": False}
    try:
        ids = MODELS[name].build()
        whole_path = quantized(f"{name}-ids", ids, lambda seed: token_inputs(ids, seed))
        part, feeds = from_embeddings(ids, MODELS[name])
        path = quantized(name, part, feeds)
        partition, operators = divided(path, config)
        if partition.refusals:
            node, reason = next(iter(partition.refusals.items()))
            refused = Counter(operators[item] for item in partition.refusals)
            row |= {
                "refused": dict(refused.most_common()),
                "first": {"node": node, "operator": operators[node], "reason": reason},
            }
        row |= processor_nodes(whole_path, config)
        row |= _compiled(path, config, feeds(SEED), simulate)
    except UserError as error:
        # Messages begin with the file's path, which is specific to this computer.
        row |= {"error": str(error).replace(f"{cache_directory(RESULTS_NAME)}/", "")}
    return row


def measure_file(path: Path, config: Config) -> dict[str, Any]:
    """Compiles a quantized ONNX file that this benchmark did not make; returns its row: operators that the accelerator
    refuses, and operators that run on the processor.
    """
    partition, operators = divided(path, config)
    refused = Counter(operators[item] for item in partition.refusals)
    return {"name": path.stem, "refused": dict(refused.most_common())} | processor_nodes(path, config)


def _compiled(path: Path, config: Config, arrays: dict[str, np.ndarray], simulate: bool) -> dict[str, Any]:
    compiled = compile_program(path, config)
    row: dict[str, Any] = {"whole": True}
    if not simulate:
        return row
    result = run(compiled, arrays)
    ours, graph = dict(result.outputs), compiled.graph
    theirs = onnxruntime_outputs(path, graph, [arrays])[0]
    cycles, layers = result.simulation.cycles, layers_of(compiled)
    bounds = layer_boundaries(compiled.program, result.simulation.end, cycles)
    spent = {
        layer.name: int(after - before)
        for layer, before, after in zip(layers, bounds, bounds[1:], strict=False)
    }
    roofline = sum(layer.roofline_cycles for layer in layers)
    return row | {
        "interpreter_steps": largest_difference(graph, ours, interpreter_outputs(graph, arrays)),
        "onnxruntime_steps": largest_difference(graph, ours, theirs),
        "layer_steps": compare_layers(path, [arrays]).largest,
        "cycles": cycles,
        "roofline": roofline,
        "utilization": roofline / cycles,
        "multiplies": sum(layer.macs for layer in layers),
        "no_product": sum(spent[layer.name] for layer in layers if not layer.macs) / cycles,
        "memory_bound": sum(layer.roofline_cycles for layer in layers if layer.bound == "memory") / roofline,
        "layers": [
            {
                "layer": layer.name,
                "operator": layer.op,
                "cycles": spent[layer.name],
                "roofline": layer.roofline_cycles,
                "bound": layer.bound if layer.macs else None,
            }
            for layer in layers
        ],
    }


def compile_base(config: Config) -> dict[str, float]:
    """Medians of the wall-clock ("wall_s") and CPU seconds ("cpu_s") of compiling BERT-base's encoder for `config`
    three times.
    """
    tokens, sizes = 128, BertSizes(layers=12)
    model = bert_encoder(0, 1, tokens, sizes)

    def feeds(seed: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(seed)
        return {"embeddings": rng.standard_normal((1, tokens, sizes.width), dtype=np.float32)}

    path = quantized("bert_base", model, feeds)
    times: list[tuple[float, float]] = []
    for _ in range(3):
        began = time.perf_counter(), time.process_time()
        compile_program(path, config)
        times.append((time.perf_counter() - began[0], time.process_time() - began[1]))
    wall, cpu = (statistics.median(values) for values in zip(*times, strict=True))
    return {"wall_s": round(wall, 2), "cpu_s": round(cpu, 2)}


def line(row: dict[str, Any]) -> str:
    """A model's row of results as a line of text."""
    if "cycles" in row:
        text = (
            f"{row['cycles']:>10,} cycles, {row['utilization']:.2f} of the roofline ({row['memory_bound']:.0%} of it "
            f"the bus), {row['no_product']:.0%} without products, steps from the interpreter "
            f"{row['interpreter_steps']}, from ONNX Runtime {row['onnxruntime_steps']}, of a layer {row['layer_steps']}"
        )
    else:
        text = row.get("error", "")
    kept = ", ".join(f"{count} {operator}" for operator, count in row.get("elsewhere", {}).items())
    return f"{row['name']:14}{'whole' if row.get('whole') else 'stops':6} {text}\n{'':20} from ids, elsewhere: {kept}"


OPTIONS = (
    names_of(MODELS, "model"),
    SIMULATE,
    Option("--layers", "print the figures of each layer", flag=True),
    WRITE,
    AGAIN,
    Option("--base", "also time the compilation of BERT-base's encoder", flag=True),
    Option(
        "--file",
        "also measure these quantized ONNX files, which start at token ids",
        Path,
        [],
        nargs="*",
        metavar="PATH",
    ),
)


def main(options: Given) -> None:
    config = vta_with()
    rows: dict[str, dict[str, Any]] = {}
    base: dict[str, float] = {}
    if options.write and (RESULTS / f"{RESULTS_NAME}.json").exists():
        before = read_results(RESULTS_NAME)
        rows, base = {row["name"]: row for row in before["rows"]}, before["bert_base_compile"]
    if options.base:
        base = compile_base(config)
        print(f"BERT-base compiles in {base['wall_s']} s, {base['cpu_s']} s of CPU time", flush=True)
    for path in options.file:
        print(line(measure_file(path, config)), flush=True)
    for name in options.names or ([] if options.file else MODELS):
        if options.again or name not in rows:
            rows[name] = measure(name, config, options.run)
        print(line(rows[name]), flush=True)
        for layer in rows[name].get("layers", []) if options.layers else []:
            part = f"{layer['roofline'] / layer['cycles']:.2f}" if layer["bound"] and layer["cycles"] else ""
            print(f"  {layer['operator']:12}{layer['layer']:50}{layer['cycles']:>10,} {part}")
        if options.write:
            document = {
                "extensions": list(config.extensions),
                "whole": sum(row["whole"] for row in rows.values()),
                "networks": len(rows),
                "bert_base_compile": base,
                "rows": list(rows.values()),
            }
            write_results(RESULTS_NAME, json.loads(json.dumps(document)))


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
