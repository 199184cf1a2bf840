"""What a node of the graph becomes before it is compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from ..graph.graph import Graph, Node
from ..ir.hash import structural_hash
from ..ir.stmt import Program
from ..schedule import Schedule
from .expressions import Expression
from .fused import Fused, fused

Target = TypeVar("Target")
"""What a kernel is scheduled for."""
Known = TypeVar("Known", covariant=True)
"""What a tuner knows a node of such a target as."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoweredNode(Generic[Target, Known]):
    """A node as a tensor expression, and how it is to be scheduled.

    `tensors` by parameter are the graph's, `constants` by parameter are arrays in the parameters' shapes; what the
    schedule packs is still to be packed (`schedule.pack.pack_arrays`). Nodes of equal `key` have one kernel. `workload`
    is what a tuner knows it as, if its template has a space.
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
    """The node whose program is `ends.program` and whose parameters are the tensors or constants `bound` by name.

    `key` names what schedules it; `arrays` by parameter are constants that are no tensors of the graph. Parameters of
    what is fused with the node come from `ends`. Constants get the parameters' shapes.
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


def fused_expression(graph: Graph, node: Node, expression: Expression) -> tuple[Fused, dict[str, str]]:
    """A node's expression with what is fused with it, and the tensors that are its parameters by name."""
    program = expression.program
    names = [p.name for p in program.parameters if p.name not in expression.arrays]
    inputs, outputs = names[: -len(node.outputs)], names[-len(node.outputs) :]
    given = zip(inputs, node.own_inputs, strict=True) if node.data is None else ()
    ends = fused(graph, node, program, statements=expression.statements, inside=expression.inside)
    return ends, {**dict(given), **dict(zip(outputs, node.outputs, strict=True))}


def kernel_key(template: str, program: Program) -> str:
    """Equal for programs that a template schedules alike."""
    return f"{template} {structural_hash(program, alpha=True)}"
