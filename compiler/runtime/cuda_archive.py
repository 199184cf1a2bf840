"""A network compiled for a GPU as a file (see `archive`).

description.json    format, target, inputs, outputs, tensors in the arena, kernels and their launches, constants
kernels.cu          the kernels as CUDA C++, to read: device functions, then each kernel after a describing comment
cubins.bin          the modules' cubins, one after the other, at offsets given by the description
constants.bin       the constants, raw and little-endian, packed as kernels read them; each begins on a cache line
sha256              checksum of all members, so that damage is detected before any code runs
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..codegen.cuda.architectures import ARCHITECTURES
from ..codegen.cuda.machine import GpuTarget
from ..codegen.cuda.module import CudaModule
from .archive import (
    CONSTANTS,
    CUDA_SOURCE,
    DESCRIPTION,
    Content,
    read_archive,
    read_description,
    read_own,
    write_archive,
)
from .archive_fields import Field
from .cuda_code import CompiledModule, CudaNetworkCode
from .cuda_launches import describe_kernel_launches, described_kernel_launches
from .gpu_text import network_text
from .network_description import (
    ConstantPool,
    describe_launches,
    describe_network,
    describe_parameters,
    described_graph,
    described_plan,
    read_constants,
    read_launches,
    read_parameters,
)

FORMAT = 3
"""Version of the archive's format: goes up when its description or the calling convention of kernels changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveKind:
    """A format of archives for one kind of GPU.

    `code`: name of the member with the modules' code. `text`: name of the member with the modules' text (None: the code
    is text). `target`: function that reads a target from an archive's description. `description`: words for such a file
    in messages.
    """

    code: str
    text: str | None
    target: Callable[[Field], GpuTarget]
    description: str = "network compiled for a GPU"


def save_cuda_network(path: Path, network: CudaNetworkCode, kind: ArchiveKind | None = None) -> None:
    """Writes an archive, completely or not at all; equal networks give equal files. Raises WriteError if writing fails.

    `kind`: the format of the archive (None: `CUBINS`).
    """
    kind = kind or CUBINS
    constants = ConstantPool()
    cubins = bytearray()
    modules: list[dict[str, Any]] = []
    for compiled in network.modules:
        modules.append(_describe_module(compiled, len(cubins)))
        cubins += compiled.cubin
    description = {
        "format": FORMAT,
        "target": asdict(network.target),
        **describe_network(network.graph, network.plan, constants),
        "quantized": sorted(network.quantized),
        "modules": modules,
        "launches": describe_launches(network.launches, "module", constants),
        "constants": constants.entries,
    }
    read_own(description, lambda document: _network(document, constants.arrays, bytes(cubins), kind))
    files: dict[str, Content] = {}
    if kind.text is not None:
        text = network_text(
            "cuda", network.graph, [(m.name, m.module) for m in network.modules], network.launches
        )
        files[kind.text] = text.encode()
    write_archive(path, description, {**files, kind.code: bytes(cubins), CONSTANTS: constants.parts})


def check_cuda_network(path: Path, kind: ArchiveKind | None = None) -> dict[str, Any]:
    """The description of a GPU network's archive, after a check that the file is complete and of a known format; the
    archive may be for any GPU. `kind`: the expected format (None: `CUBINS`). Raises ArchiveError for other files.
    """
    files = _read(path, kind or CUBINS)
    read_description(path, files[DESCRIPTION], FORMAT)
    return json.loads(files[DESCRIPTION])


def load_cuda_network(
    path: Path, kind: ArchiveKind | None = None, *, trusted: bool = False
) -> CudaNetworkCode:
    """The network of an archive. The network's graph has tensors but no nodes, and its modules have no text.

    Raises ArchiveError for any other file, and for a changed archive. `CudaNetwork` checks later that a device can run
    the network. A `trusted` archive (sealed, from this user's cache) is read without its checksum.
    """
    kind = kind or CUBINS
    files = _read(path, kind, trusted=trusted)
    document = read_description(path, files[DESCRIPTION], FORMAT)
    return _network(document, read_constants(document, files[CONSTANTS]), files[kind.code], kind)


def _network(
    document: Field, constants: Mapping[str, np.ndarray], cubins: bytes, kind: ArchiveKind
) -> CudaNetworkCode:
    graph = described_graph(document, constants)
    plan = described_plan(document, graph)
    modules: dict[str, CompiledModule] = {}
    for entry in document.at("modules").items():
        module = _module(entry, cubins, kind)
        if module.name in modules:
            raise entry.at("name").fail(f"is {module.name!r}, the name of another module")
        modules[module.name] = module
    known = {name: (held.module.parameters, held.module.outputs) for name, held in modules.items()}
    return CudaNetworkCode(
        graph=graph,
        plan=plan,
        launches=read_launches(document, "module", known, constants, graph, plan),
        target=kind.target(document.at("target")),
        modules=tuple(modules.values()),
        quantized=frozenset(document.at("quantized").among(graph.input_names)),
    )


def _read(path: Path, kind: ArchiveKind, *, trusted: bool = False) -> dict[str, bytes]:
    text = () if kind.text is None else (kind.text,)
    return read_archive(path, (*text, kind.code, CONSTANTS), description=kind.description, trusted=trusted)


CudaTargetT = TypeVar("CudaTargetT", bound=GpuTarget)


def read_target(fields: Field, kind: type[CudaTargetT], names: Sequence[str], **others: Any) -> CudaTargetT:
    """The target of class `kind` that `fields` describes. `names`: the known architectures. `others`: values of the
    fields of `kind` that not all classes of targets have. Raises ArchiveError for invalid fields.
    """
    return kind(
        arch=fields.at("arch").one_of(names),
        multiprocessors=fields.at("multiprocessors").integer(1),
        threads_per_multiprocessor=fields.at("threads_per_multiprocessor").integer(1),
        blocks_per_multiprocessor=fields.at("blocks_per_multiprocessor").integer(1),
        shared_bytes_per_block=fields.at("shared_bytes_per_block").integer(),
        shared_bytes_per_multiprocessor=fields.at("shared_bytes_per_multiprocessor").integer(),
        registers_per_multiprocessor=fields.at("registers_per_multiprocessor").integer(1),
        tensor_float=fields.at("tensor_float").boolean(),
        card=fields.at("card").text(),
        clock=fields.at("clock").number(),
        memory_bandwidth=fields.at("memory_bandwidth").number(),
        cache_bytes=fields.at("cache_bytes").integer(),
        **others,
    )


CUBINS = ArchiveKind(
    code="cubins.bin",
    text=CUDA_SOURCE,
    target=lambda fields: read_target(fields, GpuTarget, [row.name for row in ARCHITECTURES]),
)
"""The kind of archive for NVIDIA's GPUs: cubins (machine code), and CUDA C++ for people to read."""


def _describe_module(compiled: CompiledModule, offset: int) -> dict[str, Any]:
    module = compiled.module
    return {
        "name": compiled.name,
        **describe_parameters(module.parameters, module.outputs),
        "workspace_bytes": module.workspace_bytes,
        "launches": describe_kernel_launches(module.launches),
        "cubin_offset": offset,
        "cubin_bytes": len(compiled.cubin),
    }


def _module(entry: Field, cubins: bytes, kind: ArchiveKind) -> CompiledModule:
    start, size = entry.at("cubin_offset").integer(), entry.at("cubin_bytes").integer()
    if start + size > len(cubins):
        raise entry.at("cubin_bytes").fail(
            f"is {size}, but {start} + {size} bytes exceed the {len(cubins)} bytes of {kind.code}"
        )
    parameters, outputs = read_parameters(entry)
    workspace = entry.at("workspace_bytes").integer()
    return CompiledModule(
        name=entry.at("name").text(),
        module=CudaModule(
            source="",
            launches=described_kernel_launches(entry.at("launches"), parameters, workspace),
            parameters=parameters,
            outputs=outputs,
            workspace_bytes=workspace,
        ),
        cubin=cubins[start : start + size],
    )
