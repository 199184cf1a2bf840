"""The library that processor kernels are compared with (the "peer"): ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from vdla.util.errors import UserError

if TYPE_CHECKING:
    import onnxruntime


class NoPeerError(UserError):
    """Raised if ONNX Runtime is not installed; the message says how to install it."""


def session(model: onnx.ModelProto, threads: int = 1) -> onnxruntime.InferenceSession:
    """A session of ONNX Runtime on `threads` threads that runs one operator at a time. Raises NoPeerError."""
    onnxruntime = _onnxruntime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def peer_version() -> str:
    """Name and version of ONNX Runtime. Raises NoPeerError."""
    return f"onnxruntime {_onnxruntime().__version__}"


def _onnxruntime() -> ModuleType:
    try:
        import onnxruntime
    except ImportError:
        raise NoPeerError('the peer, ONNX Runtime, is not installed: pip install "vdla[check]"') from None
    return onnxruntime


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    constants: dict[str, np.ndarray],
) -> onnx.ModelProto:
    """An ONNX model of the given nodes, inputs, outputs and constants (arrays by name)."""
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "bench", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def value(name: str, shape: tuple[int, ...], kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    """The declaration of a graph input or output for `model_of`: name, shape and element type."""
    return helper.make_tensor_value_info(name, kind, shape)
