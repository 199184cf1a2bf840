"""Layers of sequences: LSTM, GRU, and attention with several heads. Their parameters have PyTorch's names."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from . import check
from . import functional as F
from .layers import Linear
from .module import Module, Parameter, uniform
from .tensor import Tensor, record

if TYPE_CHECKING:
    from .tensor import Operand


class _Recurrent(Module):
    """Recurrent layers with PyTorch's names of parameters. The first layer has weight_ih_l0 [gates * hidden_size,
    input_size], weight_hh_l0 [gates * hidden_size, hidden_size], bias_ih_l0 and bias_hh_l0. Further layers have l1, l2
    ... in these names; names for the backward direction end with _reverse.
    """

    operator = ""
    order: tuple[int, ...] = ()
    """For each gate in ONNX's order, its index in PyTorch's order."""
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
        check.positive(self, input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first = bias, batch_first
        self.endings = ("", "_reverse") if bidirectional else ("",)
        rows, draw = len(self.order) * hidden_size, uniform(1 / sqrt(hidden_size))
        for layer in range(num_layers):
            depth = input_size if layer == 0 else hidden_size * len(self.endings)
            shapes = {"weight_ih": (rows, depth), "weight_hh": (rows, hidden_size)}
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)} if bias else {}
            for ending in self.endings:
                for name, shape in shapes.items():
                    setattr(self, f"{name}_l{layer}{ending}", Parameter(shape, draw))

    def _run(self, x: Tensor, states: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """The outputs of the last layer, and each state after the last step, [layers * directions, batch, hidden_size].

        `states`: the first states, of the same shape, or empty.
        """
        if x.ndim != 3:
            raise x.recorder.mistake(
                f"the input is {x}; it must have three dimensions: sequence, batch and features"
            )
        check.size(x, 2, self.input_size, "input_size")
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
        arrays = {kind: self._stacked(x, kind, layer) for kind in ("weight_ih", "weight_hh")}
        if self.bias:
            arrays["bias"] = np.hstack([self._stacked(x, kind, layer) for kind in ("bias_ih", "bias_hh")])
        operands = [x.recorder.constant(array, f"{name}_l{layer}") for name, array in arrays.items()]
        absent = [] if self.bias else [None]
        y, *last = x.recorder.record(
            self.operator,
            [x, *operands, *absent, *([None, *states] if states else [])],
            label=f"l{layer}" if self.num_layers > 1 else "",
            outputs=1 + self.states,
            hidden_size=self.hidden_size,
            direction="bidirectional" if len(self.endings) == 2 else "forward",
            **self.attributes,
        )
        sequence, directions, batch, _ = y.shape
        if directions == 1:
            return [y.squeeze(1), *last]
        return [y.permute(0, 2, 1, 3).reshape(sequence, batch, 2 * self.hidden_size), *last]

    def _stacked(self, x: Tensor, kind: str, layer: int) -> np.ndarray:
        """One parameter, stacked over directions, [directions, gates * hidden_size, ...], gates in ONNX's order."""
        found = []
        for ending in self.endings:
            values = x.recorder.named(getattr(self, f"{kind}_l{layer}{ending}"))[1]
            gates = np.split(values, len(self.order))
            found.append(np.concatenate([gates[gate] for gate in self.order]))
        return np.stack(found)


class LSTM(_Recurrent):
    """LSTM layers; x is [sequence, batch, input_size], or with `batch_first` [batch, sequence, input_size]."""

    operator = "LSTM"
    order = (0, 3, 1, 2)  # PyTorch: input, forget, cell, output. ONNX: input, output, forget, cell.
    states = 2

    def forward(
        self, x: Tensor, state: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Returns (outputs of the last layer, (hidden state, cell state)), with the shapes of PyTorch's LSTM."""
        y, (hidden, cell) = self._run(x, state or ())
        return y, (hidden, cell)


class GRU(_Recurrent):
    """GRU layers; x is [sequence, batch, input_size], or with `batch_first` [batch, sequence, input_size]."""

    operator = "GRU"
    order = (1, 0, 2)  # PyTorch: reset, update, new. ONNX: update, reset, hidden.
    attributes = {"linear_before_reset": 1}  # noqa: RUF012

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns (outputs of the last layer, hidden state), with the shapes of PyTorch's GRU."""
        y, (hidden,) = self._run(x, () if state is None else (state,))
        return y, hidden


class MultiHeadAttention(Module):
    """Attention with the parameters of PyTorch's MultiheadAttention.

    in_proj_weight is [3 * embed_dim, embed_dim]: queries, keys, values. If `kdim` or `vdim` (the widths of keys and
    values) differ from `embed_dim`, there are q_proj_weight, k_proj_weight and v_proj_weight instead.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        bias: bool = True,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
    ) -> None:
        check.multiple(self, embed_dim=embed_dim, num_heads=num_heads)
        check.positive(self, kdim=kdim or 1, vdim=vdim or 1)
        self.embed_dim, self.num_heads, self.batch_first = embed_dim, num_heads, batch_first
        self.widths = (embed_dim, kdim or embed_dim, vdim or embed_dim)
        if len(set(self.widths)) == 1:
            self.in_proj_weight = Parameter((3 * embed_dim, embed_dim), uniform(sqrt(6 / (4 * embed_dim))))
        else:
            for name, width in zip("qkv", self.widths, strict=True):
                draw = uniform(sqrt(6 / (embed_dim + width)))
                setattr(self, f"{name}_proj_weight", Parameter((embed_dim, width), draw))
        self.in_proj_bias = Parameter((3 * embed_dim,)) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        mask: Operand | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """The attended values, of the shape of `query`: [sequence, batch, embed_dim], or with `batch_first` [batch,
        sequence, embed_dim].

        `key` is by default `query`, `value` is by default `key`. A `mask` of floats is added to the scores [batch,
        num_heads, sequence of query, sequence of key]; a bool `mask` is true where a query attends to a key. With
        `is_causal` the query at position i attends to the keys at positions 0..i.
        """
        key = query if key is None else key
        inputs = (query, key, key if value is None else value)
        q, k, v = (self._heads(number, x) for number, x in enumerate(inputs))
        context = F.scaled_dot_product_attention(q, k, v, mask, is_causal)
        batch, _, rows, _ = context.shape
        if self.batch_first:
            return self.out_proj(context.permute(0, 2, 1, 3).reshape(batch, rows, self.embed_dim))
        return self.out_proj(context.permute(2, 0, 1, 3).reshape(rows, batch, self.embed_dim))

    def _heads(self, number: int, x: Tensor) -> Tensor:
        """Queries (0), keys (1) or values (2) of all heads, [batch, heads, sequence, size]."""
        name = ("query", "key", "value")[number]
        check.size(x, 2, self.widths[number], f"the width of {name}")
        rows = slice(number * self.embed_dim, (number + 1) * self.embed_dim)
        constant, named = x.recorder.constant, x.recorder.named
        if len(set(self.widths)) == 1:
            weight = named(self.in_proj_weight)[1][rows]
        else:
            weight = named(getattr(self, f"{name[0]}_proj_weight"))[1]
        made = record("MatMul", x, constant(np.ascontiguousarray(weight.T), f"{name}.weight"), label=name)
        if self.in_proj_bias is not None:
            bias = constant(named(self.in_proj_bias)[1][rows], f"{name}.bias")
            made = record("Add", made, bias, label=f"{name}.biased")
        made = made.reshape(*x.shape[:2], self.num_heads, self.embed_dim // self.num_heads)
        return made.permute(*((0, 2, 1, 3) if self.batch_first else (1, 2, 0, 3)))
