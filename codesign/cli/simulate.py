"""`vdla sim`: runs a raw program on the cycle-exact simulator, on the plain reference or on the RTL."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import numpy as np
import typer
from rich.table import Table

from vdla.isa.config import Config, load_config
from vdla.isa.errors import ProgramError
from vdla.isa.program import bare_program
from vdla.isa.program_file import read_hex
from vdla.isa.scratchpads import Contents, typed_scratchpads
from vdla.isa.scratchpads_file import read_scratchpads
from vdla.util.errors import UserError
from vdla.util.files import write_whole
from vdla.util.user_files import check_destination, read_whole

from ..report.dram_lines import dram_document, dram_lines
from ..report.hardware import warning_lines
from .dram_oracle import DramOption, DramOracle, oracle_for
from .options import JsonOption
from .output import note, print_error, print_json, steps, text_console
from .programs import ConfigOverride, open_program
from .rtl import rtl_extra

if TYPE_CHECKING:
    from vdla.sim import SimulationResult

NEVER_ENDS = ("token", "deadlock")
"""Kinds of errors that the program checker reports for programs that would wait for ever."""


class Engine(StrEnum):
    """Engines that can run a program."""

    cycle = "cycle"
    reference = "reference"
    rtl = "rtl"


@contextlib.contextmanager
def exit_on_deadlock() -> Iterator[None]:
    """A context that ends the process with exit code 3 and one line of text if the program run inside does not end."""
    from vdla.sim.errors import SimulationError

    try:
        yield
    except SimulationError as error:
        _stop(str(error))


def _stop(message: str) -> NoReturn:
    print_error(message)
    raise typer.Exit(3)


def sim(
    insns: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="One instruction a line, in hexadecimal; or a program, text or binary.",
        ),
    ],
    memory: Annotated[
        Path | None,
        typer.Option(
            metavar="IN.bin",
            help="The whole memory before the launch, for a .hex file; a program holds its own.",
        ),
    ] = None,
    memory_out: Annotated[
        Path | None,
        typer.Option("--memory-out", metavar="OUT.bin", help="Write the memory after the launch."),
    ] = None,
    scratchpads: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.npz",
            help="Scratchpads at launch, as `vdla cosim` writes them: uint8 arrays uop, inp, wgt, acc, par, chain, "
            "table, rows, each with all bytes of its memory. Memories that it lacks are zero, and without the option "
            "all are zero.",
        ),
    ] = None,
    config: ConfigOverride = None,
    engine: Annotated[
        Engine, typer.Option(help="cycle: with timing; reference: plain numpy; rtl: the Verilated RTL.")
    ] = Engine.cycle,
    dram: DramOption = None,
    allow_races: Annotated[
        bool, typer.Option("--allow-races", help="Run a program whose units race; results may vary.")
    ] = False,
    no_check: Annotated[
        bool,
        typer.Option(
            "--no-check",
            help="Run a program that the checker refuses; if the program stops the engine, exit with 3.",
        ),
    ] = False,
    timeline: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a timeline for ui.perfetto.dev.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Runs a raw program: checks it, executes it, writes the memory and counts the cycles."""
    check_destination(memory_out, timeline)
    if timeline is not None and engine is not Engine.cycle:
        raise UserError(
            f"--timeline is drawn from the simulator, not from --engine {engine}; use --engine cycle"
        )
    if dram is not None and engine is not Engine.rtl:
        raise UserError("--dram chooses the memory of the RTL; add --engine rtl")
    machine, instructions, image = _launch(insns, memory, config)
    contents = {} if scratchpads is None else read_scratchpads(scratchpads, machine)
    with steps() as progress:
        if not no_check:
            progress.begin("checking the program")
            uop = typed_scratchpads(machine, contents)["uop"]
            check_program(machine, instructions, image, str(insns), allow_races=allow_races, uop=uop)
        progress.begin("running the program (the simulator is compiled once after an installation)")
        if engine is Engine.reference:
            from vdla.isa.reference import run_reference

            result = run_reference(machine, instructions, image, scratchpads=contents)
            document: dict[str, Any] = {"cycles": None, "instructions": result.executed, "units": None}
            after = result.memory
        elif engine is Engine.rtl:
            document, after = _run_rtl(machine, instructions, image, contents, dram)
        else:
            document, after = _simulate(machine, instructions, image, contents, timeline)
    if memory_out is not None:
        write_whole(memory_out, after.tobytes())
    document = {
        "config": machine.name,
        "engine": engine.value,
        "warnings": list(machine.warnings),
        **document,
    }
    if json:
        print_json(document)
    else:
        _print(document)


def _launch(insns: Path, memory: Path | None, config: str | None) -> tuple[Config, np.ndarray, np.ndarray]:
    """Reads a program; returns its configuration, instructions and memory image.

    A binary program file contains all three, an assembler text only instructions and image, a `.hex` file only
    instructions. The arguments `config` and `memory` supply the missing parts. Raises UserError, also if `config` is
    given for a program that has its own configuration.
    """
    if memory is not None:
        machine = load_config(config or "vta")
        instructions = read_hex(insns, machine)
        return machine, instructions, np.frombuffer(read_whole(memory, "memory image"), np.uint8)
    if insns.suffix == ".hex":
        raise UserError(
            f"{insns}: a .hex file contains instructions only; give the memory image with --memory"
        )
    program = open_program(insns, config)
    return program.config, program.instructions, program.image


def _simulate(
    config: Config,
    instructions: np.ndarray,
    image: np.ndarray,
    scratchpads: Contents,
    timeline_path: Path | None,
) -> tuple[dict[str, Any], np.ndarray]:
    from vdla.sim import simulate

    with exit_on_deadlock():
        result = simulate(config, instructions, image, scratchpads=scratchpads)
    if timeline_path is not None:
        from ..report.timeline import timeline

        write_whole(timeline_path, timeline(bare_program(config, instructions, image), result))
    assert result.memory is not None
    document = {
        "cycles": result.cycles,
        "instructions": int((result.begin >= 0).sum()),
        "units": unit_report(result),
        "dram": {kind: {"bytes": item.bytes, "beats": item.beats} for kind, item in result.traffic.items()},
    }
    if result.dram is not None:
        document["rows"] = dram_document(result.dram, config)
    return document, result.memory


def _run_rtl(
    config: Config,
    instructions: np.ndarray,
    image: np.ndarray,
    scratchpads: Contents,
    dram: DramOracle | None,
) -> tuple[dict[str, Any], np.ndarray]:
    """Runs the program on the RTL. Returns the JSON object of the run, and the memory afterwards. The object has the
    counters from the RTL's registers, under the names that the simulator uses. `scratchpads`: contents at launch;
    `dram`: option --dram.
    """
    with rtl_extra():
        from vdla.hw.harness.engine import RtlError, simulate_rtl
        from vdla.hw.harness.surroundings import Surroundings
    from vdla.sim import BUSY_CATEGORIES

    surroundings = Surroundings(dram=oracle_for([config], dram))
    try:
        result = simulate_rtl(config, instructions, image, scratchpads=scratchpads, surroundings=surroundings)
    except RtlError as error:
        _stop(str(error))
    units: dict[str, dict[str, Any]] = {}
    traffic: dict[str, dict[str, int]] = {}
    for name, count in result.counters.items():
        owner, _, what = name.partition(".")
        if what in ("bytes", "beats"):
            traffic.setdefault(owner, {})[what] = count
            continue
        unit = units.setdefault(owner, {"busy": 0, "busy_with": {}, "stalls": {}})
        if what in BUSY_CATEGORIES:
            unit["busy"] += count
            if count:
                unit["busy_with"][what] = count
        elif count:
            unit["stalls"][what] = count
    document = {
        "cycles": result.cycles,
        "instructions": int((result.begin >= 0).sum()),
        "units": units,
        "dram": traffic,
    }
    return document, result.memory


def check_program(
    config: Config,
    instructions: np.ndarray,
    image: np.ndarray,
    where: str,
    *,
    allow_races: bool,
    uop: np.ndarray | None = None,
) -> None:
    """Raises ProgramError for a program with errors; the message names `where` and the first error, in one line.

    `uop` (uop_depth,) of `layout.uop_dtype` is the micro-op memory at launch, zeros by default. If the only errors are
    that the program never ends, the process exits with code 3. With `allow_races`, races are no errors.
    """
    from vdla.isa.check import check

    findings = check(config, instructions, image, uop=uop)
    errors = [item for item in findings if item.severity == "error"]
    if allow_races:
        errors = [item for item in errors if item.kind != "race"]
    if not errors:
        return
    # Errors that name an instruction help more than errors of the whole program, such as a missing FINISH.
    errors.sort(key=lambda item: not item.instructions)
    message = f"{where}: {errors[0].kind}: {errors[0].message}"
    if len(errors) > 1:
        message += f" (and {len(errors) - 1} more; `vdla check` lists them)"
    if all(item.kind in NEVER_ENDS for item in errors):
        _stop(message)
    raise ProgramError(message)


def unit_report(result: SimulationResult) -> dict[str, Any]:
    """For each unit of the accelerator its busy cycles, in total and by activity, and its stalled cycles by cause: the
    entry `units` of the command's JSON object.
    """
    return {
        name: {"busy": sum(unit.busy.values()), "busy_with": dict(unit.busy), "stalls": dict(unit.stalls)}
        for name, unit in result.units.items()
    }


def _print(document: dict[str, Any]) -> None:
    console = text_console()
    console.print(f"{document['instructions']} instructions on {document['config']}")
    for line in warning_lines(document["warnings"]):
        console.print(line, soft_wrap=True)
    if document["cycles"] is None:
        note("the reference has no timing; use --engine cycle for cycles")
        return
    table = Table(title=f"{document['cycles']:,} cycles", title_justify="left")
    table.add_column("unit")
    table.add_column("busy", justify="right")
    table.add_column("stalls")
    for name, unit in document["units"].items():
        causes = sorted(unit["stalls"].items(), key=lambda item: -item[1])
        table.add_row(
            name, f"{unit['busy']:,}", ", ".join(f"{cause} {count:,}" for cause, count in causes if count)
        )
    console.print(table)
    if rows := document.get("rows"):
        for line in dram_lines(rows, document["cycles"]):
            console.print(line, soft_wrap=True)
