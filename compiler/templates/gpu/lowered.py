"""What a node of the graph becomes for a GPU before it is compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from ...graph.graph import Graph, Node
from ...ir.stmt import Program
from ...schedule import Schedule
from ...target.cuda.machine import CudaTarget
from ..cpu.fused import Fused, fused
from ..lowered_node import LoweredNode, kernel_key
from . import generic
from .flat import flattened
from .workload import CudaTemplate, CudaWorkload, workload_of

LoweredCudaNode: TypeAlias = LoweredNode[CudaTarget, CudaWorkload]
"""A node for a GPU: its schedule's program is in kernel form (see `target.cuda.prepare`)."""
Template = Callable[[CudaTarget, Program], Schedule]
"""Puts a program into kernel form."""


def lowered(
    graph: Graph,
    node: Node,
    template: str,
    ends: Fused,
    schedule: Callable[[CudaTarget], Schedule],
    bound: Mapping[str, str],
    arrays: Mapping[str, np.ndarray] | None = None,
    workload: CudaWorkload | None = None,
) -> LoweredCudaNode:
    """The node whose program is `ends.program` and whose parameters are the tensors or constants `bound` by name.

    `template` names what schedules it, for the key; `arrays` by parameter are constants that are no tensors of the
    graph. Parameters of what is fused with the node come from `ends`. Constants get the parameters' shapes.
    """
    shapes = {p.name: p.shape for p in ends.program.parameters}
    constants = {p: graph.constants[name] for p, name in bound.items() if name in graph.constants}
    constants |= {**(arrays or {}), **ends.constants}
    return LoweredNode(
        node=node,
        key=kernel_key(template, ends.program),
        program=ends.program,
        schedule=schedule,
        tensors={p: name for p, name in bound.items() if name not in graph.constants} | ends.tensors,
        constants={p: array.reshape(shapes[p]) for p, array in constants.items()},
        workload=workload,
    )


def in_order(
    graph: Graph,
    node: Node,
    program: Program,
    name: str = "generic",
    template: Template = generic.schedule,
    *,
    arrays: Mapping[str, np.ndarray] | None = None,
    statements: Sequence[str] = (),
    flat: bool = True,
    intermediates: bool = True,
    tuned: CudaTemplate | None = None,
) -> LoweredCudaNode:
    """A node whose program has as parameters the inputs of its operator, `arrays`, and its outputs, in their order.

    What is fused with it is grafted on (`statements` as of `te.fusion.with_result`), then, if `flat`, arrays become
    those of one dimension (`intermediates`: see `flat.flattened`) before `template`, called `name`, schedules it.
    `tuned` is the template of its workload.
    """
    inputs = [p.name for p in program.parameters if p.name not in (arrays or {})]
    count = len(node.outputs)
    ends = fused(graph, node, program, statements=statements)
    given = zip(inputs[:-count], node.own_inputs, strict=True) if node.data is None else ()
    bound = {**dict(given), **dict(zip(inputs[-count:], node.outputs, strict=True))}
    if flat:
        ends = replace(ends, program=flattened(ends.program, intermediates=intermediates))
    final = ends.program
    return lowered(
        graph,
        node,
        name,
        ends,
        lambda target: template(target, final),
        bound,
        arrays,
        workload=workload_of(tuned, final),
    )
