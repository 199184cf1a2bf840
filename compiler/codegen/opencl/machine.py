"""OpenCL devices to generate code for.

A work-group is a block, a work-item a thread, local memory is shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..cuda.architectures import KIB, Capability
from ..cuda.dialect import Dialect
from .work_groups import LEAST_THREADS, Limits, WorkGroupTarget, parse_limits, small_gpu

NAME = "opencl"
LEAST = Limits(threads=LEAST_THREADS, local_bytes=32 * KIB)
"""Default limits. 32 KiB is the least local memory of the full profile (OpenCL 1.2 specification, table 4.3,
CL_DEVICE_LOCAL_MEM_SIZE). GPUs of all vendors allow 256 work-items, the number that templates schedule for.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenClTarget(WorkGroupTarget):
    """An OpenCL device; `work_items`: the largest number of work-items in a work-group."""

    work_items: int
    thread_words: ClassVar[str] = "work-items per group"
    memory_words: ClassVar[str] = "local memory"

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The empty set: OpenCL C 1.2 has only local memory and barriers."""
        return frozenset()

    @property
    def dialect(self) -> Dialect:
        """The dialect of this target's kernels, OpenCL C."""
        from .dialect import OPENCL

        return OPENCL

    @property
    def threads_per_block(self) -> int:
        """Largest number of threads (work-items) of a block (work-group)."""
        return self.work_items

    def refusal(self, name: str, capability: tuple[int, int], threads: int, shared_bytes: int) -> str | None:
        """The reason why the device `name` does not run this target's code; None if it does. The device must have at
        least `LEAST.threads` work-items in a work-group, and the limits that `WorkGroupTarget.refusal` demands.
        """
        if threads < LEAST.threads:
            return f"{name} has {threads} work-items per group, but kernels need {LEAST.threads}; use another device"
        return WorkGroupTarget.refusal(self, name, capability, threads, shared_bytes)


def opencl_target(limits: Limits = LEAST) -> OpenClTarget:
    """The target for a device whose work-groups have these limits. All other properties are typical of a small GPU, and
    are used in estimates only.
    """
    return OpenClTarget(arch=NAME, work_items=limits.threads, **small_gpu(limits))


def parse_target(text: str) -> OpenClTarget:
    """The device described by `text`: "opencl", then -threads=N (work-items of a group) and -local-bytes=N.

    Raises OpenClTargetError, which names the wrong part and the legal ones.
    """
    return opencl_target(parse_limits(text, NAME, LEAST))
