"""`vdla run` on the accelerator: compiled, simulated or run on the RTL, checked, and every cycle accounted for."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from vdla.isa.config import load_config
from vdla.isa.program import save_program
from vdla.util.errors import UserError
from vdla.util.user_files import check_destination, whole_directory
from vdla.util.whole_files import write_whole

from .output import Steps, end_failed, note, print_json, steps, text_console

if TYPE_CHECKING:
    from vdla.compiler.driver import Compiled
    from vdla.compiler.tune.records.book import RecordBook

    from ..evaluate import Arrays
    from ..network_run import Simulated
    from ..report.accounts import CheckAccount


class Engine(StrEnum):
    """What runs the compiled network."""

    cycle = "cycle"
    rtl = "rtl"


def run_on_accelerator(
    model: Path,
    *,
    config: str,
    engine: Engine,
    inputs: Path | None,
    outputs: Path | None,
    vthreads: int,
    timing_only: bool,
    trace: Path | None,
    dump_passes: Path | None,
    program_out: Path | None,
    check: str,
    records: RecordBook | None,
    json: bool,
) -> None:
    """`vdla run` of a quantized model on the accelerator alone; ends the process where the RTL tells anything else.

    Raises UserError.
    """
    from ..network_run import LOADING, check_run, compile_network, load_simulator, simulate_network
    from .simulate import exit_on_deadlock

    machine = load_config(config)
    check_destination(outputs, trace, program_out, inputs=(model, inputs))
    if timing_only and outputs is not None:
        raise UserError("--timing-only computes no outputs; leave out --outputs or --timing-only")
    if engine is Engine.rtl and timing_only:
        raise UserError("--engine rtl always computes the data; leave out --timing-only")
    if engine is Engine.rtl and trace is not None:
        raise UserError("--trace is drawn from the simulator, not from --engine rtl; use --engine cycle")
    with whole_directory(dump_passes) as dumps, steps() as progress, exit_on_deadlock():
        progress.begin(f"compiling {model.name} for {machine.name}")
        compiled = compile_network(
            model, machine, virtual_threads=vthreads, dump_passes=dumps, records=records
        )
        progress.begin("preparing inputs")
        from ..evaluate import load_launches, sample_arrays

        if inputs is None:
            launches = sample_arrays(compiled.graph, 1)
        else:
            launches = load_launches(compiled.graph.inputs, inputs)
        progress.begin(LOADING)
        load_simulator()
        if engine is Engine.rtl:
            simulated = _run_on_rtl(compiled, launches, progress)
        else:
            progress.begin("simulating", total=len(launches))
            simulated = simulate_network(
                compiled,
                launches,
                data=not timing_only,
                where=str(inputs or model),
                on_launch=progress.advance,
            )
        verdict = None
        if not timing_only:
            progress.begin("checking the outputs")
            verdict, remark = check_run(compiled, model, launches, simulated, check)
            if remark is not None:
                note(f"checked against the interpreter: {remark}")
        if trace is not None:
            from ..report.timeline import timeline

            progress.begin("writing the timeline")
            write_whole(trace, timeline(compiled.program, simulated.simulation))
        if program_out is not None:
            save_program(compiled.program, program_out)
        if outputs is not None:
            from ..network_run import npz_bytes

            write_whole(outputs, npz_bytes(simulated.outputs))
        account = simulated.account(model.stem, machine, compiled, verdict)
    if json:
        print_json(account.to_dict())
        _end_checked(verdict)
        return
    from ..report.table import layer_table, summary

    console = text_console()
    console.print(layer_table(account, console.width))
    for line in summary(account):
        console.print(line, soft_wrap=True)
    _end_checked(verdict)


def _end_checked(verdict: CheckAccount | None) -> None:
    """Ends the command with 1 where a comparison with the reference failed."""
    if verdict is not None and not verdict.passed:
        end_failed(
            f"the outputs differ from {verdict.against}'s by {verdict.max_lsb} LSB ({verdict.mode}); "
            f"{verdict.tolerance} are allowed: the numbers of this run are wrong"
        )


def _run_on_rtl(compiled: Compiled, launches: list[Arrays], progress: Steps) -> Simulated:
    """The network on the RTL; ends the process with 1 and a line when the simulator tells anything else."""
    from .rtl import rtl_extra

    with rtl_extra():
        from vdla.hw.harness.engine import RtlError

        from ..rtl_run import library_for, run_on_rtl

        progress.begin("building the RTL library (once for each configuration: minutes)")
        optimize = library_for(compiled)
        progress.begin("running on the RTL", total=len(launches))
        try:
            result = run_on_rtl(compiled, launches, optimize=optimize, on_launch=progress.advance)
        except RtlError as error:
            note(f"error: {error}")
            raise typer.Exit(3) from None
    found = list(result.differences)
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        note(f"error: RTL and simulator differ: {found[0]}{more}")
        raise typer.Exit(1)
    return result.simulated
