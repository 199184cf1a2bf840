"""The LSTM language model of the TVM paper's evaluation, float32 only.

After Zaremba et al., "Recurrent Neural Network Regularization" (2014), the medium network: two layers of 650 units,
sequences of 35 words, a vocabulary of 10,000. Its inputs are embedded words.
"""

import numpy as np
import onnx

from vdla.compiler.frontends.onnx.model.builder import OnnxGraph

from .layers import INPUT
from .onnx_graph import OUTPUT, finish

STEPS, UNITS, LAYERS, VOCABULARY = 35, 650, 2, 10_000
BOUND = 0.05
"""Bound of the uniform distribution of the random weights, as for the paper's initial weights."""


def language_model(seed: int, batch: int) -> onnx.ModelProto:
    """Return the model: ``input`` float32 [batch, 35, 650], embedded words; ``output`` float32 [batch, 35, 10000], the
    logits of the word that follows each input word.
    """
    rng = np.random.default_rng(seed)
    graph = OnnxGraph()

    def weights(name: str, *shape: int) -> str:
        return graph.constant(name, rng.uniform(-BOUND, BOUND, shape), np.float32)

    data = graph.node("Transpose", "steps_first", [INPUT], "steps_first", perm=[1, 0, 2])
    direction = graph.constant("direction_axis", [1], np.int64)
    for layer in range(1, LAYERS + 1):
        name = f"lstm{layer}"
        operands = [
            weights(f"{name}.weight", 1, 4 * UNITS, UNITS),
            weights(f"{name}.recurrence", 1, 4 * UNITS, UNITS),
            weights(f"{name}.bias", 1, 8 * UNITS),
        ]
        states = graph.node("LSTM", name, [data, *operands], f"{name}.directions", hidden_size=UNITS)
        data = graph.node("Squeeze", f"{name}.squeeze", [states, direction], name)
    data = graph.node("Transpose", "batch_first", [data], "batch_first", perm=[1, 0, 2])
    rows = graph.constant("rows", [batch * STEPS, UNITS], np.int64)
    data = graph.node("Reshape", "flatten", [data, rows], "words")
    operands = [weights("logits.weight", VOCABULARY, UNITS), weights("logits.bias", VOCABULARY)]
    data = graph.node("Gemm", "logits", [data, *operands], "logits", transB=1)
    shape = (batch, STEPS, VOCABULARY)
    graph.node("Reshape", "unflatten", [data, graph.constant("shape", shape, np.int64)], OUTPUT)
    return finish(graph, "language_model_float", input_shape=(batch, STEPS, UNITS), output_shape=shape)
