"""The peer of the benchmarks on processors: ONNX Runtime."""

from __future__ import annotations

import onnx
import onnxruntime


def session(model: onnx.ModelProto, threads: int = 1) -> onnxruntime.InferenceSession:
    """ONNX Runtime on so many threads, one operator at a time."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
