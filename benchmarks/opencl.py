"""The shipped networks on an OpenCL device: outputs and times compared with our LLVM backend.

    python benchmarks/opencl.py [--device N] [--only NAME ...] [--rounds N] [--json] [--write]

Networks are float32, batch 1. `ratio` is the LLVM backend's time on one thread over the time of the OpenCL device (by
its own clock, without copies). On POCL both run on the same processor, OpenCL on all its cores, with schedules made for
GPUs. Exit code 1: outputs differ by more than the tolerance (relative to the largest value); then nothing is written.
`--write`: to benchmarks/results/opencl.json.
"""

from __future__ import annotations

import sys
import time
from statistics import median
from typing import Any

import vdla
from vdla.benchmarks.harness.case import relative_error
from vdla.benchmarks.harness.command_line import ONLY, OUTPUT, ROUNDS, Given, Option, run_script
from vdla.benchmarks.harness.gpu_models import inputs_of
from vdla.benchmarks.harness.output import finish, measure_all
from vdla.codesign.models import FLOAT_NAMES, NAMES, build
from vdla.compiler.codegen.cuda.tolerances import MODEL_TOLERANCE
from vdla.compiler.runtime.cuda_network import CudaNetwork
from vdla.compiler.runtime.opencl_device import open_device

OPTIONS = (
    Option("--device", "number of the OpenCL device", int, 0),
    ONLY.but(choices=[*NAMES, *FLOAT_NAMES], part=True),
    ROUNDS.but(default=5),
    *OUTPUT,
)


def main(options: Given) -> int:
    rows = measure_all(
        options.only or (*NAMES, *FLOAT_NAMES),
        lambda name: measured(name, options.device, options.rounds),
        lambda row: (
            f"{row['name']:16} OpenCL {row['opencl_ms']:>10.3f} ms  LLVM {row['llvm_ms']:>8.3f} ms"
            f"  ratio {row['ratio']:.4f}  error {row['error']:.1e}"
        ),
        quiet=options.json,
    )
    with open_device(options.device) as device:
        document = {
            "device": {"name": device.properties.name, "driver": device.properties.driver},
            "tolerance": MODEL_TOLERANCE,
            "ratio_is": "LLVM's time on one thread / OpenCL's by the device's clock",
            "rows": rows,
        }
    if wrong := [row["name"] for row in rows if not row["error"] <= MODEL_TOLERANCE]:
        print(f"error: outputs differ: {', '.join(wrong)}", file=sys.stderr)
        return 1
    finish(options, "opencl", document, packages=("pyopencl", "pocl-binary-distribution"))
    return 0


def measured(name: str, device: int, rounds: int) -> dict[str, Any]:
    """Measures the shipped network `name` in `rounds` rounds on OpenCL device number `device`, in turns with the LLVM
    backend. Returns the median milliseconds on both (by the OpenCL device's own clock, and in wall-clock time for the
    LLVM backend), the median of their ratios, and the largest relative difference of outputs.
    """
    model = build(name, "float")
    inputs = inputs_of(model)
    with vdla.compile(model, "opencl", device=device) as network, vdla.compile(model, "llvm") as reference:
        expected, got = reference.run(inputs), network.run(inputs)
        error = max(relative_error(got[output], values) for output, values in expected.items())
        ours, theirs = [], []
        for _ in range(rounds):
            assert isinstance(network, CudaNetwork)
            ours += network.time(inputs, repeat=1)
            started = time.perf_counter()
            reference.run(inputs)
            theirs.append((time.perf_counter() - started) * 1e3)
    return {
        "name": name,
        "opencl_ms": round(median(ours), 3),
        "llvm_ms": round(median(theirs), 3),
        "ratio": round(median(b / a for a, b in zip(ours, theirs, strict=True)), 5),
        "error": error,
    }


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
