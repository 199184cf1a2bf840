"""A small Llama: grouped queries, rotary positions, RMS normalization, SwiGLU. Keys and values of earlier tokens are
inputs and outputs.

After Touvron et al., "LLaMA: Open and Efficient Foundation Language Models" (2023) and Ainslie et al., "GQA" (2023),
and the nodes that torch's exporter writes; the shape is that of SmolLM2-135M, the smallest Llama that is widely used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto

from .gpt2 import with_logits
from .writer import LEAST, End, Rows, Size, Writer, floats, ids

EPSILON = 1e-5
THETA = 100_000.0
"""The base of the angles of rotary position embeddings."""
SYMBOLIC_MASK = 1024
"""Size of the causal mask in models whose number of tokens is symbolic. A prompt for these models has at most this many
tokens.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaSizes:
    """The sizes of a Llama; default: SmolLM2-135M with fewer layers. `groups`: number of heads of keys and values.
    `inner`: length of a token's vector inside a feed-forward network.
    """

    layers: int = 2
    width: int = 576
    heads: int = 9
    groups: int = 3
    inner: int = 1536
    vocabulary: int = 49_152


def llama(seed: int, batch: int, sequence: Size, sizes: LlamaSizes = LlamaSizes()) -> onnx.ModelProto:
    """Llama for a prompt. Inputs: ``input_ids`` and ``position_ids``, int64 [batch, sequence]. Outputs: ``logits``
    [batch, sequence, vocabulary] and, for each layer i, ``present.i.key`` and ``present.i.value`` [batch, groups,
    sequence, width / heads]. With `sequence` None the number of tokens is a symbol, for numbers up to `SYMBOLIC_MASK`.
    """
    return _llama(seed, batch, sequence, 0, sizes)


def llama_decode(seed: int, batch: int, past: int, sizes: LlamaSizes = LlamaSizes()) -> onnx.ModelProto:
    """Llama for one token after `past` earlier tokens (at least one). The inputs are the inputs of `llama` for one
    token, and the earlier tokens' keys and values ``past.i.key`` and ``past.i.value`` [batch, groups, past, width /
    heads]. Outputs: ``logits`` [batch, 1, vocabulary], and the keys and values of all past + 1 tokens, under the names
    of `llama`.
    """
    return _llama(seed, batch, 1, past, sizes)


def _llama(seed: int, batch: int, sequence: Size, past: int, sizes: LlamaSizes) -> onnx.ModelProto:
    w = Writer(rng=np.random.default_rng(seed))
    rows, width, heads, groups = (batch, sequence), sizes.width, sizes.heads, sizes.groups
    size, length = width // heads, None if sequence is None else past + sequence
    words = w.weight("words.weight", sizes.vocabulary, width)
    inputs: dict[str, End] = {"input_ids": ids(rows), "position_ids": ids(rows)}
    outputs = {"logits": floats((*rows, sizes.vocabulary))}
    turns = _turns(w, rows, size)
    data = w.node("Gather", "embeddings", [words, "input_ids"])
    for layer in range(sizes.layers):
        name = f"layer{layer}"
        normal = _rms_norm(w, f"{name}.norm1", data, width)
        query, key, value = (
            w.heads(
                f"{name}.{part}",
                w.linear(f"{name}.{part}", normal, width, count * size, bias=False),
                rows,
                count,
                size,
            )
            for part, count in (("query", heads), ("key", groups), ("value", groups))
        )
        query, key = (_turned(w, part, data, turns, size) for part, data in _named(name, query, key))
        repeated: list[str] = []
        for part, new in (("key", key), ("value", value)):
            output = f"present.{layer}.{part}"
            if past:
                inputs[f"past.{layer}.{part}"] = floats((batch, groups, past, size))
                w.graph.node("Concat", output, [f"past.{layer}.{part}", new], output, axis=2)
            else:
                w.graph.node("Identity", output, [new], output)
            outputs[output] = floats((batch, groups, length, size))
            repeated.append(_repeated(w, f"{name}.{part}s", output, (batch, groups, length, size), heads))
        keys = w.node("Transpose", f"{name}.keys.last", [repeated[0]], perm=[0, 1, 3, 2])
        products = w.node("MatMul", f"{name}.products", [query, keys])
        scaled = w.node("Mul", f"{name}.scaled", [products, w.number(size**-0.5)])
        if not past:
            count = SYMBOLIC_MASK if sequence is None else sequence
            hidden = np.triu(np.full((count, count), LEAST), 1)[None, None]
            mask = w.graph.constant("mask", hidden, np.float32)
            if sequence is None:
                mask = w.first(f"{name}.mask", mask, w.tokens("input_ids"), [2, 3])
            scaled = w.node("Add", f"{name}.masked", [scaled, mask])
        shares = w.node("Softmax", f"{name}.shares", [scaled], axis=-1)
        context = w.node("MatMul", f"{name}.context", [shares, repeated[1]])
        joined = w.joined(f"{name}.context", context, rows, width)
        attended = w.linear(f"{name}.attended", joined, width, width, bias=False)
        data = w.node("Add", f"{name}.sum1", [data, attended])
        normal = _rms_norm(w, f"{name}.norm2", data, width)
        gate, up = (
            w.linear(f"{name}.{part}", normal, width, sizes.inner, bias=False) for part in ("gate", "up")
        )
        share = w.node("Sigmoid", f"{name}.sigmoid", [gate])
        gated = w.node("Mul", f"{name}.gated", [w.node("Mul", f"{name}.silu", [gate, share]), up])
        down = w.linear(f"{name}.down", gated, sizes.inner, width, bias=False)
        data = w.node("Add", f"{name}.sum2", [data, down])
    data = _rms_norm(w, "norm", data, width)
    return with_logits(w, "llama_float", data, words, rows, (width, sizes.vocabulary), inputs, outputs)


def _named(name: str, query: str, key: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return (f"{name}.query.turned", query), (f"{name}.key.turned", key)


def _turns(w: Writer, rows: Rows, size: int) -> tuple[str, str]:
    """Adds nodes that compute the cosines and the sines of the rotary angles, for the position of each token; returns
    the names of the two tensors, [batch, 1, sequence, size]. The first half of the last axis has the same angles as the
    second half.
    """
    batch, sequence = rows
    steps = THETA ** -(np.arange(0, size, 2) / size)
    places = w.node("Cast", "turns.places", ["position_ids"], to=TensorProto.FLOAT)
    places = w.reshape("turns.column", places, (batch, sequence, 1))
    frequencies = w.graph.constant("turns.frequencies", steps[None, None], np.float32)
    angles = w.node("Mul", "turns.angles", [places, frequencies])
    both = w.node("Concat", "turns.both", [angles, angles], axis=-1)
    wide = w.node("Unsqueeze", "turns.wide", [both, w.numbers([1])])
    return w.node("Cos", "turns.cosines", [wide]), w.node("Sin", "turns.sines", [wide])


def _turned(w: Writer, name: str, data: str, turns: tuple[str, str], size: int) -> str:
    """Adds rotary positions: data * cosine + r * sine, where r is (-high, low) for the halves (low, high) of `data`.
    Returns the name of the output. `turns`: names of the cosines and sines; `size`: channels of a head.
    """
    halves = (
        w.node("Slice", f"{name}.{part}", [data, *map(w.numbers, ([start], [end], [3]))])
        for part, start, end in (("low", 0, size // 2), ("high", size // 2, size))
    )
    low, high = halves
    exchanged = w.node(
        "Concat", f"{name}.exchanged", [w.node("Neg", f"{name}.negative", [high]), low], axis=-1
    )
    straight = w.node("Mul", f"{name}.straight", [data, turns[0]])
    return w.node("Add", name, [straight, w.node("Mul", f"{name}.across", [exchanged, turns[1]])])


def _repeated(w: Writer, name: str, data: str, shape: tuple[int, int, Size, int], heads: int) -> str:
    """Repeats the keys or values `data` of each group of heads for every head of the group, by the nodes that exporters
    write: Unsqueeze, Expand, Reshape. `shape` of `data`: (batch, groups, tokens, channels of a head); `heads`: number
    of heads of all groups together. Returns the name of the output.
    """
    batch, groups, length, size = shape
    wide = w.node("Unsqueeze", f"{name}.wide", [data, w.numbers([2])])
    # With a size of 1, Expand leaves the input's size unchanged.
    full = (batch, groups, heads // groups, 1 if length is None else length, size)
    copied = w.node("Expand", f"{name}.copied", [wide, w.numbers(full)])
    return w.reshape(name, copied, (batch, heads, length, size))


def _rms_norm(w: Writer, name: str, data: str, size: int) -> str:
    """Adds RMS normalization over the last axis, of `size` elements, node by node: x / sqrt(mean of x**2 + epsilon) *
    weight. Returns the name of the output.
    """
    squares = w.node("Pow", f"{name}.squares", [data, w.number(2.0)])
    mean = w.node("ReduceMean", f"{name}.mean", [squares], axes=[-1])
    root = w.node("Sqrt", f"{name}.root", [w.node("Add", f"{name}.shifted", [mean, w.number(EPSILON)])])
    factor = w.node("Reciprocal", f"{name}.factor", [root])
    normal = w.node("Mul", f"{name}.normal", [data, factor])
    return w.node("Mul", name, [w.weight(f"{name}.weight", size, mean=1.0), normal])
