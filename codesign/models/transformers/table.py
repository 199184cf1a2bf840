"""Table of the transformers by name: functions that build them, and their default and largest numbers of tokens and
layers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto

from vdla.util.errors import UserError

from .bert import POSITIONS as BERT_POSITIONS
from .bert import BertSizes, MobileBertSizes, bert, mobilebert
from .gpt2 import POSITIONS, Gpt2Sizes, gpt2, gpt2_decode
from .llama import LlamaSizes, llama, llama_decode
from .writer import Size

TOKENS = 128
"""Default number of tokens of a sequence, or of its cached keys and values."""
LAYERS = 2
"""Default number of layers; the original networks have more."""


@dataclass(frozen=True, slots=True)
class Transformer:
    """A transformer: `build` makes it from seed, batch, number of tokens (None: symbolic) and number of layers; `most`
    is its largest number of tokens.
    """

    build: Callable[[int, int, Size, int], onnx.ModelProto]
    most: int
    layers: int
    """Number of layers that the original network has."""


TABLE: dict[str, Transformer] = {
    "bert": Transformer(lambda s, b, n, k: bert(s, b, n, BertSizes(layers=k)), BERT_POSITIONS, 12),
    "mobilebert": Transformer(
        lambda s, b, n, k: mobilebert(s, b, n, MobileBertSizes(layers=k)), BERT_POSITIONS, 24
    ),
    "gpt2": Transformer(lambda s, b, n, k: gpt2(s, b, n, Gpt2Sizes(layers=k)), POSITIONS, 12),
    "gpt2_decode": Transformer(
        lambda s, b, n, k: gpt2_decode(s, b, _cached_tokens(n), Gpt2Sizes(layers=k)), POSITIONS - 1, 12
    ),
    "llama": Transformer(lambda s, b, n, k: llama(s, b, n, LlamaSizes(layers=k)), 8192, 30),
    "llama_decode": Transformer(
        lambda s, b, n, k: llama_decode(s, b, _cached_tokens(n), LlamaSizes(layers=k)), 8191, 30
    ),
}
NAMES = tuple(TABLE)


def _cached_tokens(tokens: Size) -> int:
    """Returns `tokens`, the number of cached tokens of a decode step. Raises UserError if it is None (a symbolic
    number), because the step would attend to padding after the cached tokens.
    """
    if tokens is None:
        raise UserError("a decode step keeps a fixed number of tokens; leave --symbolic out")
    return tokens


def build_transformer(
    name: str,
    *,
    seed: int = 0,
    batch: int = 1,
    tokens: int | None = None,
    layers: int | None = None,
    symbolic: bool = False,
) -> onnx.ModelProto:
    """The model for `tokens` tokens at once or, if `name` ends in ``_decode``, for one token after `tokens` earlier
    tokens.

    `symbolic`: the model takes any number of tokens at once, up to the limit of its table of positions or its causal
    mask; the number is the symbol ``sequence``.

    Raises UserError for an unknown name, for numbers of tokens or layers below 1 or above those of the original, and
    for a symbolic number of earlier tokens (``_decode``).
    """
    if name not in TABLE:
        raise UserError(f"no transformer is called {name!r}; choose one of {', '.join(NAMES)}")
    entry = TABLE[name]
    tokens, layers = TOKENS if tokens is None else tokens, LAYERS if layers is None else layers
    if not 1 <= tokens <= entry.most:
        raise UserError(f"{name} takes 1 to {entry.most:,} tokens, not {tokens:,}; choose a size among these")
    if not 1 <= layers <= entry.layers:
        raise UserError(f"{name} has 1 to {entry.layers} layers, not {layers}; choose among these")
    return entry.build(seed, batch, None if symbolic else tokens, layers)


def token_inputs(model: onnx.ModelProto, seed: int = 0, *, tokens: int = TOKENS) -> dict[str, np.ndarray]:
    """Seeded inputs of a transformer, with `tokens` tokens if their number is symbolic.

    Ids are below the size of the vocabulary. Position ids ascend from the number of cached tokens. The mask excludes
    the last eighth of the tokens. Token types are 0 in the first half and 1 in the second. Keys and values are normally
    distributed.
    """
    rng = np.random.default_rng(seed)
    words = next(t.dims[0] for t in model.graph.initializer if t.name == "words.weight")
    shapes = {
        info.name: (
            info.type.tensor_type.elem_type,
            [d.dim_value or tokens for d in info.type.tensor_type.shape.dim],
        )
        for info in model.graph.input
    }
    past = shapes["past.0.key"][1][2] if "past.0.key" in shapes else 0
    found: dict[str, np.ndarray] = {}
    for name, (dtype, shape) in shapes.items():
        place = np.broadcast_to(np.arange(shape[-1]), shape)
        match name:
            case "input_ids":
                found[name] = rng.integers(0, words, shape)
            case "position_ids":
                found[name] = past + place
            case "attention_mask":
                found[name] = (place < shape[-1] - shape[-1] // 8).astype(np.int64)
            case "token_type_ids":
                found[name] = (place >= shape[-1] // 2).astype(np.int64)
            case _:
                assert dtype == TensorProto.FLOAT
                found[name] = rng.standard_normal(shape).astype(np.float32)
    return {name: np.ascontiguousarray(array) for name, array in found.items()}
