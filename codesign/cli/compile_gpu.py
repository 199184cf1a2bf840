"""`vdla compile --target cuda`: networks for GPUs of an architecture, which this machine need not have."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.util.errors import UserError
from vdla.util.user_files import check_destination, whole_directory
from vdla.util.whole_files import copy_whole

from .output import note, print_json, steps
from .records import applied_text

if TYPE_CHECKING:
    from vdla.compiler.target.cuda.machine import CudaTarget
    from vdla.compiler.templates.chosen_knobs import ChosenKnobs
    from vdla.compiler.templates.gpu.workload import CudaWorkload
    from vdla.compiler.tune.records.book import RecordBook


def compile_for_cuda(
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
    """`vdla compile --target cuda`: FILE.tar with cubins, for GPUs of the architecture. Raises UserError."""
    from vdla.compiler.target.cuda.options import parse_target

    output = Path(f"{model.stem}.tar") if output is None else output
    if output.suffix not in (".tar", ""):
        raise UserError(f"-o {output}: code for GPUs goes into a FILE.tar, which `vdla run` runs")
    check_destination(output, inputs=(model,))
    parsed = parse_target(target)
    from vdla.compiler.runtime.cuda_archive import check_cuda_network

    started = time.perf_counter()
    with whole_directory(dump_passes) as dumps, steps() as progress:
        progress.begin(f"compiling {model.name} for {parsed.arch}")
        cached, knobs = _write_archive(model, output, parsed, batch, dumps, cache, records)
    seconds = time.perf_counter() - started
    if records is not None:
        note(applied_text(knobs))
    description = check_cuda_network(output)
    size = output.stat().st_size
    modules, launches = description["modules"], description["launches"]
    if json:
        print_json(
            {
                "model": model.stem,
                "target": {"arch": parsed.arch, "tf32": parsed.tensor_float},
                "file": str(output),
                "files": [str(output)],
                "bytes": size,
                "kernels": len(modules),
                "launches": len(launches),
                "arena_bytes": description["arena_bytes"],
                "arena_bytes_without_reuse": description["arena_bytes_without_reuse"],
                "compile_seconds": seconds,
                "cached": cached,
            }
        )
        return
    note(
        f"wrote {output}: {model.stem} for {parsed.arch}, {len(modules)} kernels, {len(launches)} launches, "
        f"{size:,} bytes, arena {description['arena_bytes']:,} bytes (without reuse "
        f"{description['arena_bytes_without_reuse']:,}), "
        f"{'from the cache' if cached else 'compiled'} in {seconds:.2f} s"
    )


def _write_archive(
    model: Path,
    output: Path,
    target: CudaTarget,
    batch: int,
    dumps: Path | None,
    cache: bool,
    records: RecordBook | None,
) -> tuple[bool, ChosenKnobs[CudaWorkload] | None]:
    """Writes FILE.tar; whether it came from the cache, else which records were applied."""
    from vdla.compiler.cuda_driver import compile_cuda
    from vdla.compiler.graph.onnx_read import is_quantized
    from vdla.compiler.runtime.cuda_archive import save_cuda_network
    from vdla.util.user_cache import CacheError

    from ..cuda_run import QUANTIZED_REMARK, cached_cuda_network, chosen_from

    if is_quantized(model):
        note(QUANTIZED_REMARK)
    if cache and dumps is None:
        try:
            entry = cached_cuda_network(model, target, batch=batch, records=records)
            copy_whole(entry.path, output)
            return entry.hit, entry.knobs
        except CacheError as error:
            note(f"compiled without the cache: {error}")
    knobs = chosen_from(records, target)
    save_cuda_network(output, compile_cuda(model, target, batch=batch, dump_passes=dumps, knobs=knobs))
    return False, knobs
