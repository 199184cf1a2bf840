"""What a node of the float graph becomes for a GPU before it is compiled."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ...graph.floating.graph import FloatGraph, Node
from ...ir.stmt import Program
from ...schedule import Schedule
from ...target.cuda.machine import CudaTarget
from ..fused_cpu import Fused
from ..lowered_node import kernel_key


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoweredCudaNode:
    """A node as a tensor expression, and how it is to be scheduled; all fields as of `lowered_node.LoweredNode`.

    The schedule's program is in kernel form (see `target.cuda.prepare`). `workload` is what a tuner knows the node as,
    if its template has a space.
    """

    node: Node
    key: str
    program: Program
    schedule: Callable[[CudaTarget], Schedule]
    tensors: Mapping[str, str]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    workload: Hashable | None = None


def lowered(
    graph: FloatGraph,
    node: Node,
    template: str,
    ends: Fused,
    schedule: Callable[[CudaTarget], Schedule],
    bound: Mapping[str, str],
    arrays: Mapping[str, np.ndarray] | None = None,
    workload: Hashable | None = None,
) -> LoweredCudaNode:
    """The node whose program is `ends.program` and whose parameters are the tensors or constants `bound` by name.

    `template` names what schedules it, for the key; `arrays` by parameter are constants that are no tensors of the
    graph. Parameters of what is fused with the node come from `ends`. Constants get the parameters' shapes.
    """
    shapes = {p.name: p.shape for p in ends.program.parameters}
    constants = {p: graph.constants[name] for p, name in bound.items() if name in graph.constants}
    constants |= {**(arrays or {}), **ends.constants}
    return LoweredCudaNode(
        node=node,
        key=kernel_key(template, ends.program),
        program=ends.program,
        schedule=schedule,
        tensors={p: name for p, name in bound.items() if name not in graph.constants} | ends.tensors,
        constants={p: array.reshape(shapes[p]) for p, array in constants.items()},
        workload=workload,
    )
