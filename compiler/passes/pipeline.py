"""Runs passes, given as plain values, in their order, with verification and a dump after each."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from vdla.util.files import make_folder, write_whole

from ..ir.printer import format_node
from ..ir.stmt import Program
from ..ir.verify import verify


@dataclass(frozen=True, slots=True)
class Pass:
    """A named program transformation."""

    name: str
    run: Callable[[Program], Program]


def run_pipeline(
    program: Program,
    passes: Sequence[Pass],
    *,
    check: bool = True,
    dump: Callable[[str, str], None] | None = None,
) -> Program:
    """Applies `passes` in turn; `check`: verify each result. `dump(name, text)` is called after each pass."""
    for item in passes:
        result = item.run(program)
        if dump is not None:
            dump(item.name, "(unchanged)\n" if result is program else format_node(result) + "\n")
        program = result
        if check:
            verify(program)
    return program


def dump_node(folder: Path, number: int, name: str) -> Callable[[str, str], None]:
    """The dump function (`dump_to`) for one node's passes; its folder, in `folder`, has the node's number and name."""
    return dump_to(folder / f"{number:03d}-{re.sub('[^A-Za-z0-9_.-]+', '_', name)}")


def dump_to(folder: Path) -> Callable[[str, str], None]:
    """Returns a dump function, which writes each text it gets to a file `NN-pass.txt` in `folder`, numbered from 00.

    Deletes the files of earlier dumps in `folder`. Raises WriteError if the folder cannot be made, or a file cannot be
    written."""
    make_folder(folder)
    for old in folder.glob("[0-9][0-9]-*.txt"):
        old.unlink()

    def dump(name: str, text: str) -> None:
        number = sum(1 for _ in folder.glob("[0-9][0-9]-*.txt"))
        write_whole(folder / f"{number:02d}-{name}.txt", text.encode())

    return dump
