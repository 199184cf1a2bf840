"""Kernels of one program as a network of their own, whose inputs and outputs are the program's parameters."""

from __future__ import annotations

from collections.abc import Sequence

from ..codegen.cuda.machine import GpuTarget
from ..codegen.cuda.module import CudaModule
from ..graph.graph import Graph, Tensor, plain_input, plain_output
from ..graph.storage_plan import StoragePlan, plan_steps
from ..ir.expr import Buffer
from .cuda_code import CompiledModule, CudaNetworkCode
from .launch import Launch


def graph_alone(
    parameters: Sequence[Buffer], outputs: frozenset[str], name: str
) -> tuple[Graph, StoragePlan]:
    """A graph of a program's parameters, of which it writes `outputs`, and its storage plan."""
    tensors = {p.name: Tensor(name=p.name, shape=p.shape, dtype=p.dtype) for p in parameters}
    graph = Graph(
        name=name,
        inputs=tuple([plain_input(tensor) for tensor in tensors.values() if tensor.name not in outputs]),
        outputs=tuple([plain_output(name, tensors[name]) for name in tensors if name in outputs]),
        nodes=(),
        tensors=tensors,
    )
    return graph, plan_steps(graph, [tuple(tensors)])


def network_alone(
    module: CudaModule,
    cubin: bytes,
    target: GpuTarget,
    *,
    operator: str,
    operations: int,
    compile_seconds: float = 0.0,
) -> CudaNetworkCode:
    """The network of a module compiled for `target`; `operator` is the name of network and module."""
    graph, plan = graph_alone(module.parameters, module.outputs, operator)
    launch = Launch(
        name=operator,
        operator=operator,
        members=(),
        operations=operations,
        kernel=operator,
        tensors={parameter.name: parameter.name for parameter in module.parameters},
        constants={},
    )
    return CudaNetworkCode(
        graph=graph,
        plan=plan,
        launches=(launch,),
        target=target,
        modules=(CompiledModule(name=operator, module=module, cubin=cubin),),
        compile_seconds=compile_seconds,
    )
