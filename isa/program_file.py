"""Files of programs: the binary format of a whole program, and text of hexadecimal instruction words.

The text format of a whole program is in `program_text.py`. Both formats are complete: saving a loaded program gives the
same bytes.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.util.files import read_file, write_whole
from vdla.util.npz import NpzError, open_npz

from .config import Config, Memory
from .custom import find_instruction
from .errors import ConfigError, ProgramError
from .program import Program, Segment

FORMAT_NAME = "vdla-program"


FORMAT_VERSION = 1


def _metadata(program: Program) -> dict[str, Any]:
    return {
        "format": FORMAT_NAME,
        "version": FORMAT_VERSION,
        "config": program.config.to_dict(),
        "segments": [[item.name, item.kind, item.address, item.size] for item in program.segments],
        "groups": list(program.groups),
    }


def config_from_dict(values: dict[str, Any]) -> Config:
    """The configuration with `values`, a result of `Config.to_dict`. Raises ConfigError."""
    try:
        return Config(
            **{
                **values,
                "extensions": tuple(values["extensions"]),
                "instructions": tuple(map(find_instruction, values.get("instructions", ()))),
                "memory": Memory(**values["memory"]),
            }
        )
    except (KeyError, TypeError) as error:
        problem = f"field {error} is missing" if isinstance(error, KeyError) else str(error)
        raise ConfigError(
            f"the configuration does not have the fields of this version of vdla ({problem}); use this version to "
            "write it"
        ) from None


def to_bytes(program: Program) -> bytes:
    """A program in binary format, an .npz archive of plain arrays and JSON; equal programs have equal bytes."""
    metadata = json.dumps(_metadata(program), sort_keys=True, separators=(",", ":")).encode()
    buffer = io.BytesIO()
    np.savez(
        buffer,
        allow_pickle=False,
        metadata=np.frombuffer(metadata, np.uint8),
        instructions=program.instructions.astype("<u8"),
        group_of=program.group_of.astype("<i4"),
        image=program.image,
    )
    return buffer.getvalue()


def save_program(program: Program, path: str | Path) -> None:
    """Writes a program to `path` in binary format, completely or not at all. Raises WriteError."""
    write_whole(path, to_bytes(program))


def read_bytes(path: str | Path) -> bytes:
    """The contents of the file at `path`. Raises ProgramError, which names the file, if it cannot be read."""
    try:
        return read_file(path, pipes=True)
    except OSError as error:
        raise ProgramError(f"{path}: {error.strerror}") from None


def load_program(path: str | Path) -> Program:
    """Reads the program in the binary file `path`. Raises ProgramError, which names the file, if it is damaged or no
    program.
    """
    return from_bytes(read_bytes(path), str(path))


def from_bytes(data: bytes, where: str) -> Program:
    """The program whose binary format is `data`; messages call it `where`. Raises ProgramError."""
    hint = "give a file that `vdla asm` or `vdla run` wrote"
    try:
        with open_npz(data) as archive:
            arrays = {name: archive.read(name) for name in ("metadata", "instructions", "group_of", "image")}
        metadata = json.loads(arrays["metadata"].tobytes())
        if metadata["format"] != FORMAT_NAME:
            raise ProgramError(f"{where}: not a program file; {hint}")
        if metadata["version"] != FORMAT_VERSION:
            raise ProgramError(
                f"{where}: has version {metadata['version']} of the program format, but this vdla reads version "
                f"{FORMAT_VERSION}; compile the model again"
            )
        return Program(
            config=config_from_dict(metadata["config"]),
            instructions=arrays["instructions"].astype(np.uint64),
            image=arrays["image"],
            segments=tuple(
                Segment(name=name, kind=kind, address=address, size=size)
                for name, kind, address, size in metadata["segments"]
            ),
            groups=tuple(metadata["groups"]),
            group_of=arrays["group_of"].astype(np.int32),
        )
    except (ProgramError, ConfigError) as error:
        message = str(error)
        raise ProgramError(message if message.startswith(where) else f"{where}: {message}") from None
    except (
        ValueError,
        KeyError,
        TypeError,
        OSError,
        EOFError,
        IndexError,
        MemoryError,
        RuntimeError,
        NpzError,
    ):
        raise ProgramError(f"{where}: truncated, damaged or not a program file; {hint}") from None


def read_hex(path: str | Path, config: Config | None = None) -> NDArray[np.uint64]:
    """Reads instructions, uint64 (n, words), from a text file of hexadecimal digits, one instruction a line.

    A line has 32 digits for an instruction of 128 bits (also without `config`) or 64 for 256 bits, the most significant
    digit first; blank lines and `#` comments are allowed. Raises ProgramError, which names file and line.
    """
    words = 2 if config is None else config.instruction_words
    count = 16 * words
    try:
        text = read_bytes(path).decode("utf-8")
    except UnicodeDecodeError:
        raise ProgramError(
            f"{path}: not a text file; expected one instruction per line in {count} hexadecimal digits"
        ) from None
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        digits = line.partition("#")[0].strip()
        if not digits:
            continue
        if len(digits) != count or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
            of = (
                f", as instructions of configuration {config.name!r} have"
                if config is not None and words > 2
                else ""
            )
            raise ProgramError(
                f"{path}:{number}: {digits[:40]!r} is not an instruction; expected {count} hexadecimal digits{of}, "
                "the most significant first"
            )
        rows.append(tuple(int(digits[low - 16 : low], 16) for low in range(count, 0, -16)))
    return np.array(rows, dtype=np.uint64).reshape(-1, words)


def hex_lines(instructions: NDArray[np.uint64]) -> str:
    """`instructions` as text for `read_hex`: a line of hexadecimal digits for each."""
    return "".join("".join(f"{word:016x}" for word in reversed(row)) + "\n" for row in instructions.tolist())
