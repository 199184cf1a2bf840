"""Storage of a network's tensors on processors: byte offsets in one block of memory (arena), and views, which are
stored inside other tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .budgets import check_arena
from .graph import Graph
from .memory_plan import Buffer, lifetimes, plan_memory
from .operators import Join, Reshape

ALIGNMENT = 64
"""Alignment of tensors in the arena (the memory block of all tensors), in bytes: the size of a cache line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoragePlan:
    """The places of a network's tensors in one block of memory (arena). `offsets`: byte offset of each tensor except
    constants; the offset of a view is inside its source. `bytes`: size of the arena. `bytes_without_reuse`: size of an
    arena in which only views share memory, with their sources."""

    offsets: Mapping[str, int]
    bytes: int
    bytes_without_reuse: int


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A tensor stored in the tensor `root` (no view itself) from byte `start` on."""

    root: str
    start: int


def find_views(graph: Graph) -> dict[str, View]:
    """The views among the tensors, by name. There are three kinds: results of `Reshape`; inputs of a `Join` that
    `holds` its result, as parts of the result; and results of other `Join`s.
    """
    views: dict[str, View] = {}
    for node in graph.nodes:
        if isinstance(node.operator, Reshape):
            source = graph.tensors[node.inputs[0]]
            views[node.output] = View(root=source.name, start=node.operator.offset * source.dtype.bits // 8)

    def root(name: str) -> View:
        start = 0
        while (view := views.get(name)) is not None:
            name, start = view.root, start + view.start
        return View(root=name, start=start)

    for node in graph.nodes:
        if not isinstance(node.operator, Join):
            continue
        if not node.operator.holds:
            views[node.output] = View(root=node.inputs[0], start=0)
            continue
        start = 0
        for name in node.inputs:
            views[root(name).root] = View(root=node.output, start=start)
            start += graph.tensors[name].bytes
    return {name: root(name) for name in views}


def plan_storage(graph: Graph) -> StoragePlan:
    """Places the tensors of a graph in memory, after `assign_layouts` has chosen their layouts. Node i is step i; the
    node's inputs and outputs are alive in this step. The graph's inputs live from before the first step, its outputs
    until after the last."""
    views = find_views(graph)
    return _plan(graph, lifetimes(graph, lambda name: views[name].root if name in views else name), views)


def plan_steps(graph: Graph, accesses: Sequence[Sequence[str]]) -> StoragePlan:
    """The storage plan of a graph that has tensors but no nodes: step i reads and writes the tensors `accesses`[i]."""
    lives: dict[str, tuple[int, int]] = {entry.tensor: (-1, -1) for entry in graph.inputs}
    for step, names in enumerate(accesses):
        for name in names:
            lives[name] = (lives.get(name, (step, step))[0], step)
    for output in graph.outputs:
        if output.tensor not in graph.constants:
            lives[output.tensor] = (lives[output.tensor][0], len(accesses))
    return _plan(graph, lives, {})


def _plan(graph: Graph, lives: Mapping[str, tuple[int, int]], views: Mapping[str, View]) -> StoragePlan:
    """Places tensors in memory, given the first and last step in which each tensor is alive (`lives`), and which
    tensors are views.
    """
    buffers = [
        Buffer(name=name, size=graph.tensors[name].bytes, first=first, last=last)
        for name, (first, last) in lives.items()
    ]
    plan = plan_memory(buffers, alignment=ALIGNMENT)
    offsets = dict(plan.offsets)
    offsets.update({name: offsets[view.root] + view.start for name, view in views.items()})
    rounded = sum(-(-buffer.size // ALIGNMENT) * ALIGNMENT for buffer in buffers)
    return StoragePlan(offsets=offsets, bytes=plan.size, bytes_without_reuse=rounded)


def check_plan(label: str, graph: Graph, plan: StoragePlan) -> None:
    """Raises ModelError if the activations of the model `label` take more bytes in `plan` than `budgets` allows."""
    check_arena(
        label,
        plan.bytes,
        {name: graph.tensors[name].bytes for name in plan.offsets},
        {name: node.name for node in graph.nodes for name in node.outputs},
    )
