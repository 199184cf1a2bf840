"""What a convolution computes, apart from how its tensors lie."""

from __future__ import annotations

from dataclasses import dataclass

from ..blocks import Pair, Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution:
    """Sizes of a convolution, in elements; one of each channel by itself has as many groups as channels.

    ValueError if `groups` does not divide channels and filters.
    """

    batch: int
    channels: int
    height: int
    width: int
    filters: int
    window: Window
    groups: int = 1

    def __post_init__(self) -> None:
        if self.channels % self.groups or self.filters % self.groups:
            raise ValueError(
                f"{self.groups} groups do not divide {self.channels} channels and {self.filters} filters"
            )

    @property
    def group_channels(self) -> int:
        """Channels of a group."""
        return self.channels // self.groups

    @property
    def group_filters(self) -> int:
        """Filters of a group."""
        return self.filters // self.groups

    @property
    def outputs(self) -> Pair:
        """Rows and columns of the output; ValueError if the window does not fit."""
        return self.window.outputs(self.height, self.width)
