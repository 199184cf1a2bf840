"""Cases that a test passes to its cocotb bench, through the folder named by VDLA_CASE: a program and its expected
results.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vdla.hw.bench import Expected
from vdla.isa.program import Program
from vdla.isa.program_file import load_program as read_program


@dataclass(frozen=True)
class Case:
    program: Program
    expected: Expected

    @property
    def limit(self) -> int:
        """Number of cycles after which a run counts as hung, stalls included."""
        assert self.expected.cycles is not None
        return 20 * self.expected.cycles + 5000


def load_case(name: str = "case") -> Case:
    folder = Path(os.environ["VDLA_CASE"])
    arrays = np.load(folder / f"{name}.npz")
    document = json.loads((folder / f"{name}.json").read_text())
    return Case(
        program=read_program(folder / f"{name}.vdla"),
        expected=Expected(
            memory=arrays["memory"],
            begin=arrays["begin"],
            end=arrays["end"],
            cycles=document["cycles"],
            counters=document["counters"],
        ),
    )
