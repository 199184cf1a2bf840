"""A TFLite model in memory: tensors with their data and quantization, operators with their options, one subgraph."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np
import tflite

from vdla.compiler.ir.limits import MOST_TENSOR_BYTES

from ..errors import FrontendError
from .verify import AGAIN, DAMAGED, LARGEST_SCALAR, check_file, check_options

TYPES: Mapping[str, np.dtype[Any]] = MappingProxyType(
    {
        "FLOAT32": np.dtype("<f4"),
        "FLOAT16": np.dtype("<f2"),
        "FLOAT64": np.dtype("<f8"),
        "INT4": np.dtype(ml_dtypes.int4),
        "INT8": np.dtype(np.int8),
        "INT16": np.dtype("<i2"),
        "INT32": np.dtype("<i4"),
        "INT64": np.dtype("<i8"),
        "UINT8": np.dtype(np.uint8),
        "BOOL": np.dtype(np.bool_),
    }
)
"""numpy's types of TFLite's tensors; tensors of all other types are refused."""
_EMPTY = struct.pack("<HHi", 4, 4, 4)
"""A table without fields, at byte 4: the options of an operator that has none, each field with its default."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grid:
    """Quantization of a tensor: real = (integer - zero) * scale. `scale`: float32, `zero`: int64, both (1,) or one
    for each index along `axis`."""

    scale: np.ndarray
    zero: np.ndarray
    axis: int

    @property
    def one(self) -> bool:
        """Whether the whole tensor has one scale."""
        return self.scale.size == 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tensor:
    """A tensor: its shape in TFLite's order (N, H, W, C), its numpy dtype, its values if they are constant."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    grid: Grid | None
    data: np.ndarray | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Operator:
    """An operator: its built-in name (or CUSTOM and `custom`), tensors by index (-1: left out), its options by
    `options`."""

    index: int
    kind: str
    custom: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    content: bytes
    place: int | None
    options_kind: str

    def options(self, name: str) -> Any:
        """The options as an object of the class `name` of the package tflite. Raises FrontendError for options of
        another class, or outside of the file."""
        options = getattr(tflite, name)()
        if self.place is None:
            options.Init(_EMPTY, 4)
            return options
        if self.options_kind != name:
            raise FrontendError(
                [f"{DAMAGED}: {self.kind} has {self.options_kind or 'unknown options'}; {AGAIN}"]
            )
        check_options(self.content, self.place, name)
        options.Init(self.content, self.place)
        return options


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Network:
    """The main subgraph of a TFLite model: inputs and outputs are indices into `tensors`."""

    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def has_windows(self) -> bool:
        """Whether an operator slides windows over images."""
        return any(
            operator.kind.endswith(("CONV_2D", "POOL_2D", "TRANSPOSE_CONV")) for operator in self.operators
        )


def read_network(content: bytes) -> Network:
    """The first subgraph of a TFLite file, which LiteRT runs as well. Raises FrontendError for damaged files, and for
    data that are not in the file, sparse or of unknown type."""
    check_file(content)
    # Numbers of options are read without a check of their width.
    content = content + bytes(LARGEST_SCALAR)
    model = tflite.Model.GetRootAs(content, 0)
    if model.SubgraphsLength() < 1:
        raise FrontendError([f"{DAMAGED}: it has no subgraph; {AGAIN}"])
    graph = model.Subgraphs(0)
    buffers = tuple(model.Buffers(i) for i in range(model.BuffersLength()))
    types = {number: name for name, number in _named(tflite.TensorType)}
    tensors = tuple(
        _tensor(graph.Tensors(i), i, buffers, types, content) for i in range(graph.TensorsLength())
    )
    operators = tuple(_operators(model, graph, content))
    made = [index for operator in operators for index in operator.outputs]
    for index in (*_indices(graph.InputsAsNumpy()), *_indices(graph.OutputsAsNumpy()), *made):
        _check_index(index, tensors, "the subgraph")
    known = {i for i, tensor in enumerate(tensors) if tensor.data is not None} | {
        *_indices(graph.InputsAsNumpy())
    }
    for operator in operators:
        for index in operator.inputs:
            if index != -1:
                _check_index(index, tensors, operator.kind)
            if index != -1 and index not in known:
                raise FrontendError(
                    [
                        f"{DAMAGED}: {operator.kind} reads '{tensors[index].name}', which has no value yet; {AGAIN}"
                    ]
                )
        if known & {*operator.outputs}:
            raise FrontendError(
                [f"{DAMAGED}: {operator.kind} writes a tensor that has a value already; {AGAIN}"]
            )
        known.update(operator.outputs)
    outputs = _indices(graph.OutputsAsNumpy())
    for index in outputs:
        if index not in known:
            raise FrontendError(
                [f"{DAMAGED}: no operator computes its output '{tensors[index].name}'; {AGAIN}"]
            )
    return Network(
        tensors=tensors,
        operators=operators,
        inputs=_indices(graph.InputsAsNumpy()),
        outputs=outputs,
    )


def _named(kinds: type) -> Iterator[tuple[str, int]]:
    """(name, number) of each value of an enumeration of the package tflite."""
    return ((name, number) for name, number in vars(kinds).items() if not name.startswith("_"))


def _indices(array: Any) -> tuple[int, ...]:
    """A vector of numbers; an absent one, which the package reads as 0, is empty."""
    return tuple(int(value) for value in array) if isinstance(array, np.ndarray) else ()


def _text(text: bytes | None) -> str:
    return "" if text is None else text.decode()


def _check_index(index: int, tensors: tuple[Tensor, ...], where: str) -> None:
    if not 0 <= index < len(tensors):
        raise FrontendError([f"{DAMAGED}: {where} names tensor {index} of {len(tensors)}; {AGAIN}"])


def _operators(model: Any, graph: Any, content: bytes) -> Iterator[Operator]:
    names = {number: name for name, number in _named(tflite.BuiltinOperator)}
    option_names = {number: name for name, number in _named(tflite.BuiltinOptions)}
    codes = [model.OperatorCodes(i) for i in range(model.OperatorCodesLength())]
    for index in range(graph.OperatorsLength()):
        operator = graph.Operators(index)
        if operator.OpcodeIndex() >= len(codes):
            raise FrontendError([f"{DAMAGED}: operator {index} has an unknown code; {AGAIN}"])
        code = codes[operator.OpcodeIndex()]
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        options = operator.BuiltinOptions()
        yield Operator(
            index=index,
            kind=names.get(number, f"operator code {number}"),
            custom=_text(code.CustomCode()),
            inputs=_indices(operator.InputsAsNumpy()),
            outputs=_indices(operator.OutputsAsNumpy()),
            content=content,
            place=None if options is None else options.Pos,
            options_kind=option_names.get(operator.BuiltinOptionsType(), ""),
        )


def _tensor(
    tensor: Any, index: int, buffers: tuple[Any, ...], types: Mapping[int, str], content: bytes
) -> Tensor:
    name = _text(tensor.Name()) or f"tensor_{index}"
    kind = types.get(tensor.Type(), f"number {tensor.Type()}")
    if kind not in TYPES:
        raise FrontendError([f"tensor '{name}' has the type {kind}; supported are {', '.join(TYPES)}"])
    dtype, shape = TYPES[kind], _indices(tensor.ShapeAsNumpy())
    size = prod(shape)
    if min(shape, default=1) < 0 or max(size, *shape, 0) * dtype.itemsize > MOST_TENSOR_BYTES:
        raise FrontendError(
            [f"tensor '{name}' has the shape {shape}; a tensor may have {MOST_TENSOR_BYTES:,} bytes: {AGAIN}"]
        )
    if tensor.Sparsity() is not None:
        raise FrontendError([f"tensor '{name}' is sparse; store it densely (DENSIFY is not supported)"])
    return Tensor(
        name=name,
        shape=shape,
        dtype=dtype,
        grid=_grid(name, tensor.Quantization(), shape, dtype),
        data=_data(name, tensor.Buffer(), buffers, shape, dtype, content),
    )


def _grid(name: str, stored: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Grid | None:
    if stored is None or dtype.kind == "f" or not isinstance(stored.ScaleAsNumpy(), np.ndarray):
        return None
    scale = np.array(stored.ScaleAsNumpy(), np.float32)
    zero = np.array(_indices(stored.ZeroPointAsNumpy()) or (0,), np.int64)
    axis = stored.QuantizedDimension()
    if not scale.size:
        return None
    if not (np.isfinite(scale).all() and (scale > 0).all()):
        raise FrontendError(
            [f"tensor '{name}' has a scale that is no positive number; convert the model again"]
        )
    fits = 0 <= axis < len(shape) and scale.size == shape[axis]
    if (scale.size > 1 and not fits) or zero.size not in (1, scale.size):
        raise FrontendError(
            [f"{DAMAGED}: tensor '{name}' {shape} has {scale.size} scales along {axis}; {AGAIN}"]
        )
    limits = ml_dtypes.iinfo(dtype) if dtype.kind not in "b" else None
    if limits is None or zero.min() < limits.min or zero.max() > limits.max:
        raise FrontendError([f"{DAMAGED}: tensor '{name}' has a zero point outside of {dtype}; {AGAIN}"])
    return Grid(scale=scale, zero=np.broadcast_to(zero, scale.shape), axis=axis)


def _data(
    name: str,
    number: int,
    buffers: tuple[Any, ...],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    content: bytes,
) -> np.ndarray | None:
    """The values of a constant tensor; None for an activation, whose buffer is empty."""
    if number >= len(buffers):
        raise FrontendError([f"{DAMAGED}: tensor '{name}' is in buffer {number} of {len(buffers)}; {AGAIN}"])
    buffer = buffers[number]
    if buffer.Offset() > 1:  # files above 2 GB store data behind the flatbuffer
        start, count = buffer.Offset(), buffer.Size()
        if start + count > len(content) - LARGEST_SCALAR:
            raise FrontendError([f"{DAMAGED}: the data of tensor '{name}' lie outside of it; {AGAIN}"])
        raw = np.frombuffer(content, np.uint8, count, start)
    elif not buffer.DataLength():
        return None
    else:
        raw = np.asarray(buffer.DataAsNumpy(), np.uint8)
    if dtype == TYPES["INT4"]:
        wanted = -(-prod(shape) // 2)
        if raw.size == wanted:  # two elements in a byte, the lower four bits first
            pairs = np.stack([raw << 4, raw & 0xF0], axis=1).view(np.int8) >> 4
            return pairs.reshape(-1)[: prod(shape)].reshape(shape)
    elif raw.size == prod(shape) * dtype.itemsize:
        return np.frombuffer(raw.tobytes(), dtype).reshape(shape)
    raise FrontendError([f"{DAMAGED}: tensor '{name}' {shape} of {dtype} has {raw.size} bytes; {AGAIN}"])
