"""Compiled kernels as a file (see `archive`).

description.json    format, target, and for each kernel: function, parameters, outputs, bytes of working memory
code.o, code.h      the object made by `codegen.cpu.one_object.emit_object`, and its C header
sha256              checksum of all three, so that damage is detected before any code runs
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from ..codegen.cpu.ahead_of_time import ObjectCode
from ..codegen.cpu.kernel import Kernel
from .archive import (
    CODE,
    DESCRIPTION,
    HEADER,
    ArchiveError,
    read_archive,
    read_description,
    read_target,
    write_archive,
)
from .network_archive import bind_kernels, describe_kernels, read_modules
from .trial_run import run_in_trial

FORMAT = 2
"""Version of the archive's format: goes up when its description or the calling convention of kernels changes."""


def save_kernels(path: Path, code: ObjectCode) -> None:
    """Writes an archive, whole or not at all; equal objects give equal files. Raises WriteError if writing fails."""
    description = {
        "format": FORMAT,
        "name": code.name,
        "target": asdict(code.target),
        "kernels": describe_kernels(code),
    }
    write_archive(path, description, {CODE: code.data, HEADER: code.header.encode()})


def load_kernels(path: Path) -> dict[str, Kernel]:
    """The kernels of an archive by function name, ready to be called.

    The programs of the kernels have parameters but no bodies. Raises ArchiveError for other files, for a changed
    archive, for code that this machine may not be able to run, and for code that crashes while it is loaded.
    """
    files = read_archive(path, (CODE, HEADER), description="kernel archive")
    document = read_description(path, files[DESCRIPTION], FORMAT)
    target = read_target(path, document.at("target"))
    modules = read_modules(document)
    if problem := run_in_trial(lambda: bind_kernels(modules, [files[CODE]], target)):
        raise ArchiveError(f"{path}: {CODE}: its code {problem} when it is loaded; compile the model again")
    return bind_kernels(modules, [files[CODE]], target)
