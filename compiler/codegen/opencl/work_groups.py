"""Targets for GPUs and other devices of any maker, whose own platform compiles kernels from OpenCL C or WGSL. This
module has the limits of a device's work-groups, and the target options that set these limits.

A work-group is a block of threads, and its memory is shared memory. Kernels depend on no other properties, so code runs
on every device with these limits or larger ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from vdla.util.errors import UserError

from ...ir.kernels import WARP
from ..cuda.architectures import KIB
from ..cuda.machine import GpuTarget

THREADS, LOCAL_BYTES = "-threads", "-local-bytes"
LEAST_THREADS, _MOST_THREADS = 256, 1 << 16
"""Numbers of threads of a work-group: the least number for which templates schedule, and the largest number that a
target may have.
"""


class OpenClTargetError(UserError):
    """Raised for invalid options of a target; the message lists the legal options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a work-group: its number of threads, and its bytes of memory."""

    threads: int
    local_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkGroupTarget(GpuTarget):
    """A device whose kernels depend on the limits of a work-group alone. `thread_words`, `memory_words`: the language's
    names for the threads and the memory of a work-group, in messages.
    """

    thread_words: ClassVar[str]
    memory_words: ClassVar[str]

    @property
    def float32_lanes(self) -> int:
        """Float32 multiply-adds of one multiprocessor per clock cycle, estimated as one for each thread of a warp:
        OpenCL and WGSL do not report the number.
        """
        return WARP

    def refusal(self, name: str, capability: tuple[int, int], threads: int, shared_bytes: int) -> str | None:
        """The reason why the device `name` does not run this target's code; None if it does. `threads`, `shared_bytes`:
        the device's largest number of threads and of shared memory bytes of a block. `capability` does not matter.
        """
        if threads < self.threads_per_block:
            return (
                f"{name} has {threads} {self.thread_words}, fewer than {self.threads_per_block}; compile with "
                f"{THREADS}={threads}"
            )
        if shared_bytes < self.shared_bytes_per_block:
            return (
                f"{name} has {shared_bytes} bytes of {self.memory_words}, less than {self.shared_bytes_per_block}; "
                f"compile with {LOCAL_BYTES}={shared_bytes}"
            )
        return None

    @property
    def described(self) -> dict[str, str]:
        """The device's description in tuning records. Devices of one name form a family: knobs tuned on one device are
        tried on all devices of the family.
        """
        return {
            "kind": self.arch,
            "arch": self.arch,
            "card": self.card,
            "family": self.card,
            "digest": self.digest,
        }


def small_gpu(limits: Limits) -> dict[str, Any]:
    """Values for fields of a `GpuTarget`, by field: all except `arch` and the number of threads of a work-group. The
    memory of a work-group is that of `limits`. A multiprocessor has 4 times the threads and twice the memory of a
    work-group. The other values are typical of a small GPU, and are used in estimates only.
    """
    return {
        "multiprocessors": 16,
        "threads_per_multiprocessor": 4 * limits.threads,
        "blocks_per_multiprocessor": 16,
        "shared_bytes_per_block": limits.local_bytes,
        "shared_bytes_per_multiprocessor": 2 * limits.local_bytes,
        "registers_per_multiprocessor": 64 * KIB,
        "card": "any",
        "clock": 1e9,
        "memory_bandwidth": 1e11,
        "cache_bytes": KIB**2,
    }


def device_limits(threads: int, local_bytes: int) -> Limits:
    """The limits for which code is generated for a device. The device's own limits are `threads` threads and
    `local_bytes` bytes of memory of a work-group. The result has these limits, but at least 256 and at most 1,024
    threads, and at most 48 KiB of memory.
    """
    return Limits(threads=max(LEAST_THREADS, min(threads, 1024)), local_bytes=min(local_bytes, 48 * KIB))


def parse_limits(text: str, kind: str, default: Limits) -> Limits:
    """The limits that `text` gives. `text` begins with `kind`. A limit that `text` does not give is taken from
    `default`.

    Raises OpenClTargetError, which names the wrong part and the legal ones.
    """
    words = text.split()
    if not words or words[0] != kind:
        raise OpenClTargetError(
            f'target "{text}" does not begin with "{kind}"; write "{kind}", or "{kind} {THREADS}=N"'
        )
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
            raise OpenClTargetError(f"target option {option} needs a number: {option}={LEAST_THREADS}")
        given[option] = int(value)
    limits = Limits(
        threads=given.get(THREADS, default.threads), local_bytes=given.get(LOCAL_BYTES, default.local_bytes)
    )
    if not LEAST_THREADS <= limits.threads <= _MOST_THREADS:
        raise OpenClTargetError(
            f"{THREADS}={limits.threads}: kernels need {LEAST_THREADS} to {_MOST_THREADS} work-items per group"
        )
    if limits.local_bytes < KIB:
        raise OpenClTargetError(
            f"{LOCAL_BYTES}={limits.local_bytes}: kernels need at least {KIB} bytes of local memory"
        )
    return limits
