"""Weights whose products ONNX Runtime adds right on every processor."""

from __future__ import annotations

from vdla.codesign.evaluate import kernels_saturate

WEIGHTS = 64 if kernels_saturate() else 128
"""int8 weights of a test go from -WEIGHTS to below it: sums of two products with uint8 stay below 2^15 where ONNX
Runtime adds them in 16 bits."""
