"""`vdla cosim`: random programs on the simulator and on the Verilated RTL; all results of both must be equal."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from vdla.isa.config import Config, load_config
from vdla.util.errors import UserError
from vdla.util.printable import printable
from vdla.util.user_files import check_directory

from ..report.console import PlainConsole
from .dram_oracle import DramOption, oracle_for
from .options import JsonOption
from .output import never_silent, note, print_error, print_json, talk, text_console
from .rtl import rtl_extra

if TYPE_CHECKING:
    from vdla.hw.harness.dram.oracle import Oracle
    from vdla.verify.cosim.campaign import Campaign
    from vdla.verify.cosim.work import CaseResult, Failure


def cosim(
    programs: Annotated[int, typer.Option(help="How many programs to run.")] = 1000,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal programs.")] = 0,
    config: Annotated[
        str | None,
        typer.Option(metavar="NAME|FILE,...", help="Machines, separated by commas; by default a fixed list."),
    ] = None,
    dram: DramOption = None,
    jobs: Annotated[int, typer.Option(help="Number of processes.")] = 2,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Directory for the minimized mismatch.")
    ] = Path("cosim-mismatch"),
    json: JsonOption = False,
) -> None:
    """Runs random and mutated programs on simulator and RTL and compares all results of both; exits 1 if any result
    differs, or if 1,000 programs or more miss a reachable coverage bin.
    """
    if programs < 1:
        raise UserError(f"--programs {programs}: at least 1 program is needed")
    if jobs < 1:
        raise UserError(f"--jobs {jobs}: at least 1 process is needed")
    if seed < 0:
        raise UserError(f"--seed {seed}: must be 0 or more")
    check_directory(output)
    machines = _machines(config)
    with rtl_extra():
        oracle = oracle_for(machines, dram)
        campaign = _run(machines, programs, seed, jobs, output, oracle)
    document = campaign.document()
    failure = campaign.failure
    document["failure"] = None if failure is None else _failure_document(failure, output)
    if json:
        print_json(document)
    else:
        _print(campaign, failure, output)
    if campaign.mismatches or campaign.holes:
        if campaign.holes:
            print_error(f"coverage: no program hit {'; '.join(campaign.holes)}")
        raise typer.Exit(1)


def _machines(names: str | None) -> tuple[Config, ...]:
    if names is None:
        from vdla.verify.cosim.machines import default_machines

        return default_machines()
    machines = tuple(load_config(name.strip()) for name in names.split(",") if name.strip())
    if not machines:
        raise UserError(f"--config {names!r}: name at least one configuration")
    twice = [
        item.name for number, item in enumerate(machines) if item.name in [m.name for m in machines[:number]]
    ]
    if twice:
        raise UserError(
            f"--config: two configurations are called {twice[0]!r}; give each a `name` of its own"
        )
    return machines


def _run(
    machines: tuple[Config, ...], programs: int, seed: int, jobs: int, output: Path, dram: Oracle | None
) -> Campaign:
    """Co-simulates `programs` random programs in `jobs` processes; the programs are divided among the machines. Prints
    the progress, and each mismatch as soon as it is found, on standard error. The first mismatch is written to the
    folder `output`. `dram`: as in `run_campaign`.
    """
    from vdla.verify.cosim.campaign import Listener, run_campaign

    console = PlainConsole(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    quiet = talk.quiet or not console.is_terminal
    done, ready = 0, 0

    def doing() -> str | None:
        if not quiet:
            return None
        return f"{done} of {programs} programs have run, {ready} of {len(machines)} libraries are built"

    with (
        Progress(*columns, console=console, transient=True, disable=quiet) as progress,
        never_silent(doing),
    ):
        libraries = progress.add_task("libraries", total=len(machines))
        task = progress.add_task("programs", total=programs)

        def built(machine: Config, seconds: float) -> None:
            nonlocal ready
            ready += 1
            progress.update(libraries, advance=1, description=printable(f"libraries ({machine.name})"))
            if not console.is_terminal:
                note(f"library of {machine.name}: {seconds:.0f} s")

        def ran(result: CaseResult) -> None:
            nonlocal done
            done += 1
            progress.update(task, advance=1)
            if result.differences:
                progress.console.print(f"mismatch: {result.case.name}: {result.differences[0]}")

        def minimized(failure: Failure) -> None:
            from vdla.verify.cosim.failure import report_text, write_failure

            parts = (output, _title(failure), failure.config, failure.launch, failure.outcome)
            write_failure(*parts)
            for line in report_text(*parts).splitlines():
                progress.console.print(line, soft_wrap=True)

        listener = Listener(built=built, ran=ran, minimized=minimized)
        return run_campaign(machines, programs, seed, jobs=jobs, listener=listener, dram=dram)


def _title(failure: Failure) -> str:
    return (
        f"{failure.case.name}: {len(failure.launch.program.instructions)} of {failure.original_instructions} "
        f"instructions left after {failure.runs} runs"
    )


def _failure_document(failure: Failure, output: Path) -> dict[str, object]:
    return {
        "case": failure.case.name,
        "instructions": len(failure.launch.program.instructions),
        "differences": list(failure.outcome.differences),
        "random_state": failure.launch.random_state,
        "directory": str(output),
    }


def _print(campaign: Campaign, failure: Failure | None, output: Path) -> None:
    """Prints the verdict on all co-simulations, a table of the coverage bins that programs hit and missed, and the
    number of bins that cannot be hit on these machines; with -v also the names of the bins. `failure`: the first
    mismatch, if any.
    """
    console = text_console()
    coverage = campaign.coverage
    count = len(campaign.lengths)
    verdict = f"simulator and RTL agree: {count} of {count} programs, every cycle, counter and byte"
    if campaign.mismatches:
        verdict = f"simulator and RTL differ in {len(campaign.mismatches)} of {count} programs"
        if failure is not None:
            verdict += f"; the first, minimized, is in {printable(output)}"
    elif campaign.holes:
        verdict += f"; but no program hit {'; '.join(campaign.holes)}"
    console.print(
        verdict, style="bold red" if campaign.mismatches or campaign.holes else "bold green", soft_wrap=True
    )
    console.print(
        f"programs of {statistics.median(campaign.lengths):g} instructions (median), {campaign.mutated} of them "
        f"mutated compiler output, on {len(campaign.by_machine)} machines: {len(campaign.mismatches)} mismatches in "
        f"{campaign.cycles:,} cycles, {campaign.seconds:.0f} s",
        soft_wrap=True,
    )
    table = Table(title="coverage", title_justify="left")
    for name in ("bins", "reachable", "hit", "empty"):
        table.add_column(name, justify="left" if name in ("bins", "empty") else "right")
    document = coverage.document()
    groups = document["groups"]
    assert isinstance(groups, dict)
    for group, bins in groups.items():
        empty = [name for name, count in bins.items() if not count]
        shown = "; ".join(empty[:4]) + (f" and {len(empty) - 4} more" if len(empty) > 4 else "")
        table.add_row(group, str(len(bins)), str(len(bins) - len(empty)), shown)
    console.print(table)
    if not coverage.unreachable:
        return
    if not talk.verbose:
        note(
            f"{len(coverage.unreachable)} further coverage bins cannot be hit on these machines; -v prints the reasons"
        )
        return
    for (group, name), reason in coverage.unreachable.items():
        note(f"cannot be hit: {group}: {name}: {reason}")
