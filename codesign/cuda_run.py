"""One network on a GPU, or emulated on this processor: compiled now or earlier."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from vdla.compiler.cuda_driver import compile_cuda, compile_cuda_emulated, compile_cuda_emulated_ahead
from vdla.compiler.graph.onnx_read import is_quantized
from vdla.compiler.runtime.cpu_network import CpuNetwork
from vdla.compiler.runtime.cuda_archive import load_cuda_network, save_cuda_network
from vdla.compiler.runtime.cuda_code import CudaNetworkCode
from vdla.compiler.runtime.network_archive import load_network, save_network
from vdla.compiler.target.cpu.machine import host_target
from vdla.compiler.target.cuda.machine import CudaTarget
from vdla.compiler.target.cuda.nvrtc import nvrtc_version
from vdla.compiler.templates.chosen_knobs import ChosenKnobs
from vdla.compiler.templates.gpu.tasks import GPU
from vdla.compiler.templates.gpu.workload import CudaWorkload
from vdla.compiler.tune.records.apply import knobs_from
from vdla.compiler.tune.records.book import RecordBook
from vdla.util.user_cache import CacheError

from .network_cache import archive_key, cached_archive

QUANTIZED_REMARK = "quantized model: computed in float32 with the roundings of its QuantizeLinear nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledCuda:
    """What a model became: code for a device, or kernels of this processor; the seconds, and whether it was cached.

    `knobs` says which records were applied; None without records, and where it was compiled earlier.
    """

    code: CudaNetworkCode | None = None
    emulated: CpuNetwork | None = None
    seconds: float
    cached: bool
    knobs: ChosenKnobs[CudaWorkload] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaCacheEntry:
    """Where a compiled network lies, and whether it lay there before; else `knobs` says which records were applied."""

    path: Path
    hit: bool
    knobs: ChosenKnobs[CudaWorkload] | None


def chosen_from(records: RecordBook | None, target: CudaTarget) -> ChosenKnobs[CudaWorkload] | None:
    """The knobs of records, for one compilation; None without records."""
    return None if records is None else knobs_from(records, GPU, target)


def compile_for_device(
    model: Path,
    target: CudaTarget,
    *,
    batch: int,
    cache: bool,
    dump_passes: Path | None,
    remark: Callable[[str], None],
    records: RecordBook | None = None,
) -> CompiledCuda:
    """The network of the model in a file as code for `target`.

    With `cache`, and without passes to dump, the user's cache is asked first and keeps what is compiled; `remark` is
    told where it cannot be written, and how quantized models are computed. `records` of the tuner set the knobs of the
    kernels that they know. Raises UserError.
    """
    started = time.perf_counter()
    if is_quantized(model):
        remark(QUANTIZED_REMARK)
    if cache and dump_passes is None:
        try:
            entry = cached_cuda_network(model, target, batch=batch, records=records)
            code = load_cuda_network(entry.path, trusted=True)
            seconds = time.perf_counter() - started
            return CompiledCuda(code=code, seconds=seconds, cached=entry.hit, knobs=entry.knobs)
        except CacheError as error:
            remark(f"compiled without the cache: {error}")
    knobs = chosen_from(records, target)
    code = compile_cuda(model, target, batch=batch, dump_passes=dump_passes, knobs=knobs)
    return CompiledCuda(code=code, seconds=time.perf_counter() - started, cached=False, knobs=knobs)


def cached_cuda_network(
    model: Path, target: CudaTarget, *, batch: int, records: RecordBook | None = None
) -> CudaCacheEntry:
    """The archive of `model` compiled for `target` with knobs of `records`, now or earlier.

    Raises UserError, CacheError.
    """
    options = {"device": "cuda", "target": asdict(target), "batch": batch, "nvrtc": nvrtc_version()}
    decided = _decided(options, records)
    knobs = chosen_from(records, target)
    path, hit = cached_archive(
        model,
        lambda file: archive_key(file, decided),
        lambda partial, file: save_cuda_network(
            partial, compile_cuda(file, target, batch=batch, knobs=knobs)
        ),
    )
    return CudaCacheEntry(path=path, hit=hit, knobs=None if hit else knobs)


def compile_emulated(
    model: Path,
    target: CudaTarget,
    *,
    batch: int,
    cache: bool,
    dump_passes: Path | None,
    remark: Callable[[str], None],
    records: RecordBook | None = None,
) -> CompiledCuda:
    """The same as `compile_for_device`, emulated on this processor."""
    started = time.perf_counter()
    if is_quantized(model):
        remark(QUANTIZED_REMARK)
    host = host_target()
    knobs = chosen_from(records, target)
    if cache and dump_passes is None:
        options = {"device": "emulated", "target": asdict(target), "batch": batch, "host": asdict(host)}
        decided = _decided(options, records)
        try:
            path, hit = cached_archive(
                model,
                lambda file: archive_key(file, decided),
                lambda partial, file: save_network(
                    partial, compile_cuda_emulated_ahead(file, target, host, batch=batch, knobs=knobs)
                ),
            )
            return CompiledCuda(
                emulated=load_network(path, trusted=True),
                seconds=time.perf_counter() - started,
                cached=hit,
                knobs=None if hit else knobs,
            )
        except CacheError as error:
            remark(f"compiled without the cache: {error}")
    network = compile_cuda_emulated(model, target, batch=batch, dump_passes=dump_passes, knobs=knobs)
    return CompiledCuda(emulated=network, seconds=time.perf_counter() - started, cached=False, knobs=knobs)


def _decided(options: dict[str, object], records: RecordBook | None) -> str:
    """What decides the bytes of an archive beside the model."""
    return json.dumps({**options, "records": None if records is None else records.digest}, sort_keys=True)
