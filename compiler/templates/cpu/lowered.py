"""What a node of the graph becomes for a processor before it is compiled."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from ...codegen.cpu.machine import CpuTarget
from ...te.blocks import Window
from ..lowered_node import LoweredNode
from .sketches import sketch_workload
from .workload import CpuWorkload, Operator

LoweredCpuNode: TypeAlias = LoweredNode[CpuTarget, CpuWorkload]


def sketched(lowered: LoweredCpuNode, operator: Operator, window: Window | None = None) -> LoweredCpuNode:
    """The node with what a tuner knows it as, whose knobs are those of rules for its whole program.

    `window` is a transposed convolution's. The same node where that is not worth while.
    """
    workload = sketch_workload(operator, lowered.program, lowered.constants, window)
    if workload is None:
        return lowered
    # What may be packed ahead makes another kernel of the same program.
    return replace(lowered, workload=workload, key=" ".join([lowered.key, *workload.constants]))
