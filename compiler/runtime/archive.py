"""Compiled code as a file: an uncompressed tar of a JSON description, raw bytes, and a checksum of all members.

The checksum detects damage and careless changes. It is not a signature: anyone who changes an archive can compute the
checksum again, and the code in the archive runs with all rights of the user who loads it. Load only archives whose
makers you trust. Loading first checks the tar's headers, then every field of the description (`archive_fields`). Last,
a process of its own runs the code once, to see whether the code crashes (`trial_run`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tarfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol, cast

from vdla.util.files import open_file, write_whole
from vdla.util.machine_memory import memory_problem
from vdla.util.printable import printable

from ..codegen.cpu.errors import TargetError, UnknownNameError
from ..codegen.cpu.machine import CpuTarget, host_target, runs_here
from ..codegen.cpu.options import check_known
from .archive_fields import ArchiveError, Field, read_fields

if TYPE_CHECKING:
    from ..graph.storage_plan import StoragePlan

__all__ = ["ArchiveError", "read_archive", "write_archive"]

DESCRIPTION, CODE, HEADER, CHECKSUM = "description.json", "code.o", "code.h", "sha256"
CONSTANTS, LIBRARY, CUDA_SOURCE = "constants.bin", "code.a", "kernels.cu"
NETWORK_FORMAT = 3
"""Version of network archives: goes up when their description or the calling convention of kernels changes."""
MOST_DESCRIPTION_BYTES = 2**26
"""Largest size of a description, because parsed JSON takes about twenty times as many bytes as its text. The
descriptions of the largest networks have less than one million bytes.
"""
_CHECKSUM_BYTES = 65
_NAME = re.compile(r"[A-Za-z0-9_.+-]*")
_FEATURES = re.compile(r"([+-][A-Za-z0-9_.+-]+(,[+-][A-Za-z0-9_.+-]+)*)?")


Bytes = bytes | memoryview
Content = bytes | Sequence[Bytes]
"""Content of an archive's member: its bytes, or a sequence of parts to be concatenated."""


class UnreadableArchiveError(Exception):
    """Raised before a file is written, if the reader would refuse its description: a defect of the compiler."""


def read_own(description: Mapping[str, Any], read: Callable[[Field], object]) -> None:
    """Reads a description with `read` before it is written. Raises UnreadableArchiveError if `read` refuses it, so that
    no unreadable archive is written."""
    value = json.loads(json.dumps(description))
    try:
        read(Field(path=Path("the compiled network"), name="", value=value))
    except ArchiveError as error:
        raise UnreadableArchiveError(f"the file just written cannot be read again: {error}") from error


def write_archive(path: Path, description: Mapping[str, Any], files: Mapping[str, Content]) -> None:
    """Writes `description` and members `files`, all or nothing; equal contents give equal bytes. Raises WriteError."""
    members: dict[str, Content] = {
        DESCRIPTION: (json.dumps(description, indent=1) + "\n").encode(),
        **files,
    }
    members[CHECKSUM] = checksum(members)
    write_whole(path, *_archive_parts(members))


def archive_bytes(members: Mapping[str, Content]) -> bytes:
    """A tar file of members by name, in their order; equal members give equal bytes."""
    return b"".join(_archive_parts(members))


def _archive_parts(members: Mapping[str, Content]) -> Iterator[Bytes]:
    """The bytes of `archive_bytes` in parts, without a copy of the members' contents."""
    total = 0
    for name, content in members.items():
        # No owner, time 0: the bytes do not depend on the user and the time of writing.
        entry = tarfile.TarInfo(name)
        entry.size = size = _size(content)
        header = entry.tobuf(format=tarfile.USTAR_FORMAT)
        yield header
        yield from _parts(content)
        padding = -size % tarfile.BLOCKSIZE
        yield bytes(padding)
        total += len(header) + size + padding
    # A tar file ends with two empty blocks, padded to whole records.
    end = 2 * tarfile.BLOCKSIZE
    yield bytes(end + -(total + end) % tarfile.RECORDSIZE)


def _parts(content: Content) -> Sequence[Bytes]:
    return [content] if isinstance(content, bytes) else content


def _size(content: Content) -> int:
    return sum(memoryview(part).nbytes for part in _parts(content))


def first_member(path: Path, names: Collection[str]) -> str | None:
    """The first name in `names` that a member of the archive has; None if none can be read. The archive may be
    incomplete.
    """
    try:
        with os.fdopen(open_file(path), "rb") as file:
            return next((entry.name for entry in _headers(file) if entry.name in names), None)
    except _UNREADABLE:
        return None


def read_archive(
    path: Path, names: tuple[str, ...], *, description: str, trusted: bool = False
) -> dict[str, bytes]:
    """The contents of the description and of the members `names` of an archive. Raises ArchiveError for other files.

    `description` names the expected kind of file in messages. All headers are checked before a member is read: members
    must be plain files with different names, inside of the archive. A `trusted` archive (sealed, from this
    user's cache) is read without its checksum.
    """
    names = (DESCRIPTION, *names)
    files: dict[str, bytes] = {}
    try:
        with os.fdopen(open_file(path), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            entries: dict[str, tarfile.TarInfo] = {}
            for entry in _headers(file):
                plain = entry.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not entry.issparse()
                if entry.name not in (*names, CHECKSUM) or not plain or entry.name in entries:
                    raise ArchiveError(
                        printable(
                            f"{path}: contains the unexpected file {entry.name!r}; compile the model again"
                        )
                    )
                if entry.size < 0 or entry.offset_data + entry.size > size:
                    raise ArchiveError(f"{path}: ends in the middle of {entry.name}; it is incomplete")
                entries[entry.name] = entry
            _check_sizes(path, entries, description, names)
            for name, entry in entries.items():
                file.seek(entry.offset_data)
                files[name] = file.read(entry.size)
    except OSError as error:
        raise ArchiveError(f"{path}: cannot be read: {error.strerror or error}") from None
    except _UNREADABLE:
        # tarfile does not wrap all exceptions that invalid files cause.
        raise ArchiveError(f"{path}: is not a {description} (not an uncompressed tar file)") from None
    if not trusted and files[CHECKSUM] != checksum({name: files[name] for name in names}):
        raise ArchiveError(
            f"{path}: was changed after it was written (its checksum differs); compile the model again"
        )
    return files


def describe_saved(path: Path) -> dict[str, Any]:
    """Reads the description in a network's archive; works on any processor. Does not read or check the other members,
    so the caller must know that the archive is complete.

    Raises ArchiveError, which names `path`, if the archive has another format or the file is missing. A file in the
    cache may be missing because another process has removed it.
    """
    try:
        with tarfile.open(path, mode="r:") as archive:
            held = archive.extractfile(DESCRIPTION)
            assert held is not None
            text = held.read()
    except OSError as error:
        raise ArchiveError(f"{path}: cannot be read: {error.strerror or error}") from None
    return cast(dict[str, Any], read_description(path, text, NETWORK_FORMAT).value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """Summary of a compiled network in a file: numbers of kernels and of launches, and bytes of memory for activations
    with and without reuse of memory. Activations do not include constants and scratch memory.
    """

    kernels: int
    launches: int
    arena_bytes: int
    arena_bytes_without_reuse: int


class _Code(Protocol):
    """Common interface, for all targets, of a compiled network that is not loaded."""

    @property
    def modules(self) -> Sequence[object]: ...

    @property
    def launches(self) -> Sequence[object]: ...

    @property
    def plan(self) -> StoragePlan: ...


def saved_code(code: _Code) -> Saved:
    """The summary of a compiled network that was just saved."""
    return Saved(
        kernels=len(code.modules),
        launches=len(code.launches),
        arena_bytes=code.plan.bytes,
        arena_bytes_without_reuse=code.plan.bytes_without_reuse,
    )


def saved_of(description: Mapping[str, Any], kernels: str) -> Saved:
    """The summary of a network, from an archive's description, whose list of kernels is under the key `kernels`."""
    return Saved(
        kernels=len(description[kernels]),
        launches=len(description["launches"]),
        arena_bytes=description["arena_bytes"],
        arena_bytes_without_reuse=description["arena_bytes_without_reuse"],
    )


def read_description(path: Path, text: bytes, expected: int) -> Field:
    """Parses an archive's description; its fields are checked when they are read. Raises ArchiveError if its format
    version is not `expected`.
    """
    document = read_fields(path, text)
    if document.at("format").integer() != expected:
        raise ArchiveError(
            f"{path}: has format {document.at('format').value}, but this version of vdla reads format {expected}; "
            "compile the model again"
        )
    return document


def read_target(path: Path, fields: Field) -> CpuTarget:
    """The target that `fields` describes. Raises ArchiveError if this machine may not be able to run its code."""
    sizes = fields.at("cache_bytes").shape()
    if len(sizes) != 2:
        raise fields.at("cache_bytes").fail(f"is {list(sizes)}, but must be the bytes of the L1 and L2 cache")
    target = CpuTarget(
        triple=fields.at("triple").matching(_NAME, "name of a system"),
        cpu=fields.at("cpu").matching(_NAME, "name of a processor"),
        features=fields.at("features").matching(_FEATURES, "list of features"),
        vector_bits=fields.at("vector_bits").integer(8, 2**16),
        vector_registers=fields.at("vector_registers").integer(0, 2**10),
        fused_multiply_add=fields.at("fused_multiply_add").boolean(),
        dot_product=fields.at("dot_product").boolean(),
        cache_bytes=(sizes[0], sizes[1]),
        abi=fields.at("abi").matching(_NAME, "calling convention"),
    )
    try:
        check_known(target)
    except UnknownNameError as error:
        raise ArchiveError(
            f"{path}: was compiled for {error.kind} '{error.name}', which this version of vdla does not know; "
            "compile the model here"
        ) from None
    except TargetError as error:
        raise fields.fail(f"names a processor or features that LLVM does not know: {error}") from None
    if not runs_here(target):
        host = host_target()
        raise ArchiveError(
            f"{path}: was compiled for {target.cpu} ({target.triple}), but this machine ({host.cpu}, {host.triple}) "
            "may lack instructions that the code uses; compile the model here"
        )
    return target


def check_memory(document: Field, parts: Mapping[str, int]) -> None:
    """Raises ArchiveError, which names `document`, if `parts` (bytes by use) together exceed this machine's memory."""
    if problem := memory_problem(sum(parts.values())):
        most = max(parts, key=lambda name: parts[name])
        raise document.fail(f"{problem}; {most} alone takes {parts[most]:,} bytes")


_UNREADABLE = (OSError, tarfile.TarError, ValueError, KeyError, EOFError, RecursionError, OverflowError)


def _headers(file: IO[bytes]) -> Iterator[tarfile.TarInfo]:
    """The headers of a tar file, one after the other. Raises exceptions among `_UNREADABLE`."""
    with tarfile.open(fileobj=file, mode="r:") as archive:
        yield from archive


def _check_sizes(
    path: Path, entries: Mapping[str, tarfile.TarInfo], description: str, names: tuple[str, ...]
) -> None:
    """Raises ArchiveError if members are missing, the description is too large, or this machine's memory too small."""
    for name in (*names, CHECKSUM):
        if name not in entries:
            raise ArchiveError(f"{path}: contains no {name}; it is incomplete or not a {description}")
    for name, most in ((DESCRIPTION, MOST_DESCRIPTION_BYTES), (CHECKSUM, _CHECKSUM_BYTES)):
        if entries[name].size > most:
            raise ArchiveError(f"{path}: its {name} has {entries[name].size:,} bytes, more than {most:,}")
    if problem := memory_problem(sum(entry.size for entry in entries.values())):
        raise ArchiveError(f"{path}: {problem}")


def checksum(files: Mapping[str, Content]) -> bytes:
    """Content of the member `CHECKSUM`: SHA-256 of the members `files`, in this order, as hexadecimal text."""
    digest = hashlib.sha256()
    for name, content in files.items():
        digest.update(f"{name} {_size(content)}\n".encode())
        for part in _parts(content):
            digest.update(part)
    return digest.hexdigest().encode() + b"\n"
