"""Drawings (random nodes) of layers with weights as static quantizers write them: int8 weights by channel, int32
biases.
"""

from __future__ import annotations

from typing import Any

from ..builder import Builder
from ..quantized_builder import QuantizedBuilder
from ..tables import Operator
from .windows import _kernel, window


def layer(b: Builder, operator: Operator) -> None:
    """Adds a random node of `operator` (Conv, ConvTranspose, Gemm or MatMul) with constant weights."""
    assert isinstance(b, QuantizedBuilder)
    if operator.name in ("Gemm", "MatMul"):
        _product(b, operator)
        return
    transposed = operator.name == "ConvTranspose"
    data = b.tensor(ranks=(4,) if b.draw.chance(0.9) else (3,), constant=0)
    array = b.array(data)
    channels, kernel = array.shape[1], _kernel(b, array)
    groups = b.draw.of((1, 1, 1, channels))
    filters = groups * b.draw.of((1, 2)) if groups > 1 else b.draw.of((1, 3, 4, 8))
    shape = (channels, filters // groups, *kernel) if transposed else (filters, channels // groups, *kernel)
    channel = (1 if transposed else 0) if b.draw.chance(0.6) and (groups == 1 or not transposed) else None
    weights = b.weight(shape, channel=channel)
    bias = b.bias(data, weights, filters) if b.draw.chance(0.6) else None
    attributes = window(b, kernel, b.schema(operator.name).attributes)
    if b.draw.chance(0.7):
        attributes["kernel_shape"] = list(kernel)
    if groups > 1:
        attributes["group"] = groups
    names = [data, weights, *([bias] if bias else [])]
    _activated(b, operator, names, attributes)


def _product(b: QuantizedBuilder, operator: Operator) -> None:
    gemm = operator.name == "Gemm"
    data = b.tensor(ranks=(2,) if gemm else (2, 3, 4), constant=0)
    depth, columns = b.array(data).shape[-1], b.draw.of((1, 4, 8, 10))
    turned = gemm and b.draw.chance(0.6)
    channel = (0 if turned else 1) if b.draw.chance(0.6) else None
    weights = b.weight((columns, depth) if turned else (depth, columns), channel=channel)
    names = [data, weights]
    if gemm and (b.draw.chance(0.7) or b.opset < 11):
        names.append(b.bias(data, weights, columns))
    _activated(b, operator, names, {"transB": 1} if turned else {})


def _activated(b: QuantizedBuilder, operator: Operator, names: list[str], attributes: dict[str, Any]) -> None:
    """Adds a node of `operator` with the inputs `names` and the given attributes. Sometimes a Relu follows; the result
    is quantized after the Relu.
    """
    if not b.draw.chance(0.35):
        b.node(operator, names, **attributes)
        return
    (made,) = Builder.node(b, operator, names, **attributes)
    b.node(Operator("", "Relu"), [made])
