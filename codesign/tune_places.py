"""Targets of the tuner: how trials run on the accelerator, a processor or a GPU."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from vdla.isa.config import Config
from vdla.util.errors import UserError

if TYPE_CHECKING:
    from vdla.compiler.codegen.cpu.machine import CpuTarget
    from vdla.compiler.codegen.cuda.machine import GpuTarget
    from vdla.compiler.records.record import Record
    from vdla.compiler.tune.measure.backends import Backend

    from .tune_options import Options, Watchers

MOST_COMPILERS = 16
"""Default limit of processes that compile candidates for GPUs; each needs some hundred megabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU: its number, and the target of its code."""

    target: GpuTarget
    ordinal: int


Given: TypeAlias = "tuple[Options, Backend, list[Record], list[Record], Watchers]"
"""Options, backend for trials, records of this search, records of others, and callbacks."""


def run_tuner(
    place: Config | CpuTarget | Gpu, model: Path | None, names: Sequence[str], given: Given
) -> dict[str, Any]:
    """Tunes a model, or the workloads with these names; returns the document to be printed."""
    from . import tune_run, tune_run_cpu
    from .tune_timed import subjects_named, tune_timed
    from .workload_names import accelerator_workload, cpu_workload

    if isinstance(place, Gpu):
        return _run_on_gpu(place, model, names, given)
    if isinstance(place, Config):
        if model is not None:
            return tune_run.tune_network(place, model, *given)
        named = [(name, accelerator_workload(name, place)) for name in names]
        return tune_run.tune_workloads(place, named, *given)
    if model is not None:
        return tune_run_cpu.tune_network(place, model, *given)
    options, backend, known, transfer, watchers = given
    subjects = subjects_named([(name, cpu_workload(name, place)) for name in names])
    timed = tune_run_cpu.timed_on(place, transfer)
    return tune_timed(timed, ", ".join(names), subjects, options, backend, known, watchers)[0]


def _run_on_gpu(gpu: Gpu, model: Path | None, names: Sequence[str], given: Given) -> dict[str, Any]:
    from contextlib import closing

    from vdla.compiler.runtime.gpus import kind_of

    from .tune_run_cuda import compare_network, subjects_of, timed_on
    from .tune_timed import subjects_named, tune_timed
    from .workload_models import cuda_workloads

    options, backend, known, transfer, watchers = given
    timed = timed_on(gpu.target, transfer)
    if model is None:
        named = [(name, workload) for name in names for workload in cuda_workloads(name, gpu.target)]
        name = ", ".join(dict.fromkeys(names))
        return tune_timed(timed, name, subjects_named(named), options, backend, known, watchers)[0]
    subjects = subjects_of(model, gpu.target)
    document, written = tune_timed(timed, model.stem, subjects, options, backend, known, watchers)
    try:
        with closing(kind_of(gpu.target).open(gpu.ordinal)) as device:
            return document | {"network": compare_network(model, gpu.target, device, [*known, *written])}
    except UserError as error:
        # The tuned records remain valid even if the device has failed since.
        watchers.remark(f"{model}: the whole network is not measured: {error}")
        return document


def backend_for(
    place: CpuTarget | Gpu | None,
    workers: int | None,
    scheduler: str | None,
    timeout: float | None,
    notify: Callable[[str], None],
) -> Backend:
    """The backend that runs trials. Raises UserError."""
    from vdla.compiler.tune.measure.open_backend import open_backend, open_cuda_backend

    if isinstance(place, Gpu):
        cores = max(1, min(MOST_COMPILERS, os.cpu_count() or 1))
        return open_cuda_backend(
            workers=workers or cores, ordinal=place.ordinal, timeout=timeout, notify=notify
        )
    return open_backend(
        workers=1 if workers is None else workers, scheduler=scheduler, timeout=timeout, notify=notify
    )
