"""Compiled kernels as a file (see `archive`).

description.json    format, target, and of each kernel: function, parameters, outputs, bytes of working memory
code.o, code.h      the object that `target.cpu.ahead_of_time.emit_object` made, and its C header
sha256              of all three, so that damage is seen before any of it runs
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..ir.expr import Buffer
from ..ir.stmt import Program, Seq
from ..ir.types import DType
from ..target.cpu.ahead_of_time import ObjectCode
from ..target.cpu.kernel import Kernel, kernel_of
from ..target.cpu.machine import CpuTarget
from ..target.cpu.machine_code import load_objects
from ..target.cpu.module import Module
from .archive import CODE, DESCRIPTION, HEADER, read_archive, read_description, read_target, write_archive

FORMAT = 2
"""Goes up when the description or the way that kernels are called changes."""


def save_kernels(path: Path, code: ObjectCode) -> None:
    """Writes an archive whole or not at all; equal objects give equal files. ProgramError if it cannot be written."""
    description = {
        "format": FORMAT,
        "name": code.name,
        "target": asdict(code.target),
        "kernels": describe_kernels(code),
    }
    write_archive(path, description, {CODE: code.data, HEADER: code.header.encode()})


def load_kernels(path: Path) -> dict[str, Kernel]:
    """The kernels of an archive by function name, ready to be called.

    Their programs have parameters but no bodies. ArchiveError for a file that is no archive, was changed, or holds code
    that this machine may not be able to run.
    """
    files = read_archive(path, (CODE, HEADER), what="archive of kernels")
    description = read_description(path, files[DESCRIPTION], FORMAT)
    return bind_kernels(description["kernels"], [files[CODE]], read_target(path, description["target"]))


def describe_kernels(code: ObjectCode) -> list[dict[str, Any]]:
    """What `bind_kernels` needs to know of an object's functions, for JSON."""
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


def bind_kernels(
    entries: Sequence[dict[str, Any]], objects: Sequence[bytes], target: CpuTarget
) -> dict[str, Kernel]:
    """The functions of objects for this machine as kernels by name; `entries` as `describe_kernels` made them."""
    codes = load_objects(objects, target, [kernel["function"] for kernel in entries])
    kernels: dict[str, Kernel] = {}
    for kernel in entries:
        parameters = tuple(
            [
                Buffer(name=p["name"], shape=tuple(p["shape"]), dtype=DType(p["dtype"]))
                for p in kernel["parameters"]
            ]
        )
        name, outputs = kernel["function"], frozenset(kernel["outputs"])
        program = Program(name=name, parameters=parameters, body=Seq(statements=()))
        module = Module(
            text="",
            function=name,
            workspace_bytes=kernel["workspace_bytes"],
            scratch_bytes=kernel["scratch_bytes"],
            parameters=parameters,
            outputs=outputs,
        )
        kernels[name] = kernel_of(program, target, module, codes[name])
    return kernels
