"""Arrays of a model's tensors, whose bytes are in the tensor or stored apart from the model."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

Bytes = bytes | memoryview
LEAST_BYTES = 2**16
"""Initializers of more than this many bytes are cut out of a serialized model and kept as arrays. Shapes and indices,
whose values are needed inside the model, are smaller.
"""


def tensor_bytes(tensor: TensorProto) -> int | None:
    """Number of bytes of a tensor's elements; None for types that are no numbers."""
    bits = _element_bits(tensor.data_type)
    return None if bits is None else -(-math.prod(tensor.dims) * bits // 8)


def tensor_array(tensor: TensorProto, data: bytes | memoryview | None = None) -> np.ndarray:
    """A tensor's elements as an array that no caller may change. `data`: the bytes, if they are not in `tensor`; the
    array may be a view of them.

    Raises ValueError, TypeError or KeyError for bytes that do not match type and shape."""
    dtype = _PLAIN.get(tensor.data_type)
    if data is None and (dtype is None or not tensor.HasField("raw_data")):
        return numpy_helper.to_array(tensor)
    # A fast path for most tensors: a model has hundreds, and ONNX's function is slow.
    if dtype is None:
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type).newbyteorder("<")
    array = np.frombuffer(tensor.raw_data if data is None else data, dtype).reshape(tuple(tensor.dims))
    if not array.flags.aligned:  # elements of several bytes may be unaligned in a file
        array = array.copy()
        array.flags.writeable = False
    return array


_PLAIN: dict[int, np.dtype[Any]] = {
    TensorProto.FLOAT: np.dtype("<f4"),
    TensorProto.INT8: np.dtype(np.int8),
    TensorProto.UINT8: np.dtype(np.uint8),
    TensorProto.INT32: np.dtype("<i4"),
    TensorProto.INT64: np.dtype("<i8"),
}
"""Types whose `raw_data` has numpy's format."""


@functools.cache
def _element_bits(data_type: int) -> int | None:
    if data_type not in TensorProto.DataType.values():
        return None
    name = TensorProto.DataType.Name(data_type)
    if name in ("UNDEFINED", "STRING"):
        return None
    if name in ("INT4", "UINT4", "FLOAT4E2M1"):
        return 4
    if name in ("INT2", "UINT2"):
        return 2
    return 8 * helper.tensor_dtype_to_np_dtype(data_type).itemsize
