"""The GPU to generate code for: its architecture, and the properties that templates and reports use."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from .architectures import ARCHITECTURES, THREADS_PER_BLOCK, Architecture, Capability
from .errors import CudaTargetError

if TYPE_CHECKING:
    from .dialect import Dialect

Precision = Literal["float32", "tf32", "float16", "bfloat16", "int8"]
"""Type of the inputs of multiply-adds: float32 on ordinary lanes, the others on tensor cores."""
WARPGROUPS = "wgmma.mma_async"
"""PTX's name of the products of warpgroups. The text of each module that has these products contains the name."""
_RATES = {"tf32": 0, "float16": 1, "bfloat16": 1, "int8": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTarget:
    """A GPU.

    `arch`: NVRTC's name of the architecture, which determines the limits of a multiprocessor (threads, blocks, bytes of
    shared memory, 32-bit registers) and of a block. `tensor_float`: whether tensor cores may compute products of
    float32, with inputs rounded to tf32 (10 bits of mantissa). `clock` (Hz), `memory_bandwidth` (bytes/s) and
    `cache_bytes` (second-level cache) are used for estimates and reports only.
    """

    arch: str
    multiprocessors: int
    threads_per_multiprocessor: int
    blocks_per_multiprocessor: int
    shared_bytes_per_block: int
    shared_bytes_per_multiprocessor: int
    registers_per_multiprocessor: int
    tensor_float: bool = False
    card: str
    clock: float
    memory_bandwidth: float
    cache_bytes: int

    @property
    def architecture(self) -> Architecture:
        """The entry of `architectures` for `arch`."""
        return architecture(self.arch)

    @property
    def capability(self) -> tuple[int, int]:
        """The compute capability, (9, 0) for sm_90 and sm_90a."""
        return self.architecture.capability

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities that templates and passes may use."""
        return self.architecture.capabilities

    def has(self, capability: Capability) -> bool:
        """Whether the GPU has a capability."""
        return capability in self.capabilities

    def compiled_for(self, source: str) -> str:
        """NVRTC's name of the architecture for which the module `source` (CUDA C++) is compiled. This is `arch`, or the
        special architecture (for example "sm_90a" for "sm_90") if the module uses instructions of warpgroups.
        """
        return (self.architecture.special if WARPGROUPS in source else None) or self.arch

    @property
    def dialect(self) -> Dialect:
        """The language of this GPU's kernels."""
        # The dialect's functions include those of instructions, whose module imports this one.
        from .functions import CUDA

        return CUDA

    def refusal(self, name: str, capability: tuple[int, int], threads: int, shared_bytes: int) -> str | None:
        """The reason why a device does not run this target's code; None if it does.

        All arguments describe the device: `name`, compute `capability`, the largest number of `threads` of a block, and
        the largest shared memory of a block (`shared_bytes`).
        """
        if self.architecture.runs_on(capability):
            return None
        major, minor = capability
        return (
            f"is a {name} of compute capability {major}.{minor}, which cannot run code for {self.arch}; compile with "
            f"-arch={architecture_for(capability).name}"
        )

    def unsuitable(self, array: np.ndarray) -> str | None:
        """The reason why kernels cannot read the values of an input or constant; None if they can."""
        return None

    @property
    def threads_per_block(self) -> int:
        """Largest number of threads of a block."""
        return THREADS_PER_BLOCK

    @property
    def float32_lanes(self) -> int:
        """Float32 multiply-adds of one multiprocessor per clock cycle."""
        return self.architecture.float32_lanes

    def peak(self, precision: Precision = "float32") -> float:
        """Peak throughput of dense matrix products at `clock`, in operations per second; a multiply-add counts as two
        operations.
        """
        if precision == "float32":
            rate = self.float32_lanes
        else:
            rate = self.architecture.tensor_rates[_RATES[precision]]
        return 2.0 * rate * self.multiprocessors * self.clock

    @property
    def digest(self) -> str:
        """SHA-256 of all fields, in hexadecimal. Targets with equal digests get equal kernels."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    @property
    def described(self) -> dict[str, str]:
        """The GPU's name and properties in tuning records.

        GPUs of one compute capability form a family: the best knobs on one card of the family are worth trying on the
        others. A target that names only an architecture is described as a typical card.
        """
        return {
            "kind": "cuda",
            "arch": self.arch,
            "card": self.card,
            "family": "{}.{}".format(*self.capability),
            "digest": self.digest,
        }


def cuda_target(arch: str = "sm_90", *, tensor_float: bool = False) -> GpuTarget:
    """A typical card of the architecture named `arch` (H100 for sm_90). `tensor_float`: see `GpuTarget`. Raises
    CudaTargetError for unknown names.

    Use `dataclasses.replace` to set the values of a real device.
    """
    row = architecture(arch)
    return GpuTarget(
        arch=row.name,
        multiprocessors=row.card.multiprocessors,
        threads_per_multiprocessor=row.threads,
        blocks_per_multiprocessor=row.blocks,
        shared_bytes_per_block=row.shared_bytes_per_block,
        shared_bytes_per_multiprocessor=row.shared_bytes,
        registers_per_multiprocessor=row.registers,
        tensor_float=tensor_float,
        card=row.card.name,
        clock=row.card.clock,
        memory_bandwidth=row.card.memory_bandwidth,
        cache_bytes=row.card.cache_bytes,
    )


def architecture(name: str) -> Architecture:
    """The architecture with this name. Raises CudaTargetError, which lists all names, if there is none."""
    for row in ARCHITECTURES:
        if row.name == name:
            return row
    known = ", ".join(row.name for row in ARCHITECTURES)
    raise CudaTargetError(f"unknown GPU architecture {name!r}; there are {known}")


def architecture_for(capability: tuple[int, int]) -> Architecture:
    """The newest architecture whose code a device of `capability` can run. Raises CudaTargetError if none is known."""
    fitting = [row for row in ARCHITECTURES if row.runs_on(capability)]
    if not fitting:
        known = ", ".join(row.name for row in ARCHITECTURES)
        major, minor = capability
        raise CudaTargetError(f"compute capability {major}.{minor} is not supported; supported are {known}")
    # Of one capability, sm_90a comes last: it has all that sm_90 has.
    return max(fitting, key=lambda row: (row.capability, row.exact))
