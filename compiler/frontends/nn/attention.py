"""Attention with several heads."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from . import functional as F
from .arguments import need_positive
from .layers import Linear
from .module import Module, Parameter, uniform
from .spec import NetworkError
from .tensor import Tensor, record

if TYPE_CHECKING:
    from .tensor import Operand


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
        need_positive(self, embed_dim=embed_dim, num_heads=num_heads, kdim=kdim or 1, vdim=vdim or 1)
        if embed_dim % num_heads:
            raise NetworkError(
                f"MultiHeadAttention: embed_dim = {embed_dim} is no multiple of num_heads = {num_heads}; change one"
            )
        widths = (embed_dim, kdim or embed_dim, vdim or embed_dim)
        if widths == (embed_dim,) * 3:
            self.in_proj_weight = Parameter((3 * embed_dim, embed_dim), uniform(sqrt(6 / (4 * embed_dim))))
        else:
            shapes = [(embed_dim, width) for width in widths]
            weights = [Parameter(shape, uniform(sqrt(6 / sum(shape)))) for shape in shapes]
            self.q_proj_weight, self.k_proj_weight, self.v_proj_weight = weights
        self.in_proj_bias = Parameter((3 * embed_dim,)) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias)
        self.embed_dim, self.num_heads, self.widths = embed_dim, num_heads, widths
        self.batch_first = batch_first

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

        `key` is by default `query`, `value` is by default `key`. `mask` and `is_causal` are those of
        `functional.scaled_dot_product_attention`.
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
        F.need(x, 2, self.widths[number], f"the width of {name}")
        rows = slice(number * self.embed_dim, (number + 1) * self.embed_dim)
        constant, named = x.recorder.constant, x.recorder.named
        if len(set(self.widths)) == 1:
            weight = named(self.in_proj_weight)[1][rows]
        else:
            weight = named((self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)[number])[1]
        made = record("MatMul", x, constant(np.ascontiguousarray(weight.T), f"{name}.weight"), label=name)
        if self.in_proj_bias is not None:
            bias = constant(named(self.in_proj_bias)[1][rows], f"{name}.bias")
            made = record("Add", made, bias, label=f"{name}.biased")
        made = made.reshape(*x.shape[:2], self.num_heads, self.embed_dim // self.num_heads)
        return made.permute(*((0, 2, 1, 3) if self.batch_first else (1, 2, 0, 3)))
