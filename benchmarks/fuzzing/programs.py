"""Kind "programs": raw instructions, random or damaged, on the cycle simulator and on a plain numpy model.

Both must reject the same programs; after each accepted program their memory contents must be equal.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from vdla.isa.config import Config, load_config
from vdla.isa.program_file import hex_lines
from vdla.verify.random_programs import random_program

from .drawing import Draw, damaged
from .outcome import FAILURES, Outcome, call, judge

MACHINES = ("tiny", "tiny", "vta", "osdi18")
_MOST = 40
"""Largest number of instructions of a random program."""


def program_case(seed: int, index: int, folder: Path) -> Outcome:
    """Makes one random program, checks it, and runs it on the cycle simulator and on the numpy model; returns the
    verdict. `seed`, `index`: the seed of the campaign and the number of the case; `folder`: an empty folder for files.
    """
    draw = Draw("programs", seed, index)
    name = draw.of(MACHINES)
    text, memory = random_text(draw, load_config(name))
    program, image = folder / "program.hex", folder / "in.bin"
    program.write_bytes(text)
    image.write_bytes(memory)
    checked = judge(call("check", program, "--config", name, "--json"))
    if checked.verdict in ("traceback", "memory"):
        return checked
    results: list[tuple[Outcome, bytes | None]] = []
    for engine in ("cycle", "reference"):
        out = folder / f"{engine}.bin"
        arguments = ["--insns", str(program), "--memory", str(image), "--memory-out", str(out)]
        outcome = judge(call("sim", *arguments, "--config", name, "--engine", engine), files=[out])
        if outcome.verdict in FAILURES:
            return outcome
        results.append((outcome, out.read_bytes() if out.exists() else None))
    (cycle, left), (reference, right) = results
    if (
        cycle.verdict != reference.verdict
        and "deadlock" not in cycle.detail
        and "does not end" not in cycle.detail
    ):
        return Outcome(
            "wrong",
            f"cycle: {cycle.verdict} {cycle.detail}; reference: {reference.verdict} {reference.detail}",
        )
    if left is not None and right is not None and left != right:
        at = int(np.flatnonzero(np.frombuffer(left, np.uint8) != np.frombuffer(right, np.uint8))[0])
        return Outcome("wrong", f"memory differs first at byte {at}")
    return cycle


def random_text(draw: Draw, config: Config) -> tuple[bytes, bytes]:
    """A random, perhaps damaged, program for the machine `config` as lines of hexadecimal digits, and the initial
    contents of its memory, which may be too short.
    """
    program = random_program(config, draw.below(1 << 30), length=1 + draw.below(_MOST))
    words = np.array(program.instructions, np.uint64).copy()
    for _ in range(draw.below(4)):
        row, half = draw.below(len(words)), draw.below(2)
        match draw.below(4):
            case 0 | 1:
                words[row, half] ^= np.uint64(1) << np.uint64(draw.below(64))
            case 2:
                words[row] = draw.rng.integers(0, 2**63, 2, np.uint64)
            case _:
                words = np.delete(words, row, axis=0) if len(words) > 1 else words
    text = hex_lines(words).encode()
    memory = bytes(np.asarray(program.image, np.uint8))
    if draw.chance(0.15):
        text = damaged(draw, text)
    if draw.chance(0.1):
        memory = memory[: draw.below(len(memory) + 1)]
    return text, memory
