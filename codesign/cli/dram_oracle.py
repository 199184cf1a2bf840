"""The option --dram: the memory on which RTL runs if a machine's memory is a DRAM."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from vdla.isa.dram_memory import FIXED
from vdla.util.errors import UserError

from .output import note

if TYPE_CHECKING:
    from vdla.hw.harness.dram.oracle import Oracle
    from vdla.isa.config import Config


class DramOracle(StrEnum):
    """Values of --dram: LiteDRAM's RTL, or the model of its controller in C++ (hw/harness/dram/oracle.py)."""

    litedram = "litedram"
    model = "model"


DramOption = Annotated[
    DramOracle | None,
    typer.Option(
        "--dram",
        help="For the RTL of machines with a DRAM: litedram: LiteDRAM's RTL; model: a model of its controller, which "
        "needs only g++. By default litedram where it is installed and has the part.",
    ),
]


def oracle_for(machines: Iterable[Config], option: DramOracle | None) -> Oracle | None:
    """The memory (oracle) that the option --dram selects for the RTL of `machines`; None without the option. In that
    case the RTL uses LiteDRAM if LiteDRAM is installed and has the machine's DRAM part. Otherwise the RTL uses the
    model, and a line with the reason is printed. Raises UserError if the option is given, but no machine has a DRAM.
    """
    from vdla.hw.harness.dram.oracle import line_about_oracle

    machines = list(machines)
    if option is not None and all(machine.memory.kind == FIXED for machine in machines):
        names = ", ".join(machine.name for machine in machines)
        raise UserError(
            f"--dram {option}: no configuration given has a DRAM (given: {names}); leave out --dram"
        )
    wanted: Oracle | None = None if option is None else option.value
    for line in dict.fromkeys(line_about_oracle(machine, wanted) for machine in machines):
        if line:
            note(line)
    return wanted
