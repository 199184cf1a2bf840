"""Compiled code as a file: an uncompressed tar of a JSON description, raw bytes, and a checksum of all of them.

Checksums find damage and careless changes; they are no signature: load only archives whose makers you trust.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vdla.isa.errors import UserError
from vdla.isa.program import write_whole

from ..target.cpu.machine import CpuTarget, host_target, runs_here
from ..target.cpu.options import knows_processor

DESCRIPTION, CODE, HEADER, CHECKSUM = "description.json", "code.o", "code.h", "sha256"
CONSTANTS, LIBRARY, CUDA_SOURCE = "constants.bin", "code.a", "kernels.cu"


class ArchiveError(UserError):
    """A file that holds no code for this machine; the message names the file, and says why and what to do."""


def write_archive(path: Path, description: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
    """Writes an archive whole or not at all; equal contents give equal files. ProgramError if it cannot be written."""
    members = {DESCRIPTION: (json.dumps(description, indent=1) + "\n").encode(), **files}
    members[CHECKSUM] = _checksum(members)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in members.items():
            # Nobody's, from 1970, so that nothing depends on who writes it and when.
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    write_whole(path, buffer.getvalue())


def is_for_gpu(path: Path) -> bool:
    """Whether a file is an archive of code for a GPU, whole or not; False where it cannot be read."""
    try:
        with tarfile.open(path, mode="r:") as archive:
            return CUDA_SOURCE in archive.getnames()
    except (OSError, tarfile.TarError, ValueError, KeyError, EOFError):
        return False


def read_archive(path: Path, names: tuple[str, ...], *, what: str) -> dict[str, bytes]:
    """The members `names` of an archive that nobody changed; ArchiveError for others.

    `what` says what the file should be.
    """
    names = (DESCRIPTION, *names)
    files: dict[str, bytes] = {}
    try:
        with tarfile.open(path, mode="r:") as archive:
            for entry in archive:
                known = entry.name in (*names, CHECKSUM) and entry.isreg()
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
        raise ArchiveError(f"{path}: is no {what} (no uncompressed tar file)") from None
    for name in (*names, CHECKSUM):
        if name not in files:
            raise ArchiveError(f"{path}: holds no {name}; it is incomplete or no {what}")
    if files[CHECKSUM] != _checksum({name: files[name] for name in names}):
        raise ArchiveError(
            f"{path}: was changed after it was written (its checksum differs); compile it anew"
        )
    return files


def description_of(content: bytes) -> bytes:
    """The description in the bytes of an archive that is known to be whole; its other members are not looked at."""
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
        held = archive.extractfile(DESCRIPTION)
        assert held is not None
        return held.read()


def read_description(path: Path, text: bytes, expected: int) -> dict[str, Any]:
    """The description, which is as it was written; ArchiveError where another version wrote it."""
    document = json.loads(text)
    if document.get("format") != expected:
        raise ArchiveError(
            f"{path}: has format {document.get('format')}, and this version reads {expected}; compile it anew"
        )
    return document


def read_target(path: Path, fields: Mapping[str, Any]) -> CpuTarget:
    """The target of a description; ArchiveError if this machine may not be able to run its code."""
    target = CpuTarget(**{**fields, "cache_bytes": tuple(fields["cache_bytes"])})
    if not knows_processor(target):
        raise ArchiveError(
            f"{path}: was compiled for cpu '{target.cpu}', of which this version knows nothing; compile the model here"
        )
    if not runs_here(target):
        host = host_target()
        raise ArchiveError(
            f"{path}: was compiled for {target.cpu} ({target.triple}), and this machine ({host.cpu}, {host.triple}) "
            "may lack instructions that it uses; compile the model here"
        )
    return target


def _checksum(files: Mapping[str, bytes]) -> bytes:
    digest = hashlib.sha256()
    for name, data in files.items():
        digest.update(f"{name} {len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest().encode() + b"\n"
