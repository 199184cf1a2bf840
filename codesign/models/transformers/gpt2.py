"""GPT-2: logits of the next token, for a whole prompt or token by token.

After Radford et al., "Language Models are Unsupervised Multitask Learners" (2019), the small model, and the nodes that
torch's exporter writes for it. Keys and values of earlier tokens are inputs and outputs, which a caller passes from
step to step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx

from .writer import LEAST, End, Ends, Rows, Size, Writer, floats, ids

EPSILON = 1e-5
POSITIONS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpt2Sizes:
    """The sizes of a GPT-2; default: the small model with fewer layers."""

    layers: int = 2
    width: int = 768
    heads: int = 12
    vocabulary: int = 50_257


def gpt2(seed: int, batch: int, sequence: Size, sizes: Gpt2Sizes = Gpt2Sizes()) -> onnx.ModelProto:
    """GPT-2 for a prompt. Input: ``input_ids``, int64 [batch, sequence]. Outputs: ``logits`` [batch, sequence,
    vocabulary] and, for each layer i, ``present.i.key`` and ``present.i.value`` [batch, heads, sequence, width /
    heads]. With `sequence` None the number of tokens is a symbol, for numbers up to `POSITIONS`.
    """
    return _gpt2(seed, batch, sequence, 0, sizes)


def gpt2_decode(seed: int, batch: int, past: int, sizes: Gpt2Sizes = Gpt2Sizes()) -> onnx.ModelProto:
    """GPT-2 for one token after `past` earlier tokens (at least one). Inputs: ``input_ids`` and ``position_ids``, int64
    [batch, 1], and ``past.i.key`` and ``past.i.value`` [batch, heads, past, width / heads]. Outputs: ``logits`` [batch,
    1, vocabulary], and the keys and values of all past + 1 tokens, under the names of `gpt2`.
    """
    return _gpt2(seed, batch, 1, past, sizes)


def _gpt2(seed: int, batch: int, sequence: Size, past: int, sizes: Gpt2Sizes) -> onnx.ModelProto:
    w = Writer(rng=np.random.default_rng(seed))
    rows, width, heads = (batch, sequence), sizes.width, sizes.heads
    size = width // heads
    words = w.weight("words.weight", sizes.vocabulary, width)
    inputs: dict[str, End] = {"input_ids": ids(rows)}
    count, place = None, "position_ids"
    if past:
        inputs["position_ids"] = ids(rows)
    else:
        places = np.arange(POSITIONS if sequence is None else sequence)[None]
        w.graph.constant("position_ids", places, np.int64)
    if sequence is None:
        count = w.tokens("input_ids")
        place = w.first("position_ids", place, count, [1])
    outputs = {"logits": floats((*rows, sizes.vocabulary))}
    embedded = w.node("Gather", "words", [words, "input_ids"])
    placed = w.node("Gather", "positions", [w.weight("positions.weight", POSITIONS, width), place])
    data = w.node("Add", "embeddings", [embedded, placed])
    for layer in range(sizes.layers):
        name = f"layer{layer}"
        normal = w.layer_norm(f"{name}.norm1", data, width, EPSILON)
        # Conv1D in the original: one Gemm for queries, keys and values.
        three = _gemm(w, f"{name}.three", normal, rows, width, 3 * width)
        parts = [f"{name}.{part}" for part in ("query", "key", "value")]
        w.graph.nodes.append(
            onnx.helper.make_node(
                "Split", [three, w.numbers([width] * 3)], parts, name=f"{name}.split", axis=2
            )
        )
        query, key, value = (w.heads(part, part, rows, heads, size) for part in parts)
        held = (batch, heads, past, size)
        present: list[str] = []
        for part, new in (("key", key), ("value", value)):
            output = f"present.{layer}.{part}"
            if past:
                inputs[f"past.{layer}.{part}"] = floats(held)
                w.graph.node("Concat", output, [f"past.{layer}.{part}", new], output, axis=2)
            else:
                w.graph.node("Identity", output, [new], output)
            outputs[output] = floats((batch, heads, None if sequence is None else past + sequence, size))
            present.append(output)
        keys = w.node("Transpose", f"{name}.keys", [present[0]], perm=[0, 1, 3, 2])
        products = w.node("MatMul", f"{name}.products", [query, keys])
        scaled = w.node("Div", f"{name}.scaled", [products, w.number(float(np.sqrt(size)))])
        if not past:
            table = np.tri(POSITIONS if sequence is None else sequence, dtype=np.bool_)[None, None]
            seen = w.graph.constant("seen", table, np.bool_)
            if count is not None:
                seen = w.first(f"{name}.seen", seen, count, [2, 3])
            scaled = w.node("Where", f"{name}.masked", [seen, scaled, w.number(LEAST)])
        shares = w.node("Softmax", f"{name}.shares", [scaled], axis=-1)
        context = w.node("MatMul", f"{name}.context", [shares, present[1]])
        joined = w.joined(f"{name}.context", context, rows, width)
        data = w.node("Add", f"{name}.sum1", [_gemm(w, f"{name}.attended", joined, rows, width, width), data])
        normal = w.layer_norm(f"{name}.norm2", data, width, EPSILON)
        inner = _gelu(w, f"{name}.gelu", _gemm(w, f"{name}.inner", normal, rows, width, 4 * width))
        outer = _gemm(w, f"{name}.outer", inner, rows, 4 * width, width)
        data = w.node("Add", f"{name}.sum2", [data, outer])
    data = w.layer_norm("norm", data, width, EPSILON)
    return with_logits(w, "gpt2_float", data, words, rows, (width, sizes.vocabulary), inputs, outputs)


def with_logits(
    w: Writer,
    name: str,
    data: str,
    words: str,
    rows: Rows,
    sizes: tuple[int, int],
    inputs: Ends,
    outputs: Ends,
) -> onnx.ModelProto:
    """Adds the logits: the products of `data` (the last hidden states) with the embeddings `words` of all words of the
    vocabulary. Returns the finished model, called `name`, with `inputs` and `outputs`. `rows`: (batch, number of
    tokens); `sizes`: (width, size of the vocabulary).
    """
    flat = w.reshape("logits.rows", data, (-1, sizes[0]))
    logits = w.node("Gemm", "logits.product", [flat, words], transB=1)
    w.reshape("logits", logits, (*rows, sizes[1]))
    return w.finish(name, inputs, outputs)


def _gemm(w: Writer, name: str, data: str, rows: Rows, depth: int, columns: int) -> str:
    flat = w.reshape(f"{name}.rows", data, (-1, depth))
    operands = [flat, w.weight(f"{name}.weight", depth, columns), w.weight(f"{name}.bias", columns)]
    return w.reshape(name, w.node("Gemm", f"{name}.product", operands), (*rows, columns))


def _gelu(w: Writer, name: str, data: str) -> str:
    """Adds GELU in the tanh form, node by node: x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x**3))). Returns the
    name of the output.
    """
    cube = w.node("Pow", f"{name}.cube", [data, w.number(3.0)])
    small = w.node("Mul", f"{name}.small", [cube, w.number(0.044715)])
    inner = w.node("Add", f"{name}.inner", [data, small])
    scaled = w.node("Mul", f"{name}.scaled", [inner, w.number(float(np.sqrt(2 / np.pi)))])
    share = w.node("Add", f"{name}.share", [w.node("Tanh", f"{name}.tanh", [scaled]), w.number(1.0)])
    return w.node("Mul", name, [w.node("Mul", f"{name}.half", [data, w.number(0.5)]), share])
