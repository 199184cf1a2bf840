"""Weights for which ONNX Runtime's integer kernels do not saturate on any processor."""

from __future__ import annotations

import onnx
from onnx import TensorProto, numpy_helper

from vdla.codesign.evaluate import kernels_saturate

WEIGHTS = 64 if kernels_saturate() else 128
"""int8 weights in tests are from -WEIGHTS to WEIGHTS - 1. On processors where ONNX Runtime adds two products in 16
bits, WEIGHTS is 64, so that sums of two products with uint8 stay below 2^15.
"""


def addable(model: bytes) -> bytes:
    """Makes a model that ONNX Runtime computes exactly on this processor. On processors where its sums of two products
    saturate, all int8 constants of two or more dimensions are halved; on others the model is returned unchanged.
    """
    if not kernels_saturate():
        return model
    proto = onnx.load_from_string(model)
    for item in proto.graph.initializer:
        if item.data_type == TensorProto.INT8 and len(item.dims) > 1:
            item.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(item) // 2, item.name))
    return proto.SerializeToString()
