"""Static libraries: several relocatable objects in one file, with an index of their functions, in the format of `ar`.

Format: the common archive format with System V's index, which linkers for ELF and WebAssembly read (`man 5 ar`;
binutils, bfd/archive.c).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

_MAGIC = b"!<arch>\n"
_HEADER = struct.Struct("16s12s6s6s8s10s2s")


def static_library(objects: Sequence[tuple[bytes, Sequence[str]]]) -> bytes:
    """A library of objects, each with the functions that it defines for others; equal objects give equal bytes."""
    names = b"".join(name.encode() + b"\0" for _, functions in objects for name in functions)
    count = sum(len(functions) for _, functions in objects)
    index_bytes = 4 + 4 * count + len(names)
    at = len(_MAGIC) + _HEADER.size + _even(index_bytes)
    places: list[int] = []
    for data, functions in objects:
        places += [at] * len(functions)
        at += _HEADER.size + _even(len(data))
    index = struct.pack(f">{count + 1}I", count, *places) + names
    members = [_member("/", index)]
    members += [_member(f"{number}.o/", data) for number, (data, _) in enumerate(objects)]
    return _MAGIC + b"".join(members)


def library_objects(library: bytes) -> list[bytes]:
    """The objects of a library made by `static_library`; raises ValueError for other bytes."""
    if library[: len(_MAGIC)] != _MAGIC:
        raise ValueError("no static library")
    objects: list[bytes] = []
    at = len(_MAGIC)
    while at < len(library):
        if at + _HEADER.size > len(library):
            raise ValueError("a static library that ends within a header")
        name, *_, size, end = _HEADER.unpack_from(library, at)
        if end != b"`\n" or not size.strip().isdigit():
            raise ValueError(f"a static library without a header at byte {at}")
        begin = at + _HEADER.size
        at = begin + _even(int(size))
        if at > len(library):
            raise ValueError("a static library that ends within an object")
        if name.strip() != b"/":
            objects.append(library[begin : begin + int(size)])
    return objects


def _member(name: str, data: bytes) -> bytes:
    # No owner and the date 1970, so that the bytes do not depend on who writes them and when.
    header = _HEADER.pack(
        name.encode().ljust(16),
        b"0".ljust(12),
        b"0".ljust(6),
        b"0".ljust(6),
        b"644".ljust(8),
        str(len(data)).encode().ljust(10),
        b"`\n",
    )
    return header + data + b"\n" * (_even(len(data)) - len(data))


def _even(size: int) -> int:
    return size + size % 2
