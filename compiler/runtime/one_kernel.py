"""One kernel as a network, whose inputs and outputs are the kernel's parameters."""

from __future__ import annotations

from collections.abc import Sequence

from ..graph.graph import Graph, Tensor, plain_input, plain_output
from ..graph.storage_plan import StoragePlan, plan_steps
from ..ir.expr import Buffer
from .launch import KernelT, Launch


def launched_alone(
    parameters: Sequence[Buffer], outputs: frozenset[str], name: str, kernel: KernelT, operations: int = 0
) -> tuple[Graph, StoragePlan, Launch[KernelT]]:
    """Wraps one kernel as a network `name`. Returns the network's graph, the graph's storage plan, and the kernel's
    launch.

    The graph's outputs are the kernel's parameters named in `outputs`; its inputs are all other `parameters`.
    `operations`: number of the kernel's arithmetic operations.
    """
    tensors = {p.name: Tensor(name=p.name, shape=p.shape, dtype=p.dtype) for p in parameters}
    graph = Graph(
        name=name,
        inputs=tuple([plain_input(tensor) for tensor in tensors.values() if tensor.name not in outputs]),
        outputs=tuple([plain_output(name, tensors[name]) for name in tensors if name in outputs]),
        nodes=(),
        tensors=tensors,
    )
    launch = Launch(
        name=name,
        operator=name,
        members=(),
        operations=operations,
        kernel=kernel,
        tensors={parameter.name: parameter.name for parameter in parameters},
        constants={},
    )
    return graph, plan_steps(graph, [tuple(tensors)]), launch
