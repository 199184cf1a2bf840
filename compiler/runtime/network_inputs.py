"""Describes the inputs and outputs of compiled networks (ports), and checks the arrays that a caller passes. Also
chooses the inputs and outputs that kernels access directly in the caller's arrays.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from vdla.util.arguments import arrays_by_name

from ..codegen.cpu.errors import KernelArgumentError
from ..codegen.cpu.memory import ALIGNMENT
from ..graph.graph import Graph, GraphInput, GraphOutput
from ..graph.storage_plan import StoragePlan
from ..ir.expr import Buffer
from .executable import Port
from .readable import CompiledKernels


def input_ports(graph: Graph) -> tuple[Port, ...]:
    """One port for each input of the model. Graph inputs of one name are the same input, quantized in two ways."""
    ports = {entry.name: replace(_port(entry), rows=entry.rows) for entry in graph.inputs}
    return tuple(ports.values())


def output_ports(graph: Graph) -> tuple[Port, ...]:
    """One port for each output of the graph."""
    return tuple([_port(output) for output in graph.outputs])


def parameter_port(parameter: Buffer) -> Port:
    """The port of a kernel's parameter, for a kernel that is a network by itself."""
    return Port(name=parameter.name, dtype=parameter.dtype.numpy, shape=parameter.shape)


def _port(end: GraphInput | GraphOutput) -> Port:
    return Port(name=end.name, dtype=end.dtype.numpy, shape=end.shape)


class GraphNetwork(CompiledKernels):
    """Base class of executables that compute `graph`, with the graph's name, inputs and outputs."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.inputs = input_ports(graph)
        self.outputs = output_ports(graph)

    @property
    def name(self) -> str:
        """The model's own name."""
        return self.graph.name

    @property
    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        """The inputs' shapes by name."""
        return {port.name: port.shape for port in self.inputs}

    @property
    def input_types(self) -> dict[str, np.dtype]:
        """The numpy type of each input, by name."""
        return {port.name: port.dtype for port in self.inputs}


def check_inputs(
    name: str, inputs: Sequence[Port], arrays: Mapping[str, np.ndarray], quantized: Collection[str] = ()
) -> None:
    """Raises KernelArgumentError if an input has no array or an array of another shape or type, and if an array belongs
    to no input. Also raises it if an input in `quantized` contains NaN, and if row numbers are outside of the table
    from which the model takes rows (`Port.rows`).

    `name` is the network or kernel in messages. Raises InputError if `arrays` is not a mapping of arrays.
    """
    arrays = arrays_by_name(arrays)
    known = [port.name for port in inputs]
    if unknown := sorted(arrays.keys() - known):
        raise KernelArgumentError(f"{name} has no input {unknown[0]!r}; it has {', '.join(known)}")
    for port in inputs:
        if port.name not in arrays:
            raise KernelArgumentError(f"{name}: no array was given for input {port.name!r}")
        array = arrays[port.name]
        if array.dtype != port.dtype:
            raise KernelArgumentError(
                f"input {port.name!r} must be {port.dtype}, not {array.dtype}; convert it with .astype"
            )
        if array.shape != port.shape:
            raise KernelArgumentError(f"input {port.name!r} must have shape {port.shape}, not {array.shape}")
        if port.rows is not None and array.size:
            check_ids(port.name, port.rows, array)
        # The minimum is NaN if any element is.
        if port.name in quantized and array.size and np.isnan(array.min()):
            raise KernelArgumentError(
                f"input {port.name!r} contains NaN, which cannot be quantized; clean the input data first"
            )


def check_ids(name: str, rows: int, array: np.ndarray) -> None:
    """Raises KernelArgumentError if `array` (not empty) of input `name` has an id outside of -`rows` .. `rows` - 1."""
    least, most = int(array.min()), int(array.max())
    if -rows <= least and most < rows:
        return
    wrong = most if most >= rows else least
    place = np.argwhere(array == wrong)[0].tolist()
    raise KernelArgumentError(
        f"input {name!r} has the id {wrong} at {place}, but the model looks up a table of {rows:,} rows; give ids "
        f"from 0 to {rows - 1}, or from {-rows} to -1, which count from the end"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The names of the tensors that one launch reads, and of the tensors that it writes."""

    reads: frozenset[str]
    writes: frozenset[str]


def direct_inputs(graph: Graph, plan: StoragePlan, accesses: Sequence[Access]) -> frozenset[str]:
    """The inputs that kernels may read in the caller's arrays, without a copy. Such an input is not also an output, and
    launches read it only under its own name, not as a view.

    A view of an input is a tensor that overlaps the input's memory and is accessed before this memory is written.
    """
    outputs = frozenset({output.tensor for output in graph.outputs} & plan.offsets.keys())
    direct = set(graph.input_names) & plan.offsets.keys() - outputs
    for name in tuple(direct):
        near = _overlapping(graph, plan, name)
        for access in (*accesses, Access(reads=outputs, writes=frozenset())):
            if access.reads & (near - {name}):
                direct.discard(name)
            if access.writes & near:
                break
    return frozenset(direct)


def direct_outputs(graph: Graph, plan: StoragePlan, accesses: Sequence[Access]) -> frozenset[str]:
    """The tensors that kernels may write directly in the arrays that the caller gets. Such a tensor is exactly one
    output of the model, and launches access it only under its own name, not as a view.

    A view of an output is a tensor that overlaps the output's memory and is accessed after the output is written.
    """
    tensors = [output.tensor for output in graph.outputs if output.tensor in plan.offsets]
    direct: set[str] = set()
    for name in tensors:
        near = _overlapping(graph, plan, name) - {name}
        written = next((i for i, access in enumerate(accesses) if name in access.writes), None)
        if tensors.count(name) > 1 or near & set(tensors) or written is None:
            continue
        own = accesses[written]
        later = accesses[written + 1 :]
        if name in own.reads or any((access.reads | access.writes) & near for access in (own, *later)):
            continue
        if graph.tensors[name].storage == graph.tensors[name].shape:
            direct.add(name)
    return frozenset(direct)


def _overlapping(graph: Graph, plan: StoragePlan, name: str) -> frozenset[str]:
    """The tensors that share bytes of the arena with tensor `name`, including itself."""

    def bounds(tensor: str) -> tuple[int, int]:
        start = plan.offsets[tensor]
        return start, start + graph.tensors[tensor].bytes

    low, high = bounds(name)
    return frozenset([t for t in plan.offsets if bounds(t)[0] < high and low < bounds(t)[1]] + [name])


def address_of(array: np.ndarray) -> int:
    """The address of an array's first element."""
    return array.__array_interface__["data"][0]


class OutputArrays:
    """Output arrays, aligned to cache lines. When the caller has released the arrays of a call, later calls reuse them.

    The first access to new memory from the system takes more time than most kernels.
    """

    def __init__(self, shapes: Mapping[str, tuple[tuple[int, ...], np.dtype]]) -> None:
        self._shapes = {
            name: (shape, dtype, prod(shape) * dtype.itemsize) for name, (shape, dtype) in shapes.items()
        }
        self._memory: dict[str, tuple[np.ndarray, int, int]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the outputs."""
        return tuple(self._shapes)

    def take(self) -> list[tuple[str, np.ndarray, int]]:
        """Returns (name, array, address) for each output, with a new array. The arrays are uninitialised and share no
        memory with arrays that callers still hold.
        """
        taken: list[tuple[str, np.ndarray, int]] = []
        for name, (shape, dtype, size) in self._shapes.items():
            held = self._memory.get(name)
            # Every array derived from this memory holds a reference to it. Two references are our own: the tuple, and
            # the argument of getrefcount.
            if held is None or sys.getrefcount(held[0]) > 2:
                memory = np.empty(size + ALIGNMENT, np.uint8)
                start = -address_of(memory) % ALIGNMENT
                held = self._memory[name] = memory, start, address_of(memory) + start
                del memory
            taken.append((name, np.ndarray(shape, dtype, held[0], held[1]), held[2]))
        return taken


def accesses_of(launches: Iterable[tuple[Mapping[str, str], frozenset[str]]]) -> tuple[Access, ...]:
    """For each launch, the names of the tensors that it reads and writes. `launches`: for each launch (tensors by
    parameter, names of the parameters that the launch writes).
    """
    return tuple(
        Access(
            reads=frozenset([name for parameter, name in tensors.items() if parameter not in written]),
            writes=frozenset([name for parameter, name in tensors.items() if parameter in written]),
        )
        for tensors, written in launches
    )
