"""Targets that restrict this machine to one of x86-64's micro-architecture levels, such as AVX2."""

from __future__ import annotations

import llvmlite.binding as llvm

from .architectures import AVX512
from .errors import TargetError
from .machine import CpuTarget, target_with

GENERIC_LEVELS = {"avx512": "x86-64-v4", "avx2": "x86-64-v3", "sse": "x86-64-v2", "generic": "x86-64"}
"""Maps each level's name in this package to LLVM's name of the micro-architecture level of the x86-64 psABI."""


def host_target_at(level: str) -> CpuTarget:
    """The target for this machine, restricted to the level "avx512", "avx2", "sse" or "generic".

    Raises TargetError for other names, and for a level that this machine does not have.
    """
    if level not in GENERIC_LEVELS:
        raise TargetError(f"unknown CPU level {level!r}; there are {', '.join(GENERIC_LEVELS)}")
    host = dict(llvm.get_host_cpu_features())
    needed = {"avx512": AVX512, "avx2": ("avx2", "fma")}
    names = needed.get(level, ("sse4.2",) if level == "sse" else ())
    if missing := [name for name in names if not host.get(name)]:
        raise TargetError(f"this machine has no {missing[0]}, which level {level} needs; use a lower level")
    features = dict.fromkeys(names, True)
    return target_with(llvm.get_process_triple(), GENERIC_LEVELS[level], "", features)
