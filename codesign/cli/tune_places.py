"""Where `vdla tune` tunes: the accelerator, a processor, or a GPU, with what runs trials there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import typer
from vdla.isa.config import Config
from vdla.util.errors import UserError

from .options import was_given
from .output import note
from .targets import parse_targets

if TYPE_CHECKING:
    from vdla.compiler.target.cpu.machine import CpuTarget
    from vdla.compiler.target.cuda.machine import CudaTarget
    from vdla.compiler.tune.measure.backends import Backend
    from vdla.compiler.tune.records.record import Record

    from ..tune_options import Options, Watchers

MOST_COMPILERS = 16
"""Processes that compile candidates for GPUs, unless told: each takes some hundred megabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU by its number, and what is generated for it."""

    target: CudaTarget
    ordinal: int


Given: TypeAlias = "tuple[Options, Backend, list[Record], list[Record], Watchers]"
"""Options, where trials run, records of this search, those of others, and who is told."""


def run_tuner(
    place: Config | CpuTarget | Gpu, model: Path | None, names: Sequence[str], given: Given
) -> dict[str, Any]:
    """Tunes a model, or the workloads that have these names; the document to be printed."""
    from .. import tune_run, tune_run_cpu
    from ..tune_timed import subjects_named, tune_timed
    from ..workload_names import accelerator_workload, cpu_workload

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
    from vdla.compiler.runtime.cuda_core import open_device

    from ..tune_run_cuda import compare_network, subjects_of, timed_on
    from ..tune_timed import subjects_named, tune_timed
    from ..workload_models import cuda_workloads

    options, backend, known, transfer, watchers = given
    timed = timed_on(gpu.target, transfer)
    if model is None:
        named = [(name, workload) for name in names for workload in cuda_workloads(name, gpu.target)]
        name = ", ".join(dict.fromkeys(names))
        return tune_timed(timed, name, subjects_named(named), options, backend, known, watchers)[0]
    subjects = subjects_of(model, gpu.target)
    document, written = tune_timed(timed, model.stem, subjects, options, backend, known, watchers)
    try:
        with open_device(gpu.ordinal) as device:
            return document | {"network": compare_network(model, gpu.target, device, [*known, *written])}
    except UserError as error:
        # What was found stands, whatever has become of the device since.
        note(f"{model}: the whole network is not measured: {error}")
        return document


def backend_for(
    place: CpuTarget | Gpu | None, workers: int | None, scheduler: str | None, timeout: float
) -> Backend:
    """Where trials run. Raises UserError."""
    from vdla.compiler.tune.measure.open_backend import open_backend, open_cuda_backend

    if isinstance(place, Gpu):
        cores = max(1, min(MOST_COMPILERS, os.cpu_count() or 1))
        return open_cuda_backend(
            workers=workers or cores, ordinal=place.ordinal, timeout=timeout, notify=note
        )
    return open_backend(
        workers=1 if workers is None else workers, scheduler=scheduler, timeout=timeout, notify=note
    )


def place_of(
    context: typer.Context, target: str, device: str | None, workers: int | None, scheduler: str | None
) -> CpuTarget | Gpu | None:
    """The processor or GPU that --target names; None for the accelerator. Raises UserError, also for options of
    others."""
    targets = parse_targets(target)
    if device is not None and not targets.cuda:
        raise UserError(f"--device {device}: is for GPUs; leave it out, or say --target cuda")
    if not targets.llvm and not targets.cuda:
        return None
    if targets.vdla:
        raise UserError(f'--target "{target}": tune for one target at a time, vdla, llvm or cuda')
    for name in ("config", "in_place"):
        if was_given(context, name):
            kind = "cuda" if targets.cuda else "llvm"
            raise UserError(
                f"--{name.replace('_', '-')} is for the accelerator; leave it out with --target {kind}"
            )
    if targets.cuda:
        return _gpu(targets.cuda, device or "cuda:0", workers, scheduler)
    if workers is not None and workers > 1 and scheduler is None:
        raise UserError(
            f"--workers {workers}: a processor measures one candidate at a time, as others would slow it down; leave "
            "--workers out, or name a --scheduler with a worker of one thread on each of several machines"
        )
    from vdla.compiler.target.cpu.options import parse_target

    processor = parse_target(targets.llvm)
    if scheduler is None:
        from ..tune_run_cpu import check_target

        check_target(processor)
    return processor


def _gpu(target: str, device: str, workers: int | None, scheduler: str | None) -> Gpu:
    """The GPU of this machine that candidates are measured on. Raises UserError."""
    if scheduler is not None:
        raise UserError(
            f"--scheduler {scheduler}: candidates for GPUs are measured on one of this machine; leave it out"
        )
    if workers == 0:
        raise UserError(
            "--workers 0: a kernel that fails breaks the process that runs it; leave it out with --target cuda"
        )
    if device == "cuda:emulated":
        raise UserError(
            f"--device {device}: the times of emulated kernels say nothing of a GPU; name one, as in cuda:0"
        )
    from vdla.compiler.runtime.cuda_device import parse_device
    from vdla.compiler.target.cuda.options import parse_target

    from ..tune_run_cuda import card_target

    ordinal = parse_device(device)
    parse_target(target)  # What is wrong with it should show without a device, too.
    return Gpu(target=card_target(target, ordinal), ordinal=ordinal)
