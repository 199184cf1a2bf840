"""Frontends: each makes an ONNX model in memory from another description of a network."""
