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
_THREADS, _LOCAL_BYTES = 256, 32 * KIB
"""Default limits, which every useful device has: 32 KiB is the least of the full profile (OpenCL 1.2 specification,
table 4.3, CL_DEVICE_LOCAL_MEM_SIZE); GPUs of all vendors allow 256 work-items, and templates schedule for these."""
_MOST_THREADS = 1 << 16


class OpenClTargetError(UserError):
    """Invalid options of a target; the message lists the legal ones."""


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
        if threads < _THREADS:
            return (
                f"{name} has {threads} work-items a group, and kernels need {_THREADS}; take another device"
            )
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


def opencl_target(work_items: int = _THREADS, local_bytes: int = _LOCAL_BYTES) -> OpenClTarget:
    """A device with these limits; all other properties are those of a small GPU, for estimates only."""
    return OpenClTarget(
        arch=NAME,
        multiprocessors=16,
        threads_per_multiprocessor=4 * work_items,
        blocks_per_multiprocessor=16,
        shared_bytes_per_block=local_bytes,
        shared_bytes_per_multiprocessor=2 * local_bytes,
        registers_per_multiprocessor=64 * KIB,
        card="any",
        clock=1e9,
        memory_bandwidth=1e11,
        cache_bytes=KIB**2,
        work_items=work_items,
    )


def of_device(
    target: OpenClTarget, *, text: str, name: str, units: int, threads: int, local_bytes: int, clock: float
) -> OpenClTarget:
    """The target for a device with the given properties. `target` is the parsed form of the user's `text`. Limits that
    `text` does not set are the device's own, but at most 1,024 work-items and 48 KiB.
    """
    given = {word.partition("=")[0] for word in text.split()}
    work_items = target.work_items if THREADS in given else max(_THREADS, min(threads, 1024))
    local = target.shared_bytes_per_block if LOCAL_BYTES in given else min(local_bytes, 48 * KIB)
    return replace(
        opencl_target(work_items, local), card=name, multiprocessors=units, clock=clock or target.clock
    )


def parse_target(text: str) -> OpenClTarget:
    """The device described by `text`: "opencl", then -threads=N (work-items of a group) and -local-bytes=N.

    Raises OpenClTargetError, which names the wrong part and the legal ones.
    """
    words = text.split()
    if not words or words[0] != NAME:
        raise OpenClTargetError(f'target "{text}" does not begin with "{NAME}"')
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
            raise OpenClTargetError(f"target option {option} needs a number: {option}={_THREADS}")
        given[option] = int(value)
    threads, local_bytes = given.get(THREADS, _THREADS), given.get(LOCAL_BYTES, _LOCAL_BYTES)
    if not _THREADS <= threads <= _MOST_THREADS:
        raise OpenClTargetError(
            f"{THREADS}={threads}: kernels need {_THREADS} to {_MOST_THREADS} work-items a group"
        )
    if local_bytes < KIB:
        raise OpenClTargetError(
            f"{LOCAL_BYTES}={local_bytes}: kernels need {KIB} bytes of local memory at least"
        )
    return opencl_target(threads, local_bytes)
