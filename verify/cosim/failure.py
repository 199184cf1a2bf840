"""Reports a mismatch of simulator and RTL: files that reproduce it, and both timelines around the first difference."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vdla.isa.assembler import instruction_text
from vdla.isa.config import Config
from vdla.isa.config_text import toml_text
from vdla.isa.program_file import hex_lines
from vdla.isa.program_text import to_text
from vdla.isa.scratchpads_file import scratchpads_bytes
from vdla.util.files import write_whole
from vdla.util.user_files import make_directory

if TYPE_CHECKING:
    from .cases import Launch
    from .compare import Outcome

PROGRAM, SCRATCHPADS = "program.txt", "scratchpads.npz"
"""File names of the program and of the initial scratchpads, which together determine a run."""

AROUND = 6
"""Number of instructions shown before and after the first instruction whose timing differs."""


def first_difference(outcome: Outcome) -> int | None:
    """Index of the instruction whose begin or end differs between simulator and RTL in the earliest cycle; None if all
    begins and ends agree, or if one of the runs has no result.
    """
    simulated, run = outcome.simulated, outcome.rtl
    if simulated is None or run is None:
        return None
    wrong = np.flatnonzero((simulated.begin != run.begin) | (simulated.end != run.end))
    if not wrong.size:
        return None

    def when(index: int) -> int:
        begun = simulated.begin[index] != run.begin[index]
        left, right = (simulated.begin, run.begin) if begun else (simulated.end, run.end)
        return min(int(left[index]), int(right[index]))

    return min(wrong.tolist(), key=when)


def timelines(config: Config, launch: Launch, outcome: Outcome) -> str:
    """A table of the instructions of `launch` around the first difference in `outcome`: begin and end in the simulator
    and in the RTL. If no begin or end differs, or the RTL has no result, the table shows all instructions of a short
    program, else those in the middle. If the simulator has no result, returns a line that says so.
    """
    simulated, run = outcome.simulated, outcome.rtl
    if simulated is None:
        return "the simulator gives no timeline\n"
    words = launch.program.instructions.tolist()
    place = first_difference(outcome)
    if run is None or place is None:
        place = len(words) // 2
        around = len(words) if len(words) <= 4 * AROUND else AROUND
    else:
        around = AROUND
    lines = [
        f"{'':9} {'simulator':>19} {'RTL':>19}",
        f"{'':9} {'begin':>9} {'end':>9} {'begin':>9} {'end':>9}",
    ]
    for index in range(max(0, place - around), min(len(words), place + around + 1)):
        left = (int(simulated.begin[index]), int(simulated.end[index]))
        right = (int(run.begin[index]), int(run.end[index])) if run is not None else ("-", "-")
        mark = "*" if run is not None and left != right else " "
        text = instruction_text(config, *words[index])
        lines.append(f"{mark} {index:>6}  {left[0]:>9} {left[1]:>9} {right[0]:>9} {right[1]:>9}  {text}")
    return "\n".join(lines) + "\n"


def commands(folder: Path, launch: Launch) -> str:
    """The commands that run the program again from the files in `folder`, one line for each engine; a remark follows if
    the program started with random registers."""
    call = ["vdla", "sim", "--insns", str(folder / PROGRAM)]
    if launch.scratchpads is not None:
        call += ["--scratchpads", str(folder / SCRATCHPADS)]
    lines = [shlex.join(call), shlex.join([*call, "--engine", "rtl"])]
    if launch.random_state is not None:
        lines.append(
            f"(the RTL with registers of random bits at power-up: random_state={launch.random_state} of "
            "vdla.hw.harness.engine.simulate_rtl)"
        )
    return "".join(f"    {line}\n" for line in lines)


def report_text(folder: Path, title: str, config: Config, launch: Launch, outcome: Outcome) -> str:
    """The report of a failure: `title` as its first line, at most 20 differences, the timelines, and the commands that
    run the files in `folder` again."""
    lines = [title, ""]
    lines += [f"  {item}" for item in outcome.differences[:20]]
    if len(outcome.differences) > 20:
        lines.append(f"  and {len(outcome.differences) - 20} more")
    again = f"written to {folder}; run it again with:\n{commands(folder, launch)}"
    return "\n".join([*lines, "", timelines(config, launch, outcome), again])


def write_failure(folder: Path, title: str, config: Config, launch: Launch, outcome: Outcome) -> list[Path]:
    """Writes the program (as text, and as hex with its memory image), the configuration, the initial scratchpads if
    any, and the report into `folder`; returns the paths.

    Raises FileError, ProgramError or WriteError if writing fails.
    """
    make_directory(folder)
    program = launch.program
    contents: dict[str, bytes] = {
        PROGRAM: to_text(program).encode(),
        "program.hex": hex_lines(program.instructions).encode(),
        "memory.bin": program.image.tobytes(),
        "config.toml": toml_text(config).encode(),
        "report.txt": report_text(folder, title, config, launch, outcome).encode(),
    }
    if launch.scratchpads is not None:
        contents[SCRATCHPADS] = scratchpads_bytes(launch.scratchpads)
    for name, data in contents.items():
        write_whole(folder / name, data)
    return [folder / name for name in contents]
