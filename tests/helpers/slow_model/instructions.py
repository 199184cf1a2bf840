"""Decoded instructions of the slow model, with the cycles of their events."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from vdla.isa.config import Config
from vdla.isa.decoding import decode_one
from vdla.isa.fields import unpack_fields
from vdla.isa.layout import Unit, unit_of
from vdla.isa.registers import REGISTERS
from vdla.isa.timing import PRODUCT_CYCLES

from .bursts import Burst


@dataclass(eq=False)
class Instruction:
    index: int
    name: str
    values: dict[str, int]
    unit: Unit
    registers: dict[str, dict[str, int]]
    entered: int | None = None
    ready: int | None = None
    begin: int | None = None
    end: int | None = None
    pops: dict[str, int] = field(default_factory=dict)
    issues: int = 0
    steps: list[list[tuple[Burst, int]]] = field(default_factory=list)
    bursts: list[Burst] = field(default_factory=list)
    done: int = 0
    first_step: int = 0
    # Store unit: cycle in which it is complete; cycle of its last accumulator read; cycle from which each vector is
    # where it goes; its write bursts, and the cycle from which they are cut.
    complete: int | None = None
    last_read: int | None = None
    vector_ready: list[int] = field(default_factory=list)
    writes: list[Burst] = field(default_factory=list)
    cut_from: int | None = None

    def ended(self, now: int) -> bool:
        return self.end is not None and self.end < now


def product_cycles(instruction: Instruction) -> int:
    """Extra cycles before the first request of a load or store. The unit needs them to compute the length of the access
    by a multiplication: if several rows are contiguous in memory, and for LOAD.PATCH. Otherwise 0.
    """
    values = instruction.values
    joined = values["x_stride"] == values["x_size"] and values["y_size"] > 1
    return PRODUCT_CYCLES if joined or instruction.name == "LOAD.PATCH" else 0


def decode(config: Config, instructions: np.ndarray) -> list[Instruction]:
    registers = {r.name: {f.name: 0 for f in r.fields} for r in REGISTERS}
    program = []
    for index, words in enumerate(instructions.tolist()):
        name, values = decode_one(config, *words)
        if name == "CONFIG":
            for item in REGISTERS:
                if (item.unit, item.index) == (values["unit"], values["register"]):
                    registers = {**registers, item.name: unpack_fields(item.fields, values["value"])}
        program.append(Instruction(index, name, values, unit_of(name, values), registers))
        if name == "FINISH":
            break
    return program
