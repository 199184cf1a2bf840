"""The driver of networks of kernels, for all targets: a model becomes a graph, and its nodes become kernels.

A target gives its import and lowering (`Lowering`), and its compilation of scheduled kernels (`Maker`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from .codegen.cpu.memory import aligned_copy
from .graph.cost import count_operations
from .graph.floating.onnx_import import import_float_model
from .graph.floating.pipeline import graph_passes, run_graph_passes
from .graph.floating.use_winograd import Tiling
from .graph.graph import Graph, Node
from .graph.onnx_read import ReadModel, Source
from .graph.storage_plan import StoragePlan, check_plan, format_plan, plan_storage
from .ir.expr import Buffer
from .ir.printer import format_node
from .launch_constants import LaunchConstants
from .passes.pipeline import dump_to
from .runtime.launch import Launch
from .schedule import Schedule
from .templates.chosen_knobs import UNUSABLE, ChosenKnobs, Made
from .templates.lowered_node import LoweredNode
from .templates.registry import Registry
from .templates.space import Values

Dump = Callable[[str, str], None]
Progress = Callable[[int, int], object]
"""Progress callback: called with the number of finished kernels, and of all kernels."""
Target = TypeVar("Target")
KernelT = TypeVar("KernelT")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Imported:
    """A model as the graph of its kernels. `quantized`: the float32 inputs that become integers. `label`: the model's
    name in messages; None: the size of its arena is not checked."""

    graph: Graph
    label: str | None
    quantized: frozenset[str] = frozenset()


class Lowering(Protocol[Target]):
    """A target's import of models and lowering of nodes."""

    @property
    def target(self) -> Target:
        """The target that kernels are scheduled for."""
        ...

    @property
    def templates(self) -> Registry[Any, Any]:
        """The templates of the nodes' workloads."""
        ...

    def graph(self, model: Source, *, batch: int, fusion: bool, dump: Dump | None) -> Imported:
        """A model's graph; `dump` gets it after every pass. Raises ModelError."""
        ...

    def default(self, graph: Graph, node: Node) -> LoweredNode[Target, Any] | None:
        """A node lowered without records; None for a node that needs no kernel."""
        ...

    def methods(self, graph: Graph, node: Node) -> Sequence[LoweredNode[Target, Any]]:
        """All lowerings of a node between which a tuner may choose, the `default` first; all are equally exact."""
        ...

    def at_point(
        self, graph: Graph, lowered: LoweredNode[Target, Any], values: Values
    ) -> LoweredNode[Target, Any]:
        """A lowered node that has a workload, with the knobs `values` of that workload's space."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recorded(Generic[Target]):
    """The lookup of records for a kernel: its workload, and a function that lowers the node with given knobs."""

    knobs: ChosenKnobs[Any]
    workload: Any
    lower: Callable[[Values], LoweredNode[Target, Any]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoweredNetwork(Generic[Target]):
    """A network's tensors, its storage plan, and its lowered nodes: each node without records, and its lookup of
    records if the network is compiled with records."""

    lowering: Lowering[Target]
    graph: Graph
    plan: StoragePlan
    nodes: tuple[tuple[LoweredNode[Target, Any], Recorded[Target] | None], ...]
    quantized: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Maker(Generic[Target, Made, KernelT]):
    """The functions that turn scheduled kernels into a target's code.

    `make` compiles a kernel, given the number of kernels before it and the dump; it may raise `chosen_knobs.UNUSABLE`,
    and so may `settle`, which waits for work that `make` left to a thread. `kernel` gives the value stored in launches,
    from the node's name; `parameters` gives the buffers in argument order. `placed` brings a constant to the shape of
    its parameter, by default on a cache line; for files `np.reshape` suffices. `dumped` ends the dumps. `refused` maps
    a node and its UNUSABLE error to the error to raise if no recorded knobs are the cause.
    """

    make: Callable[[LoweredNode[Target, Any], Schedule, int, Dump | None], Made]
    parameters: Callable[[Made], tuple[Buffer, ...]]
    kernel: Callable[[Made, str], KernelT]
    settle: Callable[[Made], object] | None = None
    placed: Callable[[np.ndarray, tuple[int, ...]], np.ndarray] = aligned_copy
    dumped: Callable[[Made, Dump], object] | None = None
    refused: Callable[[LoweredNode[Target, Any], Exception], Exception] = lambda node, error: error


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Compiled(Generic[Target, Made]):
    """A node's kernel: `values` of recorded knobs (None: the template's choice), and `made` from its `schedule`."""

    lowered: LoweredNode[Target, Any]
    values: Values | None
    schedule: Schedule
    made: Made
    dump: Dump | None


def float_graph(
    model: Source | ReadModel,
    *,
    lanes: int,
    batch: int,
    fusion: bool,
    dump: Dump | None,
    join: bool = False,
    tiling: Tiling | None = None,
    recurrent: AbstractSet[str] = frozenset({"LSTM"}),
) -> Graph:
    """An ONNX model as the graph of its kernels, for vectors of `lanes` elements; `dump` gets it after every pass.

    `fusion`, `join` and `tiling` as of `graph_passes`, `recurrent` as of `import_float_model`. Raises ModelError.
    """
    graph = import_float_model(model, batch=batch, recurrent=recurrent)
    return run_graph_passes(graph, graph_passes(lanes, fusion=fusion, join=join, tiling=tiling), dump)


def lower_model(
    lowering: Lowering[Target],
    model: Source,
    *,
    batch: int = 1,
    fusion: bool = True,
    dump_passes: Path | None = None,
    knobs: ChosenKnobs[Any] | None = None,
) -> LoweredNetwork[Target]:
    """A model with its lowered kernels; `dump_passes` is a folder for the graph after each pass.

    Raises UserError.
    """
    dump = None if dump_passes is None else dump_to(dump_passes)
    imported = lowering.graph(model, batch=batch, fusion=fusion, dump=dump)
    return lower_graph(lowering, imported, dump=dump, knobs=knobs)


def lower_graph(
    lowering: Lowering[Target],
    imported: Imported,
    *,
    dump: Dump | None = None,
    knobs: ChosenKnobs[Any] | None = None,
) -> LoweredNetwork[Target]:
    """`lower_model` for a graph with layouts. Raises UserError if the arena of a labelled graph is too large."""
    graph = imported.graph
    plan = plan_storage(graph)
    if imported.label is not None:
        check_plan(imported.label, graph, plan)
    if dump is not None:
        dump("memory-plan", format_plan(graph, plan))
    nodes = [found for node in graph.nodes if (found := _lowered(lowering, graph, node, knobs)) is not None]
    return LoweredNetwork(
        lowering=lowering, graph=graph, plan=plan, nodes=tuple(nodes), quantized=imported.quantized
    )


def network_workloads(
    lowering: Lowering[Any], model: Source, *, batch: int = 1, fusion: bool = True
) -> list[tuple[str, Any]]:
    """Every node of a network that can be tuned, by name, with its workload, in order. Raises UserError.

    A node with several lowerings occurs once for each, the default first.
    """
    graph = lowering.graph(model, batch=batch, fusion=fusion, dump=None).graph
    found = ((node, lowering.methods(graph, node)) for node in graph.nodes)
    return [(n.name, way.workload) for n, ways in found for way in ways if way.workload is not None]


def make_launches(
    network: LoweredNetwork[Target],
    maker: Maker[Target, Made, KernelT],
    *,
    dump_passes: Path | None = None,
    told: Progress | None = None,
    kernels: dict[str, Compiled[Target, Made]] | None = None,
) -> tuple[Launch[KernelT], ...]:
    """The kernels of a network as launches, in order; equal programs become one kernel.

    `kernels` has the kernels that earlier networks made with this maker, and gets the new ones. Raises UserError.
    """
    launches: list[Launch[KernelT]] = []
    constants = LaunchConstants(maker.placed)
    for kernel in _kernels(network, maker, dump_passes, {} if kernels is None else kernels):
        node, made = kernel.lowered.node, kernel.made
        shapes = {parameter.name: parameter.shape for parameter in maker.parameters(made)}
        held = maker.kernel(made, node.name)
        if kernel.dump is not None and maker.dumped is not None:
            maker.dumped(made, kernel.dump)
        launches.append(
            Launch(
                name=node.name,
                operator=node.kind,
                members=node.members,
                operations=count_operations(network.graph, node),
                kernel=held,
                tensors=kernel.lowered.tensors,
                constants=constants.of(
                    kernel.lowered.key, kernel.schedule.trace, kernel.lowered.constants, shapes
                ),
            )
        )
        if told is not None:
            told(len(launches), len(network.nodes))
    return tuple(launches)


def _lowered(
    lowering: Lowering[Target], graph: Graph, node: Node, knobs: ChosenKnobs[Any] | None
) -> tuple[LoweredNode[Target, Any], Recorded[Target] | None] | None:
    """A node lowered without records, and its lookup of records, if there is one; None if it needs no kernel."""
    if knobs is None:
        default = lowering.default(graph, node)
        return None if default is None else (default, None)
    methods = lowering.methods(graph, node)
    known = [method for method in methods if method.workload is not None]
    if not known:
        return (methods[0], None) if methods else None
    method = known[knobs.compare([way.workload for way in known])]
    if len(known) > 1 and not knobs.choose(method.workload):
        return method, None
    at_point = partial(lowering.at_point, graph, method)
    return methods[0], Recorded(knobs=knobs, workload=method.workload, lower=at_point)


def _kernels(
    network: LoweredNetwork[Target],
    maker: Maker[Target, Made, Any],
    dump_passes: Path | None,
    kernels: dict[str, Compiled[Target, Made]],
) -> Iterable[Compiled[Target, Made]]:
    """Each node's kernel, with recorded knobs if these can be compiled; nodes of equal programs share one schedule and
    one compiled kernel."""
    target = network.lowering.target
    for number, (lowered, recorded) in enumerate(network.nodes):
        name = re.sub("[^A-Za-z0-9_.-]+", "_", lowered.node.name)
        folder = None if dump_passes is None else dump_passes / f"{number:03d}-{name}"
        if (known := kernels.get(lowered.key)) is not None:
            if known.values is not None and recorded is not None:
                lowered = recorded.lower(known.values)
            lowered = _with_parameters_of(lowered, known.lowered)
            yield replace(known, lowered=lowered, dump=_dumped(lowered, known.schedule, folder))
            continue
        build = partial(_compiled, target=target, folder=folder, maker=maker, number=len(kernels))
        kernel = None
        if recorded is not None:
            space = partial(network.lowering.templates.space, target)
            kernel = recorded.knobs.made(recorded.workload, space, partial(_settled, recorded, build, maker))
        if kernel is None:
            try:
                kernel = build(lowered, None)
            except UNUSABLE as error:
                raise maker.refused(lowered, error) from None
        kernels[lowered.key] = kernel
        yield kernels[lowered.key]


def _with_parameters_of(
    lowered: LoweredNode[Target, Any], known: LoweredNode[Target, Any]
) -> LoweredNode[Target, Any]:
    """A node that shares the kernel of `known`, with its tensors by the names of the kernel's parameters: programs of
    equal keys may have other parameter names, since some depend on the operand that an epilogue reads."""
    ours, theirs = ([p.name for p in node.program.parameters] for node in (lowered, known))
    if ours == theirs:
        return lowered
    names = dict(zip(ours, theirs, strict=True))
    return replace(
        lowered,
        program=known.program,
        tensors={names[parameter]: tensor for parameter, tensor in lowered.tensors.items()},
        constants={names[parameter]: array for parameter, array in lowered.constants.items()},
    )


def _settled(
    recorded: Recorded[Target],
    build: Callable[[LoweredNode[Target, Any], Values], Compiled[Target, Made]],
    maker: Maker[Target, Made, Any],
    values: Values,
) -> Compiled[Target, Made]:
    kernel = build(recorded.lower(values), values)
    if maker.settle is not None:
        maker.settle(kernel.made)
    return kernel


def _compiled(
    lowered: LoweredNode[Target, Any],
    values: Values | None,
    *,
    target: Target,
    folder: Path | None,
    maker: Maker[Target, Made, Any],
    number: int,
) -> Compiled[Target, Made]:
    schedule = lowered.schedule(target)
    dump = _dumped(lowered, schedule, folder)
    made = maker.make(lowered, schedule, number, dump)
    return Compiled(lowered=lowered, values=values, schedule=schedule, made=made, dump=dump)


def _dumped(lowered: LoweredNode[Any, Any], schedule: Schedule, folder: Path | None) -> Dump | None:
    """Starts the dumps of a node in its folder; None without a folder."""
    if folder is None:
        return None
    dump = dump_to(folder)
    dump("tensor-expression", format_node(lowered.program) + "\n")
    dump("schedule", format_node(schedule.program) + "\n")
    return dump
