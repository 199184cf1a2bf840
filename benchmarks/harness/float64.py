"""Runs a float32 model in float64 with ONNX's reference implementation in numpy; GPU results are compared with its
outputs.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator


def float64_outputs(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs, by name, of `model` for `inputs` (arrays by name) with all float32 tensors changed to float64; integers
    stay unchanged.
    """
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    for tensor in wide.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            values = numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    for value in (*wide.graph.input, *wide.graph.output, *wide.graph.value_info):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for node in wide.graph.node:
        for attribute in node.attribute:
            if attribute.t.data_type == TensorProto.FLOAT:
                values = numpy_helper.to_array(attribute.t).astype(np.float64)
                attribute.t.CopyFrom(numpy_helper.from_array(values, attribute.t.name))
    feeds = {
        name: array.astype(np.float64) if array.dtype == np.float32 else array
        for name, array in inputs.items()
    }
    names = [value.name for value in wide.graph.output]
    results = ReferenceEvaluator(wide).run(names, feeds)
    return {name: np.asarray(values) for name, values in zip(names, results, strict=True)}
