"""Where the tensors of a float graph lie: one arena, whose bytes serve tensors that are not alive together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..memory_plan import Buffer, plan_memory
from .graph import FloatGraph
from .operators import Reshape

ALIGNMENT = 64
"""Bytes of a cache line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoragePlan:
    """Byte offsets of all tensors but constants, the arena's bytes, and those it would have without reuse.

    Views lie where the tensor lies that they look at.
    """

    offsets: Mapping[str, int]
    bytes: int
    bytes_without_reuse: int


def view_roots(graph: FloatGraph) -> dict[str, str]:
    """For each view of a tensor, which tensor it looks at; that one is no view."""
    roots: dict[str, str] = {}
    for node in graph.nodes:
        if isinstance(node.operator, Reshape):
            (source,) = node.inputs
            roots[node.output] = roots.get(source, source)
    return roots


def plan_storage(graph: FloatGraph) -> StoragePlan:
    """Plans a graph with layouts. Node i is step i; it reads while it writes.

    Inputs live from before the first step, outputs until after the last.
    """
    roots = view_roots(graph)

    def root(name: str) -> str:
        return roots.get(name, name)

    lives: dict[str, tuple[int, int]] = dict.fromkeys(graph.inputs, (-1, -1))
    for step, node in enumerate(graph.nodes):
        for name in node.inputs:
            if name not in graph.constants:
                lives[root(name)] = (lives[root(name)][0], step)
        if not isinstance(node.operator, Reshape):
            lives.update(dict.fromkeys(node.outputs, (step, step)))
    for output in graph.outputs:
        if output.tensor not in graph.constants:
            lives[root(output.tensor)] = (lives[root(output.tensor)][0], len(graph.nodes))
    buffers = [
        Buffer(name=name, size=graph.tensors[name].bytes, first=first, last=last)
        for name, (first, last) in lives.items()
    ]
    plan = plan_memory(buffers, alignment=ALIGNMENT)
    offsets = dict(plan.offsets)
    offsets.update({view: offsets[of] for view, of in roots.items()})
    rounded = sum(-(-buffer.size // ALIGNMENT) * ALIGNMENT for buffer in buffers)
    return StoragePlan(offsets=offsets, bytes=plan.size, bytes_without_reuse=rounded)
