"""Forty networks of PyTorch as users export and quantize them today, partitioned between accelerator and processor.

    make .venv-torch/.installed
    .venv-torch/bin/python -m vdla.benchmarks.exported_networks make FOLDER [NAME ...]
    .venv/bin/python -m vdla.benchmarks.exported_networks run FOLDER [NAME ...] [--config vta] [--write]
    .venv/bin/python -m vdla.benchmarks.exported_networks whole FOLDER [NAME ...] [--config vta] [--write]

`make` needs torch, torchvision and transformers; run it with -m, since this folder has a transformers.py of its own. It
writes FOLDER/NAME.onnx by PyTorch's current exporter (`torch.onnx.export(..., dynamo=True)`) and FOLDER/NAME.u8s8.onnx
by ONNX Runtime's default recipe (preprocessing, then static quantization in QDQ form: uint8 activations, int8 weights
by channel). Weights and calibration inputs are seeded, nothing is downloaded; files that exist already are not made
again.

`run` gives each quantized network to `vdla run --target vdla,llvm`, which compares its outputs with ONNX Runtime's, in
a new process for each: a crash, a run of over LIMIT seconds and a wrong output each become a row. With `--write` the
rows go to benchmarks/results/exported_networks.json. Exits 1 unless every network ran with right outputs.

`whole` compiles each network for the machine with the extensions of `harness.quantized.NEEDED`, without a simulation,
and counts the networks that run whole. A network is whole if one program of the accelerator computes it; before this
program, the processor may only look up rows of tables by ids (inputs that are integers). A row names the extensions
that the network needs or, for a network that is not whole, each operator that the accelerator refuses, with the reason.
With `--write` the rows go to benchmarks/results/exported_whole.json. Exits 1 unless LEAST_WHOLE networks are whole (of
all forty).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from vdla.benchmarks.harness.command_line import CONFIG, WRITE, Given, Option, names_of, run_script
from vdla.benchmarks.harness.quantized import NEEDED, quantize_qdq
from vdla.benchmarks.harness.results import write_results
from vdla.benchmarks.harness.torch_modules import NETWORKS
from vdla.compiler.divided import place
from vdla.compiler.frontends.onnx.model.load import OLDEST_OPSET
from vdla.compiler.frontends.onnx.partition import Partition
from vdla.compiler.frontends.onnx.submodel import prepare_model
from vdla.compiler.pipeline import compile_program
from vdla.isa.config import Config, load_config
from vdla.util.errors import UserError

WEIGHTS_SEED = 1
CALIBRATION_SEED = 2
CALIBRATIONS = 2
LIMIT = 600
"""Time limit of one network in seconds, for compilation and simulation together."""
LEAST_WHOLE = 32
"""Number of networks that must run on the accelerator as a whole, of the forty networks that the benchmark exports."""


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
    """Runs the quantized network at `path` by `vdla run` for the machine named `config` in a new process; returns its
    row: exit status, and the command's verdict on the outputs. The process is killed after LIMIT seconds.
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


def placed(path: Path, config: Config) -> dict[str, Any]:
    """Compiles one quantized network for the action `whole`. Returns its row: "whole" (whether one program of the
    accelerator computes the network, on a machine with the extensions `NEEDED`), "extensions" (those that the network
    needs), "on_processor" (operators that the processor computes) and "refused" (the reason for each operator that the
    accelerator refuses).
    """
    label, model = prepare_model(path, least_opset=OLDEST_OPSET)

    def undivided(machine: Config) -> bool:
        try:
            compile_program(path, machine, data=False)
        except UserError:
            return False
        return True

    def divided(machine: Config) -> Partition:
        return place(label, model, lambda region: compile_program(region.model, machine, data=False), machine)

    def runs(extensions: Sequence[str]) -> bool:
        machine = extended(config, extensions)
        return undivided(machine) or is_whole(model, divided(machine))

    whole, needed, partition = runs(NEEDED), list(NEEDED), divided(extended(config, NEEDED))
    for name in NEEDED if whole else ():
        fewer = [other for other in needed if other != name]
        needed = fewer if runs(fewer) else needed
    alone = undivided(extended(config, NEEDED))
    elsewhere = [region for region in partition.regions if region.side == "cpu" and not alone]
    types = {node.name: node.op_type for node in model.graph.node}
    return {
        "name": path.name.partition(".")[0],
        "whole": whole,
        "extensions": needed if whole else [],
        "on_processor": sorted({kind for region in elsewhere for kind in region.node_types}),
        "refused": {} if whole else {types[name]: why for name, why in partition.refusals.items()},
    }


def extended(config: Config, extensions: Sequence[str]) -> Config:
    """`config` with further extensions."""
    return replace(config, extensions=tuple(dict.fromkeys((*config.extensions, *extensions))))


def is_whole(model: onnx.ModelProto, partition: Partition) -> bool:
    """Whether the accelerator computes a partitioned model in one region. Regions of the processor may only look up
    rows of tables by ids before it: they read no float input of the model, and no result of the accelerator.
    """
    sides = [region.side for region in partition.regions]
    kinds = {info.name: info.type.tensor_type.elem_type for info in model.graph.input}
    ids = {name for name, kind in kinds.items() if kind in (TensorProto.INT32, TensorProto.INT64)}
    known = ids.union(*(region.outputs for region in partition.regions if region.side == "cpu"))
    return sides.count("accelerator") == 1 and all(
        known.issuperset(region.inputs) for region in partition.regions if region.side == "cpu"
    )


def count_whole(options: Given, names: Sequence[str]) -> int:
    """Prints a row for each of the networks `names` for the action `whole`, and writes the rows if the options say so.
    Returns the exit status: 1 if `names` are all networks and fewer than LEAST_WHOLE are whole, else 0.
    """
    rows: list[dict[str, Any]] = []
    config = load_config(options.config)
    for name in names:
        row = placed(quantized_file(options.folder, name), config)
        rows.append(row)
        with_what = " ".join(row["extensions"]) or "no extension"
        verdict = f"whole with {with_what}" if row["whole"] else f"not whole: {row['refused']}"
        print(f"{name:20} {verdict}", flush=True)
    whole = sum(row["whole"] for row in rows)
    print(f"{whole} of {len(rows)} run whole")
    if options.write:
        write_results(
            "exported_whole", {"config": options.config, "extensions": NEEDED, "whole": whole, "rows": rows}
        )
    return len(rows) == len(NETWORKS) and whole < LEAST_WHOLE


def quantized_file(folder: Path, name: str) -> Path:
    """The path of the quantized file of the network `name` in `folder`. Raises UserError if it is missing."""
    path = folder / f"{name}.u8s8.onnx"
    if not path.exists():
        raise UserError(
            f"{path} is missing: run `exported_networks.py make` first, in the environment of torch"
        )
    return path


OPTIONS = (
    Option(
        "action",
        "make: write the ONNX files (needs torch); run: run them; whole: count those that the accelerator runs whole",
        choices=("make", "run", "whole"),
    ),
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
    if options.action == "whole":
        return count_whole(options, names)
    rows = []
    for name in names:
        row = measure(quantized_file(options.folder, name), options.config)
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
