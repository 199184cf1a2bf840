"""Quantization with hardware feedback: decisions layer by layer, from error against latency and energy."""
