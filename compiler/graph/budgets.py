"""Checks the sizes of tensors, activations and constants against `ir.limits`, before memory is allocated for them.

Every importer reads models through `load.load_model`. After ONNX has inferred all shapes, `load_model` checks them by
`check_shapes`. If an importer adds a tensor or computes a constant, the importer checks the size itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

import onnx

from ..ir.limits import (
    MOST_ARENA_BYTES,
    MOST_IMAGE_BYTES,
    MOST_TENSOR_BYTES,
)
from .errors import ModelError

SMALLER = "export the model for smaller inputs"

_LIMIT = f"more than the {MOST_TENSOR_BYTES:,} that a tensor may have"

_WINDOWS = frozenset(
    (
        *("Conv", "ConvTranspose", "ConvInteger", "QLinearConv"),
        *("MaxPool", "AveragePool", "LpPool", "QLinearAveragePool"),
    )
)
"""Operators that pad their first input: the padded size is checked as well."""


def too_large(shape: Sequence[int], item_bytes: int) -> str | None:
    """Error text if a tensor of `shape`, or its longest dimension alone, takes more than `MOST_TENSOR_BYTES` bytes, or
    if a dimension is negative. None for any other tensor. `item_bytes`: bytes of an element."""
    if any(size < 0 for size in shape):
        return f"has the shape {_shape(shape)}, whose number of elements does not fit 64 bits"
    size = math.prod(shape) * item_bytes
    # A tensor of 0 x 2**40 elements is empty, but tensors derived from it may not be: check the longest dimension,
    # too.
    longest = max(shape, default=0) * item_bytes
    if max(size, longest) <= MOST_TENSOR_BYTES:
        return None
    return f"has the shape {_shape(shape)} and {max(size, longest):,} bytes, {_LIMIT}"


def check_shapes(label: str, model: onnx.ModelProto) -> None:
    """Raises ModelError about `model` (shapes inferred), called `label`, if a tensor is too large, pads included."""
    known: dict[str, tuple[tuple[int, ...], int]] = {}
    for info in model.graph.input:
        known[info.name] = _known(info)
        if problem := too_large(*known[info.name]):
            raise ModelError(f"{label}: input '{info.name}' {problem}; {SMALLER}")
    for initializer in model.graph.initializer:
        known[initializer.name] = tuple(initializer.dims), item_bytes(initializer.data_type)
        if problem := too_large(*known[initializer.name]):
            raise ModelError(f"{label}: initializer '{initializer.name}' {problem}; give a smaller model")
    for info in (*model.graph.value_info, *model.graph.output):
        known[info.name] = _known(info)
    for index, node in enumerate(model.graph.node):
        name = node.name or f"{node.op_type}_{index}"
        for output in node.output:
            if output in known and (problem := too_large(*known[output])):
                raise _of_node(label, name, node.op_type, f"its output '{output}' {problem}", SMALLER)
        if node.op_type in _WINDOWS and node.input and node.input[0] in known:
            _check_window(label, name, node, *known[node.input[0]])


def check_arena(label: str, total: int, tensors: Mapping[str, int], makers: Mapping[str, str]) -> None:
    """Raises ModelError about the model `label` if `total`, the bytes of the activations that are live at the same
    time, exceeds `MOST_ARENA_BYTES`.

    `tensors`: bytes of each activation by name; `makers`: name of the node that computes a tensor, by tensor name.
    """
    if total <= MOST_ARENA_BYTES:
        return
    largest = max(tensors, key=lambda name: (tensors[name], name))
    maker = f"node '{makers[largest]}'" if largest in makers else "the model"
    raise ModelError(
        f"{label}: its activations take {total:,} bytes together; the limit is {MOST_ARENA_BYTES:,} bytes; the "
        f"largest, '{largest}' of {maker}, has {tensors[largest]:,}; {SMALLER}"
    )


def image_problem(total: int, tensors: Mapping[str, int]) -> str | None:
    """The reason why the tensors of a model do not fit an accelerator; None if they fit. `total`: bytes of all tensors;
    `tensors`: bytes of each tensor by name."""
    if total <= MOST_IMAGE_BYTES:
        return None
    largest = max(tensors, key=lambda name: (tensors[name], name))
    return (
        f"its tensors take {total:,} bytes of the accelerator's memory, more than the {MOST_IMAGE_BYTES:,} that it "
        f"can address; the largest, '{largest}', has {tensors[largest]:,}; {SMALLER}"
    )


@cache
def item_bytes(element_type: int) -> int:
    """Bytes of an element of an ONNX type, 1 for an unknown type. A string counts as a pointer, whatever its length."""
    try:
        return max(1, onnx.helper.tensor_dtype_to_np_dtype(element_type).itemsize)
    except (KeyError, TypeError, ValueError):
        return 1


def _known(info: onnx.ValueInfoProto) -> tuple[tuple[int, ...], int]:
    """The shape of a declared tensor and the bytes of an element; an unknown dimension counts as 1."""
    tensor = info.type.tensor_type
    dimensions: Iterable[onnx.TensorShapeProto.Dimension] = tensor.shape.dim
    return tuple(d.dim_value if d.HasField("dim_value") else 1 for d in dimensions), item_bytes(
        tensor.elem_type
    )


def _of_node(label: str, name: str, operator: str, problem: str, way_out: str) -> ModelError:
    """A ModelError about the node `name` of the model `label`.

    It is not a NodeError, because a NodeError makes the compiler partition the network at this node; but a tensor that
    is too large for one target is too large for all.
    """
    return ModelError(f"{label}: node '{name}' ({operator}): {problem}; {way_out}")


def _check_window(label: str, name: str, node: onnx.NodeProto, shape: Sequence[int], item_bytes: int) -> None:
    """Raises ModelError (about node `name` of the model `label`) if the padded input of a convolution or pool is too
    large, even if its output is small. `shape` and `item_bytes` are those of the input without pads."""
    spatial = len(shape) - 2
    attributes = {entry.name: entry.ints for entry in node.attribute if entry.ints}
    pads = attributes.get("pads", ())
    if len(pads) != 2 * spatial:
        return
    padded = [size + pads[axis] + pads[axis + spatial] for axis, size in enumerate(shape[2:])]
    if min(padded, default=1) >= 0 and (problem := too_large([*shape[:2], *padded], item_bytes)):
        problem = f"its input '{node.input[0]}', with pads, {problem}"
        raise _of_node(label, name, node.op_type, problem, "export the model with fewer pads")


def _shape(shape: Sequence[int]) -> str:
    return str(list(shape))
