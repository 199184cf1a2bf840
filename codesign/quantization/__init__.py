"""Chooses how each layer is quantized, from its error and from the latency or energy on a machine."""
