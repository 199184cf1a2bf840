"""The lowered form of a graph node, before compilation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from ..graph.graph import Graph, Node
from ..ir.hash import structural_hash
from ..ir.stmt import Program
from ..schedule import Schedule
from .fused_program import Fused

Target = TypeVar("Target")
"""The type of a target, for which kernels are scheduled."""
Known = TypeVar("Known", covariant=True)
"""The type of a workload, which identifies a node's computation for a tuner."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoweredNode(Generic[Target, Known]):
    """A node as a tensor expression with its schedule.

    `tensors`: names of the graph's tensors by parameter. `constants`: arrays in the parameters' shapes, by parameter,
    not yet packed (`schedule.pack.pack_arrays`). Nodes of equal `key` share a kernel. `workload`: identity of the node
    for the tuner, if the template has a space.
    """

    node: Node
    key: str
    program: Program
    schedule: Callable[[Target], Schedule]
    tensors: Mapping[str, str]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    workload: Known | None = None


def lowered_node(
    graph: Graph,
    node: Node,
    key: str,
    ends: Fused,
    schedule: Callable[[Target], Schedule],
    bound: Mapping[str, str],
    arrays: Mapping[str, np.ndarray] | None = None,
    workload: Known | None = None,
) -> LoweredNode[Target, Known]:
    """Makes a lowered node from `ends`: the program, and the tensors and constants of parameters that fusion added.

    `bound`: for each other parameter the name of its tensor or constant in the graph. `key`: name of the template, to
    which the program's key is added. `arrays`: constants that are no tensors of the graph, by parameter. Constants are
    reshaped to the parameters' shapes. `schedule`, `workload`: fields of the result.
    """
    shapes = {p.name: p.shape for p in ends.program.parameters}
    constants = {p: graph.constants[name] for p, name in bound.items() if name in graph.constants}
    constants |= {**(arrays or {}), **ends.constants}
    return LoweredNode(
        node=node,
        key=kernel_key(key, ends.program),
        program=ends.program,
        schedule=schedule,
        tensors={p: name for p, name in bound.items() if name not in graph.constants} | ends.tensors,
        constants={p: array.reshape(shapes[p]) for p, array in constants.items()},
        workload=workload,
    )


def kernel_key(template: str, program: Program) -> str:
    """A key that begins with the name `template` and is equal for programs that this template schedules equally."""
    return f"{template} {structural_hash(program, alpha=True)}"
