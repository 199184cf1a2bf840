"""OpenCL devices to generate code for: limits of a work-group, and the options that set them.

A work-group is a block, a work-item a thread, local memory is shared memory. Kernels depend on no other properties, so
code runs on every device with these limits or larger ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from vdla.util.errors import UserError

from ...ir.kernels import WARP
from ..cuda.architectures import KIB, Capability
from ..cuda.dialect import Dialect
from ..cuda.machine import GpuTarget

NAME = "opencl"
THREADS, LOCAL_BYTES = "-threads", "-local-bytes"
_MOST_THREADS = 1 << 16


class OpenClTargetError(UserError):
    """Invalid options of a target; the message lists the legal ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a work-group: its number of work-items, and its bytes of local memory."""

    threads: int
    local_bytes: int


LEAST = Limits(threads=256, local_bytes=32 * KIB)
"""Default limits, which every useful device has: 32 KiB is the least of the full profile (OpenCL 1.2 specification,
table 4.3, CL_DEVICE_LOCAL_MEM_SIZE); GPUs of all vendors allow 256 work-items, and templates schedule for these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenClTarget(GpuTarget):
    """An OpenCL device; `work_items`: the largest number of work-items in a work-group."""

    work_items: int

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

    @property
    def float32_lanes(self) -> int:
        """One multiply-add for each thread of a warp, as an estimate: OpenCL does not report a device's lanes."""
        return WARP

    def refusal(self, name: str, capability: tuple[int, int], threads: int, shared_bytes: int) -> str | None:
        """The reason why a device does not run this target's code; None if it does. `threads`, `shared_bytes`: the
        device's largest number of threads and of shared memory bytes of a block.
        """
        if threads < LEAST.threads:
            return f"{name} has {threads} work-items a group, and kernels need {LEAST.threads}; take another device"
        if threads < self.work_items:
            return (
                f"{name} has {threads} work-items a group, fewer than {self.work_items}; compile with "
                f"{THREADS}={threads}"
            )
        if shared_bytes < self.shared_bytes_per_block:
            return (
                f"{name} has {shared_bytes} bytes of local memory, less than {self.shared_bytes_per_block}; compile "
                f"with {LOCAL_BYTES}={shared_bytes}"
            )
        return None

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


def opencl_target(limits: Limits = LEAST) -> OpenClTarget:
    """A device with these limits; all other properties are those of a small GPU, for estimates only."""
    return OpenClTarget(
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
        work_items=limits.threads,
    )


def of_device(*, text: str, name: str, units: int, own: Limits, clock: float) -> OpenClTarget:
    """The target `text` for a device with the given properties. Limits that `text` does not set are the device's `own`,
    but at most 1,024 work-items and 48 KiB.
    """
    most = Limits(
        threads=max(LEAST.threads, min(own.threads, 1024)), local_bytes=min(own.local_bytes, 48 * KIB)
    )
    target = opencl_target(parse_limits(text, NAME, most))
    return replace(target, card=name, multiprocessors=units, clock=clock or target.clock)


def parse_target(text: str) -> OpenClTarget:
    """The device described by `text`: "opencl", then -threads=N (work-items of a group) and -local-bytes=N.

    Raises OpenClTargetError, which names the wrong part and the legal ones.
    """
    return opencl_target(parse_limits(text, NAME, LEAST))


def parse_limits(text: str, kind: str, default: Limits) -> Limits:
    """The limits in `text`, which begins with `kind`; `default` where `text` gives none.

    Raises OpenClTargetError, which names the wrong part and the legal ones.
    """
    words = text.split()
    if not words or words[0] != kind:
        raise OpenClTargetError(f'target "{text}" does not begin with "{kind}"')
    given: dict[str, int] = {}
    for word in words[1:]:
        option, _, value = word.partition("=")
        if option not in (THREADS, LOCAL_BYTES):
            raise OpenClTargetError(
                f"unknown target option {option}; there are {THREADS}=N and {LOCAL_BYTES}=N"
            )
        if option in given:
            raise OpenClTargetError(f"target option {option} is given twice")
        if not value.isdecimal() or not value.isascii() or len(value) > 9:
            raise OpenClTargetError(f"target option {option} needs a number: {option}={LEAST.threads}")
        given[option] = int(value)
    limits = Limits(
        threads=given.get(THREADS, default.threads), local_bytes=given.get(LOCAL_BYTES, default.local_bytes)
    )
    if not LEAST.threads <= limits.threads <= _MOST_THREADS:
        raise OpenClTargetError(
            f"{THREADS}={limits.threads}: kernels need {LEAST.threads} to {_MOST_THREADS} work-items a group"
        )
    if limits.local_bytes < KIB:
        raise OpenClTargetError(
            f"{LOCAL_BYTES}={limits.local_bytes}: kernels need {KIB} bytes of local memory at least"
        )
    return limits
