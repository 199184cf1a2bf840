"""A whole compiled network as a file (see `archive`).

description.json    format, target, inputs, outputs, tensors in the arena, kernels, launches, constants by name
code.a, code.h      the kernels, a static library made by `codegen.cpu.ahead_of_time`, and their C header; empty
                    without kernels
constants.bin       the constants, raw and little-endian, packed as kernels read them; each begins on a cache line
sha256              checksum of all members, so that damage is detected before any code runs
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..codegen.cpu.ahead_of_time import ObjectCode, emit_library
from ..codegen.cpu.kernel import Kernel, kernel_of
from ..codegen.cpu.machine import CpuTarget
from ..codegen.cpu.machine_code import load_objects
from ..codegen.cpu.module import Module
from ..codegen.cpu.object_files import library_objects
from ..graph.graph import Graph
from ..graph.storage_plan import StoragePlan
from ..ir.stmt import Program, Seq
from .archive import (
    CONSTANTS,
    DESCRIPTION,
    HEADER,
    LIBRARY,
    NETWORK_FORMAT,
    ArchiveError,
    Content,
    check_memory,
    read_archive,
    read_description,
    read_own,
    read_target,
    write_archive,
)
from .archive_fields import Field
from .cpu_network import CpuNetwork
from .launch import Launch
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
from .trial_run import run_in_trial

FILE_KIND = "compiled network"
NAME = "network"
"""Name of the library and of its header."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NetworkCode:
    """A network compiled for the processor `target`, which may be another machine's. `modules`: the network's kernels.

    `library`: the kernels as a static library; None if not made yet.
    """

    graph: Graph
    plan: StoragePlan
    launches: tuple[Launch[str], ...]
    target: CpuTarget
    modules: tuple[Module, ...]
    quantized: frozenset[str] = frozenset()
    library: ObjectCode | None = None


def save_network(path: Path, network: NetworkCode) -> None:
    """Writes an archive, completely or not at all; equal networks give equal files.

    Raises WriteError if the file cannot be written, TargetError if the processor lacks instructions for a kernel.
    """
    constants, code = ConstantPool(), _library(network)
    description = {
        "format": NETWORK_FORMAT,
        **_describe(network, code, constants),
        "constants": constants.entries,
    }
    files: dict[str, Content] = {
        LIBRARY: b"" if code is None else code.data,
        HEADER: b"" if code is None else code.header.encode(),
        CONSTANTS: constants.parts,
    }
    write_archive(path, description, files)


def _library(network: NetworkCode) -> ObjectCode | None:
    """The kernels as a library; None if there are no kernels."""
    if network.library is None and network.modules:
        return emit_library(network.modules, network.target, name=NAME)
    return network.library


def _describe(network: NetworkCode, code: ObjectCode | None, constants: ConstantPool) -> dict[str, Any]:
    description = {
        "target": asdict(network.target),
        **describe_network(network.graph, network.plan, constants),
        "quantized": sorted(network.quantized),
        "kernels": [] if code is None else describe_kernels(code),
        "launches": describe_launches(network.launches, "function", constants),
    }
    read_own(description, lambda document: _read_parts(document, constants.arrays))
    return description


def describe_code(network: NetworkCode, constants: ConstantPool) -> dict[str, Any]:
    """The description of a network that shares a file with other networks. Adds the network's library to `constants`
    under the name "library".
    """
    code = _library(network)
    library = np.frombuffer(b"" if code is None else code.data, np.uint8)
    return {**_describe(network, code, constants), "library": constants.add("library", library)}


def network_of(network: NetworkCode) -> CpuNetwork:
    """A network that was compiled for this machine, ready to run."""
    code = _library(network)
    kernels = {}
    if code is not None:
        kernels = bind_kernels(network.modules, library_objects(code.data), network.target)
    return CpuNetwork(
        graph=network.graph,
        plan=network.plan,
        launches=tuple([_launch_of(launch, kernels[launch.kernel]) for launch in network.launches]),
        target=network.target,
        compile_seconds=0.0,
        quantized=network.quantized,
    )


def load_network(path: Path, *, trusted: bool = False) -> CpuNetwork:
    """The network of an archive, ready to run. Its graph has tensors but no nodes; its compile time is 0.

    Raises ArchiveError for other files, for a changed archive, for code that this machine may not be able to run, and
    for code that crashes in a trial run. A `trusted` archive (sealed, from this user's cache) is loaded without
    checksum and trial run.
    """
    files = read_archive(path, (LIBRARY, HEADER, CONSTANTS), description=FILE_KIND, trusted=trusted)
    document = read_description(path, files[DESCRIPTION], NETWORK_FORMAT)
    constants = read_constants(document, files[CONSTANTS])
    network, operations = read_network(path, document, constants, lambda: files[LIBRARY])
    tried = not trusted and document.at("kernels").items()
    if tried and (problem := run_in_trial(lambda: run_once(network()), operations=operations)):
        raise ArchiveError(f"{path}: {LIBRARY}: its code {problem} on its first run; compile the model again")
    return network()


def read_network(
    path: Path, document: Field, constants: Mapping[str, np.ndarray], library: Callable[[], bytes]
) -> tuple[Callable[[], CpuNetwork], int]:
    """Returns a function that loads the network described in `document`, and the number of operations in one run of the
    network. `library` returns the bytes of the static library of the network's kernels. Raises ArchiveError.
    """
    target = read_target(path, document.at("target"))
    modules, graph, plan, quantized, launches = _read_parts(document, constants)
    check_memory(
        document,
        {
            "arena_bytes": plan.bytes,
            "all constants": sum(array.nbytes for array in {id(a): a for a in constants.values()}.values()),
            "workspace_bytes": max((module.workspace_bytes for module in modules), default=0),
            "scratch_bytes": max((module.scratch_bytes for module in modules), default=0),
        },
    )
    try:
        objects = library_objects(library()) if modules else []
    except ValueError as error:
        raise ArchiveError(f"{path}: {LIBRARY} is not valid ({error}); compile the model again") from None

    def network() -> CpuNetwork:
        kernels = bind_kernels(modules, objects, target) if modules else {}
        return CpuNetwork(
            graph=graph,
            plan=plan,
            launches=tuple([_launch_of(launch, kernels[launch.kernel]) for launch in launches]),
            target=target,
            compile_seconds=0.0,
            quantized=quantized,
        )

    return network, sum(launch.operations for launch in launches)


def _read_parts(
    document: Field, constants: Mapping[str, np.ndarray]
) -> tuple[tuple[Module, ...], Graph, StoragePlan, frozenset[str], tuple[Launch[str], ...]]:
    """Reads the parts of a description that do not depend on the processor: modules, graph, storage plan, quantized
    inputs, and launches of functions. Raises ArchiveError.
    """
    modules = read_modules(document)
    graph = described_graph(document, constants)
    plan = described_plan(document, graph)
    quantized = frozenset(document.at("quantized").among(graph.input_names))
    known = {module.function: (module.parameters, module.outputs) for module in modules}
    launches = read_launches(document, "function", known, constants, graph, plan)
    return modules, graph, plan, quantized, launches


def run_once(network: CpuNetwork) -> None:
    """Runs a network once on zeros."""
    shapes, types = network.input_shapes, network.input_types
    network.run({name: np.zeros(shape, types[name]) for name, shape in shapes.items()})


def describe_kernels(code: ObjectCode) -> list[dict[str, Any]]:
    """Describes an object's functions as JSON values. `read_modules` makes modules for `bind_kernels` from them."""
    return [
        {
            "function": module.function,
            **describe_parameters(module.parameters, module.outputs),
            "workspace_bytes": module.workspace_bytes,
            "scratch_bytes": module.scratch_bytes,
        }
        for module in code.modules
    ]


def read_modules(document: Field) -> tuple[Module, ...]:
    """The kernels, without their code, that `describe_kernels` described in `document`. Raises ArchiveError."""
    modules: dict[str, Module] = {}
    for kernel in document.at("kernels").items():
        function = kernel.at("function").symbol()
        parameters, outputs = read_parameters(kernel)
        if function in modules:
            raise kernel.at("function").fail(f"is {function!r}, the name of another kernel")
        module = Module(
            text="",
            function=function,
            workspace_bytes=kernel.at("workspace_bytes").integer(),
            scratch_bytes=kernel.at("scratch_bytes").integer(),
            parameters=parameters,
            outputs=outputs,
        )
        check_memory(
            kernel, {"workspace_bytes": module.workspace_bytes, "scratch_bytes": module.scratch_bytes}
        )
        modules[function] = module
    return tuple(modules.values())


def bind_kernels(modules: Sequence[Module], objects: Sequence[bytes], target: CpuTarget) -> dict[str, Kernel]:
    """Loads the object files `objects` (contents) into this process. Returns the kernels by function name; `modules`
    describe their parameters. Raises TargetError for unreadable objects, and for missing functions."""
    codes = load_objects(objects, target, [module.function for module in modules])
    return {
        module.function: kernel_of(
            Program(name=module.function, parameters=module.parameters, body=Seq(statements=())),
            target,
            module,
            codes[module.function],
        )
        for module in modules
    }


def _launch_of(launch: Launch[str], kernel: Kernel) -> Launch[Kernel]:
    """The launch with its kernel's name replaced by the loaded `kernel`."""
    return cast("Launch[Kernel]", replace(launch, kernel=cast(Any, kernel)))
