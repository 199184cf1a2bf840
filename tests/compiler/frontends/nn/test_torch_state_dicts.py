"""State dicts of PyTorch's layers give PyTorch's outputs, recorded with version 2 by tests/helpers/torch_outputs.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy_layers import close, run

from vdla import nn

RECORDED = np.load(Path(__file__).with_name("torch_outputs.npz"))


class Causal(nn.MultiHeadAttention):
    def forward(self, x):
        return super().forward(x, is_causal=True)


class Flat(nn.Module):
    """A module that returns the outputs and the states of a recurrent layer as one tuple."""

    def __init__(self, layer: nn.Module) -> None:
        self.layer = layer

    def forward(self, x):
        y, states = self.layer(x)
        return (y, *states) if isinstance(states, tuple) else (y, states)


LAYERS: dict[str, nn.Module] = {
    "linear": nn.Linear(6, 5),
    "conv2d": nn.Conv2d(4, 8, 3, stride=2, padding=1, groups=2),
    "batch_norm": nn.BatchNorm(4),
    "layer_norm": nn.LayerNorm(6),
    "rms_norm": nn.RMSNorm(6),
    "lstm": nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True),
    "gru": nn.GRU(3, 4, num_layers=2, bidirectional=True),
    "attention": Causal(8, 2),
    "max_pool": nn.MaxPool2d(3, 2, 1),
    "avg_pool": nn.AvgPool2d(3, 2, 1),
    "gelu": nn.GELU("tanh"),
}


@pytest.mark.parametrize("name", LAYERS)
def test_outputs_are_pytorchs(name: str) -> None:
    entries = {
        key.removeprefix(f"{name}/"): RECORDED[key] for key in RECORDED.files if key.startswith(f"{name}/")
    }
    layer, state = LAYERS[name], {key: value for key, value in entries.items() if key.startswith("state/")}
    layer.load_state_dict({key.removeprefix("state/"): value for key, value in state.items()})
    outputs = run(Flat(layer) if name in ("lstm", "gru") else layer, entries["input"])
    assert len(outputs) == len([key for key in entries if key.startswith("output")])
    for number, output in enumerate(outputs):
        close(output, entries[f"output{number}"])
