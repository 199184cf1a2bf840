"""The steps of `vdla tune` on processors: workloads alone, then the network with their best schedules, before and
after.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from vdla.compiler.codegen.cpu.machine import CpuTarget, host_target, runs_here
from vdla.compiler.cpu_stages import CpuLowering, cpu_now
from vdla.compiler.pipeline import compile_kernels, network_workloads
from vdla.compiler.records.apply import knobs_from
from vdla.compiler.records.book import book_of
from vdla.compiler.records.record import Record
from vdla.compiler.templates.cpu.table import CPU
from vdla.compiler.templates.cpu.workload import CpuWorkload
from vdla.compiler.tune.measure.backends import Backend
from vdla.compiler.tune.measure.descriptions import describe_cpu
from vdla.compiler.tune.program_features.reading import read_points
from vdla.compiler.tune.search.transfer import samples_from
from vdla.util.errors import UserError

from .output_check import relative_difference
from .samples import sample_inputs
from .timing import interleaved
from .tune_options import Options, Watchers
from .tune_timed import Subject, Timed, subjects_of_nodes, tune_timed

ROUNDS = (5, 25)
"""Least and greatest number of rounds in which the whole network is measured, before and after tuning."""
ROUNDS_SECONDS = 2.0
TOLERANCE = 1e-4
"""Tolerance of a network's outputs, relative to the greatest: float32 sums have another order, in all its layers."""


def check_target(target: CpuTarget) -> None:
    """Raises UserError for a processor whose code cannot run on this machine."""
    if not runs_here(target):
        host = host_target()
        raise UserError(
            f"--target: candidates for {target.cpu} ({target.triple}) cannot be measured on this machine ({host.cpu}, "
            f"{host.triple}); name a --scheduler with workers that can, or take `llvm`"
        )


def subjects_of(path: Path, target: CpuTarget) -> list[Subject[CpuWorkload]]:
    """The distinct workloads of a network in order, each with its nodes. Raises UserError if there are none."""
    subjects = subjects_of_nodes(network_workloads(CpuLowering(target), path))
    if not subjects:
        raise UserError(
            f"{path}: has no layers that can be tuned on processors: convolutions, matrix products, pools, "
            "element-wise operators, and reductions, softmax and normalization of some thousand elements, in float32"
        )
    return subjects


def timed_on(target: CpuTarget, transfer: Sequence[Record]) -> Timed[CpuWorkload]:
    """A target as tuning needs it; cost models learn from the records `transfer`, too."""
    return Timed(
        described=target.described,
        document={"target": "llvm", "cpu": target.cpu, "triple": target.triple},
        machine=f"processor {target.cpu}",
        describe=partial(describe_cpu, target),
        space=partial(CPU.space, target),
        defaults=partial(CPU.default, target),
        samples=partial(samples_from, transfer, CPU, target),
        read=partial(read_points, CPU, target),
    )


def tune_network(
    target: CpuTarget,
    path: Path,
    options: Options,
    backend: Backend,
    known: Sequence[Record],
    transfer: Sequence[Record],
    watchers: Watchers,
) -> dict[str, Any]:
    """Tunes a network's workloads, then measures the whole network with and without the records, if this machine can
    run it. Returns the document of `vdla tune --json`.
    """
    subjects = subjects_of(path, target)
    document, written = tune_timed(
        timed_on(target, transfer), path.stem, subjects, options, backend, known, watchers
    )
    if not runs_here(target):
        watchers.remark(f"{path}: the whole network is not measured, as this machine cannot run it")
        return document
    return document | {"network": compare_network(path, target, [*known, *written])}


def compare_network(path: Path, target: CpuTarget, records: Sequence[Record]) -> dict[str, Any]:
    """A network with the templates' own choices and with the records: milliseconds of one inference, and its outputs.

    Both run in turns on one thread of this machine; times are medians of thread CPU time. Raises UserError.
    """
    knobs = knobs_from(book_of(records), CPU, target)
    with (
        compile_kernels(path, cpu_now(target)) as plain,
        compile_kernels(path, cpu_now(target), knobs=knobs) as tuned,
    ):
        arrays = sample_inputs(plain)
        expected = plain.run(arrays)
        difference = relative_difference(expected, tuned.run(arrays))
        began = time.thread_time()
        plain.run(arrays)
        least, most = ROUNDS
        rounds = int(ROUNDS_SECONDS / max(2 * (time.thread_time() - began), 1e-6))
        before, after = interleaved(
            time.thread_time,
            [lambda: plain.run(arrays), lambda: tuned.run(arrays)],
            min(most, max(least, rounds)),
            least=1e-3,
        )
        kernels = len(tuned.kernels)
    return {
        "default_ms": statistics.median(before) * 1e3,
        "tuned_ms": statistics.median(after) * 1e3,
        "kernels": kernels,
        "kernels_tuned": len(knobs.applied),
        "kernels_ignored": len(knobs.ignored),
        "max_relative_error": difference,
        "outputs_equal": difference is not None and difference <= TOLERANCE,
    }
