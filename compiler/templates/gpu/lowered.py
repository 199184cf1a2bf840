"""The lowered form of a graph node for a GPU, before compilation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ...codegen.cuda.machine import GpuTarget
from ...graph.graph import Graph, Node
from ...ir.stmt import Program
from ...schedule import Schedule
from ...te.blocks import Window
from ..expressions import Expression
from ..fused_program import fused_expression
from ..lowered_node import LoweredNode, lowered_node
from . import generic
from .flat import flattened
from .workload import CudaTemplate, CudaWorkload, workload_of

LoweredCudaNode: TypeAlias = LoweredNode[GpuTarget, CudaWorkload]
"""A lowered node for a GPU. Its schedule yields a program in kernel form: all work is inside loops over GPU blocks
(`codegen.cuda.prepare`).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """The schedule of a GPU kernel. `schedule`: the function that schedules an expression, given target and program.
    `name`: name of this kind of schedule, part of the kernel's cache key.

    `tuned`: the template of the node's workload, or a function from a program to this template (None: no template with
    knobs). `flat`: whether parameters are flattened to one dimension before scheduling. `intermediates`: if `flat`,
    whether arrays that the program allocates are flattened as well. `constants`: names of parameters that are packed
    before any call. `window`: the window of a depthwise convolution.
    """

    name: str = "generic"
    schedule: Callable[..., Schedule] = generic.schedule
    tuned: CudaTemplate | Callable[[Program], CudaTemplate] | None = None
    flat: bool = True
    intermediates: bool = True
    constants: tuple[str, ...] = ()
    window: Window | None = None


GENERIC = Kernel(tuned="generic_cuda")
"""The kernel of an expression that has no template of its own: scheduled by the template `generic`."""


def lower_expression(
    graph: Graph,
    node: Node,
    expression: Expression,
    kernel: Kernel = GENERIC,
    own: Sequence[str] | None = None,
) -> LoweredCudaNode:
    """The kernel of a node: its tensor `expression`, extended by the operators that are fused with the node, and
    scheduled by `kernel`. `own`: names of the tensors that the expression itself reads (None: `node.own_inputs`).
    """
    ends, bound = fused_expression(graph, node, expression, own)
    if kernel.flat:
        ends = replace(ends, program=flattened(ends.program, intermediates=kernel.intermediates))
    final = ends.program
    template = kernel.tuned(final) if callable(kernel.tuned) else kernel.tuned
    return lowered_node(
        graph,
        node,
        kernel.name,
        ends,
        lambda target: kernel.schedule(target, final),
        bound,
        expression.arrays,
        workload_of(template, final, kernel.constants, kernel.window),
    )
