"""Encoders with token ids as inputs: BERT and MobileBERT.

BERT follows Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers" (2018), the base model, and the
nodes that torch's exporter writes for it. MobileBERT follows Sun et al., "MobileBERT: a Compact Task-Agnostic BERT for
Resource-Limited Devices" (2020), table 1: bottlenecks around attention and a stack of feed-forward networks, a scale
and a bias in place of normalizations, ReLU.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto

from .writer import LEAST, Rows, Size, Writer, floats

VOCABULARY, POSITIONS, TYPES = 30_522, 512, 2
EPSILON = 1e-12
LAST = 2**31 - 1
"""The end index of a slice that extends to the end of the axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BertSizes:
    """The sizes of a BERT; default: BERT-base with fewer layers. `inner`: length of a token's vector between the two
    products of a feed-forward network.
    """

    layers: int = 2
    width: int = 768
    heads: int = 12
    inner: int = 3072
    vocabulary: int = VOCABULARY


@dataclass(frozen=True, slots=True, kw_only=True)
class MobileBertSizes:
    """The sizes of a MobileBERT; attention and feed-forward networks use vectors of `bottleneck` numbers for each
    token. `embedding`: length of the vector of a word of the vocabulary. `stack`: number of feed-forward networks in a
    layer.
    """

    layers: int = 2
    width: int = 512
    embedding: int = 128
    bottleneck: int = 128
    heads: int = 4
    stack: int = 4
    vocabulary: int = VOCABULARY


def bert(seed: int, batch: int, sequence: Size, sizes: BertSizes = BertSizes()) -> onnx.ModelProto:
    """BERT. Inputs: ``input_ids``, ``attention_mask`` and ``token_type_ids``, int64 [batch, sequence]. Outputs:
    ``last_hidden_state``, float32 [batch, sequence, width], and ``pooler_output`` [batch, width]. With `sequence` None
    the number of tokens is a symbol, so that any number up to `POSITIONS` is possible.
    """
    w = Writer(rng=np.random.default_rng(seed))
    rows, width = (batch, sequence), sizes.width
    mask = _mask(w)
    data = _embedded(w, sequence, width, sizes.vocabulary)
    data = w.layer_norm("embeddings.norm", data, width, EPSILON)
    for layer in range(sizes.layers):
        data = bert_layer(w, f"layer{layer}", data, mask, rows, sizes)
    w.graph.node("Identity", "last", [data], "last_hidden_state")
    first = w.node("Gather", "first", [data, w.graph.constant("zero", 0, np.int64)], axis=1)
    w.graph.node("Tanh", "tanh", [w.linear("pooler", first, width, width)], "pooler_output")
    outputs = {"last_hidden_state": floats((*rows, width)), "pooler_output": floats((batch, width))}
    return w.finish("bert_float", _inputs(rows), outputs)


def bert_encoder(seed: int, batch: int, sequence: Size, sizes: BertSizes = BertSizes()) -> onnx.ModelProto:
    """The layers of `bert` alone, for sequences without masked tokens. The input ``embeddings`` is float32 [batch,
    sequence, width]; the output ``last_hidden_state`` has the same shape.
    """
    w, rows = Writer(rng=np.random.default_rng(seed)), (batch, sequence)
    data = "embeddings"
    for layer in range(sizes.layers):
        data = bert_layer(w, f"layer{layer}", data, None, rows, sizes)
    w.graph.node("Identity", "last", [data], "last_hidden_state")
    end = floats((*rows, sizes.width))
    return w.finish("bert_encoder_float", {"embeddings": end}, {"last_hidden_state": end})


def bert_layer(w: Writer, name: str, data: str, mask: str | None, rows: Rows, sizes: BertSizes) -> str:
    """Adds one layer of `bert`; the names of its nodes begin with `name`. Input `data` and the returned output are the
    names of tensors [batch, sequence, width]. `rows`: (batch, sequence). `mask`: name of the tensor added to scores.
    """
    width = sizes.width
    query, key, value = (w.linear(f"{name}.{part}", data, width, width) for part in ("query", "key", "value"))
    context = _attention(w, name, (query, key, value), mask, rows, sizes.heads, width // sizes.heads)
    attended = w.linear(f"{name}.attended", context, width, width)
    data = w.layer_norm(f"{name}.norm1", w.node("Add", f"{name}.sum1", [attended, data]), width, EPSILON)
    inner = _gelu(w, f"{name}.gelu", w.linear(f"{name}.inner", data, width, sizes.inner))
    outer = w.linear(f"{name}.outer", inner, sizes.inner, width)
    return w.layer_norm(f"{name}.norm2", w.node("Add", f"{name}.sum2", [outer, data]), width, EPSILON)


def mobilebert(
    seed: int, batch: int, sequence: Size, sizes: MobileBertSizes = MobileBertSizes()
) -> onnx.ModelProto:
    """MobileBERT, with the inputs and outputs of `bert` (token ids, mask, token types; hidden states) except
    ``pooler_output``.
    """
    w = Writer(rng=np.random.default_rng(seed))
    rows, width, narrow = (batch, sequence), sizes.width, sizes.bottleneck
    mask = _mask(w)
    words = w.node(
        "Gather", "words", [w.weight("words.weight", sizes.vocabulary, sizes.embedding), "input_ids"]
    )
    # Each token's embedding is between those of its neighbours.
    padded = w.node("Pad", "padded", [words, w.numbers((0, 1, 0, 0, 1, 0))])
    # If the number of tokens is not known, ends are counted from the end of the axis.
    ends = (-2, LAST) if sequence is None else (sequence, sequence + 2)
    before, after = (
        w.node("Slice", part, [padded, *map(w.numbers, ([start], [end], [1]))])
        for part, start, end in (("before", 0, ends[0]), ("after", 2, ends[1]))
    )
    three = w.node("Concat", "three", [after, words, before], axis=2)
    data = w.linear("transformed", three, 3 * sizes.embedding, width)
    data = w.node("Add", "positioned", [data, _positions(w, sequence, width)])
    data = w.node("Add", "typed", [data, _types(w, width)])
    data = _no_norm(w, "embeddings.norm", data, width)
    for layer in range(sizes.layers):
        name = f"layer{layer}"

        def narrowed(part: str, data: str = data, name: str = name) -> str:
            return _no_norm(w, f"{name}.{part}.norm", w.linear(f"{name}.{part}", data, width, narrow), narrow)

        thin, shared = narrowed("input"), narrowed("shared")
        query, key = (w.linear(f"{name}.{part}", shared, narrow, narrow) for part in ("query", "key"))
        value = w.linear(f"{name}.value", data, width, narrow)
        context = _attention(w, name, (query, key, value), mask, rows, sizes.heads, narrow // sizes.heads)
        thin = _with_rest(w, f"{name}.attended", context, thin, (narrow, narrow))
        for i in range(sizes.stack):
            part = f"{name}.network{i}"
            inner = w.node("Relu", f"{part}.relu", [w.linear(f"{part}.inner", thin, narrow, width)])
            thin = _with_rest(w, f"{part}.outer", inner, thin, (width, narrow))
        data = _with_rest(w, f"{name}.widened", thin, data, (narrow, width))
    w.graph.node("Identity", "last", [data], "last_hidden_state")
    return w.finish("mobilebert_float", _inputs(rows), {"last_hidden_state": floats((*rows, width))})


def _inputs(rows: Rows) -> dict[str, tuple[int, Rows]]:
    return dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), (TensorProto.INT64, rows))


def _mask(w: Writer) -> str:
    """Adds the mask [batch, 1, 1, sequence] that is added to scores: 0 for tokens with attention, the lowest float32
    for others.
    """
    wide = w.node("Unsqueeze", "mask.wide", ["attention_mask", w.numbers([1, 2])])
    real = w.node("Cast", "mask.real", [wide], to=TensorProto.FLOAT)
    rest = w.node("Sub", "mask.rest", [w.number(1.0), real])
    return w.node("Mul", "mask", [rest, w.number(LEAST)])


def _embedded(w: Writer, sequence: Size, width: int, vocabulary: int) -> str:
    words = w.node("Gather", "words", [w.weight("words.weight", vocabulary, width), "input_ids"])
    typed = w.node("Add", "typed", [words, _types(w, width)])
    return w.node("Add", "embeddings", [typed, _positions(w, sequence, width)])


def _types(w: Writer, width: int) -> str:
    return w.node("Gather", "types", [w.weight("types.weight", TYPES, width), "token_type_ids"])


def _positions(w: Writer, sequence: Size, width: int) -> str:
    """Adds the embeddings of the first `sequence` token positions, gathered as exporters do: by a constant list of
    indices or, if the number of tokens is symbolic, by the first part of that list. Returns the name of the output.
    """
    table = w.weight("positions.weight", POSITIONS, width)
    places = np.arange(POSITIONS if sequence is None else sequence)[None]
    first = w.graph.constant("position_ids", places, np.int64)
    if sequence is None:
        first = w.first("position_ids", first, w.tokens("input_ids"), [1])
    return w.node("Gather", "positions", [table, first])


def _attention(
    w: Writer,
    name: str,
    parts: tuple[str, str, str],
    mask: str | None,
    rows: Rows,
    heads: int,
    size: int,
) -> str:
    """Adds attention: softmax of scaled and masked products of queries and keys, times values; then the heads are
    joined. `parts`: names of queries, keys and values; `rows`: (batch, sequence); `size`: channels of a head. Returns
    the name of the output.
    """
    query = w.heads(f"{name}.query", parts[0], rows, heads, size)
    key = w.heads(f"{name}.key", parts[1], rows, heads, size, last=True)
    value = w.heads(f"{name}.value", parts[2], rows, heads, size)
    scores = w.node("MatMul", f"{name}.products", [query, key])
    scaled = w.node("Div", f"{name}.scaled", [scores, w.number(float(np.sqrt(size)))])
    masked = scaled if mask is None else w.node("Add", f"{name}.masked", [scaled, mask])
    shares = w.node("Softmax", f"{name}.shares", [masked], axis=-1)
    context = w.node("MatMul", f"{name}.context", [shares, value])
    return w.joined(f"{name}.context", context, rows, heads * size)


def _gelu(w: Writer, name: str, data: str) -> str:
    """Adds GELU node by node: x / 2 * (1 + erf(x / sqrt 2)). Returns the name of the output."""
    scaled = w.node("Div", f"{name}.scaled", [data, w.number(float(np.sqrt(2.0)))])
    share = w.node("Add", f"{name}.share", [w.node("Erf", f"{name}.erf", [scaled]), w.number(1.0)])
    return w.node("Mul", name, [w.node("Mul", f"{name}.twice", [data, share]), w.number(0.5)])


def _no_norm(w: Writer, name: str, data: str, size: int) -> str:
    """Adds MobileBERT's replacement of normalization: a scale and a bias for each channel. Returns the name of the
    output.
    """
    scaled = w.node("Mul", f"{name}.scaled", [data, w.weight(f"{name}.weight", size, mean=1.0)])
    return w.node("Add", name, [scaled, w.weight(f"{name}.bias", size)])


def _with_rest(w: Writer, name: str, data: str, rest: str, sizes: tuple[int, int]) -> str:
    linear = w.linear(name, data, *sizes)
    return _no_norm(w, f"{name}.norm", w.node("Add", f"{name}.sum", [linear, rest]), sizes[1])
