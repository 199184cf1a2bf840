"""Which CPU code is generated for: its name, its features, and what templates need to know of it."""

from __future__ import annotations

from dataclasses import dataclass

import llvmlite.binding as llvm

from ...ir.types import DType
from .errors import TargetError

GENERIC_LEVELS = {"avx512": "x86-64-v4", "avx2": "x86-64-v3", "sse": "x86-64-v2", "generic": "x86-64"}
"""Names of the x86-64 psABI's micro-architecture levels, in LLVM's spelling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTarget:
    """A CPU as LLVM knows it.

    `features` is LLVM's comma-separated list (may be empty); `vector_bits` the widest vector registers in use,
    `vector_registers` how many there are; `fused_multiply_add` and `dot_product` (u8 x s8 to s32, four at a time) say
    whether single instructions exist for them; `cache_bytes` are the first and second level data cache of a core, as
    templates assume them.
    """

    triple: str
    cpu: str
    features: str = ""
    vector_bits: int
    vector_registers: int
    fused_multiply_add: bool
    dot_product: bool
    cache_bytes: tuple[int, int] = (32 * 1024, 512 * 1024)

    def lanes(self, dtype: DType) -> int:
        """Elements of `dtype` in one vector register."""
        return self.vector_bits // dtype.bits


def host_target() -> CpuTarget:
    """This machine, with the features that its processor reports."""
    features = dict(llvm.get_host_cpu_features())
    text = ",".join(f"{'+' if features[name] else '-'}{name}" for name in sorted(features))
    return _described(llvm.get_process_triple(), llvm.get_host_cpu_name(), text, features)


def host_target_at(level: str) -> CpuTarget:
    """This machine's triple, at one of the levels "avx512", "avx2", "sse", "generic".

    TargetError for other names, and for a level that this machine does not have.
    """
    if level not in GENERIC_LEVELS:
        raise TargetError(f"unknown CPU level {level!r}; there are {', '.join(GENERIC_LEVELS)}")
    host = dict(llvm.get_host_cpu_features())
    needed = {"avx512": ("avx512f", "avx512vl", "avx512bw", "avx512dq"), "avx2": ("avx2", "fma")}
    names = needed.get(level, ("sse4.2",) if level == "sse" else ())
    if missing := [name for name in names if not host.get(name)]:
        raise TargetError(f"this machine has no {missing[0]}, which level {level} needs; take a lower level")
    features = dict.fromkeys(names, True)
    return _described(llvm.get_process_triple(), GENERIC_LEVELS[level], "", features)


def _described(triple: str, cpu: str, text: str, features: dict[str, bool]) -> CpuTarget:
    if all(features.get(name) for name in ("avx512f", "avx512vl", "avx512bw", "avx512dq")):
        bits, registers = 512, 32
    elif features.get("avx2") and features.get("fma"):
        bits, registers = 256, 16
    elif triple.startswith("aarch64"):
        bits, registers = 128, 32
    else:
        bits, registers = 128, 16
    return CpuTarget(
        triple=triple,
        cpu=cpu,
        features=text,
        vector_bits=bits,
        vector_registers=registers,
        fused_multiply_add=bool(features.get("fma")) or triple.startswith("aarch64"),
        dot_product=bool(features.get("avx512vnni")) and bits == 512,
    )
