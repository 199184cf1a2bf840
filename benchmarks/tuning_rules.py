"""Gains of tuning generated schedules (made by rules) over templates without knobs: on single programs, and on a whole
transformer encoder.

    python benchmarks/tuning_rules.py [--only NAME ...] [--trials 64] [--seed 0] [--no-network] [--json] [--write]

For each program, evolution searches with `--trials` trials; then the best schedule found and the template's choice are
measured in turns on one thread: microseconds of thread CPU time. If `gain` is below 1, records keep the template's
choice. The network has two layers with 128 tokens and 4 heads of 64; its kernels together get four times as many
trials.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from vdla.benchmarks.harness.command_line import ONLY, OUTPUT, SEED, TRIALS, Given, Option, run_script
from vdla.benchmarks.harness.output import finish
from vdla.codesign.tuning.options import Options
from vdla.codesign.tuning.processor import ProcessorTunable
from vdla.codesign.tuning.session import tune
from vdla.codesign.tuning.target import Run
from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.tune.measure.open_backend import open_backend

PROGRAMS = (
    "matmul:4,128,64,128",
    "matmul:12,384,384,64",
    "matmul:12,384,64,384",
    "softmax:512,128",
    "softmax:4608,384",
    "normalization:384,768",
    "reduction:64,256,256",
    "reduction:512,1000,1",
    "conv_transpose:8,256,128,4,2",
    "conv_transpose:16,128,64,4,2",
)
TOKENS, HEADS, LANES, LAYERS = 128, 4, 64, 2
TIMEOUT = 60.0


def encoder(seed: int) -> onnx.ModelProto:
    """A transformer's encoder with random weights, input and output [1, TOKENS, HEADS * LANES]."""
    rng = np.random.default_rng(seed)
    width = HEADS * LANES
    arrays: dict[str, np.ndarray] = {
        "heads": np.array([1, TOKENS, HEADS, LANES], np.int64),
        "joined": np.array([1, TOKENS, width], np.int64),
        "scale": np.array(LANES**-0.5, np.float32),
        "ones": np.ones(width, np.float32),
        "zeros": np.zeros(width, np.float32),
    }
    nodes: list[onnx.NodeProto] = []

    def node(operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"{operator}{len(nodes)}"
        nodes.append(helper.make_node(operator, list(inputs), [name], name, **attributes))
        return name

    def product(data: str, rows: int, columns: int) -> str:
        weight = f"weight{len(arrays)}"
        arrays[weight] = (rng.standard_normal((rows, columns)) * rows**-0.5).astype(np.float32)
        return node("MatMul", data, weight)

    def head(data: str, *order: int) -> str:
        return node("Transpose", node("Reshape", product(data, width, width), "heads"), perm=list(order))

    data = "x"
    for _ in range(LAYERS):
        normal = node("LayerNormalization", data, "ones", "zeros")
        scores = node("MatMul", head(normal, 0, 2, 1, 3), head(normal, 0, 2, 3, 1))
        weights = node("Softmax", node("Mul", scores, "scale"), axis=-1)
        mixed = node("Transpose", node("MatMul", weights, head(normal, 0, 2, 1, 3)), perm=[0, 2, 1, 3])
        data = node("Add", data, product(node("Reshape", mixed, "joined"), width, width))
        normal = node("LayerNormalization", data, "ones", "zeros")
        hidden = node("Relu", product(normal, width, 4 * width))
        data = node("Add", data, product(hidden, 4 * width, width))
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, TOKENS, width]) for name in ("x", data)
    )
    constants = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "encoder", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def print_row(task: dict[str, Any]) -> None:
    default, best = (task[name] for name in ("default", "best"))
    if default is None or best is None:
        print(f"{task['name']:32} no trial ran")
        return
    gain = default / best
    print(
        f"{task['name']:32}{default * 1e6:12.1f}{best * 1e6:12.1f}{gain:8.3f}"
        f"{task['trials']:8}{task['failed']:8}",
        flush=True,
    )


OPTIONS = (
    ONLY.but(nargs="+", help="only programs whose names begin with one of these"),
    TRIALS.but(default=64),
    SEED,
    Option("--no-network", "measure only single programs, not the network", flag=True),
    *OUTPUT,
)


def main(given: Given) -> None:
    tunable, documents = ProcessorTunable(host_target()), []

    def options(trials: int) -> Options:
        return Options(trials=trials, in_place=0, batch=16, seed=given.seed, strategy="evolution")

    if not given.json:
        heads = ("template us", "best us"), ("gain", "trials", "failed")
        print(f"{'':32}" + "".join(f"{h:>12}" for h in heads[0]) + "".join(f"{h:>8}" for h in heads[1]))
    with open_backend(workers=1, scheduler=None, timeout=TIMEOUT, notify=lambda _: None) as backend:
        for name in PROGRAMS:
            if given.only and not any(name.startswith(start) for start in given.only):
                continue
            tuned = tune(tunable, None, [name], Run(options=options(given.trials), backend=backend))
            documents.append(tuned)
            if not given.json:
                print_row(tuned["tasks"][0])
        if not given.no_network:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "encoder.onnx"
                onnx.save(encoder(given.seed), path)
                run = Run(options=options(4 * given.trials), backend=backend)
                tuned = tune(tunable, path, (), run)
            documents.append(tuned)
            if not given.json:
                print("encoder")
                for task in tuned["tasks"]:
                    print_row(task)
                network = tuned["network"]
                print(f"whole encoder: {network['default_ms']:.3f} -> {network['tuned_ms']:.3f} ms")
    figures = {"trials": given.trials, "seed": given.seed, "documents": documents}
    finish(given, "tuning_rules", figures, shown=documents)


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
