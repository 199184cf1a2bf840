"""Object files: symbols of relocatable objects, and static libraries of several objects with an index of functions.

Formats: Executable and Linking Format (System V ABI, chapters 4 and 5), WebAssembly core specification 2.0 chapter 5.5
and its tool conventions ("Linking"), the common archive format with System V's index, which linkers for ELF and
WebAssembly read (`man 5 ar`; binutils, bfd/archive.c).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from .wasm_imports import wasm_imports

WASM_BY_LINKER = frozenset({"__linear_memory", "__stack_pointer", "__indirect_function_table"})
"""Symbols that a WebAssembly module imports by convention and its linker defines: memory, stack, function table."""
_SYMBOL_TABLE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbols:
    """Global symbols that an object defines (known for ELF only), and symbols that it uses but does not define."""

    defined: frozenset[str]
    undefined: frozenset[str]


def read_symbols(data: bytes) -> Symbols:
    """The symbols of a little-endian ELF object of 32 or 64 bits, or of a WebAssembly object. Raises ValueError for
    other bytes.
    """
    if data[:4] == b"\x7fELF" and data[5] == 1:
        return _read_elf(data, wide=data[4] == 2)
    if data[:8] == b"\0asm\1\0\0\0":
        return Symbols(defined=frozenset(), undefined=wasm_imports(data))
    raise ValueError("the file is neither a little-endian ELF object nor a WebAssembly module")


def _read_elf(data: bytes, *, wide: bool) -> Symbols:
    sections_at = struct.unpack_from("<Q", data, 0x28)[0] if wide else struct.unpack_from("<I", data, 0x20)[0]
    size, count = struct.unpack_from("<HH", data, 0x3A if wide else 0x2E)
    # Fields of a section header: name, type, flags, address, offset, size, link, info, alignment, size of an
    # entry.
    form = "<IIQQQQIIQQ" if wide else "<IIIIIIIIII"
    sections = [struct.unpack_from(form, data, sections_at + i * size) for i in range(count)]
    defined, undefined = set[str](), set[str]()
    for section in sections:
        if section[1] != _SYMBOL_TABLE:
            continue
        names = sections[section[6]][4]
        # The first symbol is empty.
        for at in range(section[4] + section[9], section[4] + section[5], section[9]):
            if wide:
                name_at, info, _, where = struct.unpack_from("<IBBH", data, at)
            else:
                name_at, _, _, info, _, where = struct.unpack_from("<IIIBBH", data, at)
            name = data[names + name_at : data.index(b"\0", names + name_at)].decode()
            if where == 0:
                undefined.add(name)
            elif info >> 4:
                defined.add(name)
    return Symbols(defined=frozenset(defined), undefined=frozenset(undefined))


_MAGIC = b"!<arch>\n"
_HEADER = struct.Struct("16s12s6s6s8s10s2s")


def static_library(objects: Sequence[tuple[bytes, Sequence[str]]]) -> bytes:
    """A static library of objects, each given with the names of the functions that it exports; equal objects give equal
    bytes.
    """
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
    """The objects of a library that `static_library` made. Raises ValueError for other bytes."""
    if library[: len(_MAGIC)] != _MAGIC:
        raise ValueError("not a static library")
    objects: list[bytes] = []
    at = len(_MAGIC)
    while at < len(library):
        if at + _HEADER.size > len(library):
            raise ValueError("the static library ends within a header")
        name, *_, size, end = _HEADER.unpack_from(library, at)
        if end != b"`\n" or not size.strip().isdigit():
            raise ValueError(f"the static library has no header at byte {at}")
        begin = at + _HEADER.size
        at = begin + _even(int(size))
        if at > len(library):
            raise ValueError("the static library ends within an object")
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
