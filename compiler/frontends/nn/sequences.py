"""Layers for sequences: LSTM, GRU and MultiHeadAttention."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, product
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from . import functional
from .layers import Linear, uniform
from .module import Module, Parameter
from .spec import check_arguments, need, need_size
from .tensor import Tensor, record

if TYPE_CHECKING:
    from .tensor import Operand


class _Recurrent(Module):
    """Recurrent layers with PyTorch's names of parameters. The first layer has weight_ih_l0 [gates * hidden_size,
    input_size], weight_hh_l0 [gates * hidden_size, hidden_size], bias_ih_l0 and bias_hh_l0. Further layers have l1, l2
    ... in these names; names for the backward direction end with _reverse.
    """

    operator, states = "", 1
    order: tuple[int, ...] = ()
    """For each gate in ONNX's order, its index in PyTorch's order."""

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
        check_arguments(self, input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.batch_first, self.endings = batch_first, ("", "_reverse") if bidirectional else ("",)
        self.kinds = [["weight_ih"], ["weight_hh"], ["bias_ih", "bias_hh"]][: 3 if bias else 2]
        rows = len(self.order) * hidden_size
        for layer in range(num_layers):
            depth = hidden_size * len(self.endings) if layer else input_size
            sizes = {"weight_ih": (rows, depth), "weight_hh": (rows, hidden_size)}
            for ending, name in product(self.endings, chain(*self.kinds)):
                parameter = uniform(sizes.get(name, (rows,)), 1 / sqrt(hidden_size))
                setattr(self, f"{name}_l{layer}{ending}", parameter)

    def _run(self, x: Tensor, states: Sequence[Tensor], **attributes: Any) -> tuple[Tensor, list[Tensor]]:
        """Runs all layers on x, the input of `forward`. Returns the outputs of the last layer, and a list of states
        after the last step, each [layers * directions, batch, hidden_size].

        `states`: the initial states, of the same shape; empty for zeros. `attributes`: further attributes of the ONNX
        operator.
        """
        need(x.ndim == 3, "the input", x, "three dimensions: sequence, batch and features")
        need_size(x, 2, self.input_size, "input_size")
        x = x.transpose(0, 1) if self.batch_first else x
        ends: list[list[Tensor]] = []
        ways = len(self.endings)
        for layer in range(self.num_layers):
            begins = [state[layer * ways : (layer + 1) * ways] for state in states]
            parameters = [self._constant(x, layer, kinds) for kinds in self.kinds]
            y, *last = x.recorder.record(
                self.operator,
                [x, *parameters, *[None] * (4 - len(parameters) if begins else 0), *begins],
                label=f"l{layer}" if self.num_layers > 1 else "",
                outputs=1 + self.states,
                hidden_size=self.hidden_size,
                direction="bidirectional" if ways == 2 else "forward",
                **attributes,
            )
            shape = (*x.shape[:2], ways * self.hidden_size)
            x = y.squeeze(1) if ways == 1 else y.permute(0, 2, 1, 3).reshape(shape)
            ends.append(last)
        final = [each[0] if len(each) == 1 else functional.concat(each) for each in zip(*ends, strict=True)]
        return x.transpose(0, 1) if self.batch_first else x, final

    def _constant(self, x: Tensor, layer: int, kinds: Sequence[str]) -> Tensor:
        """Adds parameters of a layer as one input of the ONNX node, [directions, gates * hidden_size, ...], with gates
        in ONNX's order. `kinds`: the names of the parameters without the layer's ending; several parameters are joined
        along axis 1. `x`: any recorded tensor.
        """

        def joined(*arrays: np.ndarray) -> np.ndarray:
            directions, gates = len(self.endings), len(self.order)
            parts = np.reshape(arrays, (len(kinds), directions, gates, -1))[:, :, [*self.order]]
            return parts.swapaxes(0, 1).reshape(directions, -1, *arrays[0].shape[1:])

        names = [f"{kind}_l{layer}{ending}" for kind in kinds for ending in self.endings]
        return x.recorder.derived("gates", joined, *(getattr(self, name) for name in names))


class LSTM(_Recurrent):
    """LSTM layers; x is [sequence, batch, input_size], or with `batch_first` [batch, sequence, input_size]."""

    operator, states = "LSTM", 2
    order = (0, 3, 1, 2)  # PyTorch: input, forget, cell, output. ONNX: input, output, forget, cell.

    def forward(
        self, x: Tensor, state: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Returns the outputs of the last layer, and the pair (hidden state, cell state) after the last step. Shapes
        are those of PyTorch's LSTM. `state`: the initial pair (hidden state, cell state); None for zeros.
        """
        y, (hidden, cell) = self._run(x, state or ())
        return y, (hidden, cell)


class GRU(_Recurrent):
    """GRU layers; x is [sequence, batch, input_size], or with `batch_first` [batch, sequence, input_size]."""

    operator = "GRU"
    order = (1, 0, 2)  # PyTorch: reset, update, new. ONNX: update, reset, hidden.

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns the outputs of the last layer, and the hidden state after the last step. Shapes are those of
        PyTorch's GRU. `state`: the initial hidden state; None for zeros.
        """
        y, (hidden,) = self._run(x, () if state is None else (state,), linear_before_reset=1)
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
        self.embed_dim, self.num_heads, self.batch_first = embed_dim, num_heads, batch_first
        check_arguments(self, embed_dim=embed_dim, num_heads=num_heads, kdim=kdim or 1, vdim=vdim or 1)
        fits, wanted = embed_dim % num_heads == 0, f"a multiple of num_heads ({num_heads})"
        need(fits, "MultiHeadAttention: embed_dim", embed_dim, wanted)
        self.widths = (embed_dim, kdim or embed_dim, vdim or embed_dim)
        if len(set(self.widths)) == 1:
            self.in_proj_weight = uniform((3 * embed_dim, embed_dim), sqrt(6 / (4 * embed_dim)))
        else:
            for name, width in zip("qkv", self.widths, strict=True):
                parameter = uniform((embed_dim, width), sqrt(6 / (embed_dim + width)))
                setattr(self, f"{name}_proj_weight", parameter)
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
        q, k, v = (self._heads(*pair) for pair in enumerate((query, key, key if value is None else value)))
        context = functional.scaled_dot_product_attention(q, k, v, mask, is_causal)
        joined = context.permute((0, 2, 1, 3) if self.batch_first else (2, 0, 1, 3))
        return self.out_proj(joined.reshape(*joined.shape[:2], self.embed_dim))

    def _heads(self, number: int, x: Tensor) -> Tensor:
        """Projects x to the queries (`number` 0), keys (1) or values (2) of heads, [batch, heads, sequence, size]."""
        name, derived = ("query", "key", "value")[number], x.recorder.derived
        need_size(x, 2, self.widths[number], f"the width of {name}")
        if len(set(self.widths)) == 1:
            weight = derived(name, lambda rows: np.split(rows, 3)[number].T, self.in_proj_weight)
        else:
            weight = derived("T", np.transpose, getattr(self, f"{name[0]}_proj_weight"))
        y = record("MatMul", x, weight, label=name)
        if self.in_proj_bias is not None:
            bias = derived(name, lambda rows: np.split(rows, 3)[number], self.in_proj_bias)
            y = record("Add", y, bias, label=f"{name}.biased")
        y = y.reshape(*x.shape[:2], self.num_heads, self.embed_dim // self.num_heads)
        return y.permute((0, 2, 1, 3) if self.batch_first else (1, 2, 0, 3))
