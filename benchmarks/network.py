"""ResNet-18 on the accelerator: outputs, utilization, simulation and compilation speed, as the README shows them.

    python benchmarks/network.py [--json] [--write]

Times are thread CPU times, medians of 5 runs; numba's compiled code is cached, but runs share nothing else. "tuned":
with the tuning records that ship with the package. With `--write` the figures go to benchmarks/results/network.json.
"""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import replace
from pathlib import Path

from vdla.benchmarks.harness.command_line import OUTPUT, Given, run_script
from vdla.benchmarks.harness.output import finish, listed
from vdla.codesign import models
from vdla.codesign.evaluate import (
    interpreter_outputs,
    largest_difference,
    onnxruntime_outputs,
    sample_arrays,
    top1_agrees,
)
from vdla.codesign.network_run import compile_network
from vdla.codesign.timing import median_seconds
from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.graph.int8_convolution import Int8Convolution
from vdla.compiler.pipeline import compile_program
from vdla.compiler.records.book import shipped_book
from vdla.compiler.rewrites.fuse import fuse
from vdla.compiler.runtime.accelerator import run
from vdla.compiler.runtime.artifact import Compiled
from vdla.compiler.runtime.layers import layers_of
from vdla.compiler.templates.vdla.legalize import legalize
from vdla.compiler.templates.vdla.lower import choose_points, kernels_of, lower_node
from vdla.isa.config import Config, Memory, load_config

IMAGES = 8


def utilization(compiled: Compiled) -> float:
    """Roofline cycles of the compiled network divided by its simulated cycles."""
    cycles = run(compiled, {}, data=False).simulation.cycles
    return sum(layer.roofline_cycles for layer in layers_of(compiled)) / cycles


def outputs_row(path: Path, config: Config, images: int) -> tuple[int, bool, bool]:
    """Runs a quantized network on `images` images. Returns (largest difference from ONNX Runtime in LSB, whether the
    top-1 classes agree, whether the outputs equal the interpreter's).
    """
    compiled = compile_program(path, config)
    launches = sample_arrays(compiled.graph, images)
    ours = [dict(run(compiled, dict(arrays)).outputs) for arrays in launches]
    theirs = onnxruntime_outputs(path, compiled.graph, launches)
    own = [interpreter_outputs(compiled.graph, arrays) for arrays in launches]
    pairs = list(zip(ours, theirs, strict=True))
    return (
        max(largest_difference(compiled.graph, a, b) for a, b in pairs),
        all(top1_agrees(compiled.graph, a, b) for a, b in pairs),
        all(largest_difference(compiled.graph, a, b) == 0 for a, b in zip(ours, own, strict=True)),
    )


def small_cnn_configs() -> dict[str, Config]:
    """The configurations, by name, on which the outputs of the small CNN must equal the interpreter's."""
    vta = load_config("vta")
    return {
        "vta": vta,
        "osdi18": load_config("osdi18"),
        "tiny": load_config("tiny"),
        "32x32": replace(vta, name="32x32", block_in=32, block_out=32),
        "batch 2": replace(vta, name="batch2", batch=2),
        "512-bit bus": replace(vta, name="wide", memory=Memory(bus_bytes=64)),
    }


def measure(folder: Path) -> dict[str, object]:
    """Makes all measurements of the benchmark, with its models in `folder`; returns its figures by name."""
    resnet, small = folder / "resnet18.onnx", folder / "small_cnn.onnx"
    models.write(resnet, "resnet18")
    models.write(small, "small_cnn")
    vta = load_config("vta")
    figures: dict[str, object] = {}
    for name, config in (("vta", vta), ("osdi18", load_config("osdi18"))):
        lsb, top1, exact = outputs_row(resnet, config, IMAGES)
        figures[f"resnet18 outputs, {name}"] = {
            "max_lsb": lsb,
            "top1_equal": top1,
            "equals_interpreter": exact,
        }
    for name, config in small_cnn_configs().items():
        lsb, top1, exact = outputs_row(small, config, 2)
        figures[f"small_cnn outputs, {name}"] = {
            "max_lsb": lsb,
            "top1_equal": top1,
            "equals_interpreter": exact,
        }
    compiled = compile_program(resnet, vta)
    figures["utilization, vta"] = utilization(compiled)
    figures["utilization, osdi18"] = utilization(compile_program(resnet, load_config("osdi18")))
    figures["utilization, vta, one virtual thread"] = utilization(
        compile_program(resnet, vta, virtual_threads=1)
    )
    for latency in (60, 120, 240):
        slow = vta.with_memory(replace(vta.memory, read_latency=latency))
        figures[f"utilization, vta, read latency {latency}"] = utilization(compile_program(resnet, slow))
    arrays = dict(sample_arrays(compiled.graph, 1)[0])
    cycles = run(compiled, {}, data=False).simulation.cycles
    figures["cycles, vta"] = cycles
    tuned = compile_network(resnet, vta, records=shipped_book())
    figures["cycles, vta, tuned"] = run(tuned, {}, data=False).simulation.cycles
    figures["utilization, vta, tuned"] = utilization(tuned)
    figures["simulation with data, M cycles/s"] = cycles / median_seconds(lambda: run(compiled, arrays)) / 1e6
    figures["timing alone, s"] = median_seconds(lambda: run(compiled, {}, data=False))
    content = resnet.read_bytes()
    figures["compile ResNet-18, s"] = median_seconds(lambda: compile_program(content, vta))
    figures["lower one convolution, ms"] = 1e3 * lowering_seconds(content, vta)
    return figures


def lowering_seconds(content: bytes, config: Config) -> float:
    """Lowers each convolution of the model `content` (an ONNX file of ResNet-18) for the machine `config`, several
    times and without verification. Takes the median CPU seconds of each convolution; returns the median over the
    convolutions.
    """
    graph = fuse(import_model(content))
    legalized = legalize(graph, config)
    kernels = {
        node.name: kernels_of(config, legalized, node)
        for node in legalized.graph.nodes
        if isinstance(node.operator, Int8Convolution)
    }

    def lower(name: str) -> None:
        chosen = {name: kernels[name]}
        lower_node(config, name, kernels[name], choose_points(config, chosen, {}, 2)[name], virtual_threads=2)

    return statistics.median(median_seconds(lambda name=name: lower(name)) for name in kernels)


OPTIONS = OUTPUT


def main(options: Given) -> None:
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder))
    finish(options, "network", figures, lines=listed(figures))


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
