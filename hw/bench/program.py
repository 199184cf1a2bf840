"""Writes a program to memory, as software on the host does before a launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from vdla.isa.errors import ProgramError
from vdla.isa.program import INSTRUCTION_ALIGNMENT, Program, instruction_address


class Writable(Protocol):
    """A memory that can be written: MemoryModel, or a RAM model of cocotbext-axi."""

    def write(self, address: int, data: bytes, /) -> None:
        """Writes `data` from byte `address` on."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedProgram:
    """The values that the control registers get for a launch: `base`, byte address of the image; `address` of the first
    instruction, relative to `base`; `count`, number of instructions. `size`: bytes of the image.
    """

    address: int
    count: int
    base: int
    size: int


def memory_bytes(program: Program) -> int:
    """Size in bytes of the memory for `program`: image, instructions, and the bytes that fetch may read beyond them."""
    return instruction_address(len(program.image)) + program.instructions.nbytes + INSTRUCTION_ALIGNMENT


def load_program(
    memory: Writable, program: Program, *, base: int = 0, inputs: Mapping[str, bytes] | None = None
) -> LoadedProgram:
    """Writes image and instructions of `program` to `memory` from address `base` on, a multiple of 4096. Also writes
    the bytes `inputs`, which are given by segment name, to their segments. Returns the values with which the program is
    launched.

    Instructions start at the first multiple of 4096 at or above the image's end. A MemoryModel also restarts its random
    sequence. Raises ProgramError for another `base`, and if a segment does not exist or has another size than its
    bytes.
    """
    if base % INSTRUCTION_ALIGNMENT:
        raise ProgramError(f"base {base:#x} is not a multiple of {INSTRUCTION_ALIGNMENT}")
    restart = getattr(memory, "restart", None)
    if restart is not None:
        restart()
    address = instruction_address(len(program.image))
    memory.write(base, program.image.tobytes())
    memory.write(base + address, program.instructions.tobytes())
    for name, contents in (inputs or {}).items():
        segment = program.segment(name)
        if len(contents) != segment.size:
            raise ProgramError(f"segment {name!r} has {segment.size} bytes, but {len(contents)} are given")
        memory.write(base + segment.address, bytes(contents))
    return LoadedProgram(address=address, count=len(program.instructions), base=base, size=len(program.image))
