"""Readers of models in other formats than ONNX. Each turns a file into an ONNX model for the importers."""
