"""A whole compiled network as a file (see `archive`).

description.json    format, target, inputs, outputs, tensors in the arena, kernels, launches, constants by name
code.o, code.h      the kernels, an object that `target.cpu.ahead_of_time.emit_object` made, and their C header; empty
                    without kernels
constants.bin       the constants, raw and little-endian, packed as kernels read them; each begins on a cache line
sha256              of them all, so that damage is seen before any of it runs
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..graph.floating.graph import FloatGraph, GraphOutput, Tensor
from ..graph.floating.storage_plan import StoragePlan
from ..ir.types import DType
from ..target.cpu.ahead_of_time import emit_object
from ..target.cpu.kernel import aligned_copy
from ..target.cpu.machine import CpuTarget
from ..target.cpu.module import Module
from ..target.cpu.storage import ALIGNMENT
from .archive import CODE, DESCRIPTION, HEADER, read_archive, read_description, read_target, write_archive
from .cpu_network import CpuNetwork, Launch
from .kernel_archive import bind_kernels, describe_kernels

FORMAT = 2
"""Goes up when the description or the way that kernels are called changes."""
WHAT = "compiled network"
_CONSTANTS = "constants.bin"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NamedLaunch:
    """A `cpu_network.Launch` whose kernel is the `function` of an object."""

    name: str
    operator: str
    members: tuple[str, ...]
    operations: int
    function: str
    tensors: Mapping[str, str]
    constants: Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NetworkCode:
    """A network compiled for `target`, which need not be this machine: `modules` are its kernels."""

    graph: FloatGraph
    plan: StoragePlan
    launches: tuple[NamedLaunch, ...]
    target: CpuTarget
    modules: tuple[Module, ...]
    quantized: frozenset[str] = frozenset()


def save_network(path: Path, network: NetworkCode) -> None:
    """Writes an archive whole or not at all; equal networks give equal files.

    ProgramError if it cannot be written, TargetError where the processor lacks instructions for a kernel.
    """
    constants = _Constants()
    graph = network.graph
    code = emit_object(network.modules, network.target, name="network") if network.modules else None
    launches = [
        {
            "name": launch.name,
            "operator": launch.operator,
            "members": list(launch.members),
            "operations": launch.operations,
            "function": launch.function,
            "tensors": dict(launch.tensors),
            "constants": {
                parameter: constants.add(f"launch{number}.{parameter}", array)
                for parameter, array in launch.constants.items()
            },
        }
        for number, launch in enumerate(network.launches)
    ]
    outputs: list[dict[str, str]] = []
    for number, output in enumerate(graph.outputs):
        place = {"name": output.name, "tensor": output.tensor}
        if (held := graph.constants.get(output.tensor)) is not None:
            place["constant"] = constants.add(f"output{number}", held)
        outputs.append(place)
    tensors = {
        name: {
            "shape": list(graph.tensors[name].shape),
            "dtype": str(graph.tensors[name].dtype),
            "block": graph.tensors[name].block,
            "offset": offset,
        }
        for name, offset in network.plan.offsets.items()
    }
    description = {
        "format": FORMAT,
        "name": graph.name,
        "target": asdict(network.target),
        "arena_bytes": network.plan.bytes,
        "arena_bytes_without_reuse": network.plan.bytes_without_reuse,
        "inputs": list(graph.inputs),
        "quantized": sorted(network.quantized),
        "outputs": outputs,
        "tensors": tensors,
        "kernels": [] if code is None else describe_kernels(code),
        "launches": launches,
        "constants": constants.entries,
    }
    files = {
        CODE: b"" if code is None else code.data,
        HEADER: b"" if code is None else code.header.encode(),
        _CONSTANTS: bytes(constants.data),
    }
    write_archive(path, description, files)


def check_network(path: Path) -> dict[str, Any]:
    """The description of an archive that is whole, for whatever processor it is; ArchiveError for others."""
    files = read_archive(path, (CODE, HEADER, _CONSTANTS), what=WHAT)
    return read_description(path, files[DESCRIPTION], FORMAT)


def load_network(path: Path) -> CpuNetwork:
    """The network of an archive, ready to run; its graph has tensors but no nodes, and it took no time to compile.

    ArchiveError for a file that is no compiled network, was changed, or holds code that this machine may not be able to
    run.
    """
    files = read_archive(path, (CODE, HEADER, _CONSTANTS), what=WHAT)
    description = read_description(path, files[DESCRIPTION], FORMAT)
    target = read_target(path, description["target"])
    constants = {
        name: _constant(files[_CONSTANTS], entry) for name, entry in description["constants"].items()
    }
    kernels = bind_kernels(description["kernels"], files[CODE], target) if description["kernels"] else {}
    launches = [
        Launch(
            name=launch["name"],
            operator=launch["operator"],
            members=tuple(launch["members"]),
            operations=launch["operations"],
            kernel=kernels[launch["function"]],
            tensors=launch["tensors"],
            constants={parameter: constants[name] for parameter, name in launch["constants"].items()},
        )
        for launch in description["launches"]
    ]
    return CpuNetwork(
        graph=_graph(description, constants),
        plan=StoragePlan(
            offsets={name: entry["offset"] for name, entry in description["tensors"].items()},
            bytes=description["arena_bytes"],
            bytes_without_reuse=description["arena_bytes_without_reuse"],
        ),
        launches=tuple(launches),
        target=target,
        compile_seconds=0.0,
        quantized=frozenset(description["quantized"]),
    )


def _graph(description: Mapping[str, Any], constants: Mapping[str, np.ndarray]) -> FloatGraph:
    """The tensors of a network and what the host hands in and reads."""
    tensors = {
        name: Tensor(
            name=name, shape=tuple(entry["shape"]), dtype=DType(entry["dtype"]), block=entry["block"]
        )
        for name, entry in description["tensors"].items()
    }
    outputs = description["outputs"]
    return FloatGraph(
        name=description["name"],
        inputs=tuple(description["inputs"]),
        outputs=tuple([GraphOutput(name=output["name"], tensor=output["tensor"]) for output in outputs]),
        nodes=(),
        tensors=tensors,
        constants={o["tensor"]: constants[o["constant"]] for o in outputs if "constant" in o},
    )


class _Constants:
    """Constants on their way into a file; those of equal bytes lie there once."""

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


def _constant(data: bytes, entry: Mapping[str, Any]) -> np.ndarray:
    """A constant on a cache line."""
    dtype = np.dtype(entry["dtype"])
    shape = tuple(entry["shape"])
    array = np.ndarray(shape, dtype.newbyteorder("<"), buffer=data, offset=entry["offset"])
    return aligned_copy(array.astype(dtype, copy=False), shape)
