"""The texts of device functions for tensor cores. Each function is one hardware instruction as inline PTX, on a lane's
registers.

The registers of a fragment are passed as an array. The registers of a factor are unsigned integers that hold bits. An
`mma` depends on its operands alone; instructions that access shared memory are volatile, so that they stay between
their barriers. Instructions are from the PTX ISA, sections "Multiply-and-Accumulate Instruction: mma" and "Warp-level
matrix load instruction: ldmatrix".
"""

from __future__ import annotations

from ...ir.types import HALVES, DType
from .mma import FACTORS, TF32, mma, sum_type
from .mma_fragments import depth_of

PTX_TYPES = {
    DType.FLOAT16: "f16",
    DType.BFLOAT16: "bf16",
    TF32: "tf32",
    DType.INT8: "s8",
    DType.UINT8: "u8",
}
"""PTX's names for the types of the factors of an `mma`."""
_MMA = """\
__device__ __forceinline__ void {name}({total}* c, const unsigned* a, const unsigned* b) {{
    asm volatile("mma.sync.aligned.m16n8k{depth}.row.col.{sums}.{a}.{b}.{sums} {{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, "
        "{{%8, %9}}, {{%0, %1, %2, %3}};"
        : "+{kind}"(c[0]), "+{kind}"(c[1]), "+{kind}"(c[2]), "+{kind}"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}}
"""
_LDMATRIX = """\
__device__ __forceinline__ void {name}(unsigned* to, const void* row) {{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%0, %1, %2, %3}}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}}
"""
_ROUND_REGISTERS = """\
template <int N> __device__ __forceinline__ void round_registers(unsigned* x) {
    #pragma unroll
    for (int i = 0; i < N; ++i) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(x[i]) : "f"(__uint_as_float(x[i])));
}
"""


_PACK = """\
__device__ __forceinline__ unsigned pack_{name}(float low, float high) {{
    unsigned x;
    asm("cvt.rn.{type}x2.f32 %0, %1, %2;" : "=r"(x) : "f"(high), "f"(low));
    return x;
}}
"""


def _mma_text(a: DType, b: DType) -> str:
    integer = sum_type(a) is DType.INT32
    return _MMA.format(
        name=mma(a, b).name,
        total="int" if integer else "float",
        kind="r" if integer else "f",
        sums="s32" if integer else "f32",
        depth=depth_of(a),
        a=PTX_TYPES[a],
        b=PTX_TYPES[b],
    )


FUNCTIONS = {
    **{mma(a, b).name: _mma_text(a, b) for a, b in FACTORS},
    "load_matrices": _LDMATRIX.format(name="load_matrices", trans=""),
    "load_transposed": _LDMATRIX.format(name="load_transposed", trans=".trans"),
    "round_registers": _ROUND_REGISTERS,
    **{f"pack_{dtype.value}": _PACK.format(name=dtype.value, type=PTX_TYPES[dtype]) for dtype in HALVES},
}
"""Definitions of device functions by name; the definition of an `mma` has the name of its declaration."""
