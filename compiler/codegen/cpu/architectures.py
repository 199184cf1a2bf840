"""Architectures of processors: derives the vector unit of a processor from its features, for templates.

Widths and numbers of registers are from the instruction set manuals: Intel SDM volume 1 chapters 10 to 15, Arm
Architecture Reference Manual A1.4 (A-profile, AArch64 and AArch32), RISC-V "V" extension 1.0 chapter 3, WebAssembly
core specification 2.0 (128-bit values; the engine decides the number of registers, here that of x86-64).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import llvmlite.binding as llvm

AVX512 = ("avx512f", "avx512vl", "avx512bw", "avx512dq")
_RISCV_LENGTHS = {f"+v,+zvl{bits}b": bits for bits in (128, 256, 512, 1024)}
WITHOUT_VECTORS = 64
"""Width in bits that templates assume for vectors on processors without a vector unit: two float32 registers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """A processor architecture, with LLVM's name for it. `cpu`, `features`: defaults of code generation.

    `queries`: features on which `vectors_of` depends ("+avx2"). `floats`: the feature that float arithmetic needs; ""
    if float arithmetic needs none.
    """

    name: str
    cpu: str
    features: str = ""
    floats: str = ""
    queries: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vectors:
    """The vector unit of a processor: the width in bits and the number of its registers, and whether it has fused
    multiply-add and 8-bit dot products. `abi`: the calling convention if the target triple leaves it open.
    """

    bits: int
    registers: int
    fused_multiply_add: bool
    dot_product: bool = False
    abi: str = ""


ARCHITECTURES = (
    Architecture(
        name="x86-64",
        cpu="x86-64",
        floats="+sse2",
        queries=tuple(f"+{f}" for f in ("avx2", "fma", *AVX512, "avx512vnni", "avxvnni")),
    ),
    Architecture(name="aarch64", cpu="generic", floats="+neon", queries=("+i8mm",)),
    Architecture(name="arm", cpu="generic", floats="+vfp2sp", queries=("+neon", "+vfp4d16sp")),
    Architecture(
        name="riscv64",
        cpu="generic-rv64",
        # The baseline of Linux distributions for RISC-V (RV64GC).
        features="+m,+a,+f,+d,+c",
        floats="+f",
        queries=("+d", *_RISCV_LENGTHS),
    ),
    Architecture(name="wasm32", cpu="generic", queries=("+simd128",)),
)
"""The supported architectures, all little-endian; `name` is LLVM's name of the architecture."""


def vectors_of(architecture: str, has: Mapping[str, bool]) -> Vectors:
    """The vector unit of a processor with the architecture named `architecture`. `has`: maps each feature in
    `Architecture.queries` to True if the processor has this feature; features without an entry count as False.
    """

    def all_of(*features: str) -> bool:
        return all(has.get(f) for f in features)

    match architecture:
        case "x86-64":
            wide = all_of(*(f"+{f}" for f in AVX512))
            middle = all_of("+avx2", "+fma")
            return Vectors(
                bits=512 if wide else 256 if middle else 128,
                registers=32 if wide else 16,
                fused_multiply_add=all_of("+fma"),
                dot_product=all_of("+avx512vnni") if wide else middle and all_of("+avxvnni"),
            )
        case "aarch64":
            return Vectors(bits=128, registers=32, fused_multiply_add=True, dot_product=all_of("+i8mm"))
        case "arm":
            bits = 128 if all_of("+neon") else WITHOUT_VECTORS
            return Vectors(bits=bits, registers=16, fused_multiply_add=all_of("+vfp4d16sp"))
        case "riscv64":
            bits = max((b for query, b in _RISCV_LENGTHS.items() if has.get(query)), default=0)
            abi = "lp64d" if all_of("+d") else "lp64f"
            if bits:
                return Vectors(bits=bits, registers=32, fused_multiply_add=True, abi=abi)
            return Vectors(bits=WITHOUT_VECTORS, registers=16, fused_multiply_add=True, abi=abi)
    bits = 128 if all_of("+simd128") else WITHOUT_VECTORS
    return Vectors(bits=bits, registers=16, fused_multiply_add=False)


def initialise() -> None:
    """Registers all targets of LLVM in this process; further calls have no effect."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
