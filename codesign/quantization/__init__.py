"""Quantization with hardware feedback: decisions for each layer, from the error and from latency or energy."""
