"""`vdla compile` for processors and GPUs, which run a network kernel by kernel."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.util.user_files import check_destination, whole_directory

from .output import note, print_json, steps
from .records import applied_text

if TYPE_CHECKING:
    from vdla.compiler.backends.kernels import KernelCompiler

    from ..network_options import NetworkOptions


def compile_kernels(
    model: Path, output: Path | None, compiler: KernelCompiler, options: NetworkOptions, *, json: bool
) -> None:
    """Compiles a model with `compiler` into the file `output` (default: MODEL.tar), and prints the result. With `json`,
    the result is printed as JSON. The suffix of `output` selects the kind of file (`KernelCompiler.files`): an archive,
    or code for C programs. Raises UserError.
    """
    from ..kernels_run import write_network

    output = Path(f"{model.stem}.tar") if output is None else output
    files = compiler.files(output)
    check_destination(*files, inputs=(model,))
    label = compiler.label  # Errors of the target are raised before any work.
    started = time.perf_counter()
    with whole_directory(options.dump_passes) as dumps, steps() as progress:
        progress.begin(f"compiling {model.name} for {label}")
        written = write_network(
            compiler,
            model,
            output,
            replace(options, dump_passes=dumps),
            remark=note,
            told=progress.reach,
        )
    seconds = time.perf_counter() - started
    saved, size = written.saved, output.stat().st_size
    if options.records is not None:
        note(applied_text(written.knobs))
    if json:
        print_json(
            {
                "model": model.stem,
                "target": compiler.describe(),
                "file": str(output),
                "files": [str(file) for file in files],
                "bytes": size,
                "kernels": saved.kernels,
                "launches": saved.launches,
                "arena_bytes": saved.arena_bytes,
                "arena_bytes_without_reuse": saved.arena_bytes_without_reuse,
                "compile_seconds": seconds,
                "cached": written.cached,
            }
        )
        return
    note(
        f"wrote {', '.join([str(file) for file in files])}: {model.stem} for {compiler.full_label}, "
        f"{saved.kernels} kernels, {saved.launches} launches, {size:,} bytes, arena {saved.arena_bytes:,} bytes "
        f"(without reuse {saved.arena_bytes_without_reuse:,}), "
        f"{'from the cache' if written.cached else 'compiled'} in {seconds:.2f} s"
    )
