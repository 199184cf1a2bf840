"""`vdla run`: runs a network on the accelerator, on a processor, on both, or on a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vdla.compiler import VIRTUAL_THREADS
from vdla.util.errors import UserError
from vdla.util.user_files import check_destination

from ..network_options import NetworkOptions
from .dram_oracle import DramOption
from .options import (
    PROCESSOR,
    ConfigOption,
    ConstantOption,
    DimOption,
    JsonOption,
    NoCacheOption,
    TechnologyOption,
)
from .records import RecordsOption, book_from
from .run_accelerator import run_on_accelerator
from .run_divided import Partition, run_divided
from .run_kernels import run_kernels
from .run_options import (
    AcceleratorOptions,
    Check,
    Device,
    Engine,
    ModelOptions,
    RunOptions,
    check_target,
    find_device,
    refuse_interpreter,
    refuse_options_of_models,
    refuse_options_of_others,
)
from .targets import parse_targets


def run(
    context: typer.Context,
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL.onnx|FILE.tar",
            help="An ONNX or TFLite model, quantized for the accelerator; or a file that `vdla compile` wrote.",
        ),
    ],
    device: Annotated[
        str | None,
        typer.Option(
            metavar="DEVICE",
            help="vdla, cpu, cuda:0 (a GPU by its number), cuda:emulated (its kernels on this processor), opencl:0 or "
            "wgsl:0 (an OpenCL or WGSL device by its number). Default: the device of the target or of FILE.tar, "
            "otherwise vdla.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="TARGET",
            help="The target to compile for: vdla; llvm, cuda, opencl or wgsl with the options of `vdla compile`; or "
            "vdla,llvm: this processor runs the nodes that the accelerator does not support.",
        ),
    ] = None,
    config: ConfigOption = "vta",
    technology: TechnologyOption = "models",
    engine: Annotated[
        Engine,
        typer.Option(
            help="cycle: the simulator; rtl: the Verilated RTL, whose results must equal the simulator's."
        ),
    ] = Engine.cycle,
    dram: DramOption = None,
    inputs: Annotated[
        Path | None, typer.Option(metavar="IN.npz", help="Arrays by input name (default: seeded samples).")
    ] = None,
    outputs: Annotated[
        Path | None, typer.Option(metavar="OUT.npz", help="Write the outputs by name.")
    ] = None,
    vthreads: Annotated[
        int, typer.Option(help="Virtual threads, 1 or 2; 1 hides no memory latency.")
    ] = VIRTUAL_THREADS,
    timing_only: Annotated[
        bool,
        typer.Option(
            "--timing-only", help="Count cycles without computing data: faster, but nothing is checked."
        ),
    ] = False,
    timeline: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a timeline for ui.perfetto.dev.")
    ] = None,
    dump_passes: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the program after each compiler pass.")
    ] = None,
    program_out: Annotated[
        Path | None,
        typer.Option(
            "--program-out",
            metavar="FILE",
            help="Write the compiled program, for `vdla check` and other commands.",
        ),
    ] = None,
    advise: Annotated[
        bool,
        typer.Option(
            "--advise",
            help="Name extensions, memories and bus widths that would save 3% of the time: compiles and simulates the "
            "network on each changed machine.",
        ),
    ] = False,
    partition: Annotated[
        Partition,
        typer.Option(
            help="For vdla,llvm. support: the accelerator runs all regions that it supports; cost: only regions "
            "that cost less there.",
        ),
    ] = Partition.support,
    check: Annotated[Check, typer.Option(help="The reference for the outputs.")] = Check.auto,
    repeat: Annotated[
        int, typer.Option(min=1, help="Timed runs, after one untimed run.", rich_help_panel=PROCESSOR)
    ] = 1,
    threads: Annotated[
        int, typer.Option(min=1, max=256, help="Threads that run the network.", rich_help_panel=PROCESSOR)
    ] = 1,
    profile: Annotated[
        bool, typer.Option("--profile", help="Print the time of every kernel.", rich_help_panel=PROCESSOR)
    ] = False,
    batch: Annotated[
        int, typer.Option(help="Size of a dynamic first dimension.", rich_help_panel=PROCESSOR)
    ] = 1,
    dim: DimOption = None,
    constant: ConstantOption = None,
    records: RecordsOption = None,
    no_cache: NoCacheOption = False,
    json: JsonOption = False,
) -> None:
    """Compiles a quantized ONNX model, simulates it, checks its outputs and reports the cycles of each layer by cause.

    With --target vdla,llvm, runs any model: the operators that the accelerator does not support run on this processor,
    and the report has the time of each part. With --device cpu or cuda:0, or for a file that `vdla compile` wrote, runs
    the network on this processor or on a GPU.
    """
    if model.suffix == ".tar":
        from vdla.compiler.runtime.lengths_archive import is_lengths_archive

        if is_lengths_archive(model):
            from .run_lengths import run_lengths

            run_lengths(
                context,
                model,
                RunOptions(
                    inputs=inputs,
                    outputs=outputs,
                    repeat=repeat,
                    threads=threads,
                    profile=profile,
                    json=json,
                ),
            )
            return
    targets = parse_targets("vdla" if target is None else target)
    kind, gpu = find_device(device, model, targets)
    if model.suffix == ".tar":
        if target is not None:
            refuse_options_of_models(context)
        if kind is Device.vdla:
            raise UserError(
                f"{model}: this archive was compiled for a processor; leave out --device vdla, or give the model file "
                "from which the archive was compiled"
            )
    divided = kind is Device.vdla and bool(targets.llvm)
    if target is not None:
        check_target(target, targets, kind, device)
    refuse_options_of_others(context, kind, divided=divided)
    if dim or constant:
        check_destination(outputs, timeline, program_out, inputs=(model, inputs))
    from ..dimensions import sized_model

    with sized_model(model, dim or (), constant or ()) as model:
        options = RunOptions(
            inputs=inputs, outputs=outputs, repeat=repeat, threads=threads, profile=profile, json=json
        )

        def of_model() -> ModelOptions:
            network = NetworkOptions(
                batch=batch, cache=not no_cache, dump_passes=dump_passes, records=book_from(records)
            )
            return ModelOptions(network=network, check=check.value)

        if kind is Device.vdla:
            accelerator = AcceleratorOptions(
                config=config,
                technology=technology,
                virtual_threads=vthreads,
                engine=engine,
                dram=dram,
                timing_only=timing_only,
                timeline=timeline,
                program=program_out,
                advise=advise,
            )
            if divided:
                by_cost = partition is Partition.cost
                run_divided(
                    model, targets.llvm, accelerator, of_model(), options, by_cost=by_cost, records=records
                )
            else:
                run_on_accelerator(model, accelerator, of_model(), options)
            return
        from vdla.compiler.backends.backend import CompileOptions
        from vdla.compiler.backends.registry import kernel_backend

        from ..kernels_run import is_compiled

        name, _, number = (gpu or "").partition(":")
        text = (targets.gpu or name) if gpu is not None else target or "llvm"
        compiled = is_compiled(model)
        if compiled:
            refuse_options_of_models(context)
        else:
            refuse_interpreter(check, kind)
        asked = CompileOptions(target=text, device=number or None)
        run_kernels(
            model,
            lambda: kernel_backend(text).open(asked),
            None if compiled else of_model(),
            options,
        )
