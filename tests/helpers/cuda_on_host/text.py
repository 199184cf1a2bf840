"""Translates CUDA C++ to C++ for g++: asm statements become calls of models, __shared__ arrays become places in a
block's memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .assembly import AsmOperand, UnknownText, translate

__all__ = ["UnknownText", "host_text"]

_SHARED = re.compile(
    r"(?P<extern>\bextern\s+)?(?:(?:alignas|__align__)\s*\(\s*(?P<before>\d+)\s*\)\s*)?\b__shared__\s+"
    r"(?:(?:alignas|__align__)\s*\(\s*(?P<after>\d+)\s*\)\s*)?"
    r"(?P<type>[\w:\s]+?)\s*\b(?P<declared>\w+\s*(?:\[[^\]]*\]\s*)*(?:,\s*\w+\s*(?:\[[^\]]*\]\s*)+)*);"
)


def host_text(source: str) -> str:
    """The C++ for a CUDA C++ text, with the same number of lines. Raises UnknownText for text that the model does not
    support.
    """
    pieces: list[str] = []
    at = 0
    code = _without_comments(source)
    for match in re.finditer(r"\b(?:asm|__asm__)\b(?:\s+(?:volatile|__volatile__))?\s*\(", code):
        if match.start() < at:
            continue
        end = _closing(code, match.end() - 1)
        line = code.count("\n", 0, match.start()) + 1
        pieces += [code[at : match.start()], _statement(line, code[match.end() : end])]
        pieces.append("\n" * code.count("\n", match.start(), end))
        at = end + 1
    pieces.append(code[at:])
    # Kernels of several texts may have one name.
    plain = re.sub(r'extern\s+"C"\s+(?=__global__)', "", "".join(pieces))
    return _SHARED.sub(_shared, plain)


def _shared(match: re.Match[str]) -> str:
    kind = match["type"].strip()
    alignment = match["before"] or match["after"] or f"alignof({kind})"
    return " ".join(
        _shared_array(kind, alignment, part, bool(match["extern"])) for part in match["declared"].split(",")
    )


def _shared_array(kind: str, alignment: str, declared: str, dynamic: bool) -> str:
    name, bracket, rest = declared.strip().partition("[")
    name, dimensions = name.strip(), bracket + rest
    if dynamic:
        return f"{kind}* const {name} = static_cast<{kind}*>(host::dynamic_shared({alignment}));"
    if not dimensions:
        raise UnknownText(f"__shared__ {kind} {name} without dimensions")
    return (
        f"static const host::StaticShared {name}_place(__LINE__, sizeof({kind}{dimensions}), {alignment}); "
        f"auto& {name} = *reinterpret_cast<{kind} (*){dimensions}>({name}_place.address);"
    )


def _without_comments(source: str) -> str:
    def blank(match: re.Match[str]) -> str:
        found = match[0]
        return found if found[0] in "\"'" else re.sub(r"[^\n]", " ", found)

    return re.sub(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|//[^\n]*|/\*.*?\*/', blank, source, flags=re.S)


def _tokens(code: str, at: int) -> Iterator[tuple[int, str]]:
    """Yields (position, text) of each string literal or other single character of `code`, from position `at` on."""
    for match in re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|.', flags=re.S).finditer(code, at):
        yield match.start(), match[0]


def _closing(code: str, opening: int) -> int:
    """Position in `code` of the bracket that closes the one at position `opening`. Raises UnknownText without one."""
    depth = 0
    for at, token in _tokens(code, opening):
        depth += (token in "([{") - (token in ")]}")
        if depth == 0:
            return at
    raise UnknownText("a bracket of an asm statement is not closed")


def _divided(code: str, separator: str) -> list[str]:
    """`code` split at each `separator` (one character) outside of brackets and strings."""
    parts, depth, begin = [], 0, 0
    for at, token in _tokens(code, 0):
        if len(token) == 1:
            depth += (token in "([{") - (token in ")]}")
            if token == separator and depth == 0:
                parts.append(code[begin:at])
                begin = at + 1
    return [*parts, code[begin:]]


def _statement(line: int, inside: str) -> str:
    sections = [*_divided(inside, ":"), "", ""]
    operands = [*_operands(line, sections[1]), *_operands(line, sections[2])]
    return translate(line, _strings(sections[0]), operands)


def _strings(code: str) -> str:
    literals = re.findall(r'"((?:\\.|[^"\\])*)"', code)
    return "".join(literals).replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')


def _operands(line: int, section: str) -> Iterator[AsmOperand]:
    for part in _divided(section, ","):
        if not part.strip():
            continue
        match = re.fullmatch(r'\s*"([=+]?)(\w)"\s*\((.*)\)\s*', part, flags=re.S)
        if match is None:
            raise UnknownText(f"line {line}: the operand {part.strip()} of an asm statement")
        yield AsmOperand(bool(match[1]), match[1] != "=", match[2], " ".join(match[3].split()))
