"""Accuracy of quantized networks on the accelerator compared with ONNX Runtime, on trained weights.

    python benchmarks/accuracy.py [--network cnn|transformer] [--images N] [--json] [--write]

A small CNN and a small transformer are trained here on scikit-learn's 8x8 images of digits (four fifths of 1,797; every
fifth is held out). They are quantized as a new user would (ONNX Runtime's static quantization: QDQ, uint8 activations,
int8 weights by channel, after its own preprocessing). They are compiled for the machine `vta` (an accelerator
configuration) with the extensions that they need, and run on the simulator, image by image.

Three figures are shares of held-out images that are classified right: `float` by ONNX Runtime on the float model,
`onnxruntime` by ONNX Runtime on the quantized model, and `accelerator` by the accelerator. `same` is the share of
images that the accelerator and ONNX Runtime classify equally. `steps` is the largest difference of an output from ONNX
Runtime's, in quantization steps; `interpreter_steps` is the largest difference from our own integer interpreter's.
Where ONNX Runtime's int8 kernels may saturate (x86 without VNNI), ONNX Runtime computes quantized layers in float.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from vdla.benchmarks.harness.command_line import OUTPUT, Given, Option, run_script
from vdla.benchmarks.harness.digit_networks import cnn, digits, patches, transformer
from vdla.benchmarks.harness.onnx_training import trained
from vdla.benchmarks.harness.output import finish
from vdla.benchmarks.harness.quantized import quantize_qdq, vta_with
from vdla.codesign.evaluate import (
    interpreter_outputs,
    kernels_saturate,
    largest_difference,
    onnxruntime_outputs,
    session_runs,
)
from vdla.compiler.pipeline import compile_program
from vdla.compiler.runtime.accelerator import run
from vdla.compiler.runtime.layers import layers_of

SEED = 7
CALIBRATIONS = 64
EXTENSIONS = ("rows",)
"""Extensions of the instruction set that normalizations and softmax need, in addition to those of `vta`."""
NETWORKS: dict[str, tuple[Callable[[int], Any], Callable[[Any], Any], int]] = {
    "cnn": (cnn, lambda images: images, 12),
    "transformer": (transformer, patches, 30),
}
"""Networks by name, each as (float model, function from images to its inputs, number of epochs of training)."""


def measure(name: str, images: int | None) -> dict[str, Any]:
    """Trains and quantizes the network `name`; returns its figures of accuracy by name, on the first `images` held-out
    images (None: all).
    """
    build, seen, epochs = NETWORKS[name]
    train, train_labels, test, labels = digits()
    train, test, labels = seen(train), seen(test)[:images], labels[:images]
    model = trained(build(SEED), train, train_labels, epochs, SEED)
    config = vta_with(EXTENSIONS)
    launches = [{"x": image[None]} for image in test]
    with tempfile.TemporaryDirectory() as folder:
        plain, path = (Path(folder) / f"{part}.onnx" for part in ("plain", "quantized"))
        plain.write_bytes(model.SerializeToString())
        quantize_qdq(plain, path, [{"x": image[None]} for image in train[:CALIBRATIONS]])
        real = session_runs(str(plain), ["y"], launches, optimized=True)
        compiled = compile_program(path, config)
        theirs = onnxruntime_outputs(path, compiled.graph, launches)
    graph, results = compiled.graph, [run(compiled, arrays) for arrays in launches]
    ours = [dict(result.outputs) for result in results]
    own = [interpreter_outputs(graph, arrays) for arrays in launches]

    def classes(outputs: list[Any]) -> Any:
        return np.concatenate([output.argmax(axis=1) for output in outputs])

    said = classes([output["y"] for output in ours])
    told = classes([output["y"] for output in theirs])
    cycles = results[0].simulation.cycles
    return {
        "network": name,
        "images": len(test),
        "epochs": epochs,
        "float": float(np.mean(classes([output for (output,) in real]) == labels)),
        "onnxruntime": float(np.mean(told == labels)),
        "accelerator": float(np.mean(said == labels)),
        "same": float(np.mean(said == told)),
        "steps": max(largest_difference(graph, a, b) for a, b in zip(ours, theirs, strict=True)),
        "interpreter_steps": max(largest_difference(graph, a, b) for a, b in zip(ours, own, strict=True)),
        "onnxruntime_in_float": kernels_saturate(),
        "cycles": cycles,
        "utilization": sum(layer.roofline_cycles for layer in layers_of(compiled)) / cycles,
        "extensions": list(config.extensions),
    }


OPTIONS = (
    Option("--network", "network to measure (default: all)", choices=tuple(NETWORKS)),
    Option("--images", "number of held-out images (default: all)", int),
    *OUTPUT,
)


def main(options: Given) -> None:
    rows = [measure(name, options.images) for name in NETWORKS if options.network in (None, name)]
    lines = [
        f"{name:22}{value:.4f}" if isinstance(value, float) else f"{name:22}{value}"
        for row in rows
        for name, value in row.items()
    ]
    packages = ("scikit-learn", "autograd")
    finish(options, "accuracy", {"rows": rows}, shown=rows, lines=lines, packages=packages)


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
