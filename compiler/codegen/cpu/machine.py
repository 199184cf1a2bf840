"""The CPU to generate code for: its name, its features, and the properties that templates use."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path

import llvmlite.binding as llvm

from ...ir.types import DType
from .architectures import Vectors, vectors_of
from .llvm_query import includes, joined

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_NEVER_USED = (
    "clwb clzero cldemote enqcmd ermsb fsgsbase invpcid movdir64b movdiri mwaitx pconfig pku prefetchi ptwrite rdpru "
    "rtm serialize sgx shstk tsxldtrk uintr waitpkg wbnoinvd"
)
"""Features of x86-64 that no kernel uses. Most are for operating systems, and many virtual machines hide them. `ermsb`,
which processors of some vendors lack, only says that one instruction is fast.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTarget:
    """A CPU as LLVM describes it.

    `features`: LLVM's comma-separated list (may be empty). `vector_bits`: width of the widest vector registers in use,
    `vector_registers`: their number. `fused_multiply_add`, `dot_product` (u8 x s8 to s32, four at a time): whether
    single instructions exist. `cache_bytes`: first and second level data cache of a core, as templates assume them.
    `abi`: calling convention if the target triple leaves it open (RISC-V).
    """

    triple: str
    cpu: str
    features: str = ""
    vector_bits: int
    vector_registers: int
    fused_multiply_add: bool
    dot_product: bool
    cache_bytes: tuple[int, int] = (32 * 1024, 512 * 1024)
    abi: str = ""

    def lanes(self, dtype: DType) -> int:
        """Elements of `dtype` in one vector register."""
        return self.vector_bits // dtype.bits

    @property
    def digest(self) -> str:
        """SHA-256 of all fields, in hexadecimal. Targets with equal digests get equal kernels with equal tiles.

        Features that no kernel uses are left out, so that tuning records stay valid in virtual machines that hide them.
        """
        unused = set(_NEVER_USED.split())
        kept = [name for name in self.features.split(",") if name.lstrip("+-") not in unused]
        values = {**asdict(self), "features": ",".join(kept)}
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()

    @property
    def described(self) -> dict[str, str]:
        """The processor's description in tuning records: kind ("llvm"), triple, cpu and digest, as texts by name."""
        return {"kind": "llvm", "triple": self.triple, "cpu": self.cpu, "digest": self.digest}


@lru_cache(maxsize=1)
def host_target() -> CpuTarget:
    """This machine, with the features that its processor reports and the cache sizes that the system reports.

    LLVM is queried once: llvmlite admits one thread at a time, so a query for each kernel would wait until the previous
    kernel's code is generated.
    """
    features = dict(llvm.get_host_cpu_features())
    text = ",".join(f"{'+' if features[name] else '-'}{name}" for name in sorted(features))
    target = target_with(llvm.get_process_triple(), llvm.get_host_cpu_name(), text, features)
    return replace(target, cache_bytes=cache_sizes(_CACHES) or target.cache_bytes)


def cache_sizes(folder: Path) -> tuple[int, int] | None:
    """Bytes of the data caches of the first and second level, read from Linux's files in /sys (`folder`). None if a
    file for one of the two levels is missing or cannot be read.
    """
    sizes: dict[str, int] = {}
    try:
        for cache in sorted(folder.glob("index*")):
            kind, level, size = ((cache / name).read_text().strip() for name in ("type", "level", "size"))
            if kind != "Instruction":
                sizes[level] = int(size.removesuffix("K")) * 1024
    except (OSError, ValueError):
        return None
    return (sizes["1"], sizes["2"]) if {"1", "2"} <= sizes.keys() else None


def runs_here(target: CpuTarget) -> bool:
    """Whether this machine is known to have every feature that code for `target` may use."""
    return target == host_target() or _less_than_host(target)


@lru_cache(maxsize=64)
def _less_than_host(target: CpuTarget) -> bool:
    host = host_target()
    here, there = [llvm.get_triple_parts(t) for t in (host.triple, target.triple)]
    if (here.Arch, here.OS, here.Env) != (there.Arch, there.OS, there.Env):
        return False
    unused = [f"-{name}" for name in _NEVER_USED.split()] if there.Arch == "x86_64" else []
    features = joined(target.features, *unused)
    return includes(host.triple, host.cpu, host.features, [(target.cpu, features)])[0]


def target_with(triple: str, cpu: str, text: str, features: dict[str, bool]) -> CpuTarget:
    """The target for the processor `cpu`. `features`: maps LLVM's names of features to True if the processor has them.
    `text`: the value of `CpuTarget.features`.
    """
    architecture = triple.partition("-")[0].replace("x86_64", "x86-64")
    vectors = vectors_of(architecture, {f"+{name}": on for name, on in features.items()})
    return target_of(triple, cpu, text, vectors)


def target_of(triple: str, cpu: str, features: str, vectors: Vectors) -> CpuTarget:
    """The target for the processor `cpu` with the given vector registers; `features`: LLVM's comma-separated list."""
    return CpuTarget(
        triple=triple,
        cpu=cpu,
        features=features,
        vector_bits=vectors.bits,
        vector_registers=vectors.registers,
        fused_multiply_add=vectors.fused_multiply_add,
        dot_product=vectors.dot_product,
        abi=vectors.abi,
    )
