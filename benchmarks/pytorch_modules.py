"""Forty PyTorch modules, straight from PyTorch: on this processor, and quantized on the accelerator.

    make .venv-torch/.installed
    .venv-torch/bin/python -m vdla.benchmarks.pytorch_modules [NAME ...] [--config vta] [--json] [--write]

The modules are those of exported_networks: from torchvision, from transformers, or written with torch.nn, with seeded
weights. Each is measured in a process of its own. `processor`: largest difference between the outputs of
`vdla.compile(module, "llvm", args=...)` and PyTorch's, relative to the largest value; right up to 1e-4. For
`accelerator`, `vdla.quantize(module, [...], whole=True)` makes a quantized network, in which every rounding is written.
The figure is the largest relative difference between two runs of this network: on the accelerator with the
configuration, and on this processor alone. If the accelerator refuses a node, the first run is divided between
accelerator and processor. The figure is right up to 0.05, a few quantization steps. `whole`: whether the accelerator
ran all of the network. `quantization`: largest relative difference between the quantized network's outputs on this
processor and PyTorch's, without a bound, as the weights are random. Exit code 1: a row is not right.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from importlib import import_module
from typing import Any

import numpy as np

import vdla
from vdla.benchmarks.exported_networks import WEIGHTS_SEED, calibration
from vdla.benchmarks.harness.case import relative_error
from vdla.benchmarks.harness.command_line import CONFIG, OUTPUT, Given, Option, names_of, run_script
from vdla.benchmarks.harness.output import finish, measure_all
from vdla.benchmarks.harness.torch_modules import NETWORKS

FLOAT_ERROR, QUANTIZED_ERROR = 1e-4, 0.05
"""Largest relative errors of outputs that count as right: FLOAT_ERROR for the float network on the processor,
QUANTIZED_ERROR for the quantized network on the accelerator.
"""
LIMIT = 900
"""Time limit of one module in seconds."""


def row(name: str, config: str) -> dict[str, Any]:
    """Measures the module `name` in this process; returns its row of the results."""
    torch = import_module("torch")
    torch.manual_seed(WEIGHTS_SEED)
    module, arrays = NETWORKS[name]()
    tensors = tuple(torch.from_numpy(array) for array in arrays)
    with torch.no_grad():
        expected = module.eval()(*tensors).numpy()
    found: dict[str, Any] = {"name": name}
    with vdla.compile(module, "llvm", args=tensors) as network:
        inputs = [port.name for port in network.inputs]
        (output,) = network.run(dict(zip(inputs, arrays, strict=True))).values()
    found["processor"] = relative_error(output, expected)
    samples = [tuple(sample[name] for name in inputs) for sample in calibration(inputs, arrays)]
    content = vdla.quantize(module, samples, whole=True).content
    feeds = dict(zip(inputs, arrays, strict=True))
    with vdla.compile(content, "llvm") as network:
        (alone,) = network.run(feeds).values()
    found["quantization"] = relative_error(alone, expected)
    try:
        with vdla.compile(content, "vdla", config) as network:
            (output,) = network.run(feeds).values()
        found["whole"] = True
    except vdla.UserError:
        with vdla.compile(content, "vdla,llvm", config) as network:
            (output,) = network.run(feeds).values()
        found["whole"] = False
    return {**found, "accelerator": relative_error(output, alone)}


def measure(name: str, config: str) -> dict[str, Any]:
    """Measures the module `name` in a new process; returns its row of the results. If the process fails, the row has
    the last line of its errors.
    """
    started = time.perf_counter()
    command = (sys.executable, "-m", "vdla.benchmarks.pytorch_modules", name, "--config", config, "--row")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
        lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines() or [""]
        found = json.loads(lines[-1]) if done.returncode == 0 else {"name": name, "failed": lines[-1]}
    except subprocess.TimeoutExpired:
        found = {"name": name, "failed": f"did not end within {LIMIT} s"}
    return {**found, "seconds": round(time.perf_counter() - started, 1)}


def is_right(found: dict[str, Any], side: str, bound: float) -> bool:
    """Whether a module was measured on one side ("processor" or "accelerator"), and the relative error of its outputs
    there is at most `bound`. `found`: the module's row of the results.
    """
    return side in found and bool(np.isfinite(found[side])) and found[side] <= bound


def line(found: dict[str, Any]) -> str:
    if "failed" in found:
        return f"{found['name']:22} failed: {found['failed']}"
    where = "whole" if found["whole"] else "divided"
    return f"{found['name']:22} processor {found['processor']:.1e}  {where:8} {found['accelerator']:.1e}"


OPTIONS = (
    names_of(NETWORKS, "module"),
    CONFIG,
    Option("--row", "print the row of one module as JSON", flag=True),
    *OUTPUT,
)


def main(options: Given) -> int:
    if options.row:
        print(json.dumps(row(options.names[0], options.config)))
        return 0
    names = options.names or list(NETWORKS)
    rows = measure_all(names, lambda name: measure(name, options.config), line, quiet=options.json)
    figures = {
        "config": options.config,
        "processor": sum(is_right(found, "processor", FLOAT_ERROR) for found in rows),
        "accelerator": sum(is_right(found, "accelerator", QUANTIZED_ERROR) for found in rows),
        "whole": sum(found.get("whole", False) for found in rows),
        "modules": len(rows),
    }
    text = "{modules} modules: right on the processor {processor}, on the accelerator {accelerator} ({whole} whole)"
    finish(options, "pytorch_modules", {**figures, "rows": rows}, lines=[text.format(**figures)])
    return figures["processor"] != len(rows) or figures["accelerator"] != len(rows)


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
