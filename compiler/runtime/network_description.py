"""What archives of networks have in common: tensors and where they lie, what the host hands in and reads, constants."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..graph.floating.graph import FloatGraph, GraphOutput, Tensor
from ..graph.floating.storage_plan import StoragePlan
from ..ir.types import DType
from ..target.cpu.kernel import aligned_copy
from ..target.cpu.storage import ALIGNMENT


class Launched(Protocol):
    """A launch of whatever kind of kernel, as profiles and arenas know it."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def operator(self) -> str: ...  # noqa: D102
    @property
    def members(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def operations(self) -> int: ...  # noqa: D102
    @property
    def tensors(self) -> Mapping[str, str]: ...  # noqa: D102
    @property
    def constants(self) -> Mapping[str, np.ndarray]: ...  # noqa: D102


class ConstantPool:
    """Constants on their way into a file; those of equal bytes lie there once, each on a cache line."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.entries: dict[str, dict[str, Any]] = {}
        self._offsets: dict[str, int] = {}

    def add(self, name: str, array: np.ndarray) -> str:
        """The name, under which the array is from now on."""
        raw = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
        digest = hashlib.sha256(raw).hexdigest()
        if digest not in self._offsets:
            self.data += bytes(-len(self.data) % ALIGNMENT)
            self._offsets[digest] = len(self.data)
            self.data += raw
        self.entries[name] = {
            "dtype": array.dtype.name,
            "shape": list(array.shape),
            "offset": self._offsets[digest],
            "sha256": digest,
        }
        return name


def describe_launch(number: int, launch: Launched, constants: ConstantPool) -> dict[str, Any]:
    """A launch but for its kernel; its constants go into the pool."""
    return {
        "name": launch.name,
        "operator": launch.operator,
        "members": list(launch.members),
        "operations": launch.operations,
        "tensors": dict(launch.tensors),
        "constants": {
            parameter: constants.add(f"launch{number}.{parameter}", array)
            for parameter, array in launch.constants.items()
        },
    }


def launch_fields(entry: Mapping[str, Any], constants: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The fields of `Launched` that `describe_launch` described."""
    return {
        "name": entry["name"],
        "operator": entry["operator"],
        "members": tuple(entry["members"]),
        "operations": entry["operations"],
        "tensors": entry["tensors"],
        "constants": {parameter: constants[name] for parameter, name in entry["constants"].items()},
    }


def describe_network(graph: FloatGraph, plan: StoragePlan, constants: ConstantPool) -> dict[str, Any]:
    """The graph's tensors without its nodes; outputs that are constants go into the pool."""
    outputs: list[dict[str, str]] = []
    for number, output in enumerate(graph.outputs):
        place = {"name": output.name, "tensor": output.tensor}
        if (held := graph.constants.get(output.tensor)) is not None:
            place["constant"] = constants.add(f"output{number}", held)
        outputs.append(place)
    return {
        "name": graph.name,
        "arena_bytes": plan.bytes,
        "arena_bytes_without_reuse": plan.bytes_without_reuse,
        "inputs": list(graph.inputs),
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


def described_graph(description: Mapping[str, Any], constants: Mapping[str, np.ndarray]) -> FloatGraph:
    """The tensors of a network and what the host hands in and reads; no nodes."""
    tensors = {
        name: Tensor(
            name=name, shape=tuple(entry["shape"]), dtype=DType(entry["dtype"]), block=entry["block"]
        )
        for name, entry in description["tensors"].items()
    }
    outputs: Sequence[Mapping[str, str]] = description["outputs"]
    return FloatGraph(
        name=description["name"],
        inputs=tuple(description["inputs"]),
        outputs=tuple([GraphOutput(name=output["name"], tensor=output["tensor"]) for output in outputs]),
        nodes=(),
        tensors=tensors,
        constants={o["tensor"]: constants[o["constant"]] for o in outputs if "constant" in o},
    )


def described_plan(description: Mapping[str, Any]) -> StoragePlan:
    """Where the tensors lie."""
    return StoragePlan(
        offsets={name: entry["offset"] for name, entry in description["tensors"].items()},
        bytes=description["arena_bytes"],
        bytes_without_reuse=description["arena_bytes_without_reuse"],
    )


def read_constants(description: Mapping[str, Any], data: bytes) -> dict[str, np.ndarray]:
    """The constants by name, each on a cache line."""
    return {name: _constant(data, entry) for name, entry in description["constants"].items()}


def _constant(data: bytes, entry: Mapping[str, Any]) -> np.ndarray:
    dtype = np.dtype(entry["dtype"])
    shape = tuple(entry["shape"])
    array = np.ndarray(shape, dtype.newbyteorder("<"), buffer=data, offset=entry["offset"])
    return aligned_copy(array.astype(dtype, copy=False), shape)
