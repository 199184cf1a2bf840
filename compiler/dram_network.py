"""Stages of compilation for a machine with a DRAM (hw/dram.md). They take the knobs and the placement that
`dram_choices` chooses.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

from vdla.isa.program import Program

from . import dram_choices
from .codegen.vdla.dram_placement import dram_image
from .codegen.vdla.link import Image, Linked, LoweredLayer
from .codegen.vdla.placement import ChainBuffer
from .dram_kernels import blocks_as_rows
from .node_points import Points
from .templates.vdla.lower import network_kernels
from .templates.vdla.template import Kernel
from .vdla_stages import AcceleratorNetwork


class DramNetwork(AcceleratorNetwork):
    """A legalized network for a machine whose memory is a DRAM."""

    @cached_property
    def _kernels(self) -> tuple[Mapping[str, tuple[Kernel, ...]], Mapping[str, ChainBuffer]]:
        kernels, chained = network_kernels(self.config, self.legalized)
        return {
            name: tuple([blocks_as_rows(self.config, kernel, chained.keys()) for kernel in several])
            for name, several in kernels.items()
        }, chained

    @cached_property
    def _choices(self) -> dram_choices.DramChoices:
        return dram_choices.choose(self.config, self.kernels, self.virtual_threads, self._timed_apart)

    @cached_property
    def _measured(self) -> Points:
        return self._choices.points

    def _timed_apart(self, points: Points, apart: Collection[str]) -> Program:
        layers = [self.layer(name, points[name]) for name in self.kernels]
        return self.linked(layers, data=False, image=dram_image(self.config, layers, apart)).program

    def linked(self, layers: Sequence[LoweredLayer], *, data: bool, image: Image | None = None) -> Linked:
        """Links `layers` to one program, as `AcceleratorNetwork.linked` does: without `data`, constants are zeros.
        `image`: an empty memory image (None: an image for the nodes whose stores `dram_choices` separates in time from
        loads).
        """
        image = dram_image(self.config, layers, self._choices.apart) if image is None else image
        return super().linked(layers, data=data, image=image)
