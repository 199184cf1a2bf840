"""Devices that run WGSL (by Vulkan, Metal or DirectX) to generate code for: limits of a work-group, and the options
that set them.

A work-group is a block, an invocation a thread, work-group memory is shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...ir.kernels import WARP
from ..cuda.architectures import KIB, Capability
from ..cuda.dialect import Dialect
from ..cuda.machine import GpuTarget
from ..opencl.machine import LOCAL_BYTES, THREADS, Limits, parse_limits

NAME = "wgsl"
_LEAST = Limits(threads=256, local_bytes=16 * KIB)
"""Limits that every device has (WebGPU, "limits": maxComputeInvocationsPerWorkgroup,
maxComputeWorkgroupStorageSize).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WgslTarget(GpuTarget):
    """A device that runs WGSL; `invocations`: the largest number of invocations in a work-group."""

    invocations: int

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

    @property
    def float32_lanes(self) -> int:
        """One multiply-add for each thread of a warp, as an estimate: WebGPU does not report a device's lanes."""
        return WARP

    def refusal(self, name: str, capability: tuple[int, int], threads: int, shared_bytes: int) -> str | None:
        """The reason why a device does not run this target's code; None if it does. `threads`, `shared_bytes`: the
        device's largest number of threads and of shared memory bytes of a block.
        """
        if threads < self.invocations:
            return (
                f"{name} has {threads} invocations a work-group, fewer than {self.invocations}; compile with "
                f"{THREADS}={threads}"
            )
        if shared_bytes < self.shared_bytes_per_block:
            return (
                f"{name} has {shared_bytes} bytes of work-group memory, less than {self.shared_bytes_per_block}; "
                f"compile with {LOCAL_BYTES}={shared_bytes}"
            )
        return None

    def unsuitable(self, array: np.ndarray) -> str | None:
        """The reason why kernels cannot read an array: it has an int64 beyond 32 bits. None for other arrays."""
        if array.dtype != np.int64 or not array.size:
            return None
        beyond = next((v for v in (int(array.min()), int(array.max())) if not -(2**31) <= v < 2**31), None)
        if beyond is None:
            return None
        return f"has the value {beyond}, and WGSL has integers of 32 bits only; run the model on a processor"

    @property
    def described(self) -> dict[str, str]:
        """The device's description in tuning records. Devices of one name form a family: knobs tuned on one are tried
        on the others.
        """
        return {
            "kind": NAME,
            "arch": self.arch,
            "card": self.card,
            "family": self.card,
            "digest": self.digest,
        }


def wgsl_target(limits: Limits = _LEAST) -> WgslTarget:
    """A device with these limits; all other properties are those of a small GPU, for estimates only."""
    return WgslTarget(
        arch=NAME,
        multiprocessors=16,
        threads_per_multiprocessor=4 * limits.threads,
        blocks_per_multiprocessor=16,
        shared_bytes_per_block=limits.local_bytes,
        shared_bytes_per_multiprocessor=2 * limits.local_bytes,
        registers_per_multiprocessor=64 * KIB,
        card="any",
        clock=1e9,
        memory_bandwidth=1e11,
        cache_bytes=KIB**2,
        invocations=limits.threads,
    )


def parse_target(text: str) -> WgslTarget:
    """The device described by `text`: "wgsl", then -threads=N (invocations of a work-group) and -local-bytes=N.

    Raises OpenClTargetError, which names the wrong part and the legal ones.
    """
    return wgsl_target(parse_limits(text, NAME, _LEAST))


def of_device(text: str, name: str, threads: int, local_bytes: int) -> WgslTarget:
    """The target `text` for a device with the given properties. Limits that `text` does not set are the device's own,
    but at most 1,024 invocations and 48 KiB.
    """
    own = Limits(threads=min(threads, 1024), local_bytes=min(local_bytes, 48 * KIB))
    return replace(wgsl_target(parse_limits(text, NAME, own)), card=name)
