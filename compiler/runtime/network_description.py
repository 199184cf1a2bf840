"""Common parts of all archives of networks: tensors and their offsets, inputs and outputs, launches, constants."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import prod
from typing import Any, Generic, TypeVar

import numpy as np

from ..codegen.cpu.memory import ALIGNMENT, Constants
from ..graph.graph import Graph, GraphOutput, Tensor, plain_input, plain_output
from ..graph.storage_plan import StoragePlan
from ..ir.expr import Buffer
from ..ir.types import DType
from .archive import CONSTANTS, check_memory
from .archive_fields import Field
from .launch import Launch

_MOST_BLOCK = 2**16


class ConstantPool:
    """Constants to be written into a file, each on a cache line. A constant is not stored again if an earlier constant
    has equal bytes. The same is true if an earlier constant begins with its bytes, and these are at least HEAD bytes.
    """

    def __init__(self) -> None:
        self.parts: list[bytes | memoryview] = []
        self.entries: dict[str, dict[str, Any]] = {}
        self.arrays: dict[str, np.ndarray] = {}
        self.size = 0
        self._offsets: dict[str, int] = {}
        self._longer = Beginnings[int]()
        self._prefix = ""

    @contextmanager
    def named(self, prefix: str) -> Iterator[None]:
        """A `with` block in which all added names get `prefix`; used for each of several networks in a file."""
        self._prefix = prefix
        try:
            yield
        finally:
            self._prefix = ""

    def add(self, name: str, array: np.ndarray) -> str:
        """Adds an array; returns its name in the file. The array must not change before `parts` are written."""
        name = self._prefix + name
        raw = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(-1).view(np.uint8)
        digest = hashlib.sha256(raw.data).hexdigest()
        if digest not in self._offsets:
            offset = self._longer.find(raw)
            if offset is None:
                gap = -self.size % ALIGNMENT
                offset = self.size + gap
                self._longer.add(raw, offset)
                self.parts += (bytes(gap), raw.data)
                self.size = offset + raw.nbytes
            self._offsets[digest] = offset
        self.arrays[name] = array
        self.entries[name] = {
            "dtype": array.dtype.name,
            "shape": list(array.shape),
            "offset": self._offsets[digest],
            "sha256": digest,
        }
        return name


def describe_launches(
    launches: Sequence[Launch[str]], key: str, constants: ConstantPool
) -> list[dict[str, Any]]:
    """The description of launches, with the kernels' names under `key`. Adds the launches' constants to the pool."""
    return [
        {
            "name": launch.name,
            "operator": launch.operator,
            "members": list(launch.members),
            "operations": launch.operations,
            "tensors": dict(launch.tensors),
            "constants": {
                parameter: constants.add(f"launch{number}.{parameter}", array)
                for parameter, array in launch.constants.items()
            },
            key: launch.kernel,
        }
        for number, launch in enumerate(launches)
    ]


def read_launches(
    document: Field,
    key: str,
    known: Mapping[str, tuple[Sequence[Buffer], frozenset[str]]],
    constants: Mapping[str, np.ndarray],
    graph: Graph,
    plan: StoragePlan,
) -> tuple[Launch[str], ...]:
    """The launches in an archive's description `document`, made by `describe_launches` with the same `key`. Checks them
    against the parameters and outputs of their kernels, which `known` has by name. Raises ArchiveError.
    """
    launches: list[Launch[str]] = []
    for entry in document.at("launches").items():
        kernel = entry.at(key).one_of(list(known))
        held: dict[str, np.ndarray] = {}
        for parameter, name in entry.at("constants").entries().items():
            if name.text() not in constants:
                raise name.fail(f"is {name.text()!r}, which is not a constant of the network")
            held[parameter] = constants[name.text()]
        launch = Launch(
            name=entry.at("name").text(),
            operator=entry.at("operator").text(),
            members=entry.at("members").texts(),
            operations=entry.at("operations").integer(),
            kernel=kernel,
            tensors={parameter: name.text() for parameter, name in entry.at("tensors").entries().items()},
            constants=held,
        )
        _check_launch(entry, launch, *known[kernel], graph, plan)
        launches.append(launch)
    return tuple(launches)


def describe_network(graph: Graph, plan: StoragePlan, constants: ConstantPool) -> dict[str, Any]:
    """The description of a graph's tensors, without nodes. Adds outputs that are constants to the pool."""
    outputs: list[dict[str, str]] = []
    for number, output in enumerate(graph.outputs):
        place = {"name": output.name, "tensor": output.tensor}
        if (held := graph.constants.get(output.tensor)) is not None:
            place["constant"] = constants.add(f"output{number}", held)
        outputs.append(place)
    rows = {entry.name: entry.rows for entry in graph.inputs if entry.rows is not None}
    return {
        "name": graph.name,
        "arena_bytes": plan.bytes,
        "arena_bytes_without_reuse": plan.bytes_without_reuse,
        "inputs": list(graph.input_names),
        **({"rows": rows} if rows else {}),
        "outputs": outputs,
        "tensors": {
            name: {
                "shape": list(graph.tensors[name].shape),
                "dtype": str(graph.tensors[name].dtype),
                "block": graph.tensors[name].block,
                "offset": offset,
            }
            for name, offset in plan.offsets.items()
        },
    }


def described_graph(document: Field, constants: Mapping[str, np.ndarray]) -> Graph:
    """A graph of a description's tensors, inputs and outputs, without nodes. Raises ArchiveError."""
    tensors = {name: _tensor(name, entry) for name, entry in document.at("tensors").entries().items()}
    inputs = document.at("inputs").among(list(tensors))
    given = document.find("rows")
    rows = {} if given is None else {name: entry.integer(1) for name, entry in given.entries().items()}
    outputs: list[GraphOutput] = []
    held: dict[str, np.ndarray] = {}
    for output in document.at("outputs").items():
        name, tensor = output.at("name").text(), output.at("tensor").text()
        if (constant := output.find("constant")) is not None:
            if constant.text() not in constants:
                raise constant.fail(f"is {constant.text()!r}, which is not a constant of the network")
            held[tensor] = constants[constant.text()]
        elif tensor not in tensors:
            raise output.at("tensor").fail(f"is {tensor!r}, which is not a tensor of the network")
        if any(other.name == name for other in outputs):
            raise output.at("name").fail(f"is {name!r}, the name of another output")
        known = tensors.get(tensor) or Tensor(
            name=tensor, shape=held[tensor].shape, dtype=DType(held[tensor].dtype.name)
        )
        outputs.append(plain_output(name, known))
    for name in (*inputs, *[output.tensor for output in outputs if output.tensor not in held]):
        if (block := tensors[name].block) != 1:
            raise document.at("tensors").at(name).at("block").fail(f"is {block}; inputs and outputs have 1")
    return Graph(
        name=document.at("name").text(),
        inputs=tuple([replace(plain_input(tensors[name]), rows=rows.get(name)) for name in inputs]),
        outputs=tuple(outputs),
        nodes=(),
        tensors=tensors,
        constants=held,
    )


def described_plan(document: Field, graph: Graph) -> StoragePlan:
    """The storage plan of a description: aligned offsets of tensors inside of the arena. Raises ArchiveError."""
    arena = document.at("arena_bytes").integer()
    offsets: dict[str, int] = {}
    for name, entry in document.at("tensors").entries().items():
        tensor, offset = graph.tensors[name], entry.at("offset")
        offsets[name] = offset.integer()
        if offsets[name] % tensor.dtype.numpy.itemsize:
            raise offset.fail(f"is {offsets[name]}, which is not aligned to {tensor.dtype}")
        if offsets[name] + tensor.bytes > arena:
            raise offset.fail(
                f"is {offsets[name]}, so the tensor's {tensor.bytes:,} bytes end beyond the arena of {arena:,} bytes"
            )
    return StoragePlan(
        offsets=offsets,
        bytes=arena,
        bytes_without_reuse=document.at("arena_bytes_without_reuse").integer(),
    )


def read_constants(document: Field, data: bytes, *, member: str = CONSTANTS) -> dict[str, np.ndarray]:
    """Reads the constants that an archive's description `document` lists, from `data`, the bytes of the member
    `member`. Returns them by name, in adjacent aligned memory (`codegen.cpu.memory`). Raises ArchiveError.

    Equal constants share an array. If two constants of one element type have the same offset, the shorter one is a view
    of the beginning of the longer one.
    """
    places: dict[str, tuple[DType, tuple[int, ...], int]] = {}
    for name, entry in document.at("constants").entries().items():
        dtype, shape = entry.at("dtype").element_type(), entry.at("shape").shape()
        offset, size = entry.at("offset").integer(), prod(shape) * dtype.numpy.itemsize
        if offset + size > len(data):
            raise entry.at("offset").fail(
                f"is {offset}, and {size:,} bytes from there end beyond the {len(data):,} of {member}"
            )
        places[name] = dtype, shape, offset
    sizes: dict[tuple[DType, int], int] = {}
    for dtype, shape, offset in places.values():
        sizes[dtype, offset] = max(prod(shape), sizes.get((dtype, offset), 0))
    total = sum(size * dtype.numpy.itemsize for (dtype, _), size in sizes.items())
    check_memory(document, {"all constants": total})
    memory = Constants()
    longest = {
        (dtype, offset): _constant(memory, data, dtype, (size,), offset)
        for (dtype, offset), size in sizes.items()
    }
    arrays = {
        (dtype, shape, offset): longest[dtype, offset][: prod(shape)].reshape(shape)
        for dtype, shape, offset in dict.fromkeys(places.values())
    }
    return {name: arrays[place] for name, place in places.items()}


def named_array(entry: Field, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """The array whose name is in the field. Raises ArchiveError."""
    if (name := entry.text()) not in arrays:
        raise entry.fail(f"is {name!r}, which is not an array of the network")
    return arrays[name]


def describe_parameters(parameters: Sequence[Buffer], outputs: frozenset[str]) -> dict[str, Any]:
    """The description of a kernel's parameters, and of the names of its outputs (parameters that it writes)."""
    return {
        "parameters": [{"name": p.name, "dtype": str(p.dtype), "shape": list(p.shape)} for p in parameters],
        "outputs": sorted(outputs),
    }


def read_parameters(entry: Field) -> tuple[tuple[Buffer, ...], frozenset[str]]:
    """The parameters and outputs of a kernel that `describe_parameters` described in `entry`. Raises ArchiveError."""
    parameters: dict[str, Buffer] = {}
    for parameter in entry.at("parameters").items():
        name = parameter.at("name").text()
        if name in parameters:
            raise parameter.at("name").fail(f"is {name!r}, the name of another parameter")
        parameters[name] = Buffer(
            name=name, shape=parameter.at("shape").shape(), dtype=parameter.at("dtype").element_type()
        )
    return tuple(parameters.values()), frozenset(entry.at("outputs").among(list(parameters)))


def _check_launch(
    entry: Field,
    launch: Launch[Any],
    parameters: Sequence[Buffer],
    written: frozenset[str],
    graph: Graph,
    plan: StoragePlan,
) -> None:
    """Raises ArchiveError unless each of `parameters` has one array of its size and type in `launch`. Arrays of
    parameters in `written` must not be constants or inputs, and must not overlap other arrays. `entry`: the launch's
    field, for errors.
    """
    given = {*launch.tensors, *launch.constants}
    names = {parameter.name for parameter in parameters}
    if wrong := sorted((given ^ names) | (launch.tensors.keys() & launch.constants.keys())):
        raise entry.fail(f"must give one array for each parameter of the kernel; wrong: {', '.join(wrong)}")
    places: dict[str, tuple[int, int]] = {}
    for parameter in parameters:
        name = launch.tensors.get(parameter.name)
        if name is None:
            array = launch.constants[parameter.name]
            if (array.shape, array.dtype) != (parameter.shape, parameter.dtype.numpy):
                field = entry.at("constants").at(parameter.name)
                raise field.fail(
                    f"is {array.dtype}{list(array.shape)}, but the kernel takes "
                    f"{parameter.dtype}{list(parameter.shape)}"
                )
            if parameter.name in written:
                raise entry.at("constants").at(parameter.name).fail("is written by the kernel")
            continue
        field = entry.at("tensors").at(parameter.name)
        if name not in graph.tensors:
            raise field.fail(f"is {name!r}, which is not a tensor of the network")
        tensor = graph.tensors[name]
        if tensor.dtype != parameter.dtype or prod(tensor.storage) != prod(parameter.shape):
            raise field.fail(
                f"is {name!r}, {tensor.dtype}{list(tensor.storage)}, but the kernel takes "
                f"{parameter.dtype}{list(parameter.shape)}"
            )
        if parameter.name in written and name in graph.input_names:
            raise field.fail(f"is {name!r}, an input, which no kernel may write")
        places[parameter.name] = plan.offsets[name], plan.offsets[name] + tensor.bytes
    for writes in written & places.keys():
        low, high = places[writes]
        for other, (start, end) in places.items():
            if other != writes and start < high and low < end:
                raise entry.at("tensors").fail(f"{writes!r}, which is written, overlaps {other!r}")


def _tensor(name: str, entry: Field) -> Tensor:
    shape, block = entry.at("shape").shape(), entry.at("block").integer(1, _MOST_BLOCK)
    if block > 1 and len(shape) < 2:
        raise entry.at("block").fail(
            f"is {block}, but must be 1 for a tensor without channels, of shape {list(shape)}"
        )
    return Tensor(name=name, shape=shape, dtype=entry.at("dtype").element_type(), block=block)


def _constant(
    memory: Constants, data: bytes, dtype: DType, shape: tuple[int, ...], offset: int
) -> np.ndarray:
    array = np.ndarray(shape, dtype.numpy.newbyteorder("<"), buffer=data, offset=offset)
    return memory.copy(array.astype(dtype.numpy, copy=False), shape)


HEAD = 4096
"""Number of first bytes that are hashed to find arrays with equal beginnings. Shorter arrays are not shared."""
ValueT = TypeVar("ValueT")


class Beginnings(Generic[ValueT]):
    """A map from arrays, uint8 [size], to values. `find` takes the first bytes of an array and returns the array's
    value. The arrays must not change after `add`.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, list[tuple[np.ndarray, ValueT]]] = {}

    def add(self, raw: np.ndarray, value: ValueT) -> None:
        """Adds an array and its value, so that `find` finds the value by the array's beginning. Skips arrays below HEAD
        bytes.
        """
        if raw.size >= HEAD:
            self._known.setdefault(_head(raw), []).append((raw, value))

    def find(self, raw: np.ndarray) -> ValueT | None:
        """Value of the first added array that begins with `raw`. None if there is none or `raw` is below HEAD bytes."""
        if raw.size < HEAD:
            return None
        for longer, value in self._known.get(_head(raw), ()):
            if longer.size >= raw.size and np.array_equal(longer[: raw.size], raw):
                return value
        return None


def _head(raw: np.ndarray) -> bytes:
    return hashlib.sha256(raw[:HEAD].data).digest()
