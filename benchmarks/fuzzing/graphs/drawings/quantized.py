"""Drawings (random nodes) of QuantizeLinear, DequantizeLinear, and operators on quantized tensors with scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..attributes import axes, axis
from ..builder import Builder, UnfitError
from ..tables import Operator
from .windows import _kernel, window

CONTRIBUTED = "com.microsoft"


class Grid(NamedTuple):
    """A quantized tensor, as the names of three tensors: its 8-bit integers, its scale and its zero point."""

    tensor: str
    scale: str
    zero: str

    def __call__(self) -> list[str]:
        """The names of integers, scale and zero point, in the order of an operator's inputs."""
        return list(self)


def grid(b: Builder, shape: Sequence[int], *, kind: str = "", constant: float = 0.1) -> Grid:
    """A quantized tensor of a given shape, of the type `kind` (default: uint8 or int8): an existing one of the graph,
    or a new one, which is a constant with probability `constant`.
    """
    types = [kind] if kind else ["uint8", "int8"]
    known = [
        g
        for g in grids(b)
        if b.array(g.tensor).shape == tuple(shape) and b.array(g.tensor).dtype.name in types
    ]
    if known and b.draw.chance(0.7):
        return b.draw.of(known)
    name = b.tensor(types, shape=shape, constant=constant, old=0)
    return register(b, name, *scale_of(b, b.array(name).dtype.name))


def any_grid(b: Builder, ranks: Sequence[int]) -> Grid:
    """A quantized tensor of any shape with one of the given ranks: an existing one of the graph, or a new one."""
    known = [g for g in grids(b) if b.array(g.tensor).ndim in ranks]
    if known and b.draw.chance(0.75):
        return known[-1] if b.draw.chance(0.4) else b.draw.of(known)
    name = b.tensor(["uint8", "int8"], ranks=ranks, constant=0.02, old=0)
    return register(b, name, *scale_of(b, b.array(name).dtype.name))


def grids(b: Builder) -> list[Grid]:
    """All quantized tensors that the graph has so far."""
    return [Grid(*names) for names in b.grids]


def register(b: Builder, name: str, scale: str, zero: str) -> Grid:
    """Notes that the integer tensor `name`, with the tensors named `scale` and `zero` (zero point), is a quantized
    tensor of the graph, so that later nodes may use it; returns it.
    """
    found = Grid(name, scale, zero)
    b.grids.append(found)
    return found


def scale_of(b: Builder, kind: str, largest: float = 0.0) -> tuple[str, str]:
    """Adds a random scale and zero point of the type `kind` to the graph; returns their names. `largest`: magnitude
    that the type must be able to represent (0: none in particular).
    """
    scale = (largest / 110 if largest else 0.02) * b.draw.rng.uniform(0.7, 1.4)
    zero = 0
    if b.draw.chance(0.6):
        zero = b.draw.below(250) if kind == "uint8" else b.draw.below(100) - 50
    return (
        b.new(np.asarray(scale, np.float32), constant=True),
        b.new(np.asarray(zero, kind), constant=True),
    )


def _real(b: Builder, g: Grid) -> np.ndarray:
    return (b.array(g.tensor).astype(np.float64) - float(b.array(g.zero))) * float(b.array(g.scale))


def _largest(b: Builder, g: Grid) -> float:
    return float(np.abs(_real(b, g)).max(initial=0.0))


def quantize(b: Builder, operator: Operator) -> None:
    """Adds a random QuantizeLinear to any type: per tensor, per channel or in blocks."""
    data = b.tensor(["float32"] if b.draw.chance(0.9) else ["float16"], ranks=(1, 2, 3, 4))
    array = b.array(data)
    kind = b.draw.of(
        ("uint8", "int8", "uint8", "int8", "int16", "uint16") if b.opset >= 21 else ("uint8", "int8")
    )
    if b.opset >= 21 and b.draw.chance(0.1):
        kind = b.draw.of(("int4", "uint4"))
    largest = float(np.abs(array.astype(np.float64)).max(initial=0)) or 1.0
    limits = {"uint8": 255, "int8": 127, "int16": 32767, "uint16": 65535, "int4": 7, "uint4": 15}[kind]
    shape, attributes = _scales(b, array.shape)
    scale = b.draw.rng.uniform(0.8, 1.5, shape) * largest / limits
    inputs = [data, b.parameter(scale.astype(array.dtype))]
    if b.draw.chance(0.7):
        inputs.append(b.parameter(_zero_points(b, shape, kind), run_time=0))
    elif kind != "uint8":
        if b.opset < 21:
            raise UnfitError("is uint8")
        attributes["output_dtype"] = {"int8": 3, "int16": 5, "uint16": 4, "int4": 22, "uint4": 21}[kind]
    b.node(operator, inputs, **attributes)


def _scales(b: Builder, shape: Sequence[int]) -> tuple[tuple[int, ...], dict[str, Any]]:
    """The shape of scales for a tensor of `shape`, and the attributes that select their axis and block size."""
    if b.opset < 13 or b.draw.chance(0.6):
        return (), {}
    along = axis(b.draw, len(shape))
    size = shape[along]
    if b.opset >= 21 and b.draw.chance(0.25):
        block = b.draw.of([n for n in range(1, size + 1) if size % n == 0])
        blocks = list(shape)
        blocks[along] = size // block
        return tuple(blocks), {"axis": along, "block_size": block}
    return (size,), {"axis": along}


def _zero_points(b: Builder, shape: Sequence[int], kind: str) -> np.ndarray:
    import ml_dtypes

    dtype = np.dtype(kind) if kind in np.sctypeDict else np.dtype(getattr(ml_dtypes, kind))
    return np.asarray(b.draw.rng.integers(0, 5 if kind.endswith("4") else 60, shape)).astype(dtype)


def dequantize(b: Builder, operator: Operator) -> None:
    """Adds a random DequantizeLinear of any integer type of the opset."""
    kinds = ["uint8", "int8", "int32"] + (["int16", "uint16", "int4", "uint4"] if b.opset >= 21 else [])
    data = b.tensor([b.draw.of(kinds)], ranks=(1, 2, 3, 4), constant=0.2)
    array = b.array(data)
    shape, attributes = _scales(b, array.shape)
    inputs = [data, b.parameter(b.draw.rng.uniform(0.01, 0.2, shape).astype(np.float32))]
    if b.draw.chance(0.7) and array.dtype != np.int32:
        inputs.append(b.parameter(_zero_points(b, shape, array.dtype.name), run_time=0))
    b.node(operator, inputs, **attributes)


def _weights(b: Builder, shape: Sequence[int], kind: str, channel: int) -> Grid:
    """Random constant weights of `shape` and of the type `kind` ("int8" or "uint8"), with one scale for all or one
    scale for each index of the axis `channel`.
    """
    data = b.draw.rng.integers(
        -127 if kind == "int8" else 0, 128 if kind == "int8" else 256, tuple(shape)
    ).astype(kind)
    many = (shape[channel],) if b.draw.chance(0.6) else ()
    scales = b.draw.rng.uniform(0.003, 0.01, many).astype(np.float32)
    zeros = np.zeros(many, kind) if kind == "int8" else np.full(many, b.draw.of((0, 128)), kind)
    return Grid(b.new(data, constant=True), b.new(scales, constant=True), b.new(zeros, constant=True))


def _result(b: Builder, kind: str, largest: float) -> tuple[str, str]:
    return scale_of(b, kind, max(largest, 1e-3))


def qlinear_convolution(b: Builder, operator: Operator) -> None:
    """Adds a random QLinearConv of the domain of `operator`: ONNX's own domain, or com.microsoft, where the channels
    may also be last.
    """
    x = any_grid(b, (4,) if b.draw.chance(0.85) else (3,))
    array = b.array(x.tensor)
    last = operator.domain == CONTRIBUTED and b.draw.chance(0.6)
    planes = np.moveaxis(array, -1, 1) if last else array
    channels, kernel = planes.shape[1], _kernel(b, planes)
    groups = b.draw.of((1, 1, channels))
    filters = groups * b.draw.of((1, 2)) if groups > 1 else b.draw.of((1, 3, 4, 8))
    kind = "int8" if array.dtype == np.int8 or b.draw.chance(0.8) else "uint8"
    w = _weights(b, (filters, channels // groups, *kernel), kind, 0)
    depth = channels // groups * int(np.prod(kernel))
    largest = _largest(b, x) * float(b.array(w.scale).max()) * 80 * depth**0.5
    scale, zero = _result(b, array.dtype.name, largest)
    inputs = [*x(), *w(), scale, zero]
    if b.draw.chance(0.5):
        inputs.append(b.new(b.draw.rng.integers(-300, 300, filters).astype(np.int32), constant=True))
    attributes = window(b, kernel, {"strides": 1, "dilations": 1, "auto_pad": 1})
    attributes |= {"group": groups} if groups > 1 else {}
    attributes |= {"channels_last": 1} if last else {}
    (made,) = b.node(operator, inputs, kernel_shape=list(kernel), **attributes)
    register(b, made, scale, zero)


def qlinear_product(b: Builder, operator: Operator) -> None:
    """Adds a random node of `operator` (QLinearMatMul or QGemm)."""
    gemm = operator.name == "QGemm"
    a = any_grid(b, (2,) if gemm else (2, 3))
    array = b.array(a.tensor)
    attributes: dict[str, Any] = {}
    depth = array.shape[-1]
    if gemm and b.draw.chance(0.3):
        attributes["transA"], depth = 1, array.shape[0]
    columns = b.draw.of((1, 4, 9))
    turned = gemm and b.draw.chance(0.4)
    kind = "int8" if array.dtype == np.int8 or b.draw.chance(0.8) else "uint8"
    if turned:
        attributes["transB"] = 1
    w = _weights(b, (columns, depth) if turned else (depth, columns), kind, 0 if turned else 1)
    largest = _largest(b, a) * float(b.array(w.scale).max()) * 80 * depth**0.5
    scale, zero = _result(b, array.dtype.name, largest)
    if not gemm:
        (made,) = b.node(operator, [*a(), *w(), scale, zero])
        register(b, made, scale, zero)
        return
    if b.draw.chance(0.3):
        attributes["alpha"] = b.draw.of((1.0, 0.5))
    bias = (
        b.new(b.draw.rng.integers(-300, 300, columns).astype(np.int32), constant=True)
        if b.draw.chance(0.6)
        else ""
    )
    rounded = b.draw.chance(0.85)
    (made,) = b.node(operator, [*a(), *w(), bias, *([scale, zero] if rounded else [])], **attributes)
    if rounded:
        register(b, made, scale, zero)


def qlinear_pair(b: Builder, operator: Operator) -> None:
    """Adds a random node of `operator` (QLinearAdd or QLinearMul) with two tensors, or with one tensor as both
    operands.
    """
    a = any_grid(b, (1, 2, 3, 4))
    array = b.array(a.tensor)
    shape = (
        array.shape if b.draw.chance(0.6) else tuple([1 if b.draw.chance(0.4) else n for n in array.shape])
    )
    other = grid(b, shape, kind=array.dtype.name, constant=0.3)
    largest = [_largest(b, g) for g in (a, other)]
    scale, zero = _result(
        b, array.dtype.name, sum(largest) if operator.name == "QLinearAdd" else largest[0] * largest[1]
    )
    (made,) = b.node(operator, [*a(), *other(), scale, zero])
    register(b, made, scale, zero)


def qlinear_single(b: Builder, operator: Operator) -> None:
    """Adds a random node of `operator`, which reads one quantized tensor: an element-wise function, a softmax, a mean
    or a pool.
    """
    name = operator.name
    a = any_grid(b, (4, 3) if "Pool" in name else (1, 2, 3, 4))
    array = b.array(a.tensor)
    attributes: dict[str, Any] = {}
    largest = _largest(b, a)
    match name:
        case "QLinearSigmoid" | "QLinearSoftmax":
            largest = 2.0
            if name == "QLinearSoftmax":
                attributes = {
                    "axis": axis(b.draw, array.ndim),
                    "opset": b.draw.of((13, 13, 12)) if b.draw.chance(0.3) else 13,
                }
        case "QLinearLeakyRelu":
            attributes = {"alpha": b.draw.of((0.01, 0.2))} if b.draw.chance(0.7) else {}
        case "QLinearReduceMean":
            attributes = {"axes": axes(b.draw, array.ndim), "keepdims": b.draw.below(2)}
        case "QLinearGlobalAveragePool":
            attributes = {"channels_last": b.draw.below(2)}
        case _:
            last = b.draw.chance(0.4)
            planes = np.moveaxis(array, -1, 1) if last else array
            kernel = tuple([min(k, n) for k, n in zip(_kernel(b, planes), planes.shape[2:], strict=True)])
            attributes = window(b, kernel, {"strides": 1, "auto_pad": 1}) | {"kernel_shape": list(kernel)}
            attributes |= {"channels_last": 1} if last else {}
            attributes |= {"count_include_pad": b.draw.below(2)} if b.draw.chance(0.5) else {}
            if b.draw.chance(0.3) and not attributes.get("count_include_pad"):
                # With both, ONNX Runtime also counts what ceil_mode adds behind the pads, unlike its own AveragePool.
                attributes |= {"ceil_mode": b.draw.below(2)}
    scale, zero = _result(b, array.dtype.name, largest)
    (made,) = b.node(operator, [*a(), scale, zero], **attributes)
    register(b, made, scale, zero)


def qlinear_concat(b: Builder, operator: Operator) -> None:
    """Adds a random QLinearConcat of one to three tensors of one type."""
    a = any_grid(b, (2, 3, 4))
    array = b.array(a.tensor)
    along = axis(b.draw, array.ndim)
    parts = [a]
    for _ in range(b.draw.below(3)):
        shape = list(array.shape)
        shape[along] = b.draw.of((shape[along], 1, 3))
        parts.append(grid(b, shape, kind=array.dtype.name))
    scale, zero = _result(b, array.dtype.name, max(_largest(b, g) for g in parts))
    (made,) = b.node(operator, [scale, zero, *[name for part in parts for name in part]], axis=along)
    register(b, made, scale, zero)


def qlinear_where(b: Builder, operator: Operator) -> None:
    """Adds a random QLinearWhere that selects between two tensors by a boolean tensor."""
    a = any_grid(b, (1, 2, 3, 4))
    array = b.array(a.tensor)
    other = grid(b, array.shape, kind=array.dtype.name, constant=0.4)
    condition = b.tensor(["bool"], shape=array.shape, constant=0.4)
    scale, zero = _result(b, array.dtype.name, max(_largest(b, g) for g in (a, other)))
    (made,) = b.node(operator, [condition, *a(), *other(), scale, zero])
    register(b, made, scale, zero)


def channels_last_pool(b: Builder, operator: Operator) -> None:
    """Adds a random NhwcMaxPool: a max pool with channels last."""
    a = any_grid(b, (4,))
    planes = np.moveaxis(b.array(a.tensor), -1, 1)
    kernel = tuple([min(k, n) for k, n in zip(_kernel(b, planes), planes.shape[2:], strict=True)])
    attributes = window(b, kernel, {"strides": 1, "dilations": 1, "auto_pad": 1})
    (made,) = b.node(operator, [a.tensor], kernel_shape=list(kernel), **attributes)
    register(b, made, a.scale, a.zero)
