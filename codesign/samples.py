"""Seeded inputs of networks. Inputs that are indices into a look-up table, such as token ids, are valid indices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
import onnx
from onnx import TensorProto

from vdla.compiler.frontends.onnx.model.read import read_model
from vdla.compiler.runtime.executable import Executable, Port

VIEWS = frozenset(
    ["Cast", "Expand", "Flatten", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"]
)
"""Operators whose output consists only of elements of their first input."""


def index_limits(path: Path) -> dict[str, int]:
    """Finds the inputs of a model (int32 or int64) that a Gather or GatherElements uses as indices, directly or through
    `VIEWS`. Maps each of them to its limit: the size of the axis that it indexes, or the least of these sizes if
    several nodes index with the input.

    Indices into tables of unknown size are left out. Raises ModelError like `read_model`.
    """
    graph = read_model(path).bare.graph
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    readers: dict[str, list[onnx.NodeProto]] = defaultdict(list)
    for node in graph.node:
        for name in node.input:
            readers[name].append(node)
        if node.op_type in ("Cast", "DequantizeLinear", "Mul"):
            # Tables are often quantized: integers with a scale.
            known = [shapes[name] for name in node.input if name in shapes]
            if known and (node.op_type != "Mul" or len(known) == len(node.input)):
                shapes[node.output[0]] = max(known, key=len)
    return {
        item.name: min(sizes)
        for item in graph.input
        if item.type.tensor_type.elem_type in (TensorProto.INT32, TensorProto.INT64)
        if (sizes := list(_table_sizes(item.name, readers, shapes)))
    }


def sample_inputs(
    network: Executable, limits: Mapping[str, int] = MappingProxyType({})
) -> dict[str, np.ndarray]:
    """Seeded random inputs by name, each made by `sample_port`; `limits`: sizes of indexed tables by input
    (`index_limits`).
    """
    generator = np.random.default_rng(0)
    return {port.name: sample_port(generator, port, limits) for port in network.inputs}


def sample_port(generator: np.random.Generator, port: Port, limits: Mapping[str, int]) -> np.ndarray:
    """Random values for an input: normal for floats, uniform over the whole type for integers of 8 and 16 bits.

    Wider integers are from 0 to below the input's limit in `limits`, which has the limits by name of the input. Without
    a limit they, and booleans, are 0 or 1, since the input may be a mask.
    """
    if port.dtype.kind in "iu" and port.dtype.itemsize <= 2:
        ends = np.iinfo(port.dtype)
        return generator.integers(ends.min, ends.max + 1, port.shape, dtype=port.dtype)
    if port.dtype.kind in "iub":
        return generator.integers(0, max(limits.get(port.name, 2), 1), port.shape).astype(port.dtype)
    return generator.standard_normal(port.shape, dtype=np.float32).astype(port.dtype, copy=False)


def _table_sizes(
    name: str, readers: Mapping[str, list[onnx.NodeProto]], shapes: Mapping[str, tuple[int, ...]]
) -> Iterator[int]:
    """Yields the sizes of the axes of look-up tables that the values of tensor `name` index, directly or through views
    of the tensor. `readers`: for each tensor, the nodes that read it; `shapes`: shapes of tensors.
    """
    for node in readers.get(name, ()):
        if node.op_type in ("Gather", "GatherElements") and node.input[1] == name:
            axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 0)
            shape = shapes.get(node.input[0], ())
            if -len(shape) <= axis < len(shape):
                yield shape[axis]
        elif node.op_type in VIEWS and node.input[0] == name:
            yield from _table_sizes(node.output[0], readers, shapes)
