"""A TFLite model in memory: tensors with their data and quantization, operators with their options, one subgraph.

Numbers of fields are those of TensorFlow's schema.fbs; names of operators, types and options come from the package
tflite.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np
import tflite

from vdla.compiler.ir.limits import MOST_TENSOR_BYTES

from ..errors import FrontendError
from .flatbuffer import PADDING, Table, require

_NAMES = ("FLOAT16", "FLOAT32", "FLOAT64", "INT8", "INT16", "INT32", "INT64", "UINT8", "BOOL")
TYPES: Mapping[str, np.dtype[Any]] = MappingProxyType(
    {name: np.dtype(name.lower()) for name in _NAMES} | {"INT4": np.dtype(ml_dtypes.int4)}
)
"""numpy's types of TFLite's tensors; tensors of all other types are refused."""
_EMPTY = Table(struct.pack("<HHi", 4, 4, 4) + bytes(PADDING), 4, "missing options")
"""A table without fields, for options that a file leaves out: each field has its default."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grid:
    """Quantization of a tensor: real = (integer - zero) * scale. `scale`: float32, `zero`: int64, both (1,) or one for
    each index along `axis` in TFLite's order."""

    scale: np.ndarray
    zero: np.ndarray
    axis: int = 0

    @property
    def one(self) -> bool:
        """Whether the whole tensor has one scale."""
        return self.scale.size == 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tensor:
    """A tensor: its shape in TFLite's order (N, H, W, C), its numpy dtype, its quantization and, if it is constant, its
    values.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    grid: Grid | None
    data: np.ndarray | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Operator:
    """An operator of a TFLite file. `kind`: its built-in name; `custom`: the name of a custom operator. `inputs` and
    `outputs`: numbers of tensors; -1 stands for an input that is left out. `stored`: the table with the operator's
    options; `stored_kind`: the name of their class, "" for an unknown class, None if the file has no options for the
    operator.
    """

    kind: str
    custom: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    stored: Table
    stored_kind: str | None

    def options(self, name: str) -> Any:
        """The options as an object of the class `name` of the package tflite. Raises FrontendError for options of
        another class, or outside of the file."""
        require(self.stored_kind in (name, None), f"{self.kind} has {self.stored_kind or 'unknown options'}")
        self.stored.check()
        options = getattr(tflite, name)()
        options.Init(self.stored.data, self.stored.place)
        return options


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Network:
    """The main subgraph of a TFLite model: inputs and outputs are indices into `tensors`."""

    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def read_network(content: bytes) -> Network:
    """The first subgraph of a TFLite file, which is the subgraph that LiteRT runs. Raises FrontendError for a damaged
    file. Also raises it for a tensor of unknown type, a sparse tensor, and a tensor with data in another file.
    """
    content += bytes(PADDING)  # the package reads numbers of options without a check of their width
    root = Table(content, 0, "the model")
    model = Table(content, int(root.span(0, "<u4")[0]), "the model")
    graphs = model.tables(2, "subgraph")
    require(bool(graphs), "it has no subgraph")
    buffers = model.tables(4, "buffer")
    tensors = tuple(_tensor(table, buffers) for table in graphs[0].tables(0, "tensor"))
    operators = tuple(_operators(model, graphs[0]))
    inputs, outputs = _indices(graphs[0], 1), _indices(graphs[0], 2)
    known = {*inputs, *(i for i, tensor in enumerate(tensors) if tensor.data is not None)} - {-1}
    for part, read, made in (*((o.kind, o.inputs, o.outputs) for o in operators), ("the model", outputs, ())):
        outside = {*read, *made} - {-1, *range(len(tensors))}
        require(not outside, f"{part} refers to tensors {outside}, but there are {len(tensors)} tensors only")
        missing = [tensors[i].name for i in read if i not in {*known, -1}]
        require(not missing, f"{part} reads '{''.join(missing[:1])}', which no earlier operator computes")
        require(known.isdisjoint(made), f"{part} writes an input, a constant or another operator's output")
        known.update(made)
    return Network(tensors=tensors, operators=operators, inputs=inputs, outputs=outputs)


def _indices(table: Table, field: int) -> tuple[int, ...]:
    return tuple(table.numbers(field, "<i4").tolist())


def _named(kinds: type) -> dict[int, str]:
    """The names of an enumeration of the package tflite, by their numbers."""
    return {number: name for name, number in vars(kinds).items() if not name.startswith("_")}


def _operators(model: Table, graph: Table) -> Iterator[Operator]:
    names, classes = _named(tflite.BuiltinOperator), _named(tflite.BuiltinOptions)
    codes = model.tables(1, "operator code")
    for table in graph.tables(3, "operator"):
        place, options = table.number(0, "<u4"), table.table(4, f"the options of {table.name}")
        require(place < len(codes), f"{table.name} has an unknown operator code")
        number = max(codes[place].number(0, "<i1"), codes[place].number(3))
        yield Operator(
            kind=names.get(number, f"operator code {number}"),
            custom=codes[place].text(1),
            inputs=_indices(table, 1),
            outputs=_indices(table, 2),
            stored=options or _EMPTY,
            stored_kind=classes.get(table.number(3, "<u1"), "") if options else None,
        )


def _tensor(table: Table, buffers: Sequence[Table]) -> Tensor:
    name, shape, place = table.text(3) or table.name, _indices(table, 0), table.number(2, "<u4")
    kind = _named(tflite.TensorType).get(table.number(1, "<i1"), "an unknown one")
    if kind not in TYPES:
        raise FrontendError([f"tensor '{name}' has the type {kind}; supported are {', '.join(TYPES)}"])
    if table.field(6) is not None:
        raise FrontendError([f"tensor '{name}' is sparse; store it densely (DENSIFY is not supported)"])
    dtype, label = TYPES[kind], f"tensor '{name}' of shape {shape}"
    size, most = max(prod(shape), *shape, 0) * dtype.itemsize, MOST_TENSOR_BYTES
    require(min(shape, default=1) >= 0 and size <= most, f"{label} is negative or above {most:,} bytes")
    require(place < len(buffers), f"{label} is in buffer {place} of {len(buffers)} buffers")
    scales = table.table(4, f"the scales of '{name}'")
    grid = None if dtype.kind in "fb" or scales is None else _grid(label, scales, shape, dtype)
    data = _data(label, buffers[place], shape, dtype)
    return Tensor(name=name, shape=shape, dtype=dtype, grid=grid, data=data)


def _grid(label: str, table: Table, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Grid | None:
    scale, zero = table.numbers(2, "<f4").astype(np.float32), table.numbers(3, "<i8").astype(np.int64)
    axis, limits = table.number(6), ml_dtypes.iinfo(dtype)
    if not scale.size:
        return None
    zero = zero if zero.size else np.zeros(1, np.int64)
    if not (np.isfinite(scale).all() and (scale > 0).all()):
        raise FrontendError([f"{label} has a scale that is not a positive number; convert the model again"])
    sizes = {1, shape[axis]} if 0 <= axis < len(shape) else {1}
    fits = scale.size in sizes and zero.size in (1, scale.size)
    require(fits, f"{label} has {scale.size} scales and {zero.size} zero points along its axis {axis}")
    fits = limits.min <= zero.min() and zero.max() <= limits.max
    require(bool(fits), f"{label} has a zero point outside of {dtype}")
    return Grid(scale=scale, zero=np.broadcast_to(zero, scale.shape), axis=axis)


def _data(label: str, buffer: Table, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray | None:
    """The values of a constant tensor, from the table `buffer`, as an array of `shape` and `dtype`. Returns None for an
    activation, whose buffer is empty. Error messages call the tensor `label`.
    """
    raw, start = buffer.numbers(0, "<u1"), buffer.number(1, "<u8")
    if start > 1:  # files above 2 GB store data behind the flatbuffer
        raw = buffer.span(start, "<u1", buffer.number(2, "<u8"))
    if not raw.size:
        return None
    if dtype == TYPES["INT4"] and raw.size == -(-prod(shape) // 2):
        # Two elements in a byte, the lower four bits first.
        pairs = np.stack([raw << 4, raw & 0xF0], axis=1).view(np.int8) >> 4
        return pairs.reshape(-1)[: prod(shape)].reshape(shape)
    require(
        raw.size == prod(shape) * dtype.itemsize, f"{label} and type {dtype} has {raw.size} bytes of data"
    )
    return np.frombuffer(raw.tobytes(), dtype).reshape(shape)
