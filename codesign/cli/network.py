"""`vdla run`: whole networks on the accelerator; `cpu`, `cuda` and `heterogeneous` have those on others."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from vdla.isa.config import load_config
from vdla.isa.errors import UserError
from vdla.isa.program import save_program, write_whole

from ..files import check_destination, whole_directory
from .cpu import PROCESSOR, NoCacheOption
from .heterogeneous import Partition, run_divided
from .output import ConfigOption, JsonOption, Steps, note, print_json, steps, text_console
from .records import RecordsOption, book_from
from .targets import Targets, parse_targets

if TYPE_CHECKING:
    from vdla.compiler.driver import Compiled

    from ..evaluate import Arrays
    from ..network_run import Simulated


class Device(StrEnum):
    """What kind of device `vdla run` runs on."""

    vdla = "vdla"
    cpu = "cpu"
    cuda = "cuda"


class Engine(StrEnum):
    """What runs the compiled network."""

    cycle = "cycle"
    rtl = "rtl"


class Check(StrEnum):
    """What the outputs of `vdla run` are compared with."""

    auto = "auto"
    onnxruntime = "onnxruntime"
    interpreter = "interpreter"


FOR_ALL = ("model", "device", "target", "check", "dump_passes", "inputs", "outputs", "records", "json")
FOR_CPU = ("repeat", "threads", "profile", "batch", "no_cache")
FOR_CUDA = ("repeat", "profile", "batch", "no_cache")
FOR_DIVIDED = ("config", "partition", "vthreads", "repeat", "threads")
"""Parameters of `vdla run` for all devices, for processors, for GPUs, and for models that accelerator and processor
share; all but those for processors and the partition are the accelerator's."""
FOR_MODELS = ("target", "check", "dump_passes", "batch", "records", "no_cache")
"""Parameters for models on processors and GPUs, which networks that are compiled already do not have."""


def run(
    context: typer.Context,
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL.onnx|FILE.tar",
            help="An ONNX model, quantized for the accelerator; or what `vdla compile` wrote.",
        ),
    ],
    device: Annotated[
        str | None,
        typer.Option(
            metavar="DEVICE",
            help="vdla, cpu, cuda:0 (a GPU by its number) or cuda:emulated (its kernels on this processor). Left out, "
            "what the target or FILE.tar is for, otherwise vdla.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="TARGET",
            help="What to compile for: vdla; llvm or cuda with options as of `vdla compile`; or vdla,llvm: what the "
            "accelerator does not support runs on this processor.",
        ),
    ] = None,
    config: ConfigOption = "vta",
    engine: Annotated[
        Engine,
        typer.Option(help="cycle: the simulator; rtl: the Verilated RTL, which must tell the same."),
    ] = Engine.cycle,
    inputs: Annotated[
        Path | None, typer.Option(metavar="IN.npz", help="Arrays by input name; seeded samples otherwise.")
    ] = None,
    outputs: Annotated[
        Path | None, typer.Option(metavar="OUT.npz", help="Where to write the outputs by name.")
    ] = None,
    vthreads: Annotated[
        int, typer.Option(min=1, max=2, help="Virtual threads; 1 hides no memory latency.")
    ] = 2,
    timing_only: Annotated[
        bool, typer.Option("--timing-only", help="Cycles without data: faster, nothing is checked.")
    ] = False,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A timeline for ui.perfetto.dev.")
    ] = None,
    dump_passes: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The program after each compiler pass.")
    ] = None,
    program_out: Annotated[
        Path | None,
        typer.Option(
            "--program-out", metavar="FILE", help="The compiled program, for `vdla check` and others."
        ),
    ] = None,
    partition: Annotated[
        Partition,
        typer.Option(
            help="For vdla,llvm: the accelerator gets what it supports, or of that what costs less there.",
        ),
    ] = Partition.support,
    check: Annotated[Check, typer.Option(help="What to compare the outputs with.")] = Check.auto,
    repeat: Annotated[
        int, typer.Option(min=1, help="Timed runs, after one that is not.", rich_help_panel=PROCESSOR)
    ] = 1,
    threads: Annotated[int, typer.Option(min=1, max=256, help="Threads.", rich_help_panel=PROCESSOR)] = 1,
    profile: Annotated[
        bool, typer.Option("--profile", help="The time of every kernel.", rich_help_panel=PROCESSOR)
    ] = False,
    batch: Annotated[
        int, typer.Option(min=1, help="What a dynamic first dimension becomes.", rich_help_panel=PROCESSOR)
    ] = 1,
    records: RecordsOption = None,
    no_cache: NoCacheOption = False,
    json: JsonOption = False,
) -> None:
    """Compiles a quantized ONNX model, simulates it, checks its outputs and says where every cycle went.

    With --target vdla,llvm any model: what the accelerator does not support runs on this processor, and the report says
    where the time went. With --device cpu or cuda:0, or what `vdla compile` wrote: runs it on this processor or a GPU.
    """
    targets = parse_targets("vdla" if target is None else target)
    kind, ordinal = _device(device, model, targets)
    if model.suffix == ".tar":
        if target is not None:
            _refuse_options_of_models(context)
        if kind is Device.vdla:
            raise UserError(
                f"{model}: was compiled for a processor; leave out --device vdla, or give the model"
            )
    divided = kind is Device.vdla and bool(targets.llvm)
    if target is not None:
        _check_target(target, targets, kind, device)
    _refuse_options_of_others(context, kind, divided=divided)
    if divided:
        run_divided(
            model,
            config=config,
            llvm=targets.llvm,
            by_cost=partition is Partition.cost,
            inputs=inputs,
            outputs=outputs,
            vthreads=vthreads,
            dump_passes=dump_passes,
            check=check.value,
            threads=threads,
            repeat=repeat,
            records=book_from(records),
            json=json,
        )
        return
    if kind is Device.cuda:
        from ..processor_run import is_compiled
        from .cuda import CudaModelOptions, run_on_cuda

        on_gpu: CudaModelOptions | None = None
        if is_compiled(model):
            _refuse_options_of_models(context)
        else:
            _refuse_interpreter(check, "GPUs")
            on_gpu = CudaModelOptions(
                target=targets.cuda or "cuda",
                batch=batch,
                cache=not no_cache,
                check=check.value,
                dump_passes=dump_passes,
                records=book_from(records),
            )
        run_on_cuda(
            model,
            on_gpu,
            ordinal=ordinal,
            inputs=inputs,
            outputs=outputs,
            repeat=repeat,
            profile=profile,
            json=json,
        )
        return
    if kind is Device.cpu:
        from ..processor_run import is_compiled
        from .cpu import ModelOptions, run_on_processor

        options = None
        if is_compiled(model):
            _refuse_options_of_models(context)
        else:
            _refuse_interpreter(check, "processors")
            options = ModelOptions(
                target=target or "llvm",
                batch=batch,
                cache=not no_cache,
                check=check.value,
                dump_passes=dump_passes,
                records=book_from(records),
            )
        run_on_processor(
            model,
            options,
            inputs=inputs,
            outputs=outputs,
            repeat=repeat,
            threads=threads,
            profile=profile,
            json=json,
        )
        return
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
            model, machine, virtual_threads=vthreads, dump_passes=dumps, records=book_from(records)
        )
        progress.begin("preparing inputs")
        from ..evaluate import load_arrays, sample_arrays, split_launches

        if inputs is None:
            launches = sample_arrays(compiled.graph, 1)
        else:
            launches = split_launches(compiled.graph.inputs, load_arrays(inputs), str(inputs))
        progress.begin(LOADING)
        load_simulator()
        if engine is Engine.rtl:
            simulated = _run_on_rtl(compiled, launches, progress)
        else:
            progress.begin("simulating", total=len(launches))
            simulated = simulate_network(compiled, launches, data=not timing_only, on_launch=progress.advance)
        verdict = None
        if not timing_only:
            progress.begin("checking the outputs")
            verdict, remark = check_run(compiled, model, launches, simulated, check.value)
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
        return
    from ..report.table import layer_table, summary

    console = text_console()
    console.print(layer_table(account, console.width))
    for line in summary(account):
        console.print(line, markup=False, soft_wrap=True)


def _device(text: str | None, model: Path, targets: Targets) -> tuple[Device, int | None]:
    """What to run on, and which GPU by its number (None: emulated). Raises UserError."""
    compiled = model.suffix == ".tar"
    if compiled or (text is not None and text.startswith("cuda")):
        from vdla.compiler.runtime.archive import is_for_gpu

        for_gpu = is_for_gpu(model)
    else:
        for_gpu = False
    if text is None:
        if targets.cuda or for_gpu:
            return Device.cuda, 0
        return (Device.cpu if compiled or not targets.vdla else Device.vdla), None
    if text.partition(":")[0] == "cuda":
        if compiled and not for_gpu and model.exists():
            raise UserError(
                f"{model}: was not compiled for a GPU; leave out --device {text}, or give the model"
            )
        if text == "cuda:emulated":
            return Device.cuda, None
        from vdla.compiler.runtime.cuda_device import parse_device

        return Device.cuda, parse_device(text)
    if text not in ("vdla", "cpu"):
        raise UserError(
            f"--device {text}: is not one of vdla, cpu, cuda:0 (a GPU by its number) and cuda:emulated"
        )
    if for_gpu:
        raise UserError(f"{model}: was compiled for a GPU; run it with --device cuda:0, or give the model")
    return Device(text), None


def _check_target(target: str, targets: Targets, kind: Device, device: str | None) -> None:
    """UserError for a target that is not the device's."""
    if kind is Device.vdla and not targets.vdla:
        if targets.cuda:
            raise UserError(f"--device vdla: --target {target} is a GPU's; leave out one of them")
        raise UserError(
            f"--device vdla: --target {target} is a processor's; say --target vdla,{targets.llvm} for both"
        )
    if kind is Device.cpu and targets.cuda:
        raise UserError(
            f"--device cpu: --target {target} is a GPU's; say --device cuda:emulated to emulate it"
        )
    if kind is Device.cpu and targets.vdla:
        raise UserError(f"--device cpu: --target {target} names the accelerator; leave out one of them")
    if kind is Device.cuda and not targets.cuda:
        raise UserError(
            f"--device {device}: --target {target} is no GPU's; leave it out, or say --target cuda"
        )


def _refuse_interpreter(check: Check, where: str) -> None:
    if check is Check.interpreter:
        raise UserError(f"--check interpreter is for the accelerator; on {where} there is onnxruntime")


def _refuse_options_of_others(context: typer.Context, device: Device, *, divided: bool) -> None:
    """UserError for options that were given and say nothing on this device."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE":
            continue
        option = "--" + name.replace("_", "-")
        if name in FOR_ALL:
            continue
        if device is Device.cpu:
            if name not in FOR_CPU:
                raise UserError(f"{option} is for the accelerator; leave it out on a cpu")
        elif device is Device.cuda:
            if name not in FOR_CUDA:
                owner = "processors" if name == "threads" else "the accelerator"
                raise UserError(f"{option} is for {owner}; leave it out on a GPU")
        elif divided:
            if name not in FOR_DIVIDED:
                raise UserError(
                    f"{option} is not for networks on several targets; leave it out, or take --target vdla"
                )
        elif name == "partition":
            raise UserError("--partition divides networks between targets; add --target vdla,llvm")
        elif name in FOR_CPU:
            raise UserError(f"{option} is for processors; leave it out, or run with --device cpu")


def _refuse_options_of_models(context: typer.Context) -> None:
    """UserError for options that were given and say nothing about a network that is compiled already."""
    for name in FOR_MODELS:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = "--" + name.replace("_", "-")
            raise UserError(f"{option} is for models; leave it out for a FILE.tar, which is compiled already")


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
            print(f"error: {error}", file=sys.stderr)
            raise typer.Exit(3) from None
    found = list(result.differences)
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        print(f"error: RTL and simulator differ: {found[0]}{more}", file=sys.stderr)
        raise typer.Exit(1)
    return result.simulated
