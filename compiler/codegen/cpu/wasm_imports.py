"""Names that a WebAssembly object imports.

Formats: WebAssembly core specification 2.0, chapter 5.5, and its tool conventions ("Linking").
"""

from __future__ import annotations

_IMPORT_SECTION, _EXTERNAL_KINDS = 2, ("function", "table", "memory", "global")


def wasm_imports(data: bytes) -> frozenset[str]:
    """The names that a WebAssembly object imports: functions, tables, memories and globals that others define."""
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
