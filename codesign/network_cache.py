"""A cache of this user's networks compiled for processors and GPUs.

An entry is an archive as written by `vdla compile`. Its name is a hash of everything that determines its bytes: the
model with its external data, the target, the options, the tuner's records, the sources of the compiler and the versions
of its libraries. Therefore an entry is never outdated. The least recently used entries are removed when all entries
together exceed `MOST_BYTES`. One process at a time writes an entry, completely or not at all; a damaged entry is
compiled again.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import vdla.compiler
import vdla.isa
from vdla.compiler.frontends.onnx.model.model_file import ModelFile
from vdla.util.errors import UserError
from vdla.util.user_cache import cached, discard_least_used
from vdla.util.user_files import read_whole

if TYPE_CHECKING:
    from vdla.compiler.backends.kernels import KernelCompiler, Progress
    from vdla.compiler.records.book import RecordBook
    from vdla.compiler.templates.chosen_knobs import ChosenKnobs

PART = "networks"
MOST_BYTES = 2**31


class ChangedModelError(UserError):
    """Raised if a model's file was changed while it was compiled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheEntry:
    """The archive of a compiled network, and whether it was already in the cache (`hit`).

    Without a hit, `knobs` has the applied tuning records.
    """

    path: Path
    hit: bool
    knobs: ChosenKnobs[Any] | None


def cached_network(
    model: Path | bytes,
    compiler: KernelCompiler,
    *,
    batch: int = 1,
    records: RecordBook | None = None,
    told: Progress | None = None,
) -> CacheEntry:
    """The cached archive of `model` (path or bytes of a file). If it is not in the cache, `compiler` compiles the model
    with knobs of `records`; `told` gets the progress of compiling.

    Raises UserError for a model that cannot be read or compiled, and CacheError if the cache cannot be used.
    """
    knobs = compiler.knobs(records)
    path, hit = cached_archive(
        model,
        lambda file: network_key(file, compiler, batch=batch, records=records),
        lambda partial, file: compiler.save(partial, file, batch=batch, knobs=knobs, told=told),
    )
    return CacheEntry(path=path, hit=hit, knobs=None if hit else knobs)


Content = ModelFile | bytes
"""A model in memory, whose bytes cannot change while it is compiled."""


def cached_archive(
    model: Path | bytes, key: Callable[[Content], str], save: Callable[[Path, Content], object]
) -> tuple[Path, bool]:
    """Returns the path of the archive that `save` writes for `model`, and whether it was in the cache before.

    The file of `model` is read once. `key` makes the entry's name from the file and everything else that the archive's
    bytes depend on; `save` compiles the file and writes the archive to the path that it gets. Raises UserError,
    CacheError.
    """
    file = model if isinstance(model, bytes) else _read_file(model)
    name = key(file)
    built = False

    def build(partial: Path) -> None:
        nonlocal built
        save(partial, file)
        # The external data are read again; a model given as bytes has none.
        if _may_have_external_data(file) and key(file) != name:
            raise ChangedModelError(
                f"{model}: the external data of the model changed during compilation; run the command again"
            )
        built = True

    path = cached(PART, f"{name}.tar", build)
    if built:
        discard_least_used(PART, ".tar", MOST_BYTES)
    else:
        _touch(path)
    return path, not built


def network_key(
    model: Path | Content, compiler: KernelCompiler, *, batch: int, records: RecordBook | None = None
) -> str:
    """The name of a compiled archive in the cache; archives with equal names have equal bytes.

    Raises FileError and ModelError for a model that cannot be read.
    """
    settings = {
        **compiler.archive_settings(),
        "batch": batch,
        "records": None if records is None else records.digest,
    }
    return archive_key(model, json.dumps(settings, sort_keys=True))


def archive_key(model: Path | Content, *settings: str) -> str:
    """A name for an archive that depends on this compiler, a model, and the texts `settings`: 32 hexadecimal digits.

    Raises FileError for a model that cannot be read, ModelError for external data that may not be read.
    """
    file = _read_file(model) if isinstance(model, Path) else model
    content = hashlib.sha256()
    # A second core hashes the file, which may have hundreds of megabytes.
    hashing = threading.Thread(target=content.update, args=(_bytes_of(file),))
    hashing.start()
    try:
        others = (_external_data(file), *settings, _compiler())
    finally:
        hashing.join()
    parts = (content.hexdigest(), *others)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _read_file(path: Path) -> ModelFile:
    """Reads the model's file at `path` into memory. Raises FileError."""
    return ModelFile(path=path, content=read_whole(path, "model"))


def _bytes_of(file: Content) -> bytes:
    return file if isinstance(file, bytes) else file.content


def _may_have_external_data(file: Content) -> bool:
    return isinstance(file, ModelFile) and b"location" in file.content


def _external_data(file: Content) -> str:
    """A hash of the model's data that are stored in other files; "" if there are no such data, or if the model is
    damaged and therefore cannot be compiled.
    """
    if isinstance(file, bytes) or not _may_have_external_data(file):
        return ""
    import onnx
    from google.protobuf.message import DecodeError

    from vdla.compiler.frontends.onnx.model.external_data import external_data_digest
    from vdla.compiler.frontends.onnx.model.read import check_texts
    from vdla.compiler.graph.errors import ModelError

    try:
        proto = onnx.load_model_from_string(file.content)
        check_texts(str(file.path), proto)
    except (DecodeError, ValueError, ModelError):
        return ""
    return external_data_digest(str(file.path), proto, file.path.parent)


@functools.cache
def _compiler() -> str:
    """Text that identifies the compiler: a hash of its sources, and the versions of its libraries."""
    digest = hashlib.sha256()
    for package in (vdla.compiler, vdla.isa):
        root = Path(str(package.__file__)).parent
        for path in sorted(root.rglob("*.py")):
            digest.update(f"{path.relative_to(root)}\0".encode())
            digest.update(path.read_bytes())
    versions = [metadata.version(name) for name in ("llvmlite", "onnx", "numpy")]
    return "\0".join((digest.hexdigest(), *versions))


def _touch(path: Path) -> None:
    """Records that an entry of the cache was used now, since the least recently used entries are removed first. Does
    nothing if this user may not write to the cache.
    """
    try:
        os.utime(path)
    except OSError:
        return
