"""Converts tensors of PyTorch to numpy arrays and back, without copying where both can share memory."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np


def array_of(torch: Any, tensor: Any) -> np.ndarray:
    """Converts a tensor to a numpy array on the host; bfloat16 becomes the dtype of ml_dtypes."""
    plain = tensor.detach().cpu().contiguous()
    if plain.dtype == torch.bfloat16:
        return plain.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return plain.numpy()


def tensor_of(torch: Any, value: Any) -> Any:
    """Converts a numpy array to a tensor; any other value is returned unchanged."""
    if not isinstance(value, np.ndarray):
        return value
    array = np.ascontiguousarray(value)
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    # PyTorch warns about arrays that may not be written, and writing to a tensor would change the caller's array.
    return torch.from_numpy(array if array.flags.writeable else array.copy())
