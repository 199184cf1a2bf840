"""Networks published by others, as PyTorch exports them to ONNX, built only with the package onnx and seeded weights.

`table.TABLE` lists all by name. Each family has a file, in which layers are in the order of the original's definition.
"""

from .table import NAMES, Original, build_original, describe, original

__all__ = ["NAMES", "Original", "build_original", "describe", "original"]
