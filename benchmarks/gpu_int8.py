"""Quantized networks on GPUs: differences from the processor's and from ONNX Runtime's results, and sizes of archives.

    python benchmarks/gpu_int8.py [--target "cuda ..."] [--only NAME ...] [--json] [--write]

The kernels are emulated on this processor, for the GPU of `--target`. `steps` is the largest difference of an output
from our outputs on the processor, and `runtime_steps` is the largest difference from ONNX Runtime's; both are in
quantization steps of the output. `archive_ratio` is the size of the file of `vdla compile` divided by the size of the
model; `constants_ratio` is the size of the constants in this file divided by the size of the model. `launches` is the
number of kernels, and `tensor_cores` the number of those that multiply on tensor cores. The networks are shipped ones
(QDQ, uint8) and originals at their own size, with seeded weights, quantized by ONNX Runtime. Exit code 1: `steps` of a
network are not 0; then nothing is written. `--write` writes benchmarks/results/gpu_int8.json.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from vdla.benchmarks.harness.command_line import ONLY, OUTPUT, Given, Option, run_script
from vdla.benchmarks.harness.output import finish, measure_all
from vdla.benchmarks.harness.peer import session
from vdla.benchmarks.harness.quantized import quantize_qdq
from vdla.codesign.models import build, sample_inputs
from vdla.codesign.models.originals import build_original, original
from vdla.compiler.codegen.cuda.machine import GpuTarget
from vdla.compiler.codegen.cuda.options import parse_target
from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.gpu_stages import GpuLowering, gpu_ahead, gpu_emulated
from vdla.compiler.graph.int8_operators import Dequantize
from vdla.compiler.pipeline import compile_kernels, import_graph
from vdla.compiler.runtime.cuda_archive import save_cuda_network

Arrays = Mapping[str, np.ndarray]
SHIPPED = ("resnet18", "mobilenet")
QUANTIZED = ("mobilenet_v2", "mobilenet_v3_large", "mobilenet_v4_small", "efficientnet_b0")
CALIBRATION = 2
"""Number of seeded inputs on which ONNX Runtime's quantizer is calibrated."""
OPTIONS = (
    Option("--target", "the GPU that is emulated", default="cuda -arch=sm_90"),
    ONLY.but(choices=[*SHIPPED, *QUANTIZED], part=True),
    *OUTPUT,
)


def main(options: Given) -> int:
    target = parse_target(options.target)
    rows = measure_all(
        options.only or (*SHIPPED, *QUANTIZED),
        lambda name: measured(name, target),
        lambda row: (
            f"{row['name']:20} steps {row['steps']:g}  from ONNX Runtime {row['runtime_steps']:g}"
            f"  archive {row['archive_ratio']:.3f} of the model ({row['model_bytes']:,} bytes)"
            f"  tensor cores {row['tensor_cores']} of {row['launches']} kernels"
        ),
        quiet=options.json,
    )
    if wrong := [row["name"] for row in rows if row["steps"]]:
        print(f"error: outputs differ from the processor's: {', '.join(wrong)}", file=sys.stderr)
        return 1
    finish(options, "gpu_int8", {"arch": target.arch, "rows": rows})
    return 0


def measured(name: str, target: GpuTarget) -> dict[str, Any]:
    """Measures the network `name` for the GPU `target`, emulated; returns its row of the results. Only `runtime_steps`
    depends on the computer.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        feeds = _made(name, path)
        graph = import_graph(GpuLowering(target).rules, path)
        scales = [n.operator.quantization.scale for n in graph.nodes if isinstance(n.operator, Dequantize)]
        with (
            compile_kernels(path, cpu_now()) as processor,
            compile_kernels(path, gpu_emulated(target)) as gpu,
        ):
            wanted, got = processor.run(feeds), gpu.run(feeds)
        peer = session(onnx.load_model(path))
        theirs = dict(zip(wanted, map(np.asarray, peer.run(list(wanted), dict(feeds))), strict=True))
        code = compile_kernels(path, gpu_ahead(target))
        archive = Path(folder) / "model.tar"
        save_cuda_network(archive, code)
        of_cores = {module.name for module in code.modules if "mma.sync" in module.module.source}
        constants = {
            id(array): array.nbytes for launch in code.launches for array in launch.constants.values()
        }
        size = path.stat().st_size
        return {
            "name": name,
            "steps": _steps(got, wanted, float(min(scales))),
            "runtime_steps": _steps(wanted, theirs, float(min(scales))),
            "model_bytes": size,
            "archive_ratio": round(archive.stat().st_size / size, 4),
            "constants_ratio": round(sum(constants.values()) / size, 4),
            "launches": len(code.launches),
            "tensor_cores": sum(launch.kernel in of_cores for launch in code.launches),
        }


def _made(name: str, path: Path) -> Arrays:
    """Writes the quantized network `name` to `path`; returns its inputs."""
    if name in SHIPPED:
        path.write_bytes(build(name, "u8").SerializeToString())
        return {"input": sample_inputs(name, 1)}
    size, random = original(name).size, np.random.default_rng(0)
    drawn = [{"x": random.standard_normal((1, 3, size, size), np.float32)} for _ in range(CALIBRATION + 1)]
    plain = path.with_name("float.onnx")
    plain.write_bytes(build_original(name).SerializeToString())
    quantize_qdq(plain, path, drawn[1:])
    return drawn[0]


def _steps(got: Arrays, wanted: Arrays, step: float) -> float:
    """The largest difference of the results `got` and `wanted` (arrays by output), in quantization steps of size
    `step`.
    """
    largest = max(float(np.abs(got[name].astype(np.float64) - wanted[name]).max()) for name in wanted)
    return round(largest / step, 3)


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
