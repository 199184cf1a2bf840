"""Devices that run WGSL (by Vulkan, Metal or DirectX) to generate code for.

A work-group is a block, an invocation a thread, work-group memory is shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..cuda.architectures import KIB, Capability
from ..cuda.dialect import Dialect
from ..opencl.work_groups import Limits, WorkGroupTarget, parse_limits, small_gpu

NAME = "wgsl"
_LEAST = Limits(threads=256, local_bytes=16 * KIB)
"""Limits that every device has (WebGPU, "limits": maxComputeInvocationsPerWorkgroup,
maxComputeWorkgroupStorageSize).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WgslTarget(WorkGroupTarget):
    """A device that runs WGSL; `invocations`: the largest number of invocations in a work-group."""

    invocations: int
    thread_words: ClassVar[str] = "invocations per work-group"
    memory_words: ClassVar[str] = "work-group memory"

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Sums of four products of int8 (`dot4I8Packed`), which every compiler of WGSL has."""
        return frozenset({"int8 dot products"})

    @property
    def dialect(self) -> Dialect:
        """The dialect of this target's kernels, WGSL."""
        from .dialect import WGSL

        return WGSL

    @property
    def threads_per_block(self) -> int:
        """Largest number of threads (invocations) of a block (work-group)."""
        return self.invocations

    def unsuitable(self, array: np.ndarray) -> str | None:
        """The reason why kernels cannot read an array: it has an int64 beyond 32 bits. None for other arrays."""
        if array.dtype != np.int64 or not array.size:
            return None
        beyond = next((v for v in (int(array.min()), int(array.max())) if not -(2**31) <= v < 2**31), None)
        if beyond is None:
            return None
        return f"has the value {beyond}, but WGSL has integers of 32 bits only; run the model on a processor"


def wgsl_target(limits: Limits = _LEAST) -> WgslTarget:
    """The target for a device whose work-groups have these limits. All other properties are typical of a small GPU, and
    are used in estimates only.
    """
    return WgslTarget(arch=NAME, invocations=limits.threads, **small_gpu(limits))


def parse_target(text: str) -> WgslTarget:
    """The device described by `text`: "wgsl", then -threads=N (invocations of a work-group) and -local-bytes=N.

    Raises OpenClTargetError, which names the wrong part and the legal ones.
    """
    return wgsl_target(parse_limits(text, NAME, _LEAST))
