"""Language models for the accelerator, starting at token ids or at embeddings, as float ONNX models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import onnx
from onnx.utils import Extractor

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
from vdla.codesign.models.transformers.writer import SEQUENCE


class Feeds(Protocol):
    """A function that returns seeded inputs by name, with `tokens` tokens if the model leaves their number open."""

    def __call__(self, seed: int, tokens: int = ...) -> dict[str, np.ndarray]: ...


TOKENS = 128
"""Number of tokens of a prompt, or number of all tokens to which a decode step attends."""
WORDS = 2048
"""Number of words of every vocabulary. Logits are products with all words; the original models have 15 to 25 times as
many words. All other sizes except the number of layers are those of the original models.
"""
FLOAT = ("mask", ".masked", ".shares", ".shifted", ".normal")
"""Name endings of nodes that must stay float. A mask adds the lowest float32, so that 8 bits cannot represent masked
and other scores together; and 8 bits are too few for the statistics of a whole row in a normalization.
"""
ANGLES = "turns."
"""Prefix of the names of nodes that compute sines and cosines of token positions: 8 bits are too few for angles of many
turns.
"""


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """A language model. `build` makes the whole model, which starts at token ids. The part after the embeddings is also
    measured alone: it starts at the tensors `embedded` and ends at the model's outputs. `float_ends`: for an output
    that no quantizer rounds, the name of an earlier tensor, at which the part ends instead.
    """

    build: Callable[[], onnx.ModelProto]
    embedded: tuple[str, ...]
    float_ends: Mapping[str, str] = field(default_factory=dict)


def _bert(layers: int, width: int = 768, heads: int = 12) -> LanguageModel:
    sizes = BertSizes(layers=layers, width=width, heads=heads, inner=4 * width, vocabulary=WORDS)
    ends = {"pooler_output": "pooler"}
    return LanguageModel(lambda: bert(0, 1, TOKENS, sizes), ("embeddings", "mask"), ends)


_GPT2 = Gpt2Sizes(vocabulary=WORDS)
_LLAMA = LlamaSizes(vocabulary=WORDS)
_MOBILE = MobileBertSizes(vocabulary=WORDS)
_TURNED = ("embeddings", "turns.cosines", "turns.sines")
MODELS: Mapping[str, LanguageModel] = {
    "bert_2": _bert(2),
    "bert_4": _bert(4),
    "minilm_6": _bert(6, 384, 12),
    "mobilebert_2": LanguageModel(lambda: mobilebert(0, 1, TOKENS, _MOBILE), ("words", "types", "mask")),
    "gpt2_prompt": LanguageModel(lambda: gpt2(0, 1, TOKENS, _GPT2), ("embeddings",)),
    "gpt2_decode": LanguageModel(lambda: gpt2_decode(0, 1, TOKENS - 1, _GPT2), ("embeddings",)),
    "llama_prompt": LanguageModel(lambda: llama(0, 1, TOKENS, _LLAMA), _TURNED),
    "llama_decode": LanguageModel(lambda: llama_decode(0, 1, TOKENS - 1, _LLAMA), _TURNED),
}
"""BERT-base, all-MiniLM-L6, MobileBERT, GPT-2 small and SmolLM2-135M, each with two layers or the number of layers in
its name.
"""


def left_float(model: onnx.ModelProto) -> list[str]:
    """Names of the nodes of `model` that a user excludes from quantization: masks, normalizations, angles and look-ups.
    The look-ups share their weights with the logits, and quantized weights would have one scale for each word.
    """
    constants = {item.name for item in model.graph.initializer}
    return [
        node.name
        for node in model.graph.node
        if node.name.endswith(FLOAT)
        or any(name.endswith(".normal") for name in node.input)
        or node.name.startswith(ANGLES)
        or (node.op_type == "Gather" and node.input[0] in constants)
    ]


def from_embeddings(model: onnx.ModelProto, of: LanguageModel) -> tuple[onnx.ModelProto, Feeds]:
    """The part of `model` after its embeddings, with cached keys and values as further inputs; and a function that
    returns its seeded inputs.

    The inputs are embeddings of seeded ids, computed by ONNX Runtime, of `tokens` tokens if the number of tokens is
    symbolic.
    """
    import onnxruntime

    inferred = onnx.shape_inference.infer_shapes(model)
    kept = [info.name for info in model.graph.input if info.name.startswith("past.")]
    tensors, ends = of.embedded, [of.float_ends.get(info.name, info.name) for info in model.graph.output]
    part = Extractor(inferred).extract_model([*tensors, *kept], ends)
    with_tensors = onnx.ModelProto.FromString(model.SerializeToString())
    with_tensors.graph.output.extend(onnx.ValueInfoProto(name=name) for name in tensors)
    session = onnxruntime.InferenceSession(
        with_tensors.SerializeToString(), providers=["CPUExecutionProvider"]
    )

    def feeds(seed: int, tokens: int = TOKENS) -> dict[str, np.ndarray]:
        ids = token_inputs(model, seed, tokens=tokens)
        values = session.run(list(tensors), ids)
        return {name: ids[name] for name in kept} | dict(zip(tensors, map(np.asarray, values), strict=True))

    if any(size.dim_param for info in model.graph.input for size in info.type.tensor_type.shape.dim):
        _name_sizes(part, feeds(0, 2), feeds(0, 3))
    return part, feeds


def _name_sizes(
    model: onnx.ModelProto, arrays: Mapping[str, np.ndarray], longer: Mapping[str, np.ndarray]
) -> None:
    """Writes the shapes of the inputs into a model. `arrays` and `longer` are inputs for two different numbers of
    tokens: a size that differs between them depends on this number, and becomes the symbol SEQUENCE. ONNX's inference
    would give each unknown size a separate symbol.
    """
    for info in model.graph.input:
        sizes = zip(arrays[info.name].shape, longer[info.name].shape, strict=True)
        shape = [size if size == other else SEQUENCE for size, other in sizes]
        info.CopyFrom(onnx.helper.make_tensor_value_info(info.name, info.type.tensor_type.elem_type, shape))
