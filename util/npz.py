"""Reads .npz files in two steps: first the headers of the arrays, which callers can check, then the data.

A file of a few megabytes may decompress to gigabytes of zeros, so callers see shapes and dtypes first. Pickled objects
are never read.
"""

from __future__ import annotations

import io
import math
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from .machine_memory import memory_problem

_ENDING = ".npy"
_DAMAGED = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    SyntaxError,
    OSError,
    EOFError,
    MemoryError,
    RuntimeError,
    OverflowError,
    NotImplementedError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""Exceptions that zipfile, its decompressors and numpy's parser of headers raise for damaged bytes."""


class NpzError(Exception):
    """Raised if a file is no .npz archive of plain arrays, is damaged, or has more data than the machine has memory."""


class StoredArrays:
    """The arrays of an .npz archive: `headers` has their shapes and dtypes, `read` reads the data of one array."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._members: dict[str, zipfile.ZipInfo] = {}
        self.headers: dict[str, NDArray[Any]] = {}
        """Maps names to placeholders: arrays of the stored shape and dtype whose elements are all zero, without data
        from the file; all elements of an array share one number in memory.
        """
        total = 0
        for member in archive.infolist():
            name = member.filename.removesuffix(_ENDING)
            if not member.filename.endswith(_ENDING) or name in self._members:
                raise NpzError("the file is not an .npz archive of plain arrays")
            self._members[name] = member
            with archive.open(member) as file:
                shape, dtype = _read_header(file)
                size = math.prod(shape) * dtype.itemsize
                if file.tell() + size != member.file_size:
                    raise NpzError(f"array {name!r} does not have the size that its header gives")
            total += size
            self.headers[name] = np.broadcast_to(np.zeros((), dtype), shape)
        if problem := memory_problem(total):
            raise NpzError(problem)

    def read(self, name: str) -> NDArray[Any]:
        """The array `name`, one of `headers`, with its data. Raises NpzError if it is damaged."""
        try:
            with self._archive.open(self._members[name]) as file:
                # The checksum is verified at the end of the member, which is the end of the array.
                return npy.read_array(file, allow_pickle=False)
        except _DAMAGED as error:
            raise NpzError(f"array {name!r} is damaged ({error})") from None


@contextmanager
def open_npz(data: bytes) -> Iterator[StoredArrays]:
    """Context with the arrays of an .npz file whose bytes are `data`; reads only the headers. Raises NpzError."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except _DAMAGED:
        raise NpzError("the file is not an .npz archive of plain arrays") from None
    with archive:
        try:
            stored = StoredArrays(archive)
        except _DAMAGED:
            raise NpzError("the file is not an .npz archive of plain arrays") from None
        yield stored


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and dtype of the array in a .npy file, read from its header. If the header is damaged, raises one of the
    exception classes listed in `_DAMAGED`.
    """
    version = npy.read_magic(file)
    # numpy parses the header with Python's own parser, which warns of strange literals.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("contains Python objects")
    if any(not isinstance(size, int) or size < 0 for size in shape):
        raise ValueError("the shape in the header has sizes that are no integers from 0 on")
    return shape, dtype
