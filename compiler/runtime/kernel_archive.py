"""Compiled kernels as a file (see `archive`).

description.json    format, target, and for each kernel: function, parameters, outputs, bytes of working memory
code.o, code.h      the object made by `codegen.cpu.ahead_of_time.emit_object`, and its C header
sha256              of all three, so that damage is seen before any of it runs
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..codegen.cpu.ahead_of_time import ObjectCode
from ..codegen.cpu.kernel import Kernel, kernel_of
from ..codegen.cpu.machine import CpuTarget
from ..codegen.cpu.machine_code import load_objects
from ..codegen.cpu.module import Module
from ..ir.stmt import Program, Seq
from .archive import (
    CODE,
    DESCRIPTION,
    HEADER,
    ArchiveError,
    check_memory,
    read_archive,
    read_description,
    read_target,
    write_archive,
)
from .archive_fields import Field
from .network_description import read_parameters
from .trial_run import run_in_trial

FORMAT = 2
"""Version of the format: goes up when the description or the calling convention of kernels changes."""


def save_kernels(path: Path, code: ObjectCode) -> None:
    """Writes an archive, completely or not at all; equal objects give equal files. Raises ProgramError if
    that fails.
    """
    description = {
        "format": FORMAT,
        "name": code.name,
        "target": asdict(code.target),
        "kernels": describe_kernels(code),
    }
    write_archive(path, description, {CODE: code.data, HEADER: code.header.encode()})


def load_kernels(path: Path) -> dict[str, Kernel]:
    """The kernels of an archive by function name, ready to be called.

    Their programs have parameters but no bodies. Raises ArchiveError for a file that is no archive, was changed, or
    holds code that this machine may not be able to run or that crashes when it is loaded.
    """
    files = read_archive(path, (CODE, HEADER), what="archive of kernels")
    document = read_description(path, files[DESCRIPTION], FORMAT)
    target = read_target(path, document.at("target"))
    modules = read_modules(document)
    if problem := run_in_trial(lambda: bind_kernels(modules, [files[CODE]], target)):
        raise ArchiveError(f"{path}: {CODE}: its code {problem} when it is loaded; compile it anew")
    return bind_kernels(modules, [files[CODE]], target)


def describe_kernels(code: ObjectCode) -> list[dict[str, Any]]:
    """The description of an object's functions for JSON, from which `read_modules` makes modules for `bind_kernels`."""
    return [
        {
            "function": module.function,
            "parameters": [
                {"name": p.name, "dtype": str(p.dtype), "shape": list(p.shape)} for p in module.parameters
            ],
            "outputs": sorted(module.outputs),
            "workspace_bytes": module.workspace_bytes,
            "scratch_bytes": module.scratch_bytes,
        }
        for module in code.modules
    ]


def read_modules(document: Field) -> tuple[Module, ...]:
    """The kernels in a document of `describe_kernels`, without their code. Raises ArchiveError."""
    modules: dict[str, Module] = {}
    for kernel in document.at("kernels").items():
        function, parameters = kernel.at("function").symbol(), read_parameters(kernel)
        if function in modules:
            raise kernel.at("function").fail(f"is {function!r}, and so is another kernel's")
        module = Module(
            text="",
            function=function,
            workspace_bytes=kernel.at("workspace_bytes").integer(),
            scratch_bytes=kernel.at("scratch_bytes").integer(),
            parameters=parameters,
            outputs=frozenset(kernel.at("outputs").among([p.name for p in parameters])),
        )
        check_memory(
            kernel, {"workspace_bytes": module.workspace_bytes, "scratch_bytes": module.scratch_bytes}
        )
        modules[function] = module
    return tuple(modules.values())


def bind_kernels(modules: Sequence[Module], objects: Sequence[bytes], target: CpuTarget) -> dict[str, Kernel]:
    """The functions of objects for this machine as kernels, by name. Raises TargetError."""
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
