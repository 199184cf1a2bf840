"""Networks that others publish, as PyTorch exports them to ONNX, made with onnx alone and seeded weights.

`table.TABLE` names them all. Each family has a file, written in the order of its original's own definition.
"""

from .table import NAMES, Original, build_original, describe, original

__all__ = ["NAMES", "Original", "build_original", "describe", "original"]
