"""Symbols of relocatable objects: defined global names, and undefined names that they use.

Formats: Executable and Linking Format (System V ABI, chapters 4 and 5), WebAssembly core specification 2.0 chapter 5.5
and its tool conventions ("Linking").
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

WASM_BY_LINKER = frozenset({"__linear_memory", "__stack_pointer", "__indirect_function_table"})
"""Symbols that a WebAssembly module imports by convention and its linker defines: memory, stack, function table."""
_SYMBOL_TABLE = 2
_IMPORT_SECTION, _EXTERNAL_KINDS = 2, ("function", "table", "memory", "global")


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbols:
    """Names that an object defines globally (ELF only) and names that it uses without defining them."""

    defined: frozenset[str]
    undefined: frozenset[str]


def read_symbols(data: bytes) -> Symbols:
    """The symbols of an ELF object of 32 or 64 bits, little-endian, or of a WebAssembly one; else ValueError."""
    if data[:4] == b"\x7fELF" and data[5] == 1:
        return _read_elf(data, wide=data[4] == 2)
    if data[:8] == b"\0asm\1\0\0\0":
        return Symbols(defined=frozenset(), undefined=_wasm_imports(data))
    raise ValueError("neither a little-endian ELF object nor a WebAssembly module")


def _read_elf(data: bytes, *, wide: bool) -> Symbols:
    sections_at = struct.unpack_from("<Q", data, 0x28)[0] if wide else struct.unpack_from("<I", data, 0x20)[0]
    size, count = struct.unpack_from("<HH", data, 0x3A if wide else 0x2E)
    # name, type, flags, address, offset, size, link, info, alignment, size of an entry
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


def _wasm_imports(data: bytes) -> frozenset[str]:
    at, imports = 8, set[str]()

    def number() -> int:
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def text() -> str:
        nonlocal at
        length = number()
        at += length
        return data[at - length : at].decode()

    def limits() -> None:
        flags = number()
        for _ in range(1 + (flags & 1)):
            number()

    while at < len(data):
        section, size = number(), number()
        if section != _IMPORT_SECTION:
            at += size
            continue
        for _ in range(number()):
            text()
            imports.add(text())
            match _EXTERNAL_KINDS[number()]:
                case "function":
                    number()
                case "table":
                    number()
                    limits()
                case "memory":
                    limits()
                case _:
                    at += 2
    return frozenset(imports)
