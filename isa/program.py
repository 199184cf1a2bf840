"""A program: instructions, initial DRAM image and names of its segments.

`program_file.py` has its binary format, `program_text.py` its text format.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .config import Config
from .dram_memory import DRAM, check_fits
from .errors import ProgramError

INSTRUCTION_ALIGNMENT = 4096
"""The instructions start at a multiple of this number of bytes (docs/measures.md, placement)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A named part of the DRAM image: `address` in bytes from the start of the image, `size` in bytes. `kind`: its use,
    a word such as input, output, constant, uop or activation.
    """

    name: str
    kind: str
    address: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Program:
    """Instructions, DRAM image and names of segments and layers, for one launch.

    `instructions`: uint64 (n, config.instruction_words), low word first. `image`: DRAM at launch, uint8, as long as the
    memory that the program may access; it has constants and micro-ops, and zeros elsewhere. `group_of`: int32 (n,), for
    each instruction the index of its layer in `groups` (unique layer names), or -1. The arrays become read-only. Raises
    ProgramError if the parts contradict each other, or if the program does not fit into the machine's DRAM.
    """

    config: Config
    instructions: NDArray[np.uint64]
    image: NDArray[np.uint8]
    segments: tuple[Segment, ...] = ()
    groups: tuple[str, ...] = ()
    group_of: NDArray[np.int32]

    def __post_init__(self) -> None:
        count = len(self.instructions)
        for name, dtype, shape in (
            ("instructions", np.uint64, (count, self.config.instruction_words)),
            ("image", np.uint8, (len(self.image),)),
            ("group_of", np.int32, (count,)),
        ):
            array = getattr(self, name)
            if array.dtype != dtype or array.shape != shape:
                raise ProgramError(
                    f"program: {name} is {array.dtype} of shape {array.shape}, expected "
                    f"{np.dtype(dtype)} of {shape}"
                )
            view = np.ascontiguousarray(array).view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)
        if self.config.memory.kind == DRAM:
            check_fits(self.config, self.instructions, self.image)
        if len(set(self.groups)) != len(self.groups):
            raise ProgramError("program: two groups have the same name")
        if count and not -1 <= int(self.group_of.min()) <= int(self.group_of.max()) < len(self.groups):
            raise ProgramError(f"program: group_of names a group outside -1..{len(self.groups) - 1}")
        names = [item.name for item in self.segments]
        if len(set(names)) != len(names):
            raise ProgramError("program: two segments have the same name")
        for item in self.segments:
            if item.address < 0 or item.size < 0 or item.address + item.size > len(self.image):
                raise ProgramError(
                    f"program: segment {item.name!r} covers bytes {item.address}..{item.address + item.size} "
                    f"of an image of {len(self.image)} bytes"
                )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Program):
            return NotImplemented
        return (
            self.config == other.config
            and self.segments == other.segments
            and self.groups == other.groups
            and np.array_equal(self.instructions, other.instructions)
            and np.array_equal(self.group_of, other.group_of)
            and np.array_equal(self.image, other.image)
        )

    __hash__ = None  # type: ignore[assignment]

    def segment(self, name: str) -> Segment:
        """The segment named `name`. Raises ProgramError if there is none."""
        for item in self.segments:
            if item.name == name:
                return item
        known = ", ".join(item.name for item in self.segments) or "none"
        raise ProgramError(f"program: no segment {name!r}; there are {known}")


def bare_program(
    config: Config, instructions: NDArray[np.uint64], image: NDArray[np.uint8] | None = None
) -> Program:
    """A program of `instructions` and an `image`, by default empty, without segments and layers."""
    return Program(
        config=config,
        instructions=instructions,
        image=np.zeros(0, np.uint8) if image is None else image,
        group_of=np.full(len(instructions), -1, np.int32),
    )


def instruction_address(image_size: int) -> int:
    """Byte address of the first instruction behind an image of `image_size` bytes: the first multiple of 4096."""
    return -(-image_size // INSTRUCTION_ALIGNMENT) * INSTRUCTION_ALIGNMENT
