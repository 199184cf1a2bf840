"""The part of a unit in the slow model that writes loaded data to a scratchpad (hw/README.md, section 6), at most one
word in a cycle.
"""

from __future__ import annotations

from vdla.isa.layout import Unit
from vdla.isa.timing import STEP_GAP, STEP_LATENCY, parameter_cycles

from .finish import finish
from .model import Model


def step(model: Model, name: str, unit: Unit, now: int) -> None:
    """Simulates the writer of unit `name` in cycle `now`: it writes the next word of the oldest load that has begun and
    is not complete, if the word's data have arrived.
    """
    earliest, behind = 0, parameter_cycles(model.config)
    for instruction in model.units[unit]:
        if instruction.begin is None or instruction.begin >= now:
            return
        if name == "store" and instruction.name.startswith(("STORE", "ROWS")):
            if instruction is model.reading and model.vector < model.vectors:
                return
            earliest = max(earliest, (instruction.last_read or 0) + behind)
            continue
        if instruction.end is not None or instruction.complete is not None:
            continue
        if instruction.name == "CONFIG":
            earlier = [i.end for i in model.units[unit] if i.index < instruction.index and i.end is not None]
            finish(model, instruction, max([instruction.begin + 1, *earlier]))
            continue
        if not instruction.name.startswith("LOAD"):
            return
        if now < max(instruction.first_step, earliest) or now < model.last_step[name] + STEP_GAP:
            return
        wanted = instruction.steps[instruction.done]
        if wanted:
            burst, byte = wanted[0]
            if not burst.has(byte, now):
                return
            wanted.pop(0)
            later = [need for need in [wanted, *instruction.steps[instruction.done + 1 :]] for need in need]
            if all(other is not burst for other, _ in later):
                burst.returned = now
        if not wanted:
            instruction.done += 1
            if instruction.done == len(instruction.steps):
                if unit is Unit.STORE:
                    instruction.complete = now + STEP_LATENCY
                else:
                    finish(model, instruction, now + STEP_LATENCY)
                model.last_step[name] = now
        return
