"""Networks of float32 tensors: from ONNX to a fused graph with layouts and addresses."""
