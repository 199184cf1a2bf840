"""What the cost models need to know of a layer: its sizes in blocks of one machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from vdla.isa.config import Config

from ...te.blocks import Pair, ceil_div
from .workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerShape:
    """A layer with a window, in blocks: `images` blocks of the batch, blocks of channels in and out, positions.

    `operand`: the store pipeline reads a second tensor like the output.
    """

    images: int
    input_blocks: int
    output_blocks: int
    height: int
    width: int
    out_height: int
    out_width: int
    kernel: Pair
    strides: Pair
    dilations: Pair
    operand: bool

    @staticmethod
    def of(config: Config, workload: Workload) -> LayerShape:
        """The shape of a workload on one machine. ValueError if its window does not fit."""
        out_height, out_width = workload.window.outputs(workload.height, workload.width)
        return LayerShape(
            images=ceil_div(workload.batch, config.batch),
            input_blocks=ceil_div(workload.channels, config.block_in),
            output_blocks=ceil_div(workload.filters, config.block_out),
            height=workload.height,
            width=workload.width,
            out_height=out_height,
            out_width=out_width,
            kernel=workload.kernel,
            strides=workload.strides,
            dilations=workload.dilations,
            operand=workload.operand,
        )

    @property
    def extents(self) -> Mapping[str, int]:
        """What the loops over tiles run over: all output blocks, rows and columns."""
        return {"o": self.output_blocks, "y": self.out_height, "x": self.out_width}

    @property
    def taps(self) -> int:
        """Positions of the window."""
        return prod(self.kernel)

    @property
    def outputs(self) -> int:
        """Vectors of the output."""
        return self.images * self.output_blocks * self.out_height * self.out_width

    def stored_beats(self, config: Config) -> float:
        """Beats of the bus for the outputs, and for the operand beside them."""
        vectors = self.outputs * (2 if self.operand else 1)
        return vectors * config.out_bytes / config.memory.bus_bytes
