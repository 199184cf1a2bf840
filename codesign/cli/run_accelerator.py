"""`vdla run` on the accelerator: compiles a network, runs it on simulator or RTL, checks its outputs, and breaks its
cycles down.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vdla.compiler import VIRTUAL_THREADS
from vdla.isa.config import Config, load_config
from vdla.isa.program_file import save_program
from vdla.util.errors import UserError
from vdla.util.files import write_whole
from vdla.util.printable import printable
from vdla.util.user_files import check_destination, whole_directory

from ..report.dram_lines import dram_document, dram_lines
from .dram_oracle import DramOracle, oracle_for
from .output import Steps, end_failed, note, print_error, print_json, steps, text_console
from .run_options import AcceleratorOptions, Engine, ModelOptions, RunOptions

if TYPE_CHECKING:
    from vdla.compiler.runtime.artifact import Compiled

    from ..evaluate import Arrays
    from ..explore.advice import Advice, Trial
    from ..network_run import Simulated
    from ..report.cycle_breakdown import CheckAccount, RunAccount
    from ..technology.components import Components


def run_on_accelerator(
    model: Path, options: AcceleratorOptions, of_model: ModelOptions, files: RunOptions
) -> None:
    """Runs `vdla run` for a quantized model on the accelerator alone. Ends the process with exit code 1 if the outputs
    fail the check, or if the RTL's results differ from the simulator's. Raises UserError.
    """
    from ..network_run import LOADING, check_run, compile_network, load_simulator, simulate_network
    from ..report.account_run import run_account
    from ..technology.components import load_components
    from .simulate import exit_on_deadlock

    machine, technology = load_config(options.config), load_components(options.technology)
    check_destination(files.outputs, options.timeline, options.program, inputs=(model, files.inputs))
    if options.timing_only and files.outputs is not None:
        raise UserError("--timing-only computes no outputs; leave out --outputs or --timing-only")
    # Changed machines get their templates' schedules, so the run that they are compared with must have these too.
    own_schedules = of_model.network.records is None and options.virtual_threads == VIRTUAL_THREADS
    if options.advise and not own_schedules:
        raise UserError(
            "--advise compares machines by the compiler's own schedules; leave out --records and --vthreads"
        )
    if options.engine is Engine.cycle and options.dram is not None:
        raise UserError("--dram chooses the memory of the RTL; add --engine rtl")
    if options.engine is Engine.rtl and options.timing_only:
        raise UserError("--engine rtl always computes the data; leave out --timing-only")
    if options.engine is Engine.rtl and options.timeline is not None:
        raise UserError("--timeline is drawn from the simulator, not from --engine rtl; use --engine cycle")
    with whole_directory(of_model.network.dump_passes) as dumps, steps() as progress, exit_on_deadlock():
        progress.begin(f"compiling {model.name} for {machine.name}")
        compiled = compile_network(
            model,
            machine,
            virtual_threads=options.virtual_threads,
            dump_passes=dumps,
            records=of_model.network.records,
        )
        progress.begin("preparing inputs")
        from ..evaluate import load_launches, sample_arrays

        if files.inputs is None:
            launches = sample_arrays(compiled.graph, 1)
        else:
            launches = load_launches(compiled.graph.inputs, files.inputs)
        progress.begin(LOADING)
        load_simulator()
        if options.engine is Engine.rtl:
            simulated = _run_on_rtl(compiled, launches, options.dram, progress)
        else:
            progress.begin("simulating", total=len(launches))
            simulated = simulate_network(
                compiled,
                launches,
                data=not options.timing_only,
                where=str(files.inputs or model),
                on_launch=progress.advance,
            )
        verdict = None
        if not options.timing_only:
            progress.begin("checking the outputs")
            verdict, remark = check_run(compiled, model, launches, simulated, of_model.check)
            if remark is not None:
                note(f"checked against the interpreter: {remark}")
        if options.timeline is not None:
            from ..report.timeline import timeline

            progress.begin("writing the timeline")
            write_whole(options.timeline, timeline(compiled.program, simulated.simulation))
        if options.program is not None:
            save_program(compiled.program, options.program)
        if files.outputs is not None:
            from ..network_run import npz_bytes

            write_whole(files.outputs, npz_bytes(simulated.outputs))
        account = run_account(
            model.stem,
            compiled,
            simulated.simulation,
            simulated.seconds,
            verdict,
            components=technology,
            energy=True,
        )
    counts = simulated.simulation.dram
    rows = None if counts is None else dram_document(counts, compiled.program.config)
    if files.json:
        document = account.to_dict()
        if rows is not None:
            document["rows"] = rows
        if options.advise:
            trial = _trial(model, account, machine, technology, everything=True)
            document["advice"] = _advice(trial, machine).document()
        print_json(document)
        _end_checked(verdict)
        return
    from ..report.table import layer_table, summary

    console = text_console()
    console.print(layer_table(account, console.width))
    lines = [] if rows is None else dram_lines(rows, account.total.cycles)
    for line in (*summary(account), *lines):
        console.print(line, soft_wrap=True)
    _end_checked(verdict)
    if own_schedules:
        trial = _trial(model, account, machine, technology, everything=options.advise)
        for line in _advice_lines(trial, machine, everything=options.advise):
            console.print(printable(line), soft_wrap=True)


def _trial(
    model: Path, run: RunAccount, machine: Config, technology: Components, *, everything: bool
) -> Trial:
    """Returns a `Trial`, which evaluates changed machines on the network of this run. The figures of `machine` itself
    are taken from `run`, so that it is not simulated again.

    `everything`: the model is read again, so that machines that support more operators than `machine` can be evaluated,
    too. Otherwise only machines that support the same operators as `machine` can be evaluated.
    """
    from vdla.compiler.graph.abilities import Abilities
    from vdla.compiler.pipeline import accelerator_graph

    from ..explore.advice import Trial
    from ..explore.evaluate import NetworkFigures, figures_of_machine
    from ..explore.networks import Network, load_network

    if everything:
        network = load_network(model)
    else:
        graph = accelerator_graph(model, machine)
        known = {Abilities.of(machine): graph}
        network = Network(name=model.stem, graph=graph, digest="", content=b"", graphs=known)
    own = NetworkFigures(
        cycles=run.total.cycles,
        roofline_cycles=run.total.roofline_cycles,
        dram_bytes=run.total.dram_read_bytes + run.total.dram_write_bytes,
        energy={},
    )
    figures = replace(figures_of_machine(machine, technology), networks={network.name: own})
    return Trial(network=network, components=technology, known={machine: figures})


def _advice(trial: Trial, machine: Config) -> Advice:
    """All single changes of the machine that save at least 3% of the network's time."""
    from ..explore.advice import advise

    with steps() as progress:
        progress.begin("trying changes of the machine")
        return advise(machine, trial, with_steps=False)


def _advice_lines(trial: Trial, machine: Config, *, everything: bool) -> list[str]:
    """The lines of advice below the report. With `everything` (--advise), a line for each change that saves 3% of the
    time. Otherwise only a bus of twice the width is tried. This trial is fast, because kernels do not depend on the
    bus.
    """
    from ..explore.advice import helpful, wider_bus

    if everything:
        found = _advice(trial, machine)
        return [str(change) for change in found.changes] or [found.nothing_helps]
    wider = [(name, changed) for name, changed in wider_bus(machine) if trial.runs_on(changed)]
    if not wider:
        return ["--advise tries changes of the machine"]
    lines = [str(change) for change in helpful(wider, machine, trial)]
    line = lines[0] if lines else "a bus of twice the width saves less than 3% of the time"
    return [f"{line} (--advise tries other changes)"]


def _end_checked(verdict: CheckAccount | None) -> None:
    """Ends the command with exit code 1 if the comparison `verdict` failed or compared nothing. If `verdict` is None,
    nothing happens.
    """
    if verdict is not None and not verdict.compared.anything:
        end_failed(
            f"nothing could be compared with {verdict.against}: the numbers of this run are not checked"
        )
    if verdict is not None and not verdict.passed:
        end_failed(
            f"the outputs differ from {verdict.against}'s by {verdict.max_lsb} LSB ({verdict.mode}); "
            f"{verdict.tolerance} are allowed: the numbers of this run are wrong"
        )


def _run_on_rtl(
    compiled: Compiled, launches: list[Arrays], dram: DramOracle | None, progress: Steps
) -> Simulated:
    """Runs the network on the RTL; ends the process with one line and exit code 1 if the results differ from the
    simulator's, or 3 if the RTL does not finish. `dram`: the option --dram.
    """
    from .rtl import rtl_extra

    with rtl_extra():
        from vdla.hw.harness.engine import RtlError

        from ..rtl_run import library_for, run_on_rtl

        oracle = oracle_for([compiled.program.config], dram)
        progress.begin("building the RTL library (once for each configuration: minutes)")
        optimize = library_for(compiled)
        progress.begin("running on the RTL", total=len(launches))
        try:
            result = run_on_rtl(
                compiled, launches, optimize=optimize, on_launch=progress.advance, dram=oracle
            )
        except RtlError as error:
            print_error(str(error))
            raise typer.Exit(3) from None
    found = list(result.differences)
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        print_error(f"RTL and simulator differ: {found[0]}{more}")
        raise typer.Exit(1)
    return result.simulated
