"""Compiled kernels as a file: a tar of a JSON description, the object code and a checksum.

    description.json    format, target, and of each kernel: function, parameters, outputs, bytes of working memory
    code.o              the object that `target.cpu.ahead_of_time.emit_object` made
    sha256              of both, so that damage is seen before any of it runs

Checksums find damage and careless changes; they are no signature: load only archives whose makers you trust.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from vdla.isa.errors import UserError
from vdla.isa.program import write_whole

from ..ir.expr import Buffer
from ..ir.stmt import Program, Seq
from ..ir.types import DType
from ..target.cpu.ahead_of_time import ObjectCode
from ..target.cpu.kernel import Kernel
from ..target.cpu.machine import CpuTarget, host_target, runs_here
from ..target.cpu.machine_code import load_object
from ..target.cpu.module import Module

FORMAT = 1
"""Goes up when the description or the way that kernels are called changes."""
_DESCRIPTION, _CODE, _CHECKSUM = "description.json", "code.o", "sha256"


class ArchiveError(UserError):
    """A file that holds no kernels for this machine; the message names the file, and says why and what to do."""


def save_kernels(path: Path, code: ObjectCode) -> None:
    """Writes an archive whole or not at all; equal objects give equal files. ProgramError if it cannot be written."""
    files = {_DESCRIPTION: _describe(code), _CODE: code.data}
    files[_CHECKSUM] = _checksum(files)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in files.items():
            # Nobody's, from 1970, so that nothing depends on who writes it and when.
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    write_whole(path, buffer.getvalue())


def load_kernels(path: Path) -> dict[str, Kernel]:
    """The kernels of an archive by function name, ready to be called.

    Their programs have parameters but no bodies. ArchiveError for a file that is no archive, was changed, or holds code
    that this machine may not be able to run.
    """
    files = _read(path)
    description = _parse(path, files[_DESCRIPTION])
    target = _target(description["target"])
    if not runs_here(target):
        host = host_target()
        raise ArchiveError(
            f"{path}: was compiled for {target.cpu} ({target.triple}), and this machine ({host.cpu}, {host.triple}) "
            "may lack instructions that it uses; compile the model here"
        )
    functions = [kernel["function"] for kernel in description["kernels"]]
    codes = load_object(files[_CODE], target, functions)
    kernels: dict[str, Kernel] = {}
    for kernel in description["kernels"]:
        parameters = tuple(
            [
                Buffer(name=p["name"], shape=tuple(p["shape"]), dtype=DType(p["dtype"]))
                for p in kernel["parameters"]
            ]
        )
        name, outputs = kernel["function"], frozenset(kernel["outputs"])
        kernels[name] = Kernel(
            program=Program(name=name, parameters=parameters, body=Seq(statements=())),
            target=target,
            module=Module(
                text="",
                function=name,
                workspace_bytes=kernel["workspace_bytes"],
                scratch_bytes=kernel["scratch_bytes"],
                parameters=parameters,
                outputs=outputs,
            ),
            code=codes[name],
            outputs=outputs,
        )
    return kernels


def _describe(code: ObjectCode) -> bytes:
    kernels = [
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
    document = {"format": FORMAT, "name": code.name, "target": asdict(code.target), "kernels": kernels}
    return (json.dumps(document, indent=1) + "\n").encode()


def _checksum(files: Mapping[str, bytes]) -> bytes:
    digest = hashlib.sha256()
    for name in (_DESCRIPTION, _CODE):
        digest.update(f"{name} {len(files[name])}\n".encode())
        digest.update(files[name])
    return digest.hexdigest().encode() + b"\n"


def _read(path: Path) -> dict[str, bytes]:
    """The members of an archive that nobody changed."""
    files: dict[str, bytes] = {}
    try:
        with tarfile.open(path, mode="r:") as archive:
            for entry in archive:
                known = entry.name in (_DESCRIPTION, _CODE, _CHECKSUM) and entry.isreg()
                if not known or entry.name in files:
                    raise ArchiveError(
                        f"{path}: holds {entry.name!r}, which does not belong there; compile it anew"
                    )
                held = archive.extractfile(entry)
                files[entry.name] = b"" if held is None else held.read()
    except OSError as error:
        raise ArchiveError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (tarfile.TarError, ValueError, KeyError, EOFError):
        # tarfile lets some of what it trips over through as it comes.
        raise ArchiveError(f"{path}: is no archive of kernels (no uncompressed tar file)") from None
    for name in (_DESCRIPTION, _CODE, _CHECKSUM):
        if name not in files:
            raise ArchiveError(f"{path}: holds no {name}; it is incomplete or no archive of kernels")
    if files[_CHECKSUM] != _checksum(files):
        raise ArchiveError(
            f"{path}: was changed after it was written (its checksum differs); compile it anew"
        )
    return files


def _parse(path: Path, text: bytes) -> dict[str, Any]:
    """The description, which is as it was written; perhaps by another version."""
    document = json.loads(text)
    if document.get("format") != FORMAT:
        raise ArchiveError(
            f"{path}: has format {document.get('format')}, and this version reads {FORMAT}; compile it anew"
        )
    return document


def _target(fields: dict[str, Any]) -> CpuTarget:
    return CpuTarget(**{**fields, "cache_bytes": tuple(fields["cache_bytes"])})
