"""Weights of LSTM layers, as defined by ONNX; `recurrent.recurrent_steps` computes the steps."""

from __future__ import annotations

from typing import Literal

import numpy as np

Direction = Literal["forward", "reverse"]
INPUT, OUTPUT, FORGET, CELL = range(4)
"""Indices of an LSTM's gates in ONNX's order "iofc"."""


def input_weights(w: np.ndarray, bias: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Weights and bias of the dense layer that multiplies the inputs of all steps (G of `recurrent_steps`), from ONNX's
    W and B.

    ONNX's W [directions, 4 * hidden, inputs] becomes [inputs, directions * 4 * hidden]. ONNX's B [directions, 8 *
    hidden], two biases for each gate, becomes their sum [directions * 4 * hidden]; zeros without a bias.
    """
    directions, gates, inputs = w.shape
    both = np.zeros((directions, 2, gates), w.dtype) if bias is None else bias.reshape(directions, 2, gates)
    return np.ascontiguousarray(w.reshape(-1, inputs).T), both.sum(axis=1).reshape(-1)


def recurrent_weights(r: np.ndarray) -> np.ndarray:
    """Converts the weights of the states, ONNX's R [directions, 4 * hidden, hidden], to the parameter R [directions,
    hidden, 4, hidden] of `recurrent_steps`.
    """
    directions, gates, hidden = r.shape
    return np.ascontiguousarray(r.transpose(0, 2, 1)).reshape(directions, hidden, 4, gates // 4)
