"""Kernels of networks, for all targets. Nodes of a graph become scheduled kernels, and launches with packed constants.

`pipeline.compile_kernels` calls these stages in order. `kernel_forms` defines the interface of a target: its lowering
of nodes (`Lowering`), and its code generation for scheduled kernels (`Maker`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic

import numpy as np

from .graph.cost import count_operations
from .graph.graph import Graph, Node
from .ir.printer import format_node
from .kernel_forms import (
    BuiltKernel,
    CompiledT,
    Dump,
    KernelT,
    LoweredNetwork,
    Lowering,
    Maker,
    Progress,
    Target,
)
from .passes.pipeline import dump_node
from .runtime.launch import Launch
from .schedule import Schedule
from .schedule.pack import pack_arrays
from .schedule.trace import Step
from .templates.chosen_knobs import UNUSABLE, ChosenKnobs
from .templates.columns import Values
from .templates.lowered_node import LoweredNode


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recorded(Generic[Target]):
    """Lookup of tuning records for a kernel: its workload, and a function that lowers the node with given knobs."""

    knobs: ChosenKnobs[Any]
    workload: Any
    lower: Callable[[Values], LoweredNode[Target, Any]]


LoweredNodes = Sequence[tuple[LoweredNode[Target, Any], Recorded[Target] | None]]
"""Nodes lowered with default knobs, each with the lookup of its tuning records (None if no records apply)."""


def lower_nodes(
    lowering: Lowering[Target], graph: Graph, knobs: ChosenKnobs[Any] | None
) -> LoweredNodes[Target]:
    """Lowers all nodes of a graph that need a kernel, in order. `knobs` looks up tuning records (None: no records)."""
    return [found for node in graph.nodes if (found := _lowered(lowering, graph, node, knobs)) is not None]


def make_launches(
    network: LoweredNetwork,
    lowering: Lowering[Target],
    nodes: LoweredNodes[Target],
    maker: Maker[Target, CompiledT, KernelT, Any],
    *,
    dump_passes: Path | None = None,
    told: Progress | None = None,
) -> tuple[Launch[KernelT], ...]:
    """The launches of a network's `nodes`, in order. `maker` compiles equal programs once. Raises UserError."""
    launches: list[Launch[KernelT]] = []
    constants = LaunchConstants(maker.placed)
    for kernel in _kernels(network.label, lowering, nodes, maker, dump_passes):
        node, compiled = kernel.lowered.node, kernel.compiled
        shapes = {parameter.name: parameter.shape for parameter in maker.parameters(compiled)}
        held = maker.kernel(compiled, node.name)
        if kernel.dump is not None and maker.dumped is not None:
            maker.dumped(compiled, kernel.dump)
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
                method="" if maker.method is None else maker.method(kernel),
            )
        )
        if told is not None:
            told(len(launches), len(nodes))
    return tuple(launches)


def _lowered(
    lowering: Lowering[Target], graph: Graph, node: Node, knobs: ChosenKnobs[Any] | None
) -> tuple[LoweredNode[Target, Any], Recorded[Target] | None] | None:
    """Returns (the node lowered with default knobs, the lookup of its tuning records). The lookup is None if no records
    apply to the node. Returns None if the node needs no kernel."""
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
    label: str,
    lowering: Lowering[Target],
    nodes: LoweredNodes[Target],
    maker: Maker[Target, CompiledT, Any, Any],
    dump_passes: Path | None,
) -> Iterable[BuiltKernel[Target, CompiledT]]:
    """The kernel of each node. Recorded knobs are used if the node can be compiled with them. Nodes with equal programs
    share one schedule and one compiled kernel."""
    target = lowering.target
    for number, (lowered, recorded) in enumerate(nodes):
        dumps = partial(_dumped, dump_passes, number)
        if (known := maker.built.get(lowered.key)) is not None:
            if known.values is not None and recorded is not None:
                lowered = recorded.lower(known.values)
            lowered = _with_parameters_of(lowered, known.lowered)
            yield replace(known, lowered=lowered, dump=dumps(lowered, known.schedule))
            continue
        build = partial(_built, target=target, dumps=dumps, maker=maker)
        kernel = None
        if recorded is not None:
            space = partial(lowering.templates.space, target)
            kernel = recorded.knobs.build(
                recorded.workload, space, partial(_built_with_knobs, recorded, build, maker)
            )
        if kernel is None:
            try:
                kernel = build(lowered, None)
            except UNUSABLE as error:
                raise maker.refused(label, lowered.node.name, error) from None
        maker.built[lowered.key] = kernel
        yield kernel


def _with_parameters_of(
    lowered: LoweredNode[Target, Any], known: LoweredNode[Target, Any]
) -> LoweredNode[Target, Any]:
    """Binds the tensors and constants of `lowered` to the parameter names of `known`. The programs of both nodes are
    equal, so both use the kernel compiled for `known`. Equal programs may have different parameter names, since some
    names depend on the operand that an epilogue reads.
    """
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


def _built_with_knobs(
    recorded: Recorded[Target],
    build: Callable[[LoweredNode[Target, Any], Values], BuiltKernel[Target, CompiledT]],
    maker: Maker[Target, CompiledT, Any, Any],
    values: Values,
) -> BuiltKernel[Target, CompiledT]:
    kernel = build(recorded.lower(values), values)
    if maker.wait is not None:
        maker.wait(kernel.compiled)
    return kernel


def _built(
    lowered: LoweredNode[Target, Any],
    values: Values | None,
    *,
    target: Target,
    dumps: Callable[[LoweredNode[Target, Any], Schedule], Dump | None],
    maker: Maker[Target, CompiledT, Any, Any],
) -> BuiltKernel[Target, CompiledT]:
    schedule = lowered.schedule(target)
    dump = dumps(lowered, schedule)
    compiled = maker.make(schedule.program, f"{lowered.node.kind.lower()}{len(maker.built)}", dump)
    return BuiltKernel(lowered=lowered, values=values, schedule=schedule, compiled=compiled, dump=dump)


def _dumped(
    folder: Path | None, number: int, lowered: LoweredNode[Any, Any], schedule: Schedule
) -> Dump | None:
    """Dumps a node's program before and after its schedule into its subfolder of `folder`. Returns the function that
    writes the node's later dumps, or None without a folder."""
    if folder is None:
        return None
    dump = dump_node(folder, number, lowered.node.name)
    dump("tensor-expression", format_node(lowered.program) + "\n")
    dump("schedule", format_node(schedule.program) + "\n")
    return dump


_HEAD = 4096
"""Number of bytes at the beginning of an array that are hashed when equal arrays are looked up."""


class LaunchConstants:
    """The constant arrays that the launches of one network read. `placed` copies a packed array into the shape and
    alignment of its parameter.

    Launches that read equal bytes of one type share one array, or views of it in several shapes. For example, all steps
    of a recurrent layer read one weight, which is stored once, and stays in the processor's cache.
    """

    def __init__(self, placed: Callable[[np.ndarray, tuple[int, ...]], np.ndarray]) -> None:
        self._placed = placed
        # Packed arrays by the kernel's key, the parameter, and the array's address and strides. The value keeps the
        # original array alive, so that no other array gets its address.
        self._packed: dict[tuple[str, str, int, tuple[int, ...]], tuple[np.ndarray, np.ndarray]] = {}
        self._equal: dict[tuple[str, int, bytes], list[np.ndarray]] = {}

    def of(
        self,
        kernel: str,
        trace: Sequence[Step],
        arrays: Mapping[str, np.ndarray],
        shapes: Mapping[str, tuple[int, ...]],
    ) -> dict[str, np.ndarray]:
        """Packs a kernel's constants `arrays` (by parameter) with the `pack` steps of the schedule's `trace`. `shapes`:
        shape of each packed array, by parameter. `kernel`: the kernel's key, by which packed arrays are cached.
        """
        result: dict[str, np.ndarray] = {}
        for name, array in arrays.items():
            place = (kernel, name, array.ctypes.data, array.strides)
            if (known := self._packed.get(place)) is None:
                packed = pack_arrays(trace, {name: array})[name]
                known = self._packed[place] = array, self._shared(packed, shapes[name])
            result[name] = known[1]
        return result

    def _shared(self, packed: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        raw = np.ascontiguousarray(packed).reshape(-1).view(np.uint8)
        head = hashlib.sha256(raw[:_HEAD].data).digest()
        alike = self._equal.setdefault((packed.dtype.str, raw.size, head), [])
        for other in alike:
            if np.array_equal(other.reshape(-1).view(np.uint8), raw):
                return other if other.shape == shape else other.reshape(shape)
        alike.append(self._placed(packed, shape))
        return alike[-1]
