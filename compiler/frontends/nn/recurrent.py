"""Recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np

from . import functional as F
from .arguments import need_positive
from .module import Module, Parameter, uniform
from .spec import NetworkError
from .tensor import Tensor


class _Recurrent(Module):
    """Recurrent layers with PyTorch's parameters: weight_ih_l0 [gates * hidden_size, input_size], weight_hh_l0 [gates *
    hidden_size, hidden_size], bias_ih_l0, bias_hh_l0, and more with other numbers and the ending _reverse.
    """

    operator = ""
    order: tuple[int, ...] = ()
    """The gates of ONNX's order as indices into PyTorch's order."""
    attributes: dict[str, Any] = {}  # noqa: RUF012
    states = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
    ) -> None:
        del dropout  # It is for training.
        need_positive(self, input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first = bias, batch_first
        self.endings = ("", "_reverse") if bidirectional else ("",)
        rows, draw = len(self.order) * hidden_size, uniform(1 / sqrt(hidden_size))
        for layer in range(num_layers):
            depth = input_size if layer == 0 else hidden_size * len(self.endings)
            for ending in self.endings:
                shapes = {"weight_ih": (rows, depth), "weight_hh": (rows, hidden_size)}
                shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)} if bias else {}
                for name, shape in shapes.items():
                    setattr(self, f"{name}_l{layer}{ending}", Parameter(shape, draw))

    def _run(self, x: Tensor, states: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """The outputs of the last layer, and each state after the last step, [layers * directions, batch, hidden_size].

        `states` are the first states in that form, or are empty.
        """
        if x.ndim != 3:
            raise NetworkError(
                f"{x.recorder.where}: the input is {x}; it must have three dimensions: sequence, batch and features"
            )
        F.need(x, 2, self.input_size, "input_size")
        x = x.transpose(0, 1) if self.batch_first else x
        ends: list[list[Tensor]] = []
        directions = len(self.endings)
        for layer in range(self.num_layers):
            begins = [state[layer * directions : (layer + 1) * directions] for state in states]
            x, *last = self._layer(layer, x, begins)
            ends.append(last)
        joined = [parts[0] if len(parts) == 1 else F.concat(parts) for parts in zip(*ends, strict=True)]
        return x.transpose(0, 1) if self.batch_first else x, joined

    def _layer(self, layer: int, x: Tensor, states: Sequence[Tensor]) -> list[Tensor]:
        """The outputs of a layer, [sequence, batch, directions * hidden_size], and its last states."""
        kinds = ("weight_ih", "weight_hh") + (("bias_ih", "bias_hh") if self.bias else ())
        arrays = {kind: self._stacked(x, kind, layer) for kind in kinds}
        biases = np.concatenate([arrays[kind] for kind in kinds[2:]], 1) if self.bias else None
        tensors = [(arrays["weight_ih"], "weight_ih"), (arrays["weight_hh"], "weight_hh"), (biases, "bias")]
        operands = [None if a is None else x.recorder.constant(a, f"{name}_l{layer}") for a, name in tensors]
        made = x.recorder.record(
            self.operator,
            [x, *operands, *([None, *states] if states else [])],
            label=f"l{layer}" if self.num_layers > 1 else "",
            outputs=1 + self.states,
            hidden_size=self.hidden_size,
            direction="bidirectional" if len(self.endings) == 2 else "forward",
            **self.attributes,
        )
        sequence, directions, batch, _ = made[0].shape
        if directions == 1:
            return [made[0].squeeze(1), *made[1:]]
        width = len(self.endings) * self.hidden_size
        return [made[0].permute(0, 2, 1, 3).reshape(sequence, batch, width), *made[1:]]

    def _stacked(self, x: Tensor, kind: str, layer: int) -> np.ndarray:
        """The values of a parameter in all directions, [directions, gates * hidden_size, ...], in ONNX's order."""
        found = []
        for ending in self.endings:
            values = x.recorder.named(getattr(self, f"{kind}_l{layer}{ending}"))[1]
            gates = np.split(values, len(self.order))
            found.append(np.concatenate([gates[gate] for gate in self.order]))
        return np.stack(found)


class LSTM(_Recurrent):
    """Layers of LSTM; x is [sequence, batch, input_size], or with `batch_first` [batch, sequence, input_size]."""

    operator = "LSTM"
    order = (0, 3, 1, 2)  # PyTorch: input, forget, cell, output. ONNX: input, output, forget, cell.
    states = 2

    def forward(
        self, x: Tensor, state: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """(outputs of the last layer, (hidden state, cell state)), as PyTorch's LSTM returns them."""
        y, (hidden, cell) = self._run(x, state or ())
        return y, (hidden, cell)


class GRU(_Recurrent):
    """Layers of GRU; x is [sequence, batch, input_size], or with `batch_first` [batch, sequence, input_size]."""

    operator = "GRU"
    order = (1, 0, 2)  # PyTorch: reset, update, new. ONNX: update, reset, hidden.
    attributes = {"linear_before_reset": 1}  # noqa: RUF012

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(outputs of the last layer, hidden state), as PyTorch's GRU returns them."""
        y, (hidden,) = self._run(x, () if state is None else (state,))
        return y, hidden
