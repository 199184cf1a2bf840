"""`vdla compile`, and `vdla run` of what it writes: networks on processors."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from vdla.isa.errors import UserError
from vdla.isa.program import write_whole

from ..files import check_destination, whole_directory
from .compile_accelerator import compile_for_accelerator
from .output import ConfigOption, JsonOption, note, print_json, steps, text_console
from .records import RecordsOption, applied_text, book_from
from .results import (
    describe_times,
    network_inputs,
    print_compiled,
    print_outputs,
    print_verdict,
    shapes,
    times_text,
    wall_milliseconds,
)
from .targets import parse_targets

if TYPE_CHECKING:
    from vdla.compiler.runtime.cpu_network import LaunchTime
    from vdla.compiler.runtime.network_archive import NetworkCode
    from vdla.compiler.target.cpu.machine import CpuTarget
    from vdla.compiler.templates.chosen_knobs import ChosenKnobs
    from vdla.compiler.templates.workload_cpu import CpuWorkload
    from vdla.compiler.tune.records.book import RecordBook


PROCESSOR = "On processors"
NoCacheOption = Annotated[
    bool,
    typer.Option(
        "--no-cache", help="Compile again, and keep nothing in the cache.", rich_help_panel=PROCESSOR
    ),
]


def compile_model(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="An ONNX model, float32 or quantized.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="FILE.tar for `vdla run` (MODEL.tar in this folder, unless told); FILE.o: an object for C programs, "
            "with FILE.h and FILE_main.c; FILE.so: the same as a shared library for this machine. "
            "For vdla: the program (MODEL.vdla, unless told).",
        ),
    ] = None,
    target: Annotated[
        str,
        typer.Option(
            metavar="TARGET",
            help='llvm (this machine), or "llvm -mtriple=T -mcpu=NAME -mattr=+FEATURE,..." in LLVM\'s names; cuda (a '
            'GPU), or "cuda -arch=sm_80 -tf32", of which -tf32 lets tensor cores round inputs of products; vdla: the '
            "accelerator.",
        ),
    ] = "llvm",
    config: ConfigOption = "vta",
    batch: Annotated[int, typer.Option(min=1, help="What a dynamic first dimension becomes.")] = 1,
    dump_passes: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The graph after each compiler pass, and every kernel before and after its schedule.",
        ),
    ] = None,
    records: RecordsOption = None,
    no_cache: NoCacheOption = False,
    json: JsonOption = False,
) -> None:
    """Compiles an ONNX model, float32 or quantized, for a processor or a GPU, for `vdla run FILE.tar` or C programs.

    With --target vdla a quantized one for the accelerator: the program that `vdla run --program-out` writes.
    """
    first = target.split()[:1]
    targets = parse_targets(target) if first and first[0].startswith(("vdla", "cuda")) else None
    if targets is not None and targets.cuda:
        _refuse(context, ("config",), "is for the accelerator; leave it out with --target cuda")
        from .cuda import compile_for_cuda

        compile_for_cuda(
            model,
            output,
            target=targets.cuda,
            batch=batch,
            dump_passes=dump_passes,
            cache=not no_cache,
            records=book_from(records),
            json=json,
        )
        return
    if targets is not None:
        if targets.llvm:
            raise UserError(
                f'--target "{target}": a file is for one target, vdla or llvm; `vdla run` divides models'
            )
        _refuse(context, ("batch", "no_cache"), "is for processors; leave it out with --target vdla")
        compile_for_accelerator(
            model, output, config=config, dump_passes=dump_passes, records=book_from(records), json=json
        )
        return
    _refuse(context, ("config",), "is for the accelerator; leave it out, or add --target vdla")
    output = Path(f"{model.stem}.tar") if output is None else output
    files = _files(output)
    check_destination(*files, inputs=(model,))
    from vdla.compiler.target.cpu.options import parse_target

    processor = parse_target(target)
    book = book_from(records)
    started = time.perf_counter()
    with whole_directory(dump_passes) as dumps, steps() as progress:
        progress.begin(f"compiling {model.name} for {processor.cpu}")
        if len(files) == 1 and dumps is None and not no_cache:
            written = _copy_cached(model, processor, batch, output, book)
        else:
            written = _write_compiled(model, processor, batch, output, dumps, book)
    seconds = time.perf_counter() - started
    size = output.stat().st_size
    if book is not None:
        note(applied_text(written.knobs))
    if json:
        print_json(
            {
                "model": model.stem,
                "target": {
                    "triple": processor.triple,
                    "cpu": processor.cpu,
                    "vector_bits": processor.vector_bits,
                },
                "file": str(output),
                "files": [str(file) for file in files],
                "bytes": size,
                "kernels": written.kernels,
                "launches": written.launches,
                "arena_bytes": written.arena_bytes,
                "arena_bytes_without_reuse": written.arena_bytes_without_reuse,
                "compile_seconds": seconds,
                "cached": written.cached,
            }
        )
    else:
        note(
            f"wrote {', '.join([str(file) for file in files])}: {model.stem} for {processor.cpu} "
            f"({processor.triple}), {written.kernels} kernels, {written.launches} launches, {size:,} bytes, "
            f"arena {written.arena_bytes:,} bytes (without reuse {written.arena_bytes_without_reuse:,}), "
            f"{'from the cache' if written.cached else 'compiled'} in {seconds:.2f} s"
        )


def _refuse(context: typer.Context, names: Sequence[str], why: str) -> None:
    """UserError for those of the parameters that were given."""
    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise UserError(f"--{name.replace('_', '-')} {why}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """What `vdla compile` says about what it wrote; `arena_bytes` hold all tensors but constants and scratch."""

    kernels: int
    launches: int
    arena_bytes: int
    arena_bytes_without_reuse: int
    cached: bool
    knobs: ChosenKnobs[CpuWorkload] | None


def _copy_cached(
    model: Path, processor: CpuTarget, batch: int, output: Path, records: RecordBook | None
) -> _Written:
    """The archive from the user's cache, compiled where it was not there; compiled alone where there is no cache."""
    from vdla.compiler.runtime.network_archive import check_network
    from vdla.hw.user_cache import CacheError

    from ..files import read_whole
    from ..network_cache import cached_network

    try:
        entry = cached_network(model, processor, batch=batch, records=records)
        content = read_whole(entry.path, "compiled network")
    except CacheError as error:
        note(f"compiled without the cache: {error}")
        return _write_compiled(model, processor, batch, output, None, records)
    write_whole(output, content)
    description = check_network(output)
    return _Written(
        kernels=len(description["kernels"]),
        launches=len(description["launches"]),
        arena_bytes=description["arena_bytes"],
        arena_bytes_without_reuse=description["arena_bytes_without_reuse"],
        cached=entry.hit,
        knobs=entry.knobs,
    )


def _write_compiled(
    model: Path,
    processor: CpuTarget,
    batch: int,
    output: Path,
    dumps: Path | None,
    records: RecordBook | None,
) -> _Written:
    """An archive, or code for C programs, compiled now."""
    from vdla.compiler.cpu_driver import compile_cpu_ahead
    from vdla.compiler.runtime.network_archive import save_network
    from vdla.compiler.tune.records.apply_cpu import knobs_from

    knobs = None if records is None else knobs_from(records, processor)
    network = compile_cpu_ahead(model, processor, batch=batch, dump_passes=dumps, knobs=knobs)
    if len(_files(output)) == 1:
        save_network(output, network)
    else:
        _write_code(network, output)
    return _Written(
        kernels=len(network.modules),
        launches=len(network.launches),
        arena_bytes=network.plan.bytes,
        arena_bytes_without_reuse=network.plan.bytes_without_reuse,
        cached=False,
        knobs=knobs,
    )


def _files(output: Path) -> tuple[Path, ...]:
    """What `vdla compile` writes: an archive, or code with its header and a driver. Raises UserError."""
    if output.suffix in (".tar", ""):
        return (output,)
    if output.suffix not in (".o", ".so"):
        raise UserError(f"-o {output}: {output.suffix} is none of .tar, .o and .so, which say what to write")
    from vdla.compiler.target.cpu.c_header import is_c_name

    name = _function(output)
    if not is_c_name(name):
        raise UserError(
            f"-o {output}: {name!r} is no name of a C function, which the code would have; "
            "use letters, digits and single underscores"
        )
    return (output, output.with_name(f"{name}.h"), output.with_name(f"{name}_main.c"))


def _function(output: Path) -> str:
    """The function in FILE.o, FILE.so or libFILE.so."""
    return output.stem.removeprefix("lib") if output.suffix == ".so" else output.stem


def _write_code(network: NetworkCode, output: Path) -> None:
    """An object or a shared library, its header and a driver, each whole. Raises UserError."""
    from vdla.compiler.runtime.network_object import emit_network
    from vdla.compiler.target.cpu.ahead_of_time import write_shared_library
    from vdla.compiler.target.cpu.c_header import driver_text

    code = emit_network(network, name=_function(output))
    _, header, driver = _files(output)
    if output.suffix == ".so":
        write_shared_library(code, output)
    else:
        write_whole(output, code.data)
    write_whole(header, code.header.encode())
    write_whole(driver, driver_text(code.name, code.modules[0]).encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """Options of `vdla run` that only a model has, not a network that is compiled already."""

    target: str
    batch: int
    cache: bool
    check: str
    dump_passes: Path | None
    records: RecordBook | None


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
    from vdla.compiler.target.cpu.errors import KernelArgumentError

    from ..processor_run import CompiledHere, OutputCheck, check_outputs, compile_here

    dumps = None if options is None else options.dump_passes
    compiled: CompiledHere | None = None
    verdict: OutputCheck | None = None
    with whole_directory(dumps) as folder, steps() as progress:
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
            )
            network = compiled.network
            if options.records is not None:
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
        return
    console = text_console()
    if profile:
        from ..report.cpu_table import profile_table

        console.print(profile_table(network.graph.name, rows))
    workers = "1 thread" if threads == 1 else f"{threads} threads"
    console.print(
        f"{network.graph.name} on {network.target.cpu}, {workers}: {times_text(times)}", markup=False
    )
    print_outputs(console, results)
    if compiled is not None:
        print_compiled(console, compiled.seconds, compiled.cached)
    print_verdict(console, verdict)
