"""New values of tensors: shapes, types (common ones more often), and arrays of random finite values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import ml_dtypes
import numpy as np

from ..drawing import Draw

SHAPES: Mapping[int, Sequence[tuple[int, ...]]] = MappingProxyType(
    {
        0: ((),),
        1: ((1,), (3,), (4,), (7,), (16,)),
        2: ((1, 1), (2, 3), (3, 4), (5, 8), (1, 16), (4, 17)),
        3: ((1, 3, 4), (2, 3, 5), (2, 1, 8), (1, 4, 9), (3, 5, 16)),
        4: (
            (1, 3, 5, 6),
            (2, 4, 3, 3),
            (1, 8, 4, 5),
            (1, 1, 7, 4),
            (2, 3, 1, 4),
            (1, 16, 3, 2),
            (1, 2, 2, 2),
        ),
        5: ((1, 2, 3, 4, 2), (2, 1, 3, 3, 3), (1, 4, 2, 3, 4)),
    }
)
"""Shapes of new tensors by rank; among them are sizes 0 and 1, and multiples of the vector length."""
WEIGHTS: Mapping[str, int] = MappingProxyType(
    {"float32": 60, "float16": 6, "bfloat16": 3, "int64": 6, "int32": 6, "bool": 4, "int8": 3, "uint8": 3}
)
"""Weights with which types are drawn; types not listed have weight 1."""


def weighted(draw: Draw, dtypes: Sequence[str]) -> str:
    """A random one of `dtypes`, with the weights of `WEIGHTS`."""
    return draw.of([name for name in dtypes for _ in range(WEIGHTS.get(name, 1))])


def fresh_array(draw: Draw, dtype: str, shape: Sequence[int]) -> np.ndarray:
    """An array of random finite values with the type named `dtype` (of numpy or ml_dtypes) and `shape`: integers of a
    small or of the whole range, floats of one of several distributions.
    """
    rng, shape = draw.rng, tuple(shape)
    kind = np.dtype(dtype) if dtype in np.sctypeDict else np.dtype(getattr(ml_dtypes, dtype))
    if dtype == "bool":
        return rng.random(shape) < draw.of((0.5, 0.5, 0.2, 0.9))
    if (dtype in np.sctypeDict and kind.kind in "iu") or dtype in ("int4", "uint4", "int2", "uint2"):
        limits = ml_dtypes.iinfo(kind)
        low, high = max(int(limits.min), -9), min(int(limits.max), 9)
        if kind.itemsize == 1 and draw.chance(0.6):
            low, high = int(limits.min), int(limits.max)
        elif draw.chance(0.5):
            low = min(1, high)
        return rng.integers(low, high, shape, endpoint=True).astype(kind)
    match draw.below(8):
        case 0:
            array = rng.uniform(0.05, 0.95, shape)
        case 1:
            array = 1.0 + rng.exponential(1.0, shape)
        case 2:
            array = rng.integers(-4, 5, shape).astype(np.float64)
        case 3:
            array = rng.normal(size=shape) * 10
        case 4:
            array = rng.integers(-32, 33, shape) / 8
        case _:
            array = rng.normal(size=shape)
    return np.asarray(array).astype(kind)
