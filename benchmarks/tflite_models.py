"""TFLite models compared with LiteRT: largest differences of each operator and network; and the networks' cycles on the
accelerator.

    python benchmarks/tflite_models.py [--only NAME ...] [--json] [--write]

There is a model of one operator for each operator that the frontend converts, with activations of int8, uint8, int16
(with int8 weights), float, and float with int8 weights ("hybrid"). Networks are int8, with random weights, in the
shapes of published ones (`harness/tflite_networks.py`). `steps` is the largest difference of our outputs on a processor
from those of LiteRT's default kernels: in quantization steps or, for float outputs, relative to the largest value.
`changed` is the share of elements that differ. `litert_steps` is the largest difference between the outputs of LiteRT's
default kernels and of its reference kernels; null: the reference kernels refuse the model. For networks,
`accelerator_steps` is the largest difference of the outputs of the simulated accelerator (`vta` with the extension
`rows`) from LiteRT's, `whole` whether the accelerator runs the whole network, `cycles` its cycles, and `moves` the
number of layers that only move elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import vdla
from vdla.benchmarks.harness.command_line import ONLY, OUTPUT, Given, run_script
from vdla.benchmarks.harness.output import finish, measure_all
from vdla.benchmarks.harness.quantized import vta_with
from vdla.benchmarks.harness.tflite_files import Written, litert, samples
from vdla.benchmarks.harness.tflite_networks import NETWORKS
from vdla.benchmarks.harness.tflite_operators import cases
from vdla.compiler.graph.errors import ModelError
from vdla.compiler.pipeline import compile_program
from vdla.compiler.runtime.accelerator import run

MOVES = ("Positions", "Channels", "Swap", "Interleave")
"""Kinds of layers that move elements and compute nothing."""
OPTIONS = (ONLY, *OUTPUT)
Outputs = Sequence[np.ndarray]


def steps(ours: Outputs, theirs: Outputs) -> float:
    """The largest difference of an output in `ours` from the same output in `theirs`: in quantization steps or, for
    float outputs, relative to the largest value.
    """
    found = 0.0
    for mine, other in zip(ours, theirs, strict=True):
        difference = np.abs(mine.astype(np.float64) - other.astype(np.float64)).max(initial=0)
        most = np.abs(other.astype(np.float64)).max(initial=1e-30) if other.dtype.kind == "f" else 1.0
        found = max(found, float(difference / most))
    return float(f"{found:.2g}")


def changed(ours: Outputs, theirs: Outputs) -> float:
    """The share of the elements of all outputs that differ between `ours` and `theirs`."""
    differ = sum(int((mine != other).sum()) for mine, other in zip(ours, theirs, strict=True))
    return round(differ / sum(other.size for other in theirs), 4)


def on_processor(model: Written, content: bytes) -> dict[str, Any]:
    """The figures `steps` and `changed`, which compare outputs on this processor with LiteRT's, and `litert_steps`,
    which compares LiteRT's reference kernels with LiteRT's default kernels (None if the reference kernels refuse the
    model). `changed` is None if an output is not of integers. `content`: the file of `model`.
    """
    inputs = samples(model)
    theirs = litert(content, inputs)
    with vdla.compile(content, target="llvm", cache=False) as network:
        names = [port.name for port in network.inputs]
        found = network.run(dict(zip(names, inputs, strict=True)))
        ours = [found[port.name] for port in network.outputs]
    try:
        own: float | None = steps(litert(content, inputs, reference=True), theirs)
    except (RuntimeError, ValueError):
        own = None
    integers = all(other.dtype.kind in "iu" for other in theirs)
    return {
        "steps": steps(ours, theirs),
        "changed": changed(ours, theirs) if integers else None,
        "litert_steps": own,
    }


def on_accelerator(model: Written, content: bytes) -> dict[str, Any]:
    """Runs the model on the simulated accelerator. Returns the figures for the row of results: `whole` (True),
    differences from LiteRT, cycles and layers. If the accelerator does not support the whole model, the only figure is
    `whole` (False). `content`: the file of `model`.
    """
    inputs = samples(model)
    try:
        compiled = compile_program(content, vta_with(("rows",)))
    except ModelError:
        return {"whole": False}
    names = [entry.name for entry in compiled.graph.inputs]
    result = run(compiled, dict(zip(names, inputs, strict=True)))
    ours = [result.outputs[output.name] for output in compiled.graph.outputs]
    return {
        "whole": True,
        "accelerator_steps": steps(ours, litert(content, inputs)),
        "cycles": result.simulation.cycles,
        "layers": len(compiled.graph.nodes),
        "moves": sum(node.kind in MOVES for node in compiled.graph.nodes),
    }


def measure(name: str) -> dict[str, Any]:
    """Measures the network, or the model of one operator, called `name`; returns its row of the results."""
    network = name in NETWORKS
    model = NETWORKS[name]() if network else dict(cases())[name]()
    content = model.content()
    more = on_accelerator(model, content) if network else {}
    return {
        "name": name,
        "kind": "network" if network else "operator",
        **on_processor(model, content),
        **more,
    }


def line(row: dict[str, Any]) -> str:
    """A model's row of results as a line of text."""
    text = f"{row['name']:40} {row['steps']:>8} steps  changed {row['changed']}  LiteRT's own {row['litert_steps']}"
    if row.get("whole"):
        text += f"  accelerator {row['accelerator_steps']}, {row['cycles']:,} cycles, {row['moves']} moves"
    return text


def main(options: Given) -> None:
    names = [*NETWORKS, *(name for name, _ in cases())]
    chosen = [name for name in names if not options.only or any(part in name for part in options.only)]
    rows = measure_all(chosen, measure, line, quiet=options.json)
    finish(options, "tflite_models", {"rows": rows}, packages=("ai-edge-litert", "tflite"))


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
