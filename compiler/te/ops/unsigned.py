"""Activations of quantized networks on processors are uint8: the int8 value that the model stores, plus 128."""

from __future__ import annotations

import numpy as np

from vdla.isa.arithmetic import UNSIGNED_OFFSET

from ...ir.expr import Const, Expr, cast
from ...ir.types import DType

OFFSET = Const(UNSIGNED_OFFSET, DType.UINT8)


def stored_value(value: Expr) -> Expr:
    """The int8 value that the model stores, from a uint8 activation."""
    return cast(value - OFFSET, DType.INT8)


def held(value: Expr) -> Expr:
    """The uint8 activation of an int8 value that the model stores."""
    return cast(value, DType.UINT8) + OFFSET


def biases_of_unsigned(bias: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """int32 biases that compensate for activations larger by 128, for `weight` int8[O, ...]; they wrap
    like the sums.
    """
    sums = weight.astype(np.int64).sum(axis=tuple(range(1, weight.ndim)))
    return (bias.astype(np.int64) - UNSIGNED_OFFSET * sums).astype(np.int32)
