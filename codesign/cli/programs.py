"""`vdla asm`, `vdla disasm` and `vdla check`: translate programs between text and binary files, and check them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from vdla.isa.config import load_config
from vdla.isa.program import Program, bare_program
from vdla.isa.program_file import from_bytes, hex_lines, read_hex, to_bytes
from vdla.util.errors import UserError
from vdla.util.files import write_whole
from vdla.util.user_files import check_destination, read_whole

from .options import JsonOption
from .output import note, print_json

ConfigOverride = Annotated[
    str | None,
    typer.Option(
        "--config", metavar="NAME|FILE", help="The configuration of a file that names none (default: vta)."
    ),
]
MemoryOption = Annotated[
    Path | None,
    typer.Option(metavar="IN.bin", help="The memory image for a .hex file, which holds instructions only."),
]
ZIP_MAGIC = b"PK\x03\x04"


def open_program(path: Path, config: str | None, memory: Path | None = None) -> Program:
    """Reads the program in a binary file, a `.hex` file of bare instructions, or an assembler text.

    `config` names the configuration for files that contain none (None: vta); `memory` is the file of the memory image
    for a `.hex` file (None: an empty image). Raises UserError.
    """
    content = read_whole(path, "program")
    if content.startswith(ZIP_MAGIC):
        if config is not None or memory is not None:
            raise UserError(
                f"{path}: contains its own configuration and memory; leave out --config and --memory"
            )
        return from_bytes(content, str(path))
    if path.suffix == ".hex":
        image = None
        if memory is not None:
            image = np.frombuffer(read_whole(memory, "memory image"), np.uint8)
        machine = load_config(config or "vta")
        return bare_program(machine, read_hex(path, machine), image)
    if memory is not None:
        raise UserError(f"{path}: an assembler text contains its own memory image; leave out --memory")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise UserError(
            f"{path}: is neither a program file nor text; give a file that `vdla asm` reads or writes"
        ) from None
    from vdla.isa.program_text import from_text

    return from_text(text, str(path), load_config(config or "vta"))


def asm(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="Assembler text.")],
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            metavar="OUT",
            help="The binary program to write; with the suffix .hex, bare instructions.",
        ),
    ],
    config: ConfigOverride = None,
    json: JsonOption = False,
) -> None:
    """Assembles text into a binary program, or into bare instruction words where OUT ends in .hex."""
    check_destination(output)
    program = open_program(source, config)
    if output.suffix == ".hex":
        data = hex_lines(program.instructions).encode()
    else:
        data = to_bytes(program)
    write_whole(output, data)
    count = len(program.instructions)
    if json:
        print_json({"file": str(output), "config": program.config.name, "instructions": count})
    else:
        note(f"wrote {output}: {count} instructions for {program.config.name}")


def disasm(
    source: Annotated[Path, typer.Argument(metavar="PROGRAM", help="A binary program or a .hex file.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="OUT", help="The text file to write.")
    ] = None,
    config: ConfigOverride = None,
    memory: MemoryOption = None,
    json: JsonOption = False,
) -> None:
    """Prints a program as the text that `vdla asm` reads; assembling it gives the same program."""
    check_destination(output)
    program = open_program(source, config, memory)
    from vdla.isa.program_text import to_text

    text = to_text(program)
    if output is not None:
        write_whole(output, text.encode())
    if json:
        count = len(program.instructions)
        document = {"config": program.config.name, "instructions": count}
        print_json(document | ({"text": text} if output is None else {"file": str(output)}))
    elif output is None:
        sys.stdout.write(text)


def check(
    source: Annotated[Path, typer.Argument(metavar="PROGRAM", help="A program: binary, text or .hex.")],
    config: ConfigOverride = None,
    memory: MemoryOption = None,
    json: JsonOption = False,
) -> None:
    """Checks a program without running it: encodings, bounds, tokens, deadlock, races. Exits 2 if there are errors."""
    from vdla.isa.check import check as find

    program = open_program(source, config, memory)
    findings = find(program.config, np.asarray(program.instructions), np.asarray(program.image))
    errors = [item for item in findings if item.severity == "error"]
    if json:
        listing = [
            {
                "kind": item.kind,
                "severity": item.severity,
                "instructions": list(item.instructions),
                "message": item.message,
            }
            for item in findings
        ]
        count = len(program.instructions)
        print_json(
            {
                "program": str(source),
                "config": program.config.name,
                "instructions": count,
                "clean": not errors,
                "findings": listing,
            }
        )
    else:
        for item in findings:
            note(f"{item.severity}: {source}: {item.kind}: {item.message}")
        if not errors:
            note(f"{source}: {len(program.instructions)} instructions, nothing wrong")
    if errors:
        raise typer.Exit(2)
