"""Processors as targets of the tuner: candidates are timed on one thread."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from vdla.compiler.codegen.cpu.machine import CpuTarget, host_target, runs_here
from vdla.compiler.cpu_stages import CpuLowering, cpu_now
from vdla.compiler.pipeline import compile_kernels
from vdla.compiler.runtime.cpu_network import CpuNetwork
from vdla.compiler.runtime.executable import Arrays
from vdla.compiler.templates.chosen_knobs import ChosenKnobs
from vdla.compiler.templates.cpu.workload import CpuWorkload
from vdla.util.errors import UserError

from ..timing import interleaved
from ..workload_names import cpu_workload
from .kernels import KernelTunable, Load

ROUNDS = (5, 25)
"""Least and largest number of rounds in which a tuned network is timed against the untuned one, in turns."""
ROUNDS_SECONDS = 2.0


class ProcessorTunable(KernelTunable[CpuTarget, CpuWorkload, CpuNetwork]):
    """A processor as a target of the tuner. If `measured_here`, candidates run on this computer, and UserError is
    raised if the computer cannot run them.
    """

    tunable = (
        "processors: convolutions, matrix products, pools, element-wise operators, and reductions, softmax and "
        "normalization of some thousand elements, in float32"
    )

    def __init__(self, target: CpuTarget, *, measured_here: bool = True) -> None:
        super().__init__(CpuLowering(target))
        if measured_here and not runs_here(target):
            host = host_target()
            raise UserError(
                f"--target: candidates for {target.cpu} ({target.triple}) cannot be measured on this machine "
                f"({host.cpu}, {host.triple}); name a --scheduler with workers that can, or take `llvm`"
            )

    @property
    def machine(self) -> str:
        """Text for users that names the hardware: the name of the processor."""
        return f"processor {self.target.cpu}"

    @property
    def document(self) -> Mapping[str, Any]:
        """The target's entries in the JSON object of `vdla tune`: LLVM's name of the processor, and the triple."""
        return {"target": "llvm", "cpu": self.target.cpu, "triple": self.target.triple}

    def named(self, name: str) -> Sequence[CpuWorkload]:
        """The float32 workload that `name` describes (`workload_names.FORMS`), as a sequence of one workload."""
        return (cpu_workload(name, self.target),)

    def loader(self, closing: ExitStack) -> Load[CpuNetwork]:
        """A function that compiles a network in this process; when `closing` is closed, all networks are closed. Raises
        UserError if this computer cannot run the code.
        """
        if not runs_here(self.target):
            raise UserError(
                f"this machine cannot run code for {self.target.cpu}; tune for `llvm`, its own processor"
            )

        def load(path: Path, knobs: ChosenKnobs[CpuWorkload] | None) -> tuple[CpuNetwork, int]:
            network = closing.enter_context(compile_kernels(path, cpu_now(self.target), knobs=knobs))
            return network, len(network.kernels)

        return load

    def milliseconds(
        self, networks: tuple[CpuNetwork, CpuNetwork], arrays: Arrays, closing: ExitStack
    ) -> tuple[float, float]:
        """Median milliseconds of thread CPU time of one run of each of two `networks` on the inputs `arrays`, on one
        thread; the networks run in turns. `closing` is not used.
        """
        plain, tuned = networks
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
        return statistics.median(before) * 1e3, statistics.median(after) * 1e3
