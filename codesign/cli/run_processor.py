"""`vdla run --device cpu`: networks on this processor."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.util.errors import UserError
from vdla.util.user_files import check_destination, whole_directory
from vdla.util.whole_files import write_whole

from .output import note, print_json, steps, text_console
from .records import applied_text
from .results import (
    describe_times,
    end_checked,
    network_inputs,
    print_compiled,
    print_outputs,
    print_verdict,
    shapes,
    times_text,
    wall_milliseconds,
)
from .run_options import ModelOptions

if TYPE_CHECKING:
    from vdla.compiler.runtime.cpu_network import LaunchTime


def run_on_processor(
    path: Path,
    options: ModelOptions | None,
    *,
    inputs: Path | None,
    outputs: Path | None,
    repeat: int,
    threads: int,
    profile: bool,
    json: bool,
) -> None:
    """`vdla run` on this processor: one inference, then `repeat` timed ones, of a model or, without options, FILE.tar.

    A model's outputs are held against ONNX Runtime. Raises UserError.
    """
    check_destination(outputs, inputs=(path, inputs))
    from vdla.compiler.runtime.network_archive import load_network
    from vdla.compiler.target.cpu.errors import KernelArgumentError, MachineMemoryError

    from ..processor_run import CompiledHere, OutputCheck, check_outputs, compile_here

    dumps = None if options is None else options.dump_passes
    compiled: CompiledHere | None = None
    verdict: OutputCheck | None = None
    with whole_directory(dumps) as folder, steps() as progress:
        try:
            if options is None:
                progress.begin(f"loading {path.name}")
                network = load_network(path)
            else:
                progress.begin(f"compiling {path.name}")
                compiled = compile_here(
                    path,
                    options.target,
                    batch=options.batch,
                    cache=options.cache,
                    dump_passes=folder,
                    remark=note,
                    records=options.records,
                    told=progress.reach,
                )
                network = compiled.network
        except MachineMemoryError as error:
            raise UserError(f"{path}: {error}") from None
        if compiled is not None and options is not None and options.records is not None:
            note(applied_text(compiled.knobs))
        with network:
            arrays = network_inputs(network, inputs)
            progress.begin("running", total=repeat)
            try:
                results = network.run(arrays, threads=threads)
            except KernelArgumentError as error:
                # The network knows arrays by name only.
                raise UserError(f"{inputs or path}: {error}") from None
            times = wall_milliseconds(lambda: network.run(arrays, threads=threads), repeat, progress)
            rows: tuple[LaunchTime, ...] = ()
            if profile:
                progress.begin("profiling")
                rows = network.profile(arrays, threads=threads, repeat=repeat)
        if options is not None:
            progress.begin("checking the outputs")
            verdict, remark = check_outputs(path, arrays, results, options.check)
            if remark is not None:
                note(f"not checked: {remark}")
    if outputs is not None:
        from ..network_run import npz_bytes

        write_whole(outputs, npz_bytes(results))
    if json:
        print_json(
            {
                "model": network.graph.name,
                "device": "cpu",
                "target": {"triple": network.target.triple, "cpu": network.target.cpu},
                "threads": threads,
                "repeat": repeat,
                "milliseconds": describe_times(times),
                "inputs": shapes(arrays),
                "outputs": shapes(results),
                "profile": [
                    {
                        "name": row.name,
                        "operator": row.operator,
                        "members": list(row.members),
                        "milliseconds": row.milliseconds,
                        "gflops": row.gflops,
                    }
                    for row in rows
                ]
                if profile
                else None,
                "compile": None
                if compiled is None
                else {"seconds": compiled.seconds, "cached": compiled.cached},
                "check": None if verdict is None else asdict(verdict),
            }
        )
        end_checked(verdict)
        return
    console = text_console()
    if profile:
        from ..report.cpu_table import profile_table

        console.print(profile_table(network.graph.name, rows))
    workers = "1 thread" if threads == 1 else f"{threads} threads"
    console.print(f"{network.graph.name} on {network.target.cpu}, {workers}: {times_text(times)}")
    print_outputs(console, results)
    if compiled is not None:
        print_compiled(console, compiled.seconds, compiled.cached)
    print_verdict(console, verdict)
    end_checked(verdict)
