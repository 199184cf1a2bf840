"""`vdla compile --target llvm`: networks for a processor, as one file or as code for C programs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.util.errors import UserError
from vdla.util.user_files import check_destination, whole_directory
from vdla.util.whole_files import copy_whole, write_whole

from .output import note, print_json, steps
from .records import applied_text

if TYPE_CHECKING:
    from vdla.compiler.cpu_driver import Told
    from vdla.compiler.runtime.network_archive import NetworkCode
    from vdla.compiler.target.cpu.machine import CpuTarget
    from vdla.compiler.templates.chosen_knobs import ChosenKnobs
    from vdla.compiler.templates.cpu.workload import CpuWorkload
    from vdla.compiler.tune.records.book import RecordBook


def compile_for_processor(
    model: Path,
    output: Path | None,
    *,
    target: str,
    batch: int,
    dump_passes: Path | None,
    cache: bool,
    records: RecordBook | None,
    json: bool,
) -> None:
    """`vdla compile --target llvm`: FILE.tar, FILE.o or FILE.so, by the name of `output` (MODEL.tar unless told).

    Raises UserError.
    """
    output = Path(f"{model.stem}.tar") if output is None else output
    files = _files(output)
    check_destination(*files, inputs=(model,))
    from vdla.compiler.target.cpu.options import parse_target

    processor = parse_target(target)
    started = time.perf_counter()
    with whole_directory(dump_passes) as dumps, steps() as progress:
        progress.begin(f"compiling {model.name} for {processor.cpu}")
        if len(files) == 1 and dumps is None and cache:
            written = _copy_cached(model, processor, batch, output, records, progress.reach)
        else:
            written = _write_compiled(model, processor, batch, output, dumps, records, progress.reach)
    seconds = time.perf_counter() - started
    size = output.stat().st_size
    if records is not None:
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
    model: Path,
    processor: CpuTarget,
    batch: int,
    output: Path,
    records: RecordBook | None,
    told: Told,
) -> _Written:
    """The archive from the user's cache, compiled where it was not there; compiled alone where there is no cache."""
    from vdla.compiler.runtime.archive import describe_saved
    from vdla.util.user_cache import CacheError

    from ..network_cache import cached_network

    try:
        entry = cached_network(model, processor, batch=batch, records=records, told=told)
    except CacheError as error:
        note(f"compiled without the cache: {error}")
        return _write_compiled(model, processor, batch, output, None, records, told)
    copy_whole(entry.path, output)
    # The cache says that it is whole.
    description = describe_saved(entry.path)
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
    told: Told,
) -> _Written:
    """An archive, or code for C programs, compiled now."""
    from vdla.compiler.cpu_driver import compile_cpu_ahead
    from vdla.compiler.runtime.network_archive import NAME, save_network
    from vdla.compiler.templates.cpu.tasks import CPU
    from vdla.compiler.tune.records.apply import knobs_from

    knobs = None if records is None else knobs_from(records, CPU, processor)
    archive = len(_files(output)) == 1
    network = compile_cpu_ahead(
        model,
        processor,
        batch=batch,
        dump_passes=dumps,
        knobs=knobs,
        library=NAME if archive else None,
        told=told,
    )
    if archive:
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
