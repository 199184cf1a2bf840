"""Forty networks of PyTorch as users export and quantize them today, partitioned between accelerator and processor.

    make .venv-torch/.installed
    .venv-torch/bin/python -m vdla.benchmarks.exported_networks make FOLDER [NAME ...]
    .venv/bin/python -m vdla.benchmarks.exported_networks run FOLDER [NAME ...] [--config vta] [--write]

`make` needs torch, torchvision and transformers; run it with -m, since this folder has a transformers.py of its own. It
writes FOLDER/NAME.onnx by PyTorch's current exporter (`torch.onnx.export(..., dynamo=True)`) and FOLDER/NAME.u8s8.onnx
by ONNX Runtime's default recipe (preprocessing, then static quantization in QDQ form: uint8 activations, int8 weights
by channel). Weights and calibration inputs are seeded, nothing is downloaded; files that exist already are not made
again.

`run` gives each quantized network to `vdla run --target vdla,llvm`, which compares its outputs with ONNX Runtime's, in
a new process for each: a crash, a run of over LIMIT seconds and a wrong output each become a row. With `--write` the
rows go to benchmarks/results/exported_networks.json. Exits 1 unless every network ran with right outputs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from vdla.benchmarks.harness.command_line import CONFIG, WRITE, Given, Option, names_of, run_script
from vdla.benchmarks.harness.quantized import quantize_qdq
from vdla.benchmarks.harness.results import write_results
from vdla.benchmarks.harness.torch_modules import NETWORKS
from vdla.util.errors import UserError

WEIGHTS_SEED = 1
CALIBRATION_SEED = 2
CALIBRATIONS = 2
LIMIT = 600
"""Time limit of one network in seconds, for compilation and simulation together."""


def make(folder: Path, names: Sequence[str]) -> None:
    """Exports the networks `names` from PyTorch and quantizes them, unless their files are in the folder already."""
    torch = import_module("torch")
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        plain, quantized = folder / f"{name}.onnx", folder / f"{name}.u8s8.onnx"
        if quantized.exists():
            continue
        torch.manual_seed(WEIGHTS_SEED)
        module, arrays = NETWORKS[name]()
        tensors = tuple(torch.from_numpy(array) for array in arrays)
        program = torch.onnx.export(module.eval(), tensors, dynamo=True, verbose=False)
        program.save(str(plain))
        inputs = [info.name for info in program.model_proto.graph.input]
        quantize_qdq(plain, quantized, calibration(inputs, arrays))
        print(quantized, flush=True)


def calibration(inputs: Sequence[str], arrays: Sequence[np.ndarray]) -> list[dict[str, np.ndarray]]:
    """Calibration inputs with the shapes of `arrays`, one dict by input name for each sample. Floats are seeded normal
    noise; integers are those of the given array in another order.
    """
    rng = np.random.default_rng(CALIBRATION_SEED)

    def like(array: np.ndarray) -> np.ndarray:
        if array.dtype.kind == "f":
            return rng.standard_normal(array.shape).astype(array.dtype)
        return rng.permutation(array.ravel()).reshape(array.shape)

    return [
        {name: like(array) for name, array in zip(inputs, arrays, strict=True)} for _ in range(CALIBRATIONS)
    ]


def measure(path: Path, config: str) -> dict[str, Any]:
    """Runs one quantized network by `vdla run` in a new process; returns its row: exit status, and the command's
    verdict on the outputs.
    """
    program = "from vdla.codesign.cli.main import main; main()"
    command = [sys.executable, "-c", program, "run", str(path), "--target", "vdla,llvm"]
    started = time.monotonic()
    row: dict[str, Any] = {"name": path.name.partition(".")[0]}
    try:
        done = subprocess.run(
            [*command, "--config", config, "--json"],
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return row | {"right": False, "ended": f"took over {LIMIT} s"}
    row["seconds"] = round(time.monotonic() - started, 1)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        return row | {"right": False, "ended": f"exit {done.returncode}", "message": lines[-1][-400:]}
    report = json.loads(done.stdout)
    return row | {"right": True, "ended": "exit 0", "check": report["check"]}


OPTIONS = (
    Option("action", "make: write the ONNX files (needs torch); run: run them", choices=("make", "run")),
    Option("folder", "folder of the ONNX files", Path),
    names_of(NETWORKS, "network"),
    CONFIG,
    WRITE,
)


def main(options: Given) -> int:
    names = options.names or list(NETWORKS)
    if options.action == "make":
        warnings.simplefilter("ignore")
        try:
            make(options.folder, names)
        except ImportError as error:
            raise UserError(f"{error}; make .venv-torch/.installed builds the environment") from None
        return 0
    rows = []
    for name in names:
        path = options.folder / f"{name}.u8s8.onnx"
        if not path.exists():
            raise UserError(
                f"{path} is missing: run `exported_networks.py make` first, in the environment of torch"
            )
        row = measure(path, options.config)
        rows.append(row)
        verdict = "right" if row["right"] else f"{row['ended']} {row.get('message', '')}"
        print(f"{name:20} {row.get('seconds', LIMIT):6.1f} s  {verdict}", flush=True)
    right = sum(row["right"] for row in rows)
    print(f"{right} of {len(rows)} ran on accelerator and processor with right outputs")
    if options.write:
        write_results("exported_networks", {"config": options.config, "right": right, "rows": rows})
    return right < len(rows)


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
