"""A quantized network on its way to kernels for processors: its tensors, as they lie, and its kernels so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from vdla.isa.arithmetic import UNSIGNED_OFFSET

from ...graph import graph as integer
from ...graph.floating.graph import GraphOutput, Tensor
from ...graph.names import unused
from ...ir.stmt import Program
from ...ir.types import DType
from ...schedule import Schedule
from ...target.cpu.machine import CpuTarget
from ..lowered_node import LoweredStep, kernel_key

BLOCKS = (4, 8, 16)
"""Possible channels of a block, each a multiple of a dot product's depth."""


def block_of(channels: int, lanes: int) -> int:
    """The block in which a tensor lies: as few as hold all channels, at most a vector of `lanes` int32 sums."""
    possible = [block for block in BLOCKS if block <= max(lanes, BLOCKS[0])]
    return next((block for block in possible if channels <= block), possible[-1])


class Int8Network:
    """The tensors and kernels of an integer graph, for a target whose vectors hold `lanes` int32 sums.

    Activations are uint8, the stored value plus 128, in blocks of channels; `names` are theirs among `tensors`.
    `results` are outputs that do not depend on the inputs.
    """

    def __init__(self, graph: integer.Graph, lanes: int) -> None:
        self.graph = graph
        self.lanes = lanes
        self.steps: list[LoweredStep[CpuTarget]] = []
        self.outputs: list[GraphOutput] = []
        self.results: dict[str, np.ndarray] = {}
        self.tensors: dict[str, Tensor] = {
            entry.name: Tensor(name=entry.name, shape=entry.shape, dtype=DType(entry.dtype))
            for entry in graph.inputs
        }
        self.names: dict[str, str] = {}
        for tensor in graph.tensors.values():
            if tensor.name not in graph.constants:
                name = self.unused(tensor.name)
                self.names[tensor.name] = name
                self.tensors[name] = Tensor(
                    name=name, shape=tensor.nchw, dtype=DType.UINT8, block=self.block(tensor.nchw[1])
                )

    def block(self, channels: int) -> int:
        """`block_of` on this target."""
        return block_of(channels, self.lanes)

    def unused(self, name: str) -> str:
        """`name`, with a number behind it where a tensor of the network has it already."""
        return unused(name, self.tensors)

    def add(
        self,
        name: str,
        operator: str,
        members: tuple[str, ...],
        program: Program,
        template: Callable[[CpuTarget], Schedule],
        tensors: Mapping[str, str],
        constants: Mapping[str, np.ndarray] | None = None,
        operations: int = 0,
    ) -> None:
        """One more kernel."""
        step = LoweredStep(
            name=name,
            operator=operator,
            members=members,
            operations=operations,
            key=kernel_key(program.name, program),
            program=program,
            schedule=template,
            tensors=tensors,
            constants=constants or {},
        )
        self.steps.append(step)

    def bind(
        self, parameter: str, name: str, tensors: dict[str, str], constants: dict[str, np.ndarray]
    ) -> None:
        """An operand as a tensor of the network or, blocked, as a constant."""
        if name not in self.graph.constants:
            tensors[parameter] = self.names[name]
            return
        batch, channels, height, width = self.graph.tensors[name].nchw
        block = self.block(channels)
        values = (self.graph.constants[name].astype(np.int16) + UNSIGNED_OFFSET).astype(np.uint8)
        values = np.pad(
            values.reshape(batch, channels, height * width), ((0, 0), (0, -channels % block), (0, 0))
        )
        values = values.reshape(batch, -1, block, height * width).transpose(0, 1, 3, 2)
        constants[parameter] = np.ascontiguousarray(values)
