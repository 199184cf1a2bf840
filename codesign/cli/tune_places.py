"""Places where `vdla tune` measures: the accelerator, a processor, or a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from vdla.util.errors import UserError

from ..tune_places import Gpu
from .options import was_given
from .targets import gpu_number, parse_targets

if TYPE_CHECKING:
    from vdla.compiler.codegen.cpu.machine import CpuTarget


def place_of(
    context: typer.Context, target: str, device: str | None, workers: int | None, scheduler: str | None
) -> CpuTarget | Gpu | None:
    """The processor or GPU that --target names; None for the accelerator.

    Raises UserError, also for options that belong to other targets.
    """
    targets = parse_targets(target)
    if device is not None and not targets.gpu:
        raise UserError(f"--device {device}: is for GPUs; leave it out, or add --target cuda")
    if not targets.llvm and not targets.gpu:
        return None
    if targets.vdla:
        raise UserError(f'--target "{target}": tune for one target at a time, vdla, llvm or cuda')
    for name in ("config", "in_place"):
        if was_given(context, name):
            kind = targets.gpu_name or "llvm"
            raise UserError(
                f"--{name.replace('_', '-')} is for the accelerator; leave it out with --target {kind}"
            )
    if targets.gpu:
        return _gpu(targets.gpu, device or f"{targets.gpu_name}:0", workers, scheduler)
    if workers is not None and workers > 1 and scheduler is None:
        raise UserError(
            f"--workers {workers}: a processor measures one candidate at a time, as others would slow it down; leave "
            "--workers out, or name a --scheduler with a worker of one thread on each of several machines"
        )
    from vdla.compiler.codegen.cpu.options import parse_target

    processor = parse_target(targets.llvm)
    if scheduler is None:
        from ..tune_run_cpu import check_target

        check_target(processor)
    return processor


def _gpu(target: str, device: str, workers: int | None, scheduler: str | None) -> Gpu:
    """The GPU of this machine on which candidates are measured. Raises UserError."""
    name = target.split()[0]
    if scheduler is not None:
        raise UserError(
            f"--scheduler {scheduler}: candidates for GPUs are measured on this machine only; leave it out"
        )
    if workers == 0:
        raise UserError(
            f"--workers 0: a failing kernel would end this process; leave the option out with --target {name}"
        )
    if device == f"{name}:emulated":
        raise UserError(f"--device {device}: emulated kernels have no GPU times; name a GPU, as in {name}:0")
    from vdla.compiler.runtime.gpus import gpu_kind

    from ..tune_run_cuda import card_target

    ordinal = gpu_number(device, name)
    gpu_kind(name).parse(target)  # This raises errors in the target even without a device.
    return Gpu(target=card_target(target, ordinal), ordinal=ordinal)
