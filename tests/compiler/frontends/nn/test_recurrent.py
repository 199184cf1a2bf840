"""Recurrent layers and attention of `vdla.nn` against loops in plain numpy, with PyTorch's order of gates."""

from __future__ import annotations

import numpy as np
import numpy_layers as plain
import pytest
from numpy_layers import close, filled, run, values

from vdla import nn


def expected(kind: str, layer: nn.Module, x: np.ndarray, first: list[np.ndarray]) -> list[np.ndarray]:
    """Outputs and last states of the stacked recurrent layers of `layer` on the inputs `x` and the first states
    `first`, in one direction or two, computed in numpy. `kind`: "LSTM", else GRU.
    """
    state = {name: p.value for name, p in layer.named_parameters() if p.value is not None}
    step, ends = (plain.lstm if kind == "LSTM" else plain.gru), []
    for number in range(layer.num_layers):
        parts = []
        for way, ending in enumerate(layer.endings):
            weights = {
                name.replace(f"_l{number}{ending}", ""): array
                for name, array in state.items()
                if name.endswith(f"_l{number}{ending}")
            }
            begin = [array[number * len(layer.endings) + way] for array in first]
            y, *last = step(x[::-1] if way else x, weights, "", *begin)
            parts.append(y[::-1] if way else y)
            ends.append(last)
        x = np.concatenate(parts, -1)
    return [x, *(np.stack(array) for array in zip(*ends, strict=True))]


class WithStates(nn.Module):
    """A recurrent layer whose first states are inputs, and whose last states are outputs."""

    def __init__(self, layer: nn.Module) -> None:
        self.layer = layer

    def forward(self, x, *states):
        given = (states if len(states) == 2 else states[0]) if states else None
        y, last = self.layer(x, given)
        return (y, *last) if isinstance(last, tuple) else (y, last)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bias": False, "bidirectional": True},
        {"num_layers": 2, "batch_first": True},
        {"num_layers": 2, "bidirectional": True},
    ],
)
@pytest.mark.parametrize("states", [False, True])
def test_recurrent_layers(kind: str, options: dict, states: bool) -> None:
    layer = getattr(nn, kind)(3, 4, **options)
    filled(layer)
    x = values(5, 2, 3)
    slots = layer.num_layers * len(layer.endings)
    count = 2 if kind == "LSTM" else 1
    first = [values(slots, 2, 4, seed=n + 7) if states else np.zeros((slots, 2, 4)) for n in range(count)]
    wanted = expected(kind, layer, x, first)
    swapped = options.get("batch_first", False)
    given = x.swapaxes(0, 1) if swapped else x
    actual = run(WithStates(layer), given, *(first if states else []))
    close(actual[0].swapaxes(0, 1) if swapped else actual[0], wanted[0])
    for one, other in zip(actual[1:], wanted[1:], strict=True):
        close(one, other)


def test_names_are_pytorchs() -> None:
    names = [name for name, _ in nn.LSTM(3, 4, num_layers=2, bidirectional=True).named_parameters()]
    ends = [f"l{layer}{way}" for layer in (0, 1) for way in ("", "_reverse")]
    kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    assert names == [f"{kind}_{end}" for end in ends for kind in kinds]
    assert dict(nn.LSTM(3, 4, num_layers=2, bidirectional=True).named_parameters())["weight_ih_l1"].shape == (
        16,
        8,
    )


def heads(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | float) -> np.ndarray:
    """x [batch, sequence, width] times the transposed `weight`, plus `bias`, split into two heads: [batch, 2, sequence,
    size].
    """
    y = x @ weight.T + bias
    return y.reshape(*y.shape[:2], 2, -1).transpose(0, 2, 1, 3)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_attention_of_a_sequence_to_itself(bias: bool, batch_first: bool) -> None:
    class Causal(nn.Module):
        def __init__(self) -> None:
            self.attention = nn.MultiHeadAttention(6, 2, bias=bias, batch_first=batch_first)

        def forward(self, x):
            return self.attention(x, is_causal=True)

    layer = Causal()
    state = {name.removeprefix("attention."): array for name, array in filled(layer).items()}
    x = values(3, 5, 6)
    biases = np.split(state["in_proj_bias"], 3) if bias else [0, 0, 0]
    parts = [heads(x, w, b) for w, b in zip(np.split(state["in_proj_weight"], 3), biases, strict=True)]
    context = plain.attention(*parts, np.tri(5, dtype=bool)).transpose(0, 2, 1, 3).reshape(3, 5, 6)
    wanted = context @ state["out_proj.weight"].T + state.get("out_proj.bias", 0)
    actual = run(layer, x if batch_first else x.swapaxes(0, 1))[0]
    close(actual if batch_first else actual.swapaxes(0, 1), wanted)


@pytest.mark.parametrize("mask", ["bool", "float"])
def test_attention_to_another_sequence_with_a_mask(mask: str) -> None:
    seen = np.random.default_rng(2).random((5, 7)) < 0.6
    seen[:, 0] = True

    class Cross(nn.Module):
        def __init__(self) -> None:
            self.attention = nn.MultiHeadAttention(6, 2, kdim=4, vdim=3, batch_first=True)

        def forward(self, query, key, value):
            given = seen if mask == "bool" else np.where(seen, 0, -1e9).astype(np.float32)
            return self.attention(query, key, value, mask=given)

    layer = Cross()
    state = {name.removeprefix("attention."): array for name, array in filled(layer).items()}
    assert {name: state[f"{name}_proj_weight"].shape for name in "qkv"} == {
        "q": (6, 6),
        "k": (6, 4),
        "v": (6, 3),
    }
    inputs = values(2, 5, 6), values(2, 7, 4, seed=1), values(2, 7, 3, seed=2)
    biases = np.split(state["in_proj_bias"], 3)
    parts = [heads(x, state[f"{n}_proj_weight"], b) for x, n, b in zip(inputs, "qkv", biases, strict=True)]
    context = plain.attention(*parts, seen).transpose(0, 2, 1, 3).reshape(2, 5, 6)
    close(run(layer, *inputs)[0], context @ state["out_proj.weight"].T + state["out_proj.bias"])
