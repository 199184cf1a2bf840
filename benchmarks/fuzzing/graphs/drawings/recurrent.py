"""Drawings (random nodes) of LSTM, GRU and RNN, and of ONNX Runtime's quantized form of LSTM."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..builder import Builder
from ..tables import Operator

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1, "DynamicQuantizeLSTM": 4}
DEFAULT = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
OTHERS = (
    "Relu",
    "Tanh",
    "Sigmoid",
    "Affine",
    "LeakyRelu",
    "ThresholdedRelu",
    "ScaledTanh",
    "HardSigmoid",
    "Elu",
)
OTHERS_LAST = ("Softsign", "Softplus")


def recurrent(b: Builder, operator: Operator) -> None:
    """Adds a random node of `operator` (LSTM, GRU, RNN or DynamicQuantizeLSTM) in any direction. Each optional input is
    present or left out.
    """
    kind = operator.name
    gates, hidden = GATES[kind], b.draw.of((1, 2, 3, 4, 8))
    direction = b.draw.of(("forward", "forward", "reverse", "bidirectional"))
    count = 2 if direction == "bidirectional" else 1
    last = b.opset >= 14 and b.draw.chance(0.15)
    data = b.tensor(["float32"], ranks=(3,), fit=lambda a: a.size <= 400)
    shape = b.array(data).shape
    steps, batch, size = (shape[1], shape[0], shape[2]) if last else shape

    def given(*dims: int, chance: float = 0.5, constant: float = 0.9) -> str:
        return _weights(b, dims, constant) if b.draw.chance(chance) else ""

    state = (batch, count, hidden) if last else (count, batch, hidden)
    lengths = ""
    if b.draw.chance(0.15):
        lengths = b.parameter(b.draw.rng.integers(1, steps + 1, batch).astype(np.int32))
    inputs = [data]
    if kind == "DynamicQuantizeLSTM":
        if batch == 0 or last:
            last = False
        inputs += [
            b.new(b.draw.rng.integers(-127, 128, (count, n, gates * hidden)).astype(np.int8), constant=True)
            for n in (size, hidden)
        ]
    else:
        inputs += [
            _weights(b, (count, gates * hidden, size), 0.9),
            _weights(b, (count, gates * hidden, hidden), 0.9),
        ]
    inputs += [given(count, 2 * gates * hidden), lengths, given(*state, constant=0.3)]
    if gates == 4:
        inputs += [given(*state, constant=0.3), given(count, 3 * hidden, chance=0.2)]
    if kind == "DynamicQuantizeLSTM":
        for _ in range(2):
            inputs += [
                b.new(b.draw.rng.uniform(0.002, 0.01, (count,)).astype(np.float32), constant=True),
                b.new(np.zeros((count,), np.int8), constant=True),
            ]
    attributes: dict[str, Any] = {"hidden_size": hidden}
    if direction != "forward" or b.draw.chance(0.4):
        attributes["direction"] = direction
    if last:
        attributes["layout"] = 1
    if b.draw.chance(0.15):
        attributes["clip"] = b.draw.of((0.5, 1.0, 3.0))
    if kind == "LSTM" and b.draw.chance(0.1):
        attributes["input_forget"] = 1
    if kind == "GRU" and b.draw.chance(0.5):
        attributes["linear_before_reset"] = b.draw.below(2)
    if b.draw.chance(0.2) and kind in DEFAULT:
        attributes["activations"] = DEFAULT[kind] * count
        if b.draw.chance(0.6):
            attributes["activations"] = [b.draw.of(OTHERS[:3]) for _ in attributes["activations"]]
        elif b.draw.chance(0.4):
            attributes["activations"] = [b.draw.of(OTHERS_LAST) for _ in attributes["activations"]]
    if kind == "DynamicQuantizeLSTM":
        attributes.pop("layout", None)
    wanted = 1 + b.draw.below(3 if gates == 4 else 2)
    b.node(operator, inputs, outputs=wanted, **attributes)


def _weights(b: Builder, shape: tuple[int, ...], constant: float) -> str:
    array = b.draw.rng.normal(size=shape).astype(np.float32) * 0.5
    return b.new(array, constant=b.draw.chance(constant), held=True)
