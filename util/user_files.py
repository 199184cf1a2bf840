"""Reads files that the user names and checks output paths: a mistake raises FileError with one line.

Single files are written by `vdla.util.files.write_whole`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from vdla.util.errors import UserError
from vdla.util.files import read_file


class FileError(UserError):
    """Raised for a file that cannot be read, or a path that cannot be written to."""


def read_whole(path: Path, description: str) -> bytes:
    """The bytes of the regular file at `path`; error messages call the file `description`. Raises FileError."""
    try:
        return read_file(path)
    except OSError as error:
        raise FileError(f"{path}: cannot read the {description}: {error.strerror}") from None


def check_destination(*paths: Path | None, inputs: Sequence[Path | None] = ()) -> None:
    """Raises FileError if one of the output files `paths` cannot be written or would replace a file of `inputs`; Nones
    are skipped. A pipe or device may be an output. Called before long work."""
    for path in paths:
        if path is None:
            continue
        with _write_errors(path):
            _check_file(path, inputs)


def _check_file(path: Path, inputs: Sequence[Path | None]) -> None:
    if path.is_dir():
        raise FileError(f"{path}: is a directory; name a file in it")
    if path.exists() and not path.is_file():
        # A pipe or device is written to directly.
        return
    parent = path.parent
    if not parent.is_dir():
        raise FileError(f"{path}: there is no directory {parent}; create it first")
    if not os.access(parent, os.W_OK):
        raise FileError(f"{path}: the directory {parent} cannot be written")
    if any(
        given is not None and given.exists() and path.exists() and given.samefile(path) for given in inputs
    ):
        raise FileError(f"{path}: is an input of this command and would be overwritten; name another file")


@contextlib.contextmanager
def _write_errors(path: Path) -> Iterator[None]:
    """Context that raises an OSError about the output `path`, for example a name that is too long, as FileError."""
    try:
        yield
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error.strerror}") from None


@contextlib.contextmanager
def whole_directory(path: Path | None) -> Iterator[Path | None]:
    """Context with a temporary directory; its files move to the directory `path` if the block ends without error, else
    they are removed. They replace files of the same names there; other files stay.

    With `path` None, yields None and does nothing. Raises FileError.
    """
    if path is None:
        yield None
        return
    check_directory(path)
    with _write_errors(path):
        temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
        try:
            yield temporary
            path.mkdir(exist_ok=True)
            for item in sorted(temporary.iterdir()):
                if (path / item.name).is_dir():
                    shutil.rmtree(path / item.name)
                os.replace(item, path / item.name)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def check_directory(path: Path, *, parents: bool = False) -> None:
    """Raises FileError unless `path` is a directory or can become one. `parents`: its parents may be missing."""
    with _write_errors(path):
        if path.exists() and not path.is_dir():
            raise FileError(f"{path}: is a file; name a directory")
        if not parents and not path.parent.is_dir():
            raise FileError(f"{path}: there is no directory {path.parent}; create it first")
        there = next(place for place in (path, *path.absolute().parents) if place.exists())
        if not there.is_dir():
            raise FileError(f"{path}: cannot create this directory: {there} is a file")
        if not os.access(there, os.W_OK):
            raise FileError(f"{path}: {there} cannot be written")


def make_directory(path: Path) -> None:
    """Creates a directory and its missing parents. Raises FileError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{path}: cannot create this directory: {error.strerror}") from None
