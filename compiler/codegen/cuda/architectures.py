"""GPU architectures to generate code for: resources of a multiprocessor, and a typical card of each.

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
    "mma",
    "wgmma",
    "int8 dot products",
    "asynchronous copies",
    "bulk copies",
    "overlapping kernels",
]
"""A capability that only some GPUs have: matrix products by a warp ("mma") or by four warps ("wgmma"), sums of four
products of int8, copies into shared memory for which one thread ("asynchronous") or a whole block ("bulk") waits later,
and kernels that start early and wait for the preceding kernel ("overlapping").
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A card: number of multiprocessors, boost clock in Hz, memory bandwidth in bytes/s, second-level
    cache in bytes.
    """

    name: str
    multiprocessors: int
    clock: float
    memory_bandwidth: float
    cache_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """An architecture (`-arch` of NVRTC), and the limits of a multiprocessor.

    `float32_lanes`: multiply-adds of float32 per clock cycle. `tensor_rates`: multiply-adds per clock cycle of dense
    matrices on tensor cores, for inputs of tf32, 16-bit floats (sums in float32) and int8. `exact`: code runs on this
    compute capability only.
    """

    name: str
    capability: tuple[int, int]
    exact: bool = False
    threads: int
    blocks: int
    shared_bytes: int
    shared_bytes_per_block: int
    registers: int = 64 * KIB
    float32_lanes: int
    tensor_rates: tuple[int, int, int]
    card: Card

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities of the architecture (PTX ISA: "mma", "dp4a", "cp.async" from sm_80 on;
        "cp.async.bulk.tensor" and "griddepcontrol" from sm_90 on; "wgmma" on sm_90a only)."""
        found: set[Capability] = {"mma", "int8 dot products", "asynchronous copies"}
        if self.capability >= (9, 0):
            found |= {"bulk copies", "overlapping kernels"}
        if self.exact:
            found.add("wgmma")
        return frozenset(found)

    def runs_on(self, capability: tuple[int, int]) -> bool:
        """Whether a device of a compute capability can run cubins of this architecture.

        It can if the major versions are equal and the device's minor version is not lower (CUDA C++ Programming Guide,
        "Binary Compatibility").
        """
        if self.exact:
            return capability == self.capability
        return capability[0] == self.capability[0] and capability[1] >= self.capability[1]


_A100 = Card(
    name="A100", multiprocessors=108, clock=1.41e9, memory_bandwidth=2.039e12, cache_bytes=40 * KIB**2
)
_RTX_3090 = Card(
    name="RTX 3090", multiprocessors=82, clock=1.695e9, memory_bandwidth=936e9, cache_bytes=6 * KIB**2
)
_RTX_4090 = Card(
    name="RTX 4090", multiprocessors=128, clock=2.52e9, memory_bandwidth=1.008e12, cache_bytes=72 * KIB**2
)
_H100 = Card(
    name="H100", multiprocessors=132, clock=1.98e9, memory_bandwidth=3.35e12, cache_bytes=50 * KIB**2
)
_B200 = Card(name="B200", multiprocessors=148, clock=1.965e9, memory_bandwidth=8e12, cache_bytes=126 * KIB**2)
_RTX_5090 = Card(
    name="RTX 5090", multiprocessors=170, clock=2.407e9, memory_bandwidth=1.792e12, cache_bytes=96 * KIB**2
)


def _sm_90(name: str, *, exact: bool) -> Architecture:
    return Architecture(
        name=name,
        capability=(9, 0),
        exact=exact,
        threads=2048,
        blocks=32,
        shared_bytes=228 * KIB,
        shared_bytes_per_block=227 * KIB,
        float32_lanes=128,
        tensor_rates=(1024, 2048, 4096),
        card=_H100,
    )


ARCHITECTURES = (
    Architecture(
        name="sm_80",
        capability=(8, 0),
        threads=2048,
        blocks=32,
        shared_bytes=164 * KIB,
        shared_bytes_per_block=163 * KIB,
        float32_lanes=64,
        tensor_rates=(512, 1024, 2048),
        card=_A100,
    ),
    Architecture(
        name="sm_86",
        capability=(8, 6),
        threads=1536,
        blocks=16,
        shared_bytes=100 * KIB,
        shared_bytes_per_block=99 * KIB,
        float32_lanes=128,
        tensor_rates=(128, 256, 1024),
        card=_RTX_3090,
    ),
    Architecture(
        name="sm_89",
        capability=(8, 9),
        threads=1536,
        blocks=24,
        shared_bytes=100 * KIB,
        shared_bytes_per_block=99 * KIB,
        float32_lanes=128,
        tensor_rates=(128, 256, 1024),
        card=_RTX_4090,
    ),
    _sm_90("sm_90", exact=False),
    _sm_90("sm_90a", exact=True),
    Architecture(
        name="sm_100",
        capability=(10, 0),
        threads=2048,
        blocks=32,
        shared_bytes=228 * KIB,
        shared_bytes_per_block=227 * KIB,
        float32_lanes=128,
        tensor_rates=(2048, 4096, 8192),
        card=_B200,
    ),
    Architecture(
        name="sm_120",
        capability=(12, 0),
        threads=1536,
        blocks=24,
        shared_bytes=100 * KIB,
        shared_bytes_per_block=99 * KIB,
        float32_lanes=128,
        tensor_rates=(128, 256, 1024),
        card=_RTX_5090,
    ),
)
"""All architectures, older ones first. A newer device runs code of the newest architecture with its major version."""
