"""The text format of a program: assembler text with directives; as complete as the binary format.

    .config {"batch": 1, ...}                 the configuration, one line of JSON
    .image 65536                              bytes of the DRAM image, zero unless said otherwise
    .segment 4096 50176 input "image"         address, size, kind and name
    .data 0x1000 00ff7f...                    bytes from an address on, in hexadecimal
    .groups ["conv1", "pool1"]                layer names
    .group "conv1"                            instructions that follow belong to this layer; `.group` alone: to none

A file that has only instructions is a program with an empty image; the caller gives its configuration.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .assembler import assemble_line, instruction_text
from .config import Config
from .errors import ConfigError, EncodingError, ProgramError
from .program import Program, Segment
from .program_file import config_from_dict, from_bytes, read_bytes

_DATA_BYTES = 32
_LARGEST_IMAGE = 1 << 32

_DIRECTIVES = (".config", ".image", ".segment", ".data", ".groups", ".group")


def to_text(program: Program) -> str:
    """`program` in text format; `from_text` returns an equal program."""
    lines = [
        f".config {json.dumps(program.config.to_dict(), sort_keys=True)}",
        f".image {len(program.image)}",
    ]
    lines += [
        f".segment {item.address} {item.size} {item.kind} {json.dumps(item.name)}"
        for item in program.segments
    ]
    whole = np.zeros(-(-len(program.image) // _DATA_BYTES) * _DATA_BYTES, np.uint8)
    whole[: len(program.image)] = program.image
    rows = whole.reshape(-1, _DATA_BYTES)
    for row in np.flatnonzero(rows.any(axis=1)).tolist():
        start = row * _DATA_BYTES
        lines.append(f".data {start:#x} {program.image[start : start + _DATA_BYTES].tobytes().hex()}")
    return "\n".join(lines) + "\n" + instructions_text(program)


def instructions_text(program: Program) -> str:
    """The instructions of `program`, one a line: first a `.groups` line if the program has layers, then a `.group` line
    wherever the instructions of another layer begin.
    """
    lines: list[str] = []
    if program.groups:
        lines.append(f".groups {json.dumps(list(program.groups))}")
    current = -1
    for words, group in zip(program.instructions.tolist(), program.group_of.tolist(), strict=True):
        if group != current:
            lines.append(f".group {json.dumps(program.groups[group])}" if group >= 0 else ".group")
            current = group
        lines.append(instruction_text(program.config, *words))
    return "".join(f"{line}\n" for line in lines)


@dataclass(slots=True, kw_only=True)
class _Parts:
    config: Config | None
    image: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint8))
    segments: list[Segment] = field(default_factory=list)
    groups: tuple[str, ...] = ()
    group: int = -1
    words: list[tuple[int, ...]] = field(default_factory=list)
    group_of: list[int] = field(default_factory=list)


def from_text(text: str, where: str, config: Config | None = None) -> Program:
    """The program in `text`. `config`: its configuration if the text has no .config; None if the text must have one.
    Raises ProgramError, which names `where`, the line and the directives or values that are allowed there.
    """
    parts = _Parts(config=config)
    for number, line in enumerate(text.splitlines(), 1):
        try:
            _line(parts, line)
        except (ProgramError, EncodingError, ConfigError) as error:
            raise ProgramError(f"{where}:{number}: {error}") from None
    if parts.config is None:
        raise ProgramError(f"{where}: has no .config line; name a configuration (--config)")
    try:
        return Program(
            config=parts.config,
            instructions=np.array(parts.words, np.uint64).reshape(-1, parts.config.instruction_words),
            image=parts.image,
            segments=tuple(parts.segments),
            groups=parts.groups,
            group_of=np.array(parts.group_of, np.int32),
        )
    except ProgramError as error:
        raise ProgramError(f"{where}: {error}") from None


def read_program(path: str | Path, config: Config | None = None) -> Program:
    """Reads the program in the file `path`; the first bytes show whether its format is binary or text. `config`: the
    configuration of a text without .config. Raises ProgramError, which names the file, if the file has neither format.
    """
    data = read_bytes(path)
    if data.startswith(b"PK"):
        return from_bytes(data, str(path))
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise ProgramError(f"{path}: neither a program file nor assembler text") from None
    return from_text(text, str(path), config)


def _line(parts: _Parts, line: str) -> None:
    name, _, rest = line.strip().partition(" ")
    rest = rest.strip()
    match name:
        case ".config":
            parts.config = config_from_dict(_json(rest, dict, "an object"))
        case ".image":
            size = _number(rest)
            if size > _LARGEST_IMAGE:
                raise ProgramError(f".image {size}: at most {_LARGEST_IMAGE} bytes can be addressed")
            parts.image = np.zeros(size, np.uint8)
        case ".segment":
            words = rest.split(maxsplit=3)
            if len(words) != 4:
                raise ProgramError(f'.segment {rest[:60]}: expected ADDRESS SIZE KIND "NAME"')
            address, size = _number(words[0]), _number(words[1])
            label = _json(words[3], str, "a string")
            parts.segments.append(Segment(name=label, kind=words[2], address=address, size=size))
        case ".data":
            _data(parts, rest)
        case ".groups":
            groups = _json(rest, list, "a list of names")
            if not all(isinstance(item, str) for item in groups):
                raise ProgramError(f".groups {rest[:60]}: expected a list of names")
            parts.groups = tuple(groups)
        case ".group":
            label = _json(rest, str, "a string") if rest else None
            if label is not None and label not in parts.groups:
                raise ProgramError(f".group {rest}: .groups does not list it")
            parts.group = -1 if label is None else parts.groups.index(label)
        case _ if name.startswith(".") and name != ".word":
            raise ProgramError(f"no directive {name}; there are {', '.join(_DIRECTIVES)} and .word")
        case _ if line.partition("#")[0].strip():
            if parts.config is None:
                raise ProgramError(
                    "an instruction comes before .config; move .config to the top, or name a configuration (--config)"
                )
            parts.words.append(assemble_line(line, parts.config))
            parts.group_of.append(parts.group)


def _data(parts: _Parts, rest: str) -> None:
    address, _, digits = rest.partition(" ")
    start = _number(address)
    try:
        data = bytes.fromhex(digits)
    except ValueError:
        raise ProgramError(f".data {rest[:60]}: expected ADDRESS and bytes in hexadecimal") from None
    if start + len(data) > len(parts.image):
        raise ProgramError(
            f".data: bytes {start}..{start + len(data)} lie outside the image of {len(parts.image)} bytes; "
            "give its size in .image first"
        )
    parts.image[start : start + len(data)] = np.frombuffer(data, np.uint8)


def _number(text: str) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        value = -1
    if value < 0:
        raise ProgramError(f"{text!r}: expected a number, decimal or 0x hexadecimal, not negative")
    return value


def _json(text: str, kind: type, what: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, kind):
        raise ProgramError(f"{text[:40]!r}: expected {what} in JSON")
    return value
