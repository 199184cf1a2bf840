"""`vdla run --target vdla,llvm`: runs a network that is partitioned between the simulated accelerator and this
processor.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.isa.config import load_config
from vdla.util.errors import UserError
from vdla.util.files import write_whole
from vdla.util.user_files import check_destination, whole_directory

from .output import end_failed, note, print_json, steps, text_console
from .results import enough_memory
from .run_options import AcceleratorOptions, ModelOptions, RunOptions

if TYPE_CHECKING:
    from vdla.compiler.codegen.cpu.machine import CpuTarget

    from ..report.division import DivisionCheck


class Partition(StrEnum):
    """Rules for the regions (parts of the network) that the accelerator supports: whether `vdla run` places them on the
    accelerator or on the processor.
    """

    support = "support"
    cost = "cost"


def run_divided(
    model: Path,
    llvm: str,
    accelerator: AcceleratorOptions,
    of_model: ModelOptions,
    options: RunOptions,
    *,
    by_cost: bool,
    records: Sequence[str] | None,
) -> None:
    """Runs `vdla run` for a model on accelerator and processor; `llvm` is the processor's part of `--target`.

    `by_cost`: the accelerator runs only the regions that are faster on it; otherwise it runs all regions that it
    supports. `records`: files from which the records in `of_model` were read. Times are measured last, when nothing
    else runs. Raises UserError.
    """
    check_destination(options.outputs, inputs=(model, options.inputs))
    from ..divided_run import DividedRun
    from ..technology.clock import clock_of
    from ..technology.components import load_components

    machine = load_config(accelerator.config)
    run = DividedRun(
        model=model,
        machine=machine,
        clock=clock_of(machine, load_components(accelerator.technology)),
        target=llvm,
        processor=_processor(llvm),
        by_cost=by_cost,
        threads=options.threads,
        repeat=options.repeat,
        network=of_model.network,
    )
    processor = run.processor
    from vdla.compiler.cpu_stages import SharedKernels, cpu_now
    from vdla.compiler.divided import compile_divided

    from ..cpu_alone import all_on_cpu, compiled_meanwhile, run_cpu_alone
    from ..heterogeneous_run import account_division, check_division, run_launches, sample_feeds
    from ..network_run import LOADING, load_simulator

    meanwhile = compiled_meanwhile(model, llvm, records) if run.network.cache else nullcontext(lambda: None)
    with (
        whole_directory(run.network.dump_passes) as dumps,
        meanwhile as wait_for_whole,
        SharedKernels() as kernels,
        steps() as progress,
    ):
        progress.begin(f"compiling {model.name} for {machine.name} and {processor.cpu}")
        division = compile_divided(
            model,
            machine,
            cpu=cpu_now(processor, kernels),
            cost_threads=run.threads if by_cost else None,
            clock_hertz=run.clock.hertz,
            virtual_threads=accelerator.virtual_threads,
            dump_passes=dumps,
            records=run.network.records,
        )
        with division.network as network, enough_memory(model):
            # This check follows the compiler, which refuses unsupported models at once.
            progress.begin(LOADING)
            load_simulator()
            from ..evaluate import join_launches, load_launches
            from ..samples import index_limits

            if options.inputs is None:
                launches = [sample_feeds(network, index_limits(model))]
            else:
                launches = load_launches(network.inputs, options.inputs)
            progress.begin("running", total=len(launches))
            results = run_launches(
                network,
                launches,
                threads=run.threads,
                where=str(options.inputs or model),
                on_launch=progress.advance,
            )
            progress.begin("checking the outputs")
            verdict, remark = check_division(model, network, launches, results, of_model.check)
            if verdict is None:
                note(
                    "not checked: the interpreter checks only regions that run on the accelerator, and none does"
                )
            if remark is not None:
                note(f"checked against the interpreter: {remark}")
            offloaded = any(region.accelerated for region in network.regions)
            if offloaded:
                progress.begin(f"compiling the whole network for {processor.cpu}")
                wait_for_whole()
            progress.begin("timing")
            times = network.time(
                results[0], threads=run.threads, repeat=run.repeat, clock_hertz=run.clock.hertz
            )
            if offloaded:
                alone = run_cpu_alone(
                    run,
                    network.regions,
                    {port.name: results[0].tensors[port.name] for port in network.inputs},
                    note,
                )
            else:
                alone = all_on_cpu(times)
        if options.outputs is not None:
            from ..network_run import npz_bytes

            with enough_memory(model):
                launched = join_launches([dict(result.outputs) for result in results])
                write_whole(options.outputs, npz_bytes(launched))
    account = account_division(run, division, times, alone, verdict)
    if options.json:
        print_json(account.to_dict())
        _end_checked(verdict)
        return
    from ..report.division_table import division_summary, region_table

    console = text_console()
    console.print(region_table(account))
    for line in division_summary(account):
        console.print(line, soft_wrap=True)
    _end_checked(verdict)


def _end_checked(verdict: DivisionCheck | None) -> None:
    """Ends the command with exit code 1 if the comparison `verdict` failed or compared nothing. If `verdict` is None,
    nothing happens.
    """
    if verdict is not None and not verdict.failed and not verdict.passed:
        end_failed(
            f"nothing could be compared with {verdict.against}: the numbers of this run are not checked"
        )
    if verdict is not None and not verdict.passed:
        first, *others = verdict.failed
        more = f" (and {len(others)} more)" if others else ""
        end_failed(f"against {verdict.against}: {first}{more}: the numbers of this run are wrong")


def _processor(text: str) -> CpuTarget:
    """The processor that the text of a target names. Raises UserError if code for it cannot run here."""
    from vdla.compiler.codegen.cpu.machine import host_target, runs_here
    from vdla.compiler.codegen.cpu.options import parse_target

    processor = parse_target(text)
    if not runs_here(processor):
        raise UserError(
            f"--target {text}: this machine is {host_target().cpu} ({host_target().triple}) and cannot run code for "
            f"{processor.cpu} ({processor.triple}); take `llvm`, or compile for it with `vdla compile`"
        )
    return processor
