"""`vdla run` for networks that run kernel by kernel: on this processor, on a GPU, or on an emulated GPU."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.util.errors import UserError
from vdla.util.files import write_whole
from vdla.util.user_files import check_destination, whole_directory

from .output import note, print_json, steps, text_console
from .records import applied_text
from .results import (
    describe_times,
    end_checked,
    enough_memory,
    network_inputs,
    print_compiled,
    print_outputs,
    print_verdict,
    shapes,
    times_text,
    wall_milliseconds,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vdla.compiler.backends.kernels import KernelDevice, KernelTime

    from ..kernels_run import CompiledNetwork
    from ..output_check import OutputCheck
    from .run_options import ModelOptions, RunOptions


def run_kernels(
    path: Path, open_device: Callable[[], KernelDevice], model: ModelOptions | None, options: RunOptions
) -> None:
    """Runs one inference on a processor or GPU, then repeats it to measure its time. If `model` is given, `path` is a
    model, which is compiled, and whose outputs are compared with those of ONNX Runtime. If `model` is None, `path` is a
    compiled archive (.tar).

    The device is opened first: if there is none, no time is spent on compilation. Raises UserError.
    """
    check_destination(options.outputs, inputs=(path, options.inputs))
    from vdla.compiler.codegen.cpu.errors import KernelArgumentError, MachineMemoryError

    from ..output_check import check_outputs

    compiled: CompiledNetwork | None = None
    verdict: OutputCheck | None = None
    with whole_directory(model.network.dump_passes if model else None) as folder, steps() as progress:
        device = open_device()
        try:
            try:
                if model is None:
                    progress.begin(f"loading {path.name}")
                    network = device.load(path)
                else:
                    from ..kernels_run import compile_on

                    progress.begin(f"compiling {path.name} for {device.label}")
                    compiled = compile_on(
                        device,
                        path,
                        replace(model.network, dump_passes=folder),
                        remark=note,
                        told=progress.reach,
                    )
                    network = compiled.network
            except MachineMemoryError as error:
                raise UserError(f"{path}: {error}") from None
            if compiled is not None and model is not None and model.network.records is not None:
                note(applied_text(compiled.knobs))
            target = device.describe_network(network)
            with network, enough_memory(path):
                arrays = network_inputs(network, options.inputs, None if model is None else path)
                progress.begin("running", total=options.repeat)
                try:
                    results = network.run(arrays, threads=options.threads)
                except KernelArgumentError as error:
                    # The network's errors name arrays, but not the file.
                    raise UserError(f"{options.inputs or path}: {error}") from None
                wall = wall_milliseconds(
                    lambda: network.run(arrays, threads=options.threads), options.repeat, progress
                )
                clocked = device.device_milliseconds(network, arrays, options.repeat)
                rows: Sequence[KernelTime] = ()
                if options.profile:
                    progress.begin("profiling")
                    rows = network.profile(arrays, threads=options.threads, repeat=options.repeat)
            if model is not None:
                progress.begin("checking the outputs")
                with enough_memory(path):
                    verdict, remark = check_outputs(
                        path, arrays, results, model.check, tensor_float=bool(target.get("tf32"))
                    )
                if remark is not None:
                    note(f"not checked: {remark}")
        finally:
            device.close()
    if options.outputs is not None:
        from ..network_run import npz_bytes

        with enough_memory(path):
            write_whole(options.outputs, npz_bytes(results))
    times = wall if clocked is None else clocked
    if options.json:
        document: dict[str, Any] = {
            "model": network.name,
            **device.describe_device(),
            "target": target,
            "threads": options.threads,
            "repeat": options.repeat,
            "milliseconds": describe_times(times),
            "wall_milliseconds": describe_times(wall),
            "inputs": shapes(arrays),
            "outputs": shapes(results),
            "profile": [{**asdict(row), "members": list(row.members)} for row in rows]
            if options.profile
            else None,
            "compile": None if compiled is None else {"seconds": compiled.seconds, "cached": compiled.cached},
            "check": None if verdict is None else asdict(verdict),
        }
        print_json(document)
        end_checked(verdict)
        return
    console = text_console()
    if options.profile:
        from ..report.profile_table import profile_table

        console.print(profile_table(device.profile_title(network), rows, device.peaks(network)))
    console.print(device.times_text(network, options.threads, times_text(times)))
    if clocked is not None:
        console.print(f"with copies to and from the device: {times_text(wall)}")
    print_outputs(console, results)
    if compiled is not None:
        print_compiled(console, compiled.seconds, compiled.cached)
    print_verdict(console, verdict)
    end_checked(verdict)
