"""Errors of quantization on inputs not used in calibration, against ONNX Runtime's static quantizer at the same
settings.

    python benchmarks/quantization.py [--only NAME ...] [--samples N] [--json] [--write]

Our quantizer and ONNX Runtime's (the "peer") calibrate on the same N samples; both quantized models run in ONNX Runtime
on N other samples. `sqnr`: power of the float model's output over power of the quantization error, in decibels, for
each of our methods and for the peer (MinMax, weights per channel, uint8 activations, after its own pre-processing);
`seconds`: CPU seconds of quantizing with our method `mse`, and with the peer.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from vdla.benchmarks.harness.command_line import ONLY, OUTPUT, SAMPLES, Given, run_script
from vdla.benchmarks.harness.output import finish, measure_all
from vdla.benchmarks.harness.peer import session
from vdla.codesign.models import build, sample_inputs
from vdla.codesign.quantize_run import prepare_here
from vdla.compiler.quantize.error import Error
from vdla.compiler.quantize.quantize import Recipe, quantize_model, read_model

NETWORKS = ("small_cnn", "mlp", "dqn", "mobilenet", "resnet18", "dcgan")
RECIPES = {
    "mse": Recipe(),
    "minmax": Recipe(method="minmax"),
    "percentile": Recipe(method="percentile"),
    "per_tensor": Recipe(per_channel=False),
    "s8": Recipe(activations="int8"),
}


class Reader(CalibrationDataReader):
    def __init__(self, samples: list[dict[str, np.ndarray]]):
        self.samples: Iterator[dict[str, np.ndarray]] = iter(samples)

    def get_next(self) -> dict[str, np.ndarray]:
        return next(self.samples, {})  # empty: the default end


def peer_model(model: onnx.ModelProto, samples: list[dict[str, np.ndarray]]) -> onnx.ModelProto:
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder) / name) for name in ("float.onnx", "prepared.onnx", "quantized.onnx")]
        onnx.save(model, paths[0])
        quant_pre_process(paths[0], paths[1], skip_symbolic_shape=True)
        options = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, "per_channel": True}
        quantize_static(paths[1], paths[2], Reader(samples), **options)
        return onnx.load(paths[2])


def sqnr(model: onnx.ModelProto, quantized: onnx.ModelProto, samples: list[dict[str, np.ndarray]]) -> float:
    error = Error()
    sessions = [session(each) for each in (model, quantized)]
    for feeds in samples:
        error.add(*(np.asarray(each.run(None, feeds)[0]) for each in sessions))
    return round(error.sqnr or float("inf"), 1)


def measure(name: str, count: int) -> dict[str, object]:
    model = build(name, "float")
    known, unseen = (
        [{"input": part} for part in np.split(sample_inputs(name, count, seed), count)] for seed in (1, 2)
    )
    row: dict[str, object] = {"name": name}
    seconds: dict[str, float] = {}
    for label, recipe in RECIPES.items():
        started = time.process_time()
        made = quantize_model(
            read_model(model.SerializeToString()), known, lambda proto: prepare_here(proto, print), recipe
        )
        seconds[label] = time.process_time() - started
        row[label] = sqnr(model, made.proto, unseen)
    started = time.process_time()
    theirs = peer_model(model, known)
    row |= {"peer": sqnr(model, theirs, unseen), "seconds": round(seconds["mse"], 1)}
    return row | {"peer_seconds": round(time.process_time() - started, 1)}


OPTIONS = (
    ONLY.but(nargs="+", choices=NETWORKS, default=NETWORKS, metavar=None),
    SAMPLES.but(default=8),
    *OUTPUT,
)


def main(options: Given) -> None:
    rows = measure_all(
        options.only,
        lambda name: measure(name, options.samples),
        lambda row: "  ".join(f"{key} {value}" for key, value in row.items()),
        quiet=options.json,
    )
    finish(options, "quantization", {"samples": options.samples, "rows": rows}, shown={"rows": rows})


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
