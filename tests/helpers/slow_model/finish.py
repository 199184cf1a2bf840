"""The end of an instruction in the slow model, and the tokens that it then pushes."""

from __future__ import annotations

from vdla.isa.layout import TOKEN_QUEUES

from .instructions import Instruction
from .model import Model


def finish(model: Model, instruction: Instruction, end: int) -> None:
    instruction.end = end
    for queue in TOKEN_QUEUES:
        if queue.producer == instruction.unit and instruction.values[queue.push_flag]:
            model.tokens[queue.name].append(end)
