"""The interface of a target to the compilation of networks into kernels (`pipeline.compile_kernels`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from .codegen.cpu.memory import aligned_copy
from .graph.graph import Graph, Node
from .graph.storage_plan import StoragePlan
from .graph_rules import GraphRules
from .ir.expr import Buffer
from .ir.stmt import Program
from .runtime.launch import Launch
from .schedule import Schedule
from .templates.columns import Values
from .templates.lowered_node import LoweredNode
from .templates.registry import Registry

Dump = Callable[[str, str], None]
Progress = Callable[[int, int], object]
"""Progress callback. Its arguments are the number of finished kernels and the number of all kernels."""
Target = TypeVar("Target")
CompiledT = TypeVar("CompiledT")
KernelT = TypeVar("KernelT")
Network = TypeVar("Network")


class Lowering(Protocol[Target]):
    """Interface of a target's lowering of graph nodes to scheduled programs."""

    @property
    def target(self) -> Target:
        """The target that kernels are scheduled for."""
        ...

    @property
    def templates(self) -> Registry[Any, Any]:
        """The templates (schedules with knobs) of the nodes' workloads."""
        ...

    @property
    def rules(self) -> GraphRules:
        """The target's requirements on a graph: vector widths, layouts, supported operators."""
        ...

    def default(self, graph: Graph, node: Node) -> LoweredNode[Target, Any] | None:
        """A node lowered without tuning records; None for a node that needs no kernel."""
        ...

    def methods(self, graph: Graph, node: Node) -> Sequence[LoweredNode[Target, Any]]:
        """All lowerings of a node among which a tuner may choose. The first is the `default`; all are equally exact."""
        ...

    def at_point(
        self, graph: Graph, lowered: LoweredNode[Target, Any], values: Values
    ) -> LoweredNode[Target, Any]:
        """Lowers the node of `lowered` again, with the knob values `values`. These are a point in the search space of
        the workload of `lowered`.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoweredNetwork:
    """A network's graph, and the places of its tensors in memory (`plan`). Code is generated from it. `label`: the
    model's name in messages. `started`: start of the compilation, in seconds of `time.perf_counter`.
    """

    label: str
    graph: Graph
    plan: StoragePlan
    started: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BuiltKernel(Generic[Target, CompiledT]):
    """A node's kernel. `lowered`: the node's program; `values`: the knobs from a tuning record (None: the template's
    choice); `schedule`: the scheduled program; `compiled`: the compiled program; `dump`: writes the kernel's dumps
    (None: no dumps).
    """

    lowered: LoweredNode[Target, Any]
    values: Values | None
    schedule: Schedule
    compiled: CompiledT
    dump: Dump | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Maker(Generic[Target, CompiledT, KernelT, Network]):
    """The functions that turn one network's scheduled programs into a target's code.

    - `make` compiles a program under a name; its third argument receives dumps, if any. Raises `UNUSABLE`
      (`chosen_knobs`) if recorded knobs cannot be used.
    - `wait` waits for the work that `make` left to a thread, and raises the same error.
    - `parameters` returns the buffers of a compiled program in the order of the kernel's arguments.
    - `kernel` returns the value that launches store for a compiled program, given the node's name.
    - `placed` copies a constant into the shape of its parameter, by default aligned to a cache line.
    - `dumped` writes the dumps that exist only after `wait`.
    - `refused` returns the error to raise for (model's label, node's name, error of `make`).
    - `method` returns the text `Launch.method` of a kernel (None: no text shows it).
    - `built`: a cache of kernels by key, which earlier networks may have filled.
    - `link` makes the network from all launches.
    """

    make: Callable[[Program, str, Dump | None], CompiledT]
    parameters: Callable[[CompiledT], tuple[Buffer, ...]]
    kernel: Callable[[CompiledT, str], KernelT]
    link: Callable[[LoweredNetwork, tuple[Launch[KernelT], ...]], Network]
    wait: Callable[[CompiledT], object] | None = None
    placed: Callable[[np.ndarray, tuple[int, ...]], np.ndarray] = aligned_copy
    dumped: Callable[[CompiledT, Dump], object] | None = None
    refused: Callable[[str, str, Exception], Exception] = lambda label, node, error: error
    method: Callable[[BuiltKernel[Target, CompiledT]], str] | None = None
    built: dict[str, BuiltKernel[Target, CompiledT]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Form(Generic[Target, Network]):
    """A target, and the way in which its code is generated: for this machine at once, ahead of time, or emulated.
    `making` is a context manager that yields the `Maker` of a network's code. When the context ends, the threads of the
    compilation stop.
    """

    lowering: Lowering[Target]
    making: Callable[[], AbstractContextManager[Maker[Target, Any, Any, Network]]]
