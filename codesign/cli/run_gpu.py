"""`vdla run --device cuda:0` and cuda:emulated: networks on GPUs, and their kernels on this processor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from vdla.util.errors import UserError
from vdla.util.user_files import check_destination, whole_directory
from vdla.util.whole_files import write_whole

from .output import Steps, note, print_json, steps, text_console
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
    from vdla.compiler.runtime.cuda_device import DeviceProperties
    from vdla.compiler.runtime.cuda_network import DeviceTime
    from vdla.compiler.target.cuda.machine import CudaTarget

    from ..cuda_run import CompiledCuda
    from ..processor_run import OutputCheck

EMULATED = "cuda:emulated"
EMULATED_REMARK = "emulated on this processor: the times say nothing about a GPU"

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Ran:
    """What a run gave. `milliseconds` are of the device's clock on a device, else of this machine's.

    `wall` are of this machine's, with copies to and from the device.
    """

    model: str
    target: CudaTarget | None
    card: DeviceProperties | None
    inputs: Arrays
    outputs: Arrays
    milliseconds: list[float]
    wall: list[float]
    profile: tuple[DeviceTime, ...] | tuple[LaunchTime, ...]
    compiled: CompiledCuda | None


def run_on_cuda(
    path: Path,
    options: ModelOptions | None,
    *,
    ordinal: int | None,
    inputs: Path | None,
    outputs: Path | None,
    repeat: int,
    profile: bool,
    json: bool,
) -> None:
    """`vdla run` on GPU number `ordinal`, or emulated (None): one inference, then `repeat` timed ones.

    Of a model or, without options, of FILE.tar. A model's outputs are held against ONNX Runtime. Raises UserError.
    """
    check_destination(outputs, inputs=(path, inputs))
    from vdla.compiler.target.cpu.errors import KernelArgumentError

    from ..processor_run import check_outputs

    verdict: OutputCheck | None = None
    dumps = None if options is None else options.dump_passes
    with whole_directory(dumps) as folder, steps() as progress:
        try:
            if ordinal is None:
                ran = _run_emulated(path, options, folder, inputs, repeat, profile, progress)
            else:
                ran = _run_on_device(path, options, folder, ordinal, inputs, repeat, profile, progress)
        except KernelArgumentError as error:
            # The network knows arrays by name only.
            raise UserError(f"{inputs or path}: {error}") from None
        if options is not None:
            progress.begin("checking the outputs")
            verdict, remark = check_outputs(
                path,
                ran.inputs,
                ran.outputs,
                options.check,
                tensor_float=ran.target is not None and ran.target.tensor_float,
            )
            if remark is not None:
                note(f"not checked: {remark}")
    if outputs is not None:
        from ..network_run import npz_bytes

        write_whole(outputs, npz_bytes(ran.outputs))
    device = EMULATED if ordinal is None else f"cuda:{ordinal}"
    if json:
        print_json(_document(ran, device, verdict, profile))
    else:
        _print(ran, device, verdict, profile)
    end_checked(verdict)


def _compiled(
    compile: Callable[..., CompiledCuda],
    path: Path,
    target: CudaTarget,
    options: ModelOptions,
    folder: Path | None,
) -> CompiledCuda:
    """The model at `path` as `compile` makes it; says what records did."""
    from vdla.compiler.target.cpu.errors import MachineMemoryError

    try:
        compiled = compile(
            path,
            target,
            batch=options.batch,
            cache=options.cache,
            dump_passes=folder,
            remark=note,
            records=options.records,
        )
    except MachineMemoryError as error:
        raise UserError(f"{path}: {error}") from None
    if options.records is not None:
        note(applied_text(compiled.knobs))
    return compiled


def _run_emulated(
    path: Path,
    options: ModelOptions | None,
    folder: Path | None,
    inputs: Path | None,
    repeat: int,
    profile: bool,
    progress: Steps,
) -> _Ran:
    if options is None:
        raise UserError(
            f"{path}: holds machine code of a GPU, which runs on --device cuda:0; for {EMULATED} give the model"
        )
    from vdla.compiler.target.cuda.options import parse_target

    from ..cuda_run import compile_emulated

    target = parse_target(options.target)
    progress.begin(f"compiling {path.name} for {target.arch}, emulated")
    compiled = _compiled(compile_emulated, path, target, options, folder)
    assert compiled.emulated is not None
    with compiled.emulated as network:
        arrays = network_inputs(network, inputs)
        progress.begin("running", total=repeat)
        results = network.run(arrays)
        times = wall_milliseconds(lambda: network.run(arrays), repeat, progress)
        rows: tuple[LaunchTime, ...] = ()
        if profile:
            progress.begin("profiling")
            rows = network.profile(arrays, repeat=repeat)
    return _Ran(
        model=network.graph.name,
        target=target,
        card=None,
        inputs=arrays,
        outputs=results,
        milliseconds=times,
        wall=times,
        profile=rows,
        compiled=compiled,
    )


def _run_on_device(
    path: Path,
    options: ModelOptions | None,
    folder: Path | None,
    ordinal: int,
    inputs: Path | None,
    repeat: int,
    profile: bool,
    progress: Steps,
) -> _Ran:
    from vdla.compiler.runtime.cuda_archive import load_cuda_network
    from vdla.compiler.runtime.cuda_core import open_device
    from vdla.compiler.runtime.cuda_network import CudaNetwork, check_device
    from vdla.compiler.runtime.device_target import device_target

    from ..cuda_run import compile_for_device

    # Before anything is compiled: without a device that would be for nothing.
    with open_device(ordinal) as device:
        compiled: CompiledCuda | None = None
        if options is None:
            progress.begin(f"loading {path.name}")
            code = load_cuda_network(path)
        else:
            target = device_target(options.target, device.properties)
            check_device(device, target)
            progress.begin(f"compiling {path.name} for {target.arch}")
            compiled = _compiled(compile_for_device, path, target, options, folder)
            assert compiled.code is not None
            code = compiled.code
        with CudaNetwork(code, device) as network:
            arrays = network_inputs(network, inputs)
            progress.begin("running", total=repeat)
            results = network.run(arrays)
            wall = wall_milliseconds(lambda: network.run(arrays), repeat, progress)
            times = network.time(arrays, repeat=repeat)
            rows: tuple[DeviceTime, ...] = ()
            if profile:
                progress.begin("profiling")
                rows = network.profile(arrays, repeat=repeat)
        return _Ran(
            model=code.graph.name,
            target=code.target,
            card=device.properties,
            inputs=arrays,
            outputs=results,
            milliseconds=times,
            wall=wall,
            profile=rows,
            compiled=compiled,
        )


def _document(ran: _Ran, device: str, verdict: OutputCheck | None, profile: bool) -> dict[str, object]:
    card, target = ran.card, ran.target
    return {
        "model": ran.model,
        "device": device,
        "emulated": card is None,
        "card": None if card is None else {"name": card.name, "driver": card.driver},
        "target": None if target is None else {"arch": target.arch, "tf32": target.tensor_float},
        "repeat": len(ran.milliseconds),
        "milliseconds": describe_times(ran.milliseconds),
        "wall_milliseconds": describe_times(ran.wall),
        "inputs": shapes(ran.inputs),
        "outputs": shapes(ran.outputs),
        "profile": [{**asdict(row), "members": list(row.members)} for row in ran.profile]
        if profile
        else None,
        "compile": None
        if ran.compiled is None
        else {"seconds": ran.compiled.seconds, "cached": ran.compiled.cached},
        "check": None if verdict is None else asdict(verdict),
    }


def _print(ran: _Ran, device: str, verdict: OutputCheck | None, profile: bool) -> None:
    console = text_console()
    assert ran.target is not None
    if ran.card is None:
        if profile:
            from ..report.cpu_table import profile_table

            console.print(profile_table(f"{ran.model}, emulated", ran.profile))  # type: ignore[arg-type]
        console.print(
            f"{ran.model} for {ran.target.arch}, {EMULATED_REMARK} ({times_text(ran.milliseconds)})",
        )
    else:
        if profile:
            from ..report.cuda_table import device_table

            console.print(device_table(ran.model, ran.profile, ran.target))  # type: ignore[arg-type]
        console.print(
            f"{ran.model} on {device}, {ran.card.name}: {times_text(ran.milliseconds)} by the device's clock",
        )
        console.print(f"with copies to and from the device: {times_text(ran.wall)}")
    print_outputs(console, ran.outputs)
    if ran.compiled is not None:
        print_compiled(console, ran.compiled.seconds, ran.compiled.cached)
    print_verdict(console, verdict)
