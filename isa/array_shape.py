"""The hardware that all modes of a machine's array need together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .config import Config
from .array_modes import modes_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayShape:
    """The hardware that all modes of a machine's array need together.

    `by_lane`: the array can multiply lane by lane. `positions`: largest number of neighbouring input positions (pixels)
    that an operation reads. `zero_points`: a zero point is subtracted from each factor, which then has 9 bits.
    `fold_levels`: number of levels at the end of the adder tree that can be bypassed, so that each group of array rows
    gives a sum of its own.
    """

    by_lane: bool
    positions: int
    zero_points: bool
    fold_levels: int

    @staticmethod
    def of(config: Config) -> ArrayShape:
        """The hardware of the array of `config`."""
        modes = modes_of(config)
        return ArrayShape(
            by_lane=any(mode.by_lane for mode in modes),
            positions=max(mode.positions for mode in modes),
            zero_points=config.has("zero_points"),
            fold_levels=config.tile_parts.bit_length() - 1,
        )

    @property
    def banks(self) -> int:
        """Number of banks of the input scratchpad and of the chain memory (on-chip buffer between layers): one for each
        input position (pixel) that is read in the same cycle.
        """
        return self.positions

    @property
    def factor_bits(self) -> int:
        """Width in bits of a factor of the array's products: 8, or 9 with zero points."""
        return 9 if self.zero_points else 8

    @property
    def product_bits(self) -> int:
        """Width of a signed product in bits: -128 x -128 needs 16, 255 x 255 needs 17."""
        return 17 if self.zero_points else 16
