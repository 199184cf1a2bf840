"""GPUs as targets of the tuner: one process owns the device and times candidates, others compile."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from vdla.compiler.codegen.cuda.machine import GpuTarget
from vdla.compiler.gpu_stages import GpuLowering, gpu_ahead
from vdla.compiler.pipeline import compile_kernels
from vdla.compiler.runtime.cuda_network import CudaNetwork, check_device
from vdla.compiler.runtime.cuda_timing import repeating_timer
from vdla.compiler.runtime.executable import Arrays
from vdla.compiler.runtime.gpus import gpu_kind, kind_of
from vdla.compiler.templates.chosen_knobs import ChosenKnobs
from vdla.compiler.templates.gpu.workload import CudaWorkload
from vdla.compiler.tune.measure import open_backend
from vdla.compiler.tune.measure.backends import Backend

from ..workload_models import cuda_workloads
from .kernels import TOLERANCE, KernelTunable, Load

MOST_COMPILERS = 16
"""Default largest number of processes that compile candidates; each needs some hundred megabytes."""
ROUNDS = 11
"""Number of rounds in which a tuned network is timed against the untuned one, in turns."""
TENSOR_FLOAT_TOLERANCE = 4e-3
"""Allowed difference of a network's outputs if products round their factors to tf32: another order of earlier sums may
change how the factors are rounded.
"""


class GpuTunable(KernelTunable[GpuTarget, CudaWorkload, CudaNetwork]):
    """GPU number `ordinal` of this computer as a target of the tuner. A node of a network has one workload for each
    method to compute it.
    """

    tunable = "GPUs: convolutions, matrix products, pools and element-wise operators, in float32"

    def __init__(self, target: GpuTarget, ordinal: int = 0) -> None:
        super().__init__(GpuLowering(target))
        self._ordinal = ordinal

    @staticmethod
    def opened(text: str, ordinal: int) -> GpuTunable:
        """GPU number `ordinal` as a target of the tuner; `text`: the target ("cuda ...", or another kind of GPU). The
        device is opened and closed again. Raises UserError.
        """
        kind = gpu_kind(text.split()[0])
        with closing(kind.open(ordinal)) as device:
            target = kind.on_device(text, device.properties)
            check_device(device, target)
            return GpuTunable(target, ordinal)

    @property
    def machine(self) -> str:
        """Text for users that names the hardware: the name of the card."""
        return f"GPU {self.target.card}"

    @property
    def document(self) -> Mapping[str, Any]:
        """The target's entries in the JSON object of `vdla tune`: kind, architecture and card, and whether products may
        round their inputs to tf32.
        """
        target = self.target
        return {
            "target": target.described["kind"],
            "arch": target.arch,
            "card": target.card,
            "tf32": target.tensor_float,
        }

    def named(self, name: str) -> Sequence[CudaWorkload]:
        """The float32 workloads that the text `name` describes (`workload_names.FORMS`): a workload for each method to
        compute the operator.
        """
        return cuda_workloads(name, self.target)

    def workers(
        self,
        *,
        count: int | None,
        scheduler: str | None,
        timeout: float | None,
        notify: Callable[[str], None],
    ) -> Backend:
        """The processes that measure candidates: `count` processes that compile (None: one for each core, at most
        `MOST_COMPILERS`), and one that owns the device. `scheduler` is ignored, since the device is in this computer;
        `timeout` and `notify` are as in `Tunable.workers`.
        """
        cores = max(1, min(MOST_COMPILERS, os.cpu_count() or 1))
        return open_backend.open_cuda_backend(
            workers=count or cores, ordinal=self._ordinal, timeout=timeout, notify=notify
        )

    @property
    def tolerance(self) -> float:
        """Largest allowed difference of a network's outputs after tuning, relative to the greatest value."""
        return TENSOR_FLOAT_TOLERANCE if self.target.tensor_float else TOLERANCE

    def loader(self, closing: ExitStack) -> Load[CudaNetwork]:
        """Opens the device; returns a function that compiles a network and copies it to the device. When `closing` is
        closed, the networks and the device are closed.
        """
        device = kind_of(self.target).open(self._ordinal)
        closing.callback(device.close)

        def load(path: Path, knobs: ChosenKnobs[CudaWorkload] | None) -> tuple[CudaNetwork, int]:
            code = compile_kernels(path, gpu_ahead(self.target), knobs=knobs)
            return closing.enter_context(CudaNetwork(code, device)), len(code.modules)

        return load

    def milliseconds(
        self, networks: tuple[CudaNetwork, CudaNetwork], arrays: Arrays, closing: ExitStack
    ) -> tuple[float, float]:
        """Median milliseconds of one run of each of two `networks` on the inputs `arrays`, by the device's clock; the
        networks run in turns. Their timers are closed when `closing` is closed.
        """
        timers = []
        for network in networks:
            timers.append(repeating_timer(network, arrays))
            closing.callback(timers[-1].close)
        times = [[timer.milliseconds() for timer in timers] for _ in range(ROUNDS)]
        before, after = (statistics.median(column) for column in zip(*times, strict=True))
        return before, after
