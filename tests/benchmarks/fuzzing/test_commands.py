"""The table of command-line calls that the fuzz campaign interrupts, and whose outputs it makes unwritable."""

from pathlib import Path
from typing import Any, get_type_hints

import typer

from vdla.benchmarks.fuzzing.commands import CALLS
from vdla.benchmarks.fuzzing.streams import MATRIX, chosen
from vdla.codesign.cli.commands import app

READ = {
    "inputs",
    "insns",
    "memory",
    "scratchpads",
    "records",
    "transfer",
    "calibration",
    "held_out",
    "liberty",
}
"""Names of command-line parameters that are paths of input files."""
COMMANDS: dict[str, Any] = getattr(typer.main.get_command(app), "commands", {})


def test_every_command_has_a_call() -> None:
    assert {one.arguments[0] for one in CALLS} == set(COMMANDS)


def test_every_output_of_every_command_is_written_by_a_call() -> None:
    for name, command in COMMANDS.items():
        written = {option for one in CALLS if one.arguments[0] == name for option, _ in one.outputs}
        types = get_type_hints(command.callback)
        for parameter in command.params:
            if parameter.param_type_name == "option" and types.get(parameter.name) in (Path, Path | None):
                assert parameter.name in READ or written & set(parameter.opts), (
                    f"vdla {name} {parameter.opts}"
                )


def test_the_campaign_meets_every_call_with_every_fault_once() -> None:
    assert len({chosen(index) for index in range(MATRIX)}) == MATRIX
