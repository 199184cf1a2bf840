"""Machines with custom instructions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from vdla.isa.config import Config, load_config
from vdla.isa.custom import AluInstruction
from vdla.verify.custom import check_instruction


def extend(base: Config | str | Path, *instructions: AluInstruction, name: str | None = None) -> Config:
    """Adds custom instructions to the machine `base` (a preset's name, a TOML file, or a `Config`), and returns the new
    machine. `name`: the new machine's name, by default made of the names of the base and of the instructions.

    Each instruction is checked first: its semantics, its function for the simulator, its RTL and its expression must
    give equal results on some hundred operands. Raises ConfigError if two results differ, if a part of an instruction
    has a wrong interface, or if there are not enough free opcodes.
    """
    start = base if isinstance(base, Config) else load_config(base)
    for item in instructions:
        check_instruction(item)
    together = "-".join((start.name, *(item.name.lower() for item in instructions)))
    return replace(start, name=name or together, instructions=(*start.instructions, *instructions))
