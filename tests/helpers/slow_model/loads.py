"""Loads in the slow model (hw/README.md, sections 3 and 6): their bursts, and the bus words that each write needs."""

from __future__ import annotations

import numpy as np

from vdla.isa.layout import Unit, uop_dtype
from vdla.isa.timing import PATCH_STEP_DELAY, PRODUCT_CYCLES, REQUEST_DELAY, STEP_DELAY

from .bursts import Burst, Client, cut
from .instructions import Instruction, product_cycles
from .model import Model


def begin_load(model: Model, instruction: Instruction, now: int) -> None:
    values, kind = instruction.values, instruction.name.removeprefix("LOAD.").lower()
    client = model.clients[instruction.unit.name.lower()]
    if kind == "patch":
        patch_steps(model, instruction, client)
    else:
        element_steps(model, instruction, kind, client)
    client.waiting = list(instruction.bursts)
    client.earliest = now + REQUEST_DELAY + product_cycles(instruction)
    instruction.first_step = now + (PATCH_STEP_DELAY if kind == "patch" else STEP_DELAY)
    if instruction.unit == Unit.LOAD and not instruction.bursts:
        model.load_free = now + 1 + (PRODUCT_CYCLES if kind == "patch" else 0)
    if not instruction.steps:
        instruction.steps = [[]]
    if kind == "uop" and values["x_size"]:
        at = values["sram_base"]
        for run in uop_words(model, values):
            model.uops[at : at + len(run)] = run
            at += len(run)


def uop_words(model: Model, values: dict[str, int]) -> list[np.ndarray]:
    columns = values["x_pad_0"] + values["x_size"] + values["x_pad_1"]
    size, dtype = model.config.uop_bytes, uop_dtype(model.config)
    runs = [np.zeros(values["y_pad_0"] * columns, dtype)]
    for y in range(values["y_size"]):
        start = size * (values["dram_base"] + y * values["x_stride"])
        runs.append(np.zeros(values["x_pad_0"], dtype))
        runs.append(model.image[start : start + size * values["x_size"]].copy().view(dtype))
        runs.append(np.zeros(values["x_pad_1"], dtype))
    return [*runs, np.zeros(values["y_pad_1"] * columns, dtype)]


def element_steps(model: Model, instruction: Instruction, kind: str, client: Client) -> None:
    values = instruction.values
    size = model.config.element_bytes(kind)
    width = min(size, model.bus)
    if values["x_size"] == 0:
        return
    name = {"acc8": "acc", "table": "par"}.get(kind, kind)
    start, rows, length = values["dram_base"] * size, values["y_size"], values["x_size"] * size
    pitch = values["x_stride"] * size
    if values["x_stride"] == values["x_size"]:
        runs = [(start, rows * length)]
    else:
        runs = [(start + y * pitch, length) for y in range(rows)]
    per_run = [cut(at, run, model.bus, client.most_beats, name) for at, run in runs]
    instruction.bursts = [burst for bursts in per_run for burst in bursts]
    columns = values["x_pad_0"] + values["x_size"] + values["x_pad_1"]
    steps: list[list[tuple[Burst, int]]] = [[] for _ in range(values["y_pad_0"] * columns)]
    for y in range(rows):
        bursts = per_run[0 if len(per_run) == 1 else y]
        steps += [[] for _ in range(values["x_pad_0"])]
        at = start + y * pitch
        if kind == "inp" and model.config.inp_step_vectors > 1:
            block = size * model.config.inp_step_vectors
            ends = [*range(at // block * block + block, at + length, block), at + length]
        else:
            ends = list(range(at + width, at + length + 1, width))
        for end in ends:
            steps.append([(next(b for b in bursts if b.holds(end - 1)), end - 1)])
        steps += [[] for _ in range(values["x_pad_1"])]
    instruction.steps = steps + [[] for _ in range(values["y_pad_1"] * columns)]


def patch_steps(model: Model, instruction: Instruction, client: Client) -> None:
    values, patch = instruction.values, instruction.registers["PATCH"]
    run, block = patch["run"], model.config.block_in
    reach = (values["x_size"] - 1) * patch["step"] + run - patch["pad_left"]
    length = max(0, min(patch["row_bytes"], reach)) if run and values["x_size"] else 0
    for y in range(values["y_pad_0"] + values["y_size"] + values["y_pad_1"]):
        row = y - values["y_pad_0"]
        words: list[tuple[Burst, int]] = []
        if 0 <= row < values["y_size"] and length:
            start = values["dram_base"] + row * values["x_stride"]
            bursts = cut(start, length, model.bus, client.most_beats, "inp")
            instruction.bursts += bursts
            for burst in bursts:
                first = burst.address // model.bus
                ends = [
                    min((first + k + 1) * model.bus, burst.address + burst.size) for k in range(burst.beats)
                ]
                words += [(burst, end - 1) for end in ends]
        taken = 0
        for w in range(values["x_size"]):
            for vector in sorted({(y * run + i) // block for i in range(run)}):
                last = max(i for i in range(run) if (y * run + i) // block == vector)
                need = min(w * patch["step"] + last - patch["pad_left"], length - 1)
                wanted: list[tuple[Burst, int]] = []
                while words and need >= 0 and (taken == 0 or words[taken - 1][1] - start < need):
                    wanted.append(words[taken])
                    taken += 1
                instruction.steps.append(wanted)
