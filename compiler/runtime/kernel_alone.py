"""One kernel of this processor as a network of its own."""

from __future__ import annotations

from ..codegen.cpu.kernel import Kernel
from .cpu_network import CpuNetwork
from .cuda_alone import graph_alone
from .launch import Launch


def kernel_alone(
    kernel: Kernel, *, operator: str, operations: int = 0, compile_seconds: float = 0.0
) -> CpuNetwork:
    """The network whose inputs and outputs are the kernel's parameters; `operator` is its name and its launch's."""
    parameters = kernel.program.parameters
    graph, plan = graph_alone(parameters, kernel.outputs, operator)
    launch = Launch(
        name=operator,
        operator=operator,
        members=(),
        operations=operations,
        tensors={parameter.name: parameter.name for parameter in parameters},
        constants={},
        kernel=kernel,
    )
    return CpuNetwork(
        graph=graph, plan=plan, launches=(launch,), target=kernel.target, compile_seconds=compile_seconds
    )
