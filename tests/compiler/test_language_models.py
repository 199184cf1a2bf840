"""Language models on accelerators, quantized as a user would do it. A model that reads embeddings runs completely on
the accelerator; a model that reads token ids looks the embeddings up on the processor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from vdla.benchmarks.harness.language_models import LanguageModel, from_embeddings, left_float
from vdla.benchmarks.harness.quantized import quantize_qdq
from vdla.codesign.evaluate import compare_layers
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
from vdla.compiler.divided import compile_divided
from vdla.compiler.frontends.onnx.float_importer import OLDEST_OPSET
from vdla.compiler.frontends.onnx.partition import partition_model
from vdla.compiler.frontends.onnx.submodel import prepare_model
from vdla.compiler.graph.abilities import Abilities
from vdla.compiler.graph.host import load_outputs, store_inputs
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.pipeline import compile_program
from vdla.compiler.runtime.accelerator import run
from vdla.isa.check import check
from vdla.isa.config import load_config

TINY = load_config("tiny")
MACHINE = replace(
    TINY, extensions=(*TINY.extensions, "table", "broadcast", "zero_points", "rows"), row_entries=8
)
TOKENS, WORDS = 8, 24
_BERT = BertSizes(layers=1, width=16, heads=2, inner=32, vocabulary=WORDS)
_MOBILE = MobileBertSizes(layers=1, width=16, embedding=8, bottleneck=8, heads=2, stack=1, vocabulary=WORDS)
_GPT2 = Gpt2Sizes(layers=1, width=16, heads=2, vocabulary=WORDS)
_LLAMA = LlamaSizes(layers=1, width=32, heads=4, groups=2, inner=32, vocabulary=WORDS)
_TURNED = ("embeddings", "turns.cosines", "turns.sines")
MODELS = {
    "bert": LanguageModel(
        lambda: bert(0, 1, TOKENS, _BERT), ("embeddings", "mask"), {"pooler_output": "pooler"}
    ),
    "mobilebert": LanguageModel(lambda: mobilebert(0, 1, TOKENS, _MOBILE), ("words", "types", "mask")),
    "gpt2": LanguageModel(lambda: gpt2(0, 1, TOKENS, _GPT2), ("embeddings",)),
    "gpt2_decode": LanguageModel(lambda: gpt2_decode(0, 1, TOKENS - 1, _GPT2), ("embeddings",)),
    "llama": LanguageModel(lambda: llama(0, 1, TOKENS, _LLAMA), _TURNED),
    "llama_decode": LanguageModel(lambda: llama_decode(0, 1, TOKENS - 1, _LLAMA), _TURNED),
}
LOOK_UP = {"Gather", "Unsqueeze", "Cast", "Sub", "Mul", "Concat", "Cos", "Sin", "Reshape", "Tanh"}
"""Operators that run on the processor: for look-ups of words, masks and angles, and the end of BERT's pooler."""


def quantized(folder: Path, model: onnx.ModelProto, feeds: Callable[[int], dict[str, np.ndarray]]) -> Path:
    plain, out = folder / "plain.onnx", folder / "quantized.onnx"
    plain.write_bytes(model.SerializeToString())
    quantize_qdq(plain, out, map(feeds, range(2)), exclude=left_float(model))
    return out


@pytest.mark.parametrize("name", MODELS)
def test_whole_from_embeddings_on(name: str, tmp_path: Path) -> None:
    part, feeds = from_embeddings(MODELS[name].build(), MODELS[name])
    path = quantized(tmp_path, part, feeds)
    made = compile_program(path, MACHINE, verify=True)
    assert check(MACHINE, made.program.instructions, made.program.image) == []
    arrays = feeds(7)
    own = load_outputs(made.graph, interpret(made.graph, store_inputs(made.graph, arrays)))
    outputs = run(made, arrays).outputs
    assert outputs.keys() == own.keys() == {info.name for info in part.graph.output}
    for output, values in own.items():
        np.testing.assert_array_equal(outputs[output], values, err_msg=output)
    assert compare_layers(path, [arrays]).largest <= 1


@pytest.mark.parametrize("name", ["bert", "gpt2_decode", "llama_decode"])
def test_from_ids_with_the_look_up_elsewhere(name: str, tmp_path: Path) -> None:
    model = MODELS[name].build()
    path = quantized(tmp_path, model, lambda seed: token_inputs(model, seed))
    label, proto = prepare_model(path, least_opset=OLDEST_OPSET)
    regions = partition_model(label, proto, abilities=Abilities.of(MACHINE)).regions
    assert [region.side for region in regions].count("accelerator") == 1
    for region in regions:
        assert region.side == "accelerator" or LOOK_UP.issuperset(region.node_types)


def test_keys_and_values_go_on_from_step_to_step(tmp_path: Path) -> None:
    model = MODELS["gpt2_decode"].build()
    path = quantized(tmp_path, model, lambda seed: token_inputs(model, seed))
    arrays = token_inputs(model, 5)
    division = compile_divided(path, MACHINE)
    with division.network as network:
        outputs = network.run(arrays).outputs
    for part in ("key", "value"):
        past, present = arrays[f"past.0.{part}"], outputs[f"present.0.{part}"]
        kept = present[:, :, : TOKENS - 1]
        assert np.abs(np.clip(kept, -1.5, 1.5) - np.clip(past, -1.5, 1.5)).max() <= 0.02
