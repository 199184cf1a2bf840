"""GPU architectures to generate code for: for each, the resources of a multiprocessor and the values of a typical card.

Limits are from the CUDA C++ Programming Guide, tables "Technical Specifications per Compute Capability" and "Throughput
of Native Arithmetic Instructions"; rates of tensor cores and values of cards from NVIDIA's architecture whitepapers
(A100, GA102, Ada, H100) and data sheets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

KIB = 1024

THREADS_PER_BLOCK = 1024
BLOCK_LIMITS = {"x": 1024, "y": 1024, "z": 64}
"""The greatest number of threads of a block along each axis."""
GRID_LIMITS = {"x": 2**31 - 1, "y": 65535, "z": 65535}
"""The greatest number of blocks of a grid along each axis."""
STATIC_SHARED_BYTES = 48 * KIB
"""Largest shared memory of a block that needs no opt-in at launch, in bytes."""
LOCAL_BYTES = 512 * KIB
"""Largest local memory of a thread, in bytes."""
REGISTERS_PER_THREAD = 255
REGISTERS_PER_BLOCK = 64 * KIB


Capability = Literal[
    "shuffles",
    "mma",
    "wgmma",
    "int8 dot products",
    "asynchronous copies",
    "bulk copies",
    "overlapping kernels",
]
"""A capability that only some GPUs have.

"shuffles": threads can read registers of other threads in their warp. "mma": a warp can multiply matrices. "wgmma":
four warps can multiply matrices together. "int8 dot products": an instruction adds four products of int8. "asynchronous
copies": a thread can start a copy into shared memory and wait for it later. "bulk copies": the same for one copy of a
whole block. "overlapping kernels": a kernel can start before the preceding kernel ends, and later wait until the
preceding kernel has ended.
"""


@dataclass(frozen=True, slots=True)
class Card:
    """A card: multiprocessors, boost clock in Hz, memory bandwidth in bytes/s, bytes of the second-level cache."""

    name: str
    multiprocessors: int
    clock: float
    memory_bandwidth: float
    cache_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """An architecture (`-arch` of NVRTC), and the limits of a multiprocessor.

    `float32_lanes`: number of float32 multiply-adds that a multiprocessor executes in a cycle. `tensor_rates`: the same
    number for products of dense matrices on tensor cores, with inputs of tf32, of 16-bit floats (summed in
    float32), and of int8.

    `exact`: whether code for this architecture runs only on devices of this compute capability. `special`: name of the
    exact architecture with the same compute capability ("sm_90a" for "sm_90"). A kernel that uses instructions of the
    special architecture is compiled for `special`, any other kernel for `name`.
    """

    name: str
    capability: tuple[int, int]
    exact: bool = False
    special: str | None = None
    threads: int
    blocks: int
    shared_bytes: int
    registers: int = 64 * KIB
    float32_lanes: int
    tensor_rates: tuple[int, int, int]
    card: Card

    @property
    def shared_bytes_per_block(self) -> int:
        """Largest shared memory of a block in bytes: 1 KiB less than a multiprocessor has (`shared_bytes`)."""
        return self.shared_bytes - KIB

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities of the architecture. PTX ISA: "shfl.sync", "mma", "dp4a" and "cp.async" exist from sm_80 on,
        "cp.async.bulk.tensor" and "griddepcontrol" from sm_90 on, "wgmma" in code for sm_90a only.
        """
        found: set[Capability] = {"shuffles", "mma", "int8 dot products", "asynchronous copies"}
        if self.capability >= (9, 0):
            found |= {"bulk copies", "overlapping kernels"}
        if self.exact or self.special is not None:
            found.add("wgmma")
        return frozenset(found)

    def runs_on(self, capability: tuple[int, int]) -> bool:
        """Whether a device of a compute capability can run cubins of this architecture.

        A device can run cubins of its own major version and of the same or a lower minor version (CUDA C++ Programming
        Guide, "Binary Compatibility"). If the architecture is exact or has a `special` form, its cubins run only on
        devices with exactly its version.
        """
        if self.exact or self.special is not None:
            return capability == self.capability
        return capability[0] == self.capability[0] and capability[1] >= self.capability[1]


def _server(
    name: str,
    capability: tuple[int, int],
    kib: int,
    rates: tuple[int, int, int],
    card: Card,
    *,
    exact: bool = False,
    special: str | None = None,
) -> Architecture:
    """An architecture of cards for servers. `kib`: shared memory of a multiprocessor in KiB. `rates`: the field
    `tensor_rates`. All other parameters are fields of `Architecture`.
    """
    return Architecture(
        name=name,
        capability=capability,
        exact=exact,
        special=special,
        threads=2048,
        blocks=32,
        shared_bytes=kib * KIB,
        float32_lanes=64 if capability == (8, 0) else 128,
        tensor_rates=rates,
        card=card,
    )


def _desktop(name: str, capability: tuple[int, int], blocks: int, card: Card) -> Architecture:
    """An architecture of cards for desktops; `blocks`: most blocks that a multiprocessor runs at a time."""
    return Architecture(
        name=name,
        capability=capability,
        threads=1536,
        blocks=blocks,
        shared_bytes=100 * KIB,
        float32_lanes=128,
        tensor_rates=(128, 256, 1024),
        card=card,
    )


_H100 = Card("H100", 132, 1.98e9, 3.35e12, 50 * KIB**2)
ARCHITECTURES = (
    _server("sm_80", (8, 0), 164, (512, 1024, 2048), Card("A100", 108, 1.41e9, 2.039e12, 40 * KIB**2)),
    _desktop("sm_86", (8, 6), 16, Card("RTX 3090", 82, 1.695e9, 936e9, 6 * KIB**2)),
    _desktop("sm_89", (8, 9), 24, Card("RTX 4090", 128, 2.52e9, 1.008e12, 72 * KIB**2)),
    _server("sm_90", (9, 0), 228, (1024, 2048, 4096), _H100, special="sm_90a"),
    _server("sm_90a", (9, 0), 228, (1024, 2048, 4096), _H100, exact=True),
    _server("sm_100", (10, 0), 228, (2048, 4096, 8192), Card("B200", 148, 1.965e9, 8e12, 126 * KIB**2)),
    _desktop("sm_120", (12, 0), 24, Card("RTX 5090", 170, 2.407e9, 1.792e12, 96 * KIB**2)),
)
"""All architectures, older ones first. A device of another version runs code of the newest architecture for which
`Architecture.runs_on` is true.
"""
