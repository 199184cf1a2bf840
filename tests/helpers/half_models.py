"""Models of 16-bit floats, made of float32 models."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

from vdla.compiler.ir.types import DType

FLOAT = onnx.TensorProto.FLOAT
OPSET = {DType.FLOAT16: 17, DType.BFLOAT16: 22}
"""The first opset, by type, that has all operators of the tests' networks."""


def in_half(model: bytes, dtype: DType) -> bytes:
    """The model with its float32 inputs, constants and outputs in the 16-bit type `dtype`. Values beyond the type's
    least or greatest number (as masks have) become that number.
    """
    made = onnx.load_model_from_string(model)
    code, limits = helper.np_dtype_to_tensor_dtype(dtype.numpy), ml_dtypes.finfo(dtype.numpy)

    def narrow(array: onnx.TensorProto) -> None:
        if array.data_type == FLOAT:
            values = np.clip(numpy_helper.to_array(array), float(limits.min), float(limits.max))
            array.CopyFrom(numpy_helper.from_array(values.astype(dtype.numpy), array.name))

    for array in made.graph.initializer:
        narrow(array)
    for node in made.graph.node:
        for attribute in node.attribute:
            if attribute.name == "value":
                narrow(attribute.t)
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == FLOAT:
                attribute.i = code
    for info in (*made.graph.input, *made.graph.output):
        if info.type.tensor_type.elem_type == FLOAT:
            info.type.tensor_type.elem_type = code
    for version in made.opset_import:
        version.version = max(version.version, OPSET[dtype])
    return made.SerializeToString()
