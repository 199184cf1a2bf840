"""A whole compiled network as a file (see `archive`).

description.json    format, target, inputs, outputs, tensors in the arena, kernels, launches, constants by name
code.a, code.h      the kernels, a static library that `target.cpu.background` made, and their C header; empty without
                    kernels
constants.bin       the constants, raw and little-endian, packed as kernels read them; each begins on a cache line
sha256              of them all, so that damage is seen before any of it runs
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..graph.floating.graph import FloatGraph
from ..graph.floating.storage_plan import StoragePlan
from ..target.cpu.ahead_of_time import ObjectCode
from ..target.cpu.background import emit_library
from ..target.cpu.machine import CpuTarget
from ..target.cpu.module import Module
from ..target.cpu.static_library import library_objects
from .archive import (
    CONSTANTS,
    DESCRIPTION,
    HEADER,
    LIBRARY,
    ArchiveError,
    description_of,
    read_archive,
    read_description,
    read_target,
    write_archive,
)
from .cpu_network import CpuNetwork, Launch
from .kernel_archive import bind_kernels, describe_kernels
from .network_description import (
    ConstantPool,
    describe_launch,
    describe_network,
    described_graph,
    described_plan,
    launch_fields,
    read_constants,
)

FORMAT = 3
"""Goes up when the description or the way that kernels are called changes."""
WHAT = "compiled network"
NAME = "network"
"""Of the library and its header."""


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
    """A network compiled for `target`, which need not be this machine: `modules` are its kernels.

    `library` are these as a static library, where that was asked for.
    """

    graph: FloatGraph
    plan: StoragePlan
    launches: tuple[NamedLaunch, ...]
    target: CpuTarget
    modules: tuple[Module, ...]
    quantized: frozenset[str] = frozenset()
    library: ObjectCode | None = None


def save_network(path: Path, network: NetworkCode) -> None:
    """Writes an archive whole or not at all; equal networks give equal files.

    ProgramError if it cannot be written, TargetError where the processor lacks instructions for a kernel.
    """
    constants = ConstantPool()
    code = network.library
    if code is None and network.modules:
        code = emit_library(network.modules, network.target, name=NAME)
    launches = [
        {**describe_launch(number, launch, constants), "function": launch.function}
        for number, launch in enumerate(network.launches)
    ]
    description = {
        "format": FORMAT,
        "target": asdict(network.target),
        **describe_network(network.graph, network.plan, constants),
        "quantized": sorted(network.quantized),
        "kernels": [] if code is None else describe_kernels(code),
        "launches": launches,
        "constants": constants.entries,
    }
    files = {
        LIBRARY: b"" if code is None else code.data,
        HEADER: b"" if code is None else code.header.encode(),
        CONSTANTS: bytes(constants.data),
    }
    write_archive(path, description, files)


def describe_saved(path: Path, content: bytes) -> dict[str, Any]:
    """The description of an archive that is known to be whole, `content`, for whatever processor it is.

    ArchiveError, which names `path`, for one of another format.
    """
    return read_description(path, description_of(content), FORMAT)


def load_network(path: Path) -> CpuNetwork:
    """The network of an archive, ready to run; its graph has tensors but no nodes, and it took no time to compile.

    ArchiveError for a file that is no compiled network, was changed, or holds code that this machine may not be able to
    run.
    """
    files = read_archive(path, (LIBRARY, HEADER, CONSTANTS), what=WHAT)
    description = read_description(path, files[DESCRIPTION], FORMAT)
    target = read_target(path, description["target"])
    constants = read_constants(description, files[CONSTANTS])
    entries = description["kernels"]
    try:
        kernels = bind_kernels(entries, library_objects(files[LIBRARY]), target) if entries else {}
    except ValueError as error:
        raise ArchiveError(f"{path}: {LIBRARY} is {error}; compile it anew") from None
    launches = [
        Launch(**launch_fields(launch, constants), kernel=kernels[launch["function"]])
        for launch in description["launches"]
    ]
    return CpuNetwork(
        graph=described_graph(description, constants),
        plan=described_plan(description),
        launches=tuple(launches),
        target=target,
        compile_seconds=0.0,
        quantized=frozenset(description["quantized"]),
    )
