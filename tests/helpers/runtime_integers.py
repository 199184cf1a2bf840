"""Weights whose products ONNX Runtime adds right on every processor."""

from __future__ import annotations

import onnx
from onnx import TensorProto, numpy_helper

from vdla.codesign.evaluate import kernels_saturate

WEIGHTS = 64 if kernels_saturate() else 128
"""int8 weights of a test go from -WEIGHTS to below it: sums of two products with uint8 stay below 2^15 where ONNX
Runtime adds them in 16 bits."""


def addable(model: bytes) -> bytes:
    """The model itself, or with half of every int8 weight where ONNX Runtime's sums of two products saturate."""
    if not kernels_saturate():
        return model
    proto = onnx.load_from_string(model)
    for item in proto.graph.initializer:
        if item.data_type == TensorProto.INT8 and len(item.dims) > 1:
            item.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(item) // 2, item.name))
    return proto.SerializeToString()
