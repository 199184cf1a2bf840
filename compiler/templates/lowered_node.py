"""What a node of the float graph becomes before it is compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import numpy as np

from ..graph.floating.graph import Node
from ..ir.hash import structural_hash
from ..ir.stmt import Program
from ..schedule import Schedule
from ..target.cpu.machine import CpuTarget
from ..te.blocks import Window
from .sketch_cpu import sketch_workload
from .tasks_cpu import ChosenKnobs, chosen
from .workload_cpu import CpuWorkload, Operator

Target = TypeVar("Target")
"""What a kernel is scheduled for."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoweredNode:
    """A node as a tensor expression, and how it is to be scheduled.

    `tensors` by parameter are the graph's, `constants` by parameter are arrays in the parameters' shapes; what the
    schedule packs is still to be packed (`schedule.pack.pack_arrays`). Nodes of equal `key` have one kernel. `workload`
    is what a tuner knows it as, if its template has a space.
    """

    node: Node
    key: str
    program: Program
    schedule: Callable[[CpuTarget], Schedule]
    tensors: Mapping[str, str]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    workload: CpuWorkload | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoweredStep(Generic[Target]):
    """A kernel to be, of whatever kind of graph and target: `LoweredNode`'s fields, with what profiles say of its node.

    `members` are the names of the ONNX nodes that it computes, `operations` is what they count.
    """

    name: str
    operator: str
    members: tuple[str, ...]
    operations: int
    key: str
    program: Program
    schedule: Callable[[Target], Schedule]
    tensors: Mapping[str, str]
    constants: Mapping[str, np.ndarray]
    workload: CpuWorkload | None = None


def sketched(
    lowered: LoweredNode, operator: Operator, knobs: ChosenKnobs | None, window: Window | None = None
) -> LoweredNode:
    """The node with what a tuner knows it as, whose knobs, if it gets some, are those of rules for its whole program.

    `window` is a transposed convolution's. The same node where that is not worth while.
    """
    workload = sketch_workload(operator, lowered.program, lowered.constants, window)
    if workload is None or knobs is None:
        return replace(lowered, workload=workload)
    return replace(
        lowered,
        workload=workload,
        # What may be packed ahead makes another kernel of the same program.
        key=" ".join([lowered.key, *workload.constants]),
        schedule=chosen(lowered.program, workload, knobs),
    )


def kernel_key(template: str, program: Program) -> str:
    """Equal for programs that a template schedules alike."""
    return f"{template} {structural_hash(program, alpha=True)}"
