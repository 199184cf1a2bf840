"""`vdla compile`: compiles a network for a processor, a GPU or the accelerator into a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from vdla.util.errors import UserError
from vdla.util.user_files import check_destination

from ..network_options import NetworkOptions
from .compile_accelerator import compile_for_accelerator
from .compile_kernels import compile_kernels
from .options import (
    ConfigOption,
    ConstantOption,
    DimOption,
    JsonOption,
    LengthOption,
    NoCacheOption,
    PadOption,
    ToleranceOption,
    was_given,
)
from .records import RecordsOption, book_from
from .targets import Targets, parse_targets


def compile_model(
    context: typer.Context,
    model: Annotated[
        Path, typer.Argument(metavar="MODEL.onnx", help="An ONNX or TFLite model, float32 or quantized.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="FILE.tar for `vdla run` (default: MODEL.tar in this folder); FILE.o: an object for C programs, "
            "with FILE.h and FILE_main.c; FILE.so: the same as a shared library for this machine. "
            "For vdla: the program (default: MODEL.vdla).",
        ),
    ] = None,
    target: Annotated[
        str,
        typer.Option(
            metavar="TARGET",
            help='llvm (this machine), or "llvm -mtriple=T -mcpu=NAME -mattr=+FEATURE,..." in LLVM\'s names; cuda (a '
            'GPU), or "cuda -arch=sm_80 -tf32", where -tf32 lets tensor cores round the inputs of products; opencl '
            '(any OpenCL device), or "opencl -threads=N -local-bytes=N" with limits of its work-groups; wgsl (any '
            "device of Vulkan, Metal or DirectX) and hip (AMD GPUs, as text for hipcc), with the same options; vdla: "
            "the accelerator.",
        ),
    ] = "llvm",
    config: ConfigOption = "vta",
    batch: Annotated[int, typer.Option(help="Size of a dynamic first dimension.")] = 1,
    dump_passes: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write the graph after each compiler pass, and every kernel before and after its schedule.",
        ),
    ] = None,
    dim: DimOption = None,
    constant: ConstantOption = None,
    length: LengthOption = None,
    pad: PadOption = None,
    tolerance: ToleranceOption = None,
    records: RecordsOption = None,
    no_cache: NoCacheOption = False,
    json: JsonOption = False,
) -> None:
    """Compiles an ONNX model, float32 or quantized, for a processor or a GPU, into a file for `vdla run FILE.tar` or
    for C programs.

    With --target vdla, compiles a quantized model for the accelerator, into the program that `vdla run --program-out`
    writes. With --length, for any target: writes one file for inputs of any length in a range.
    """
    if dim or constant:
        check_destination(output, inputs=(model,))
    from ..dimensions import parse_length, parse_pads, sized_model

    lengths = None if length is None else parse_length(length)
    if lengths is None:
        _refuse(context, ("pad", "tolerance"), "is for a range of lengths; add --length NAME=LEAST:MOST")
    pads = parse_pads(pad or ())
    with sized_model(model, dim or (), constant or ()) as model:
        from vdla.compiler.backends.backend import CompileOptions
        from vdla.compiler.backends.registry import kernel_backend

        # A target that begins with llvm gets the error messages of its own parser.
        targets = Targets(llvm=target) if target.split()[:1] == ["llvm"] else parse_targets(target)
        if targets.vdla and targets.llvm:
            raise UserError(
                f'--target "{target}": `vdla compile` writes a file for one target; choose vdla or llvm, or '
                "divide the model between both with `vdla run`"
            )
        if lengths is not None:
            from vdla.isa.config import load_config

            from .compile_lengths import compile_for_lengths

            _refuse(context, ("dump_passes", "no_cache"), "is for one length; leave it out with --length")
            if not targets.vdla:
                _refuse(context, ("config",), "is for the accelerator; leave it out, or add --target vdla")
            asked = CompileOptions(
                target=target,
                config=load_config(config) if targets.vdla else None,
                batch=batch,
                records=book_from(records),
            )
            compile_for_lengths(model, output, asked, lengths, pads=pads, tolerance=tolerance, json=json)
            return
        if targets.vdla:
            _refuse(context, ("batch", "no_cache"), "is for processors; leave it out with --target vdla")
            compile_for_accelerator(
                model, output, config=config, dump_passes=dump_passes, records=book_from(records), json=json
            )
            return
        advice = "leave it out, or add --target vdla"
        if targets.gpu:
            advice = f"leave it out with --target {targets.gpu_name}"
        _refuse(context, ("config",), f"is for the accelerator; {advice}")
        options = NetworkOptions(
            batch=batch, cache=not no_cache, dump_passes=dump_passes, records=book_from(records)
        )
        compiler = kernel_backend(target).compiler(CompileOptions(target=target))
        compile_kernels(model, output, compiler, options, json=json)


def _refuse(context: typer.Context, names: Sequence[str], why: str) -> None:
    """Raises UserError if the command line has one of the parameters `names`. The message names the first of these
    parameters and ends in `why`.
    """
    for name in names:
        if was_given(context, name):
            raise UserError(f"--{name.replace('_', '-')} {why}")
