"""Chooses the memory on which RTL runs if a machine has a DRAM: LiteDRAM's RTL, or the model of its controller."""

from __future__ import annotations

from typing import Literal

from vdla.isa.config import Config
from vdla.isa.dram import KINDS, part_of
from vdla.isa.dram_memory import DRAM, part_of_machine

from .design import missing_package

Oracle = Literal["litedram", "model"]
"""Name of an oracle: LiteDRAM's RTL in Verilator, which needs the extra `dram`, or the model of LiteDRAM's controller
in C++ (controller.h). Tests hold the model to LiteDRAM's RTL in every cycle.
"""


def choose_oracle(part: str, wanted: Oracle | None = None) -> Oracle:
    """Chooses the oracle for the DRAM part with the name `part`. An oracle that the caller `wanted` is returned
    unchecked. If `wanted` is None, chooses LiteDRAM's RTL if LiteDRAM is installed and has a model of the part, else
    the model of LiteDRAM's controller; then an unknown part raises ConfigError.
    """
    if wanted is not None:
        return wanted
    return "litedram" if KINDS[part_of(part).kind].oracle and not missing_package() else "model"


def line_about_oracle(config: Config, wanted: Oracle | None = None) -> str:
    """A line for users that gives the reason why the RTL of the machine `config` runs on the model of LiteDRAM's
    controller; empty if the user `wanted` an oracle, if LiteDRAM's RTL is used, and for a machine without a DRAM.
    """
    if (
        config.memory.kind != DRAM
        or wanted is not None
        or choose_oracle(config.memory.part or "") == "litedram"
    ):
        return ""
    kind = part_of_machine(config).kind
    why = (
        'LiteDRAM is not installed (pip install "vdla[dram]")'
        if KINDS[kind].oracle
        else f"LiteDRAM has no model of {kind}"
    )
    return (
        f"the RTL runs with {config.memory.part} on the model of LiteDRAM's controller in C++, because {why}"
    )
