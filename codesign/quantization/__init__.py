"""Chooses the quantization of each layer by its effects on the error and on the latency or energy on a machine
(accelerator configuration).
"""
