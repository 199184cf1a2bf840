"""The steps of `vdla tune` on GPUs: workloads alone, then the network with their best schedules, before and after."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

from vdla.compiler.codegen.cuda.machine import GpuTarget
from vdla.compiler.gpu_stages import GpuLowering, gpu_ahead
from vdla.compiler.pipeline import compile_kernels, network_workloads
from vdla.compiler.records.apply import knobs_from
from vdla.compiler.records.book import book_of
from vdla.compiler.records.record import Record
from vdla.compiler.runtime.cuda_device import Device
from vdla.compiler.runtime.cuda_network import CudaNetwork, check_device
from vdla.compiler.runtime.cuda_timing import repeating_timer
from vdla.compiler.runtime.gpus import gpu_kind
from vdla.compiler.templates.gpu.table import GPU
from vdla.compiler.templates.gpu.workload import CudaWorkload
from vdla.compiler.tune.measure.descriptions import describe_cuda
from vdla.compiler.tune.program_features.reading import read_points
from vdla.compiler.tune.search.transfer import samples_from
from vdla.util.errors import UserError

from .output_check import relative_difference
from .samples import sample_inputs
from .tune_timed import Subject, Timed, subjects_of_nodes

ROUNDS = 11
"""Number of rounds in which the whole network is timed, before and after tuning in turns."""
TOLERANCE = 1e-4
"""Tolerance of a network's outputs, relative to the greatest: float32 sums have another order, in all its layers."""
TENSOR_FLOAT_TOLERANCE = 4e-3
"""Tolerance if factors are rounded to tf32: another order of earlier sums may change how they are rounded."""


def card_target(text: str, ordinal: int) -> GpuTarget:
    """The target `text` ("cuda ...", or another kind of GPU) for the device of this number, which is opened and closed
    again.

    Raises UserError.
    """
    kind = gpu_kind(text.split()[0])
    with closing(kind.open(ordinal)) as device:
        target = kind.on_device(text, device.properties)
        check_device(device, target)
        return target


def subjects_of(path: Path, target: GpuTarget) -> list[Subject[CudaWorkload]]:
    """The distinct workloads of a network in order, each with its nodes.

    A node has a workload for each method to compute it. Raises UserError if there are none.
    """
    subjects = subjects_of_nodes(network_workloads(GpuLowering(target), path))
    if not subjects:
        raise UserError(
            f"{path}: has no layers that can be tuned on GPUs: convolutions, matrix products, pools and element-wise "
            "operators, in float32"
        )
    return subjects


def timed_on(target: GpuTarget, transfer: Sequence[Record]) -> Timed[CudaWorkload]:
    """A target as tuning needs it; cost models learn from the records `transfer`, too."""
    return Timed(
        described=target.described,
        document={
            "target": target.described["kind"],
            "arch": target.arch,
            "card": target.card,
            "tf32": target.tensor_float,
        },
        machine=f"GPU {target.card}",
        describe=partial(describe_cuda, target),
        space=partial(GPU.space, target),
        defaults=partial(GPU.default, target),
        samples=partial(samples_from, transfer, GPU, target),
        read=partial(read_points, GPU, target),
    )


def compare_network(
    path: Path, target: GpuTarget, device: Device, records: Sequence[Record]
) -> dict[str, Any]:
    """A network with the templates' own choices and with the records: milliseconds of one inference, and its outputs.

    Both run in turns; times are medians by the device's clock. Raises UserError.
    """
    knobs = knobs_from(book_of(records), GPU, target)
    codes = compile_kernels(path, gpu_ahead(target)), compile_kernels(path, gpu_ahead(target), knobs=knobs)
    with ExitStack() as closing:
        plain, tuned = (closing.enter_context(CudaNetwork(code, device)) for code in codes)
        arrays = sample_inputs(plain)
        difference = relative_difference(plain.run(arrays), tuned.run(arrays))
        timers = []
        for network in (plain, tuned):
            timers.append(repeating_timer(network, arrays))
            closing.callback(timers[-1].close)
        times = [[timer.milliseconds() for timer in timers] for _ in range(ROUNDS)]
    before, after = (statistics.median(column) for column in zip(*times, strict=True))
    allowed = TENSOR_FLOAT_TOLERANCE if target.tensor_float else TOLERANCE
    return {
        "default_ms": before,
        "tuned_ms": after,
        "kernels": len(codes[1].modules),
        "kernels_tuned": len(knobs.applied),
        "kernels_ignored": len(knobs.ignored),
        "max_relative_error": difference,
        "outputs_equal": difference is not None and difference <= allowed,
    }
