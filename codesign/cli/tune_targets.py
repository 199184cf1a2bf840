"""The targets of `vdla tune`: the accelerator, a processor, or a GPU of this computer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from vdla.isa.config import load_config
from vdla.util.errors import UserError

from .options import was_given
from .targets import gpu_number, parse_targets

if TYPE_CHECKING:
    from ..tuning.gpu import GpuTunable
    from ..tuning.target import Tunable


def tunable_of(
    context: typer.Context,
    target: str,
    device: str | None,
    config: str,
    workers: int | None,
    scheduler: str | None,
) -> Tunable[Any]:
    """Makes the tuner's description of the target that --target, --device and --config name. Raises UserError, also for
    options (among them --workers and --scheduler) that this target does not have.
    """
    targets = parse_targets(target)
    if device is not None and not targets.gpu:
        from vdla.compiler.backends.registry import backend_of

        backend_of(target, device)  # Raises the error about a device that is no GPU.
    if not targets.llvm and not targets.gpu:
        from ..tuning.accelerator import AcceleratorTunable

        return AcceleratorTunable(load_config(config))
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
            f"--workers {workers}: a processor measures one candidate at a time, as two at once slow each other down; "
            "leave --workers out, or name a --scheduler with a worker of one thread on each of several machines"
        )
    from vdla.compiler.codegen.cpu.options import parse_target

    from ..tuning.processor import ProcessorTunable

    return ProcessorTunable(parse_target(targets.llvm), measured_here=scheduler is None)


def _gpu(target: str, device: str, workers: int | None, scheduler: str | None) -> GpuTunable:
    """The GPU of this computer on which candidates are measured. Raises UserError."""
    name = target.split()[0]
    if scheduler is not None:
        raise UserError(
            f"--scheduler {scheduler}: candidates for GPUs are measured on this machine only; leave --scheduler out"
        )
    if workers == 0:
        raise UserError(
            f"--workers 0: a failing kernel would end this process; leave the option out with --target {name}"
        )
    if device == f"{name}:emulated":
        raise UserError(f"--device {device}: emulated kernels have no GPU times; name a GPU, as in {name}:0")
    from vdla.compiler.runtime.gpus import gpu_kind

    from ..tuning.gpu import GpuTunable

    ordinal = gpu_number(device, name)
    gpu_kind(name).parse(target)  # This raises errors in the target even without a device.
    return GpuTunable.opened(target, ordinal)
