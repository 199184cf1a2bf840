"""Kind "tflite": TFLite models of one operator or a network, intact or damaged, run on this processor and, if they are
quantized, on the accelerator.

`vdla run` converts each model to ONNX, and itself compares the outputs with those of ONNX Runtime on the converted
model.
"""

from __future__ import annotations

from pathlib import Path

from vdla.benchmarks.harness.tflite_networks import NETWORKS
from vdla.benchmarks.harness.tflite_operators import cases

from .drawing import Draw, damaged
from .outcome import Outcome, call, first_failure, judge


def tflite_case(seed: int, index: int, folder: Path) -> Outcome:
    """Runs one random TFLite model; returns the first failure, else the first right outcome, else the last one. `seed`,
    `index`: the seed of the campaign and the number of the case; `folder`: an empty folder for files.
    """
    draw = Draw("tflite", seed, index)
    path, out = folder / "net.tflite", folder / "out.npz"
    path.write_bytes(random_file(draw))

    def run(*options: str) -> Outcome:
        out.unlink(missing_ok=True)
        return judge(call("run", path, "--json", "--outputs", out, *options), files=[out])

    attempts = [lambda: run("--device", "cpu", "--no-cache"), lambda: run("--target", "vdla,llvm")]
    return first_failure(attempts if draw.chance(0.3) else attempts[:1])


def random_file(draw: Draw) -> bytes:
    """The bytes of a random model, damaged in three of four cases: at random, or in one to three bytes after the
    header.
    """
    makers = [*NETWORKS.values(), *(make for _, make in cases())]
    content = draw.of(makers)().content()
    if draw.chance(0.25):
        return content
    if draw.chance(0.2):
        return damaged(draw, content)
    changed = bytearray(content)
    for _ in range(1 + draw.below(3)):
        changed[8 + draw.below(len(changed) - 8)] = draw.of((0, 1, 2, 127, 128, 255, draw.below(256)))
    return bytes(changed)
