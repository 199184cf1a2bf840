"""Quantization of whole language models that start at token ids: all nodes except look-ups, masks and angles are one
program of the accelerator.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from campaign import representatives

from vdla.benchmarks.harness.quantized import vta_with
from vdla.codesign.models.transformers import (
    BertSizes,
    Gpt2Sizes,
    LlamaSizes,
    MobileBertSizes,
    bert,
    gpt2,
    gpt2_decode,
    llama,
    llama_decode,
    mobilebert,
    token_inputs,
)
from vdla.isa.config_text import toml_text

GPT2 = Gpt2Sizes(layers=1, width=32, heads=2, vocabulary=50)
LLAMA = LlamaSizes(layers=1, width=32, heads=4, groups=2, inner=48, vocabulary=50)
MODELS = {
    "bert": lambda: bert(0, 1, 5, BertSizes(layers=1, width=32, heads=2, inner=48, vocabulary=50)),
    "mobilebert": lambda: mobilebert(
        1,
        1,
        5,
        MobileBertSizes(layers=1, width=32, embedding=16, bottleneck=16, heads=2, stack=2, vocabulary=50),
    ),
    "gpt2": lambda: gpt2(1, 1, 5, GPT2),
    "gpt2_decode": lambda: gpt2_decode(1, 1, 5, GPT2),
    "llama": lambda: llama(1, 1, 5, LLAMA),
    "llama_decode": lambda: llama_decode(1, 1, 5, LLAMA),
}
BESIDE = frozenset(
    ["Add", "Cast", "Concat", "Cos", "Gather", "Mul", "Pad", "Reshape", "Sin", "Slice", "Sub", "Unsqueeze"]
)
"""Operators that run on the processor: look-ups and their sums, masks, and the angles of positions."""


@pytest.mark.parametrize("name", representatives(MODELS, 0, always=["mobilebert", "llama_decode"]))
def test_one_region_from_embeddings_on(vdla, tmp_path: Path, name: str) -> None:
    model, machine = MODELS[name](), tmp_path / "machine.toml"
    machine.write_text(toml_text(vta_with()), encoding="utf-8")
    onnx.save(model, tmp_path / "model.onnx")
    samples = [token_inputs(model, seed) for seed in range(3)]
    data = {key: np.concatenate([sample[key] for sample in samples]) for key in samples[0]}
    np.savez(tmp_path / "data.npz", allow_pickle=False, **data)
    quantized = tmp_path / "quantized.onnx"
    vdla(
        *("quantize", tmp_path / "model.onnx", "--whole", "--calibration", tmp_path / "data.npz"),
        *("-o", quantized, "--json"),
    ).document()
    document = vdla("run", quantized, "--config", machine, "--target", "vdla,llvm", "--json").document()
    assert document["check"]["passed"]
    regions = document["regions"]
    assert [region["target"] for region in regions].count("vdla") == 1
    for region in regions:
        assert region["target"] == "vdla" or set(region["operators"]) <= BESIDE
