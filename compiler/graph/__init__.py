"""Quantized ONNX models as integer graphs: import, fusion, interpretation, memory planning and cost."""
