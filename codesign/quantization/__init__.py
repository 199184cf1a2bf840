"""Chooses each layer's quantization by the layer's error and by the latency or energy on a machine."""
