"""Targets for HIP kernels: AMD GPUs, with the limits of a block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ..cuda.architectures import KIB
from ..cuda.dialect import Dialect
from ..opencl.machine import OpenClTarget
from ..opencl.work_groups import Limits, parse_limits, small_gpu

NAME = "hip"
LIMITS = Limits(threads=1024, local_bytes=64 * KIB)
"""Default limits of a block, those of AMD's GPUs since GCN (HIP documentation, "Hardware features")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HipTarget(OpenClTarget):
    """An AMD GPU. Its kernels are those for OpenCL (only local memory and barriers), written in HIP C++."""

    thread_words: ClassVar[str] = "threads per block"
    memory_words: ClassVar[str] = "shared memory"

    @property
    def dialect(self) -> Dialect:
        """The dialect of this target's kernels, HIP C++."""
        from .dialect import HIP

        return HIP

    @property
    def float32_lanes(self) -> int:
        """Float32 multiply-adds of one compute unit per clock cycle: four vector units of 16 lanes."""
        return 64


def parse_target(text: str) -> HipTarget:
    """The GPU described by `text`: "hip", then -threads=N (of a block) and -local-bytes=N (of shared memory).

    All other properties are those of a small GPU, for estimates only. Raises OpenClTargetError, which names the wrong
    part and the legal ones.
    """
    limits = parse_limits(text, NAME, LIMITS)
    of_unit: dict[str, Any] = {
        "threads_per_multiprocessor": 2048,
        "shared_bytes_per_multiprocessor": 64 * KIB,
    }
    return HipTarget(arch=NAME, work_items=limits.threads, **(small_gpu(limits) | of_unit))
