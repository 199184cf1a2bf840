"""A network compiled for a GPU as a file (see `archive`).

description.json    format, target, inputs, outputs, tensors in the arena, kernels and how they are launched, constants
kernels.cu          the kernels as CUDA C++, for people: what was compiled, module after module
cubins.bin          the modules' cubins, one after the other, where the description says
constants.bin       the constants, raw and little-endian, packed as kernels read them; each begins on a cache line
sha256              of them all, so that damage is seen before any of it runs
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..ir.expr import Buffer
from ..ir.types import DType
from ..target.cuda.machine import CudaTarget
from ..target.cuda.module import CudaModule
from .archive import CONSTANTS, CUDA_SOURCE, DESCRIPTION, read_archive, read_description, write_archive
from .cuda_code import CompiledModule, CudaLaunch, CudaNetworkCode
from .cuda_launches import describe_kernel_launches, described_kernel_launches
from .network_description import (
    ConstantPool,
    describe_launch,
    describe_network,
    described_graph,
    described_plan,
    launch_fields,
    read_constants,
)

FORMAT = 2
"""Goes up when the description or the way that kernels are called changes."""
CUBINS = "cubins.bin"
WHAT = "network compiled for a GPU"


def save_cuda_network(path: Path, network: CudaNetworkCode) -> None:
    """Writes an archive whole or not at all; equal networks give equal files. ProgramError if it cannot be written."""
    constants = ConstantPool()
    sources: list[str] = []
    cubins = bytearray()
    modules: list[dict[str, Any]] = []
    for compiled in network.modules:
        modules.append(_describe_module(compiled, len(cubins)))
        cubins += compiled.cubin
        sources.append(f"// {compiled.name}\n\n{compiled.module.source.rstrip()}\n")
    launches = [
        {**describe_launch(number, launch, constants), "module": launch.module}
        for number, launch in enumerate(network.launches)
    ]
    description = {
        "format": FORMAT,
        "target": asdict(network.target),
        **describe_network(network.graph, network.plan, constants),
        "modules": modules,
        "launches": launches,
        "constants": constants.entries,
    }
    files = {
        CUDA_SOURCE: "\n\n".join(sources).encode(),
        CUBINS: bytes(cubins),
        CONSTANTS: bytes(constants.data),
    }
    write_archive(path, description, files)


def check_cuda_network(path: Path) -> dict[str, Any]:
    """The description of an archive that is whole, for whatever GPU it is; ArchiveError for others."""
    return _read(path)[0]


def load_cuda_network(path: Path) -> CudaNetworkCode:
    """The network of an archive; its graph has tensors but no nodes, its modules no text.

    ArchiveError for a file that is no such network, or was changed. Whether a device can run it, that is seen there.
    """
    description, files = _read(path)
    constants = read_constants(description, files[CONSTANTS])
    return CudaNetworkCode(
        graph=described_graph(description, constants),
        plan=described_plan(description),
        launches=tuple(
            [
                CudaLaunch(**launch_fields(launch, constants), module=launch["module"])
                for launch in description["launches"]
            ]
        ),
        target=CudaTarget(**description["target"]),
        modules=tuple([_module(entry, files[CUBINS]) for entry in description["modules"]]),
    )


def _read(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    files = read_archive(path, (CUDA_SOURCE, CUBINS, CONSTANTS), what=WHAT)
    return read_description(path, files[DESCRIPTION], FORMAT), files


def _describe_module(compiled: CompiledModule, offset: int) -> dict[str, Any]:
    module = compiled.module
    return {
        "name": compiled.name,
        "parameters": [
            {"name": p.name, "dtype": str(p.dtype), "shape": list(p.shape)} for p in module.parameters
        ],
        "outputs": sorted(module.outputs),
        "workspace_bytes": module.workspace_bytes,
        "launches": describe_kernel_launches(module.launches),
        "cubin_offset": offset,
        "cubin_bytes": len(compiled.cubin),
    }


def _module(entry: Mapping[str, Any], cubins: bytes) -> CompiledModule:
    start = entry["cubin_offset"]
    parameters = [
        Buffer(name=p["name"], shape=tuple(p["shape"]), dtype=DType(p["dtype"])) for p in entry["parameters"]
    ]
    return CompiledModule(
        name=entry["name"],
        module=CudaModule(
            source="",
            launches=described_kernel_launches(entry["launches"]),
            parameters=tuple(parameters),
            outputs=frozenset(entry["outputs"]),
            workspace_bytes=entry["workspace_bytes"],
        ),
        cubin=cubins[start : start + entry["cubin_bytes"]],
    )
