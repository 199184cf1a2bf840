"""Constants of the accelerator's kernels before packing: arrays of a network, and the function that packs them for a
machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .layout import dense_groups, dilated_columns, pack_activation, pack_weight

if TYPE_CHECKING:
    from vdla.isa.config import Config

Form = Callable[..., np.ndarray]
"""A packing function of `layout` (`pack_...`): form(config, *arrays) -> the array in the machine's memory order."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Constant:
    """Arrays with their packing function. Packed only when the bytes are needed: timing depends on none of them."""

    form: Form
    arrays: tuple[np.ndarray, ...]

    def packed(self, config: Config) -> np.ndarray:
        """The packed array, in the memory order of a machine of this configuration."""
        return self.form(config, *self.arrays)

    def same(self, other: Constant) -> bool:
        """Whether both have equal arrays and the same packing function, so that their bytes are equal on any
        machine."""
        return (
            self.form is other.form
            and len(self.arrays) == len(other.arrays)
            and all(_same(a, b) for a, b in zip(self.arrays, other.arrays, strict=True))
        )


_FIRST = 64


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays have equal bytes. The first elements are compared first: most unequal arrays differ there."""
    if a is b:
        return True
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind == "f":
        return a.tobytes() == b.tobytes()
    return np.array_equal(a.flat[:_FIRST], b.flat[:_FIRST]) and np.array_equal(a, b)


def pack_spread_weight(config: Config, weight: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """`pack_weight` with zeros where a kernel reads nothing: in other groups, and between its dilated columns.

    `spread` is int [2]: the groups, and the dilation of columns.
    """
    groups, dilation = spread.tolist()
    return pack_weight(config, dilated_columns(dense_groups(weight, groups), dilation))


def pack_operand(config: Config, values: np.ndarray) -> np.ndarray:
    """A constant int8 tensor (N, C, H, W) packed in the blocked layout, which every layer reads."""
    return pack_activation(config, values, "blocked")


def unpacked(_: Config, values: np.ndarray) -> np.ndarray:
    """The array itself: a packing function for arrays that need no packing."""
    return values
