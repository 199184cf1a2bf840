"""HIP C++ as a dialect of GPU kernels: CUDA C++ without NVIDIA's instructions, as the compiler hipcc accepts it (HIP
documentation, "HIP C++ language extensions").

Kernels have no operations of warps, so they run on wavefronts of 32 and of 64 lanes.
"""

from __future__ import annotations

from dataclasses import replace

from ..cuda.functions import CUDA


def _extremum(name: str, op: str) -> str:
    """The definition of the function `name`, which returns the greater (`op` ">") or lesser ("<") of two floats; the
    result is NaN if either is NaN.
    """
    return f"""\
__device__ __forceinline__ float {name}(float a, float b) {{ return a {op} b || a != a ? a : b; }}
"""


_FLOAT16 = """\
struct float16 { unsigned short bits; };
__device__ __forceinline__ float to_float(float16 x) { return (float)__builtin_bit_cast(_Float16, x.bits); }
__device__ __forceinline__ float16 to_float16(float x) {
    return {__builtin_bit_cast(unsigned short, (_Float16)x)};
}
"""
# The carry of a sum rounds to nearest, ties to even. It could make infinity of a NaN: all become the NaN of CUDA's.
_BFLOAT16 = """\
struct bfloat16 { unsigned short bits; };
__device__ __forceinline__ float to_float(bfloat16 x) { return __uint_as_float((unsigned)x.bits << 16); }
__device__ __forceinline__ bfloat16 to_bfloat16(float x) {
    const unsigned bits = __float_as_uint(x);
    const unsigned rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return {(unsigned short)(x != x ? 0x7fffu : rounded)};
}
"""


def _once(name: str, text: str) -> str:
    """The definition `text` inside an include guard named after `name`. A network's kernels are written to one file,
    module after module, and several modules may contain the same definition.
    """
    return f"#ifndef vdla_{name}\n#define vdla_{name}\n{text}#endif\n"


DEFINITIONS = {
    "float16": _FLOAT16,
    "bfloat16": _BFLOAT16,
    "maximum": _extremum("maximum", ">"),
    "minimum": _extremum("minimum", "<"),
    **{name: CUDA.functions[name] for name in ("Vector", "floor_divide", "floor_modulo", "sigmoid")},
}
"""Definitions of device functions by name, in the order of their output."""
HIP = replace(
    CUDA,
    name="HIP C++",
    dot="",
    # clang takes no alignas behind __shared__, which is an attribute of its own.
    shared_array="alignas({alignment}) __shared__ {type} {name}[{elements}];",
    shared_block="alignas({alignment}) __shared__ unsigned char shared[{bytes}];",
    shared_dynamic="alignas({alignment}) extern __shared__ unsigned char shared[];",
    functions={name: _once(name, text) for name, text in DEFINITIONS.items()},
    # hipcc fuses products and sums unless a pragma or an option forbids it.
    prelude="#include <hip/hip_runtime.h>\n#pragma clang fp contract(off)\n",
)
"""The dialect HIP C++."""
